use serde_json::json;

use super::{
    browse, finish, first_path,
    nginx::{Nginx, Site},
};
use crate::harness::{Process, Server, check};

const PAGE: &str = include_str!("../../../docs/administration.md");

/// The name by which the browser knows the proxy.
const NAME: &str = "admin.example.org";

/// What passes the header `Host` on.
const PASSES_HOST: &str =
    "location / { proxy_pass http://127.0.0.1:8590; proxy_set_header Host $http_host; }";

/// The block of this language in the documentation.
fn documented(language: &str) -> &'static str {
    let (_, block) = PAGE.split_once(&format!("```{language}\n")).unwrap();
    block.split_once("```").unwrap().0
}

/// The options of the documentation.
fn documented_options() -> Vec<&'static str> {
    let lines = PAGE.lines();
    let mut commands = lines.filter_map(|line| line.strip_prefix("nearhead --allowed-host"));
    let rest = commands.next().expect("a command");
    let options = ["--allowed-host"].into_iter();
    options.chain(rest.split_whitespace()).collect()
}

/// A browser that reaches the proxy without TLS sends no `Sec-Fetch-Site`.
#[test]
fn a_proxy_may_change_the_host() {
    let options = documented_options();
    check("name", &options[1], &NAME);
    let fixed = ["--block-time", "0s"];
    let bare = Server::start(&fixed);
    let partly = Server::start(&[&fixed[..], &options[..2]].concat());
    let full = Server::start(&[&fixed[..], &options].concat());
    let changes_host = documented("nginx");
    let before = |server: &Server, location: &str| {
        let admin = format!("http://{}", server.admin.unwrap());
        location.replace("http://127.0.0.1:8590", &admin)
    };
    let locations = [
        before(&bare, PASSES_HOST),
        before(&bare, changes_host),
        before(&partly, changes_host),
        before(&full, PASSES_HOST),
        before(&full, changes_host),
        before(&full, changes_host),
    ];
    let sites = (8_081..).zip(&locations).map(|(port, location)| Site {
        port,
        is_tls: port == 8_086,
        location,
    });
    let nginx = Nginx::start(NAME, &sites.collect::<Vec<_>>());
    let url = |port: u16, path: &str| {
        let scheme = if port == 8_086 { "https" } else { "http" };
        format!("{scheme}://{NAME}:{port}{path}")
    };
    let public = "https://rpc.example.org";
    let cases = json!([
        {"url": url(8_081, "/"), "refusal": "--allowed-host"},
        {"url": url(8_082, "/"), "refusal": "--trusted-proxy"},
        {"url": url(8_083, "/"), "refusal": "--trusted-proxy"},
        {"url": url(8_084, &first_path(&full)), "publicUrl": public, "isFirst": true},
        {"url": url(8_085, "/"), "publicUrl": public},
        {"url": url(8_086, "/"), "publicUrl": public},
    ]);
    let mut browser = browse("behind_a_proxy");
    browser.args([NAME, &nginx.address.to_string(), &cases.to_string()]);
    finish(Process::start(&mut browser));
}
