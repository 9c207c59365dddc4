//! The folder for what outlives the process.

use std::{fs, path::Path, process::Command};

use super::{arguments, chain_of_execution_apis, http, wait_logged};
use crate::{
    harness::{Process, Server, check, scratch, serving, vectors},
    upstreams::Anvil,
};

/// A nearhead that follows this upstream with this `--data-dir`.
fn following(upstream: &str, data: &str) -> Command {
    let upstreams = [upstream.to_owned()];
    serving(&[&arguments(&upstreams)[..], &["--data-dir", data]].concat())
}

/// Checks that a nearhead does not start: its exit code, and the beginning of its last line.
#[track_caller]
fn check_refused(mut command: Command, code: i32, expected: &str) {
    let (status, text) = Process::start(&mut command).wait();
    let last = text.lines().last().unwrap_or_default();
    check(&text, &status.code(), &Some(code));
    assert!(last.starts_with(&format!("nearhead: {expected}")), "{text}");
}

/// The names in a folder; none if there is no folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_folder_is_of_one_process_and_one_chain() {
    let mut anvil = Anvil::start(&["--no-mining"]);
    anvil.mine(3);
    let upstream = http(anvil.address);
    let root = scratch("node-data-folder");
    let data = root.to_str().unwrap();
    let server = Server::of(&mut following(&upstream, data));
    let [name] = names(&root).try_into().unwrap();
    assert!(name.starts_with("31337-"), "{name}");
    let folder = root.join(&name);
    let shown = folder.display();
    let in_use = format!("{shown} is in use by another nearhead: give this one a --data-dir");
    check_refused(following(&upstream, data), 2, &in_use);
    check("the first one", &server.get_admin("/ready").status, &200);
    // Another chain has a folder of its own.
    let mut other = Anvil::start(&["--no-mining", "--chain-id", "31338"]);
    other.mine(3);
    drop(Server::of(&mut following(&http(other.address), data)));
    check("folders", &names(&root).len(), &2);
    // A process that is killed leaves no lock behind.
    drop(server);
    drop(Server::of(&mut following(&upstream, data)));
    let file = folder.join("finalized.json");
    let shown = file.display();
    fs::write(&file, "{\"version\":1,").unwrap();
    let damaged = format!("{shown} is damaged (EOF");
    check_refused(following(&upstream, data), 1, &damaged);
    let hash = "0x0101010101010101010101010101010101010101010101010101010101010101";
    let of_another = format!(
        r#"{{"version":1,"chainId":1,"genesis":"{hash}","finalized":{{"number":5,"hash":"{hash}"}}}}"#
    );
    fs::write(&file, of_another).unwrap();
    let other = format!("{shown} is of chain 1 with genesis {hash}, not of chain 31337");
    check_refused(following(&upstream, data), 2, &other);
    // A folder that cannot be made.
    let bad = file.join("x");
    let bad = bad.to_str().unwrap();
    check_refused(following(&upstream, bad), 1, bad);
    drop(Server::of(&mut following(&upstream, "none")));
}

/// A nearhead without `--data-dir`, in a home folder that the test chose.
fn at_home(upstream: &str, more: &[&str], home: &Path) -> Server {
    let upstreams = [upstream.to_owned()];
    let mut command = serving(&[&arguments(&upstreams)[..], more].concat());
    Server::of(command.env_remove("NEARHEAD_DATA_DIR").env("HOME", home))
}

#[test]
fn without_a_folder_a_known_chain_is_kept_in_the_users() {
    let home = scratch("node-data-home");
    let data = home.join(".local/share/nearhead");
    // A node for development may start again from its genesis, also with the chain id of a network.
    for id in ["31337", "560048"] {
        let mut anvil = Anvil::start(&["--no-mining", "--chain-id", id]);
        anvil.mine(3);
        let server = at_home(&http(anvil.address), &[], &home);
        wait_logged(&server, "\ndata    in memory: ");
        check("a development node", &names(&data), &Vec::new());
    }
    // The genesis file makes the chain known.
    let geth = chain_of_execution_apis("node-data-home-geth", 20);
    let upstream = http(geth.address);
    let genesis = vectors().join("genesis.json");
    let pinned = ["--genesis", genesis.to_str().unwrap()];
    let server = at_home(&upstream, &pinned, &home);
    let [name] = names(&data).try_into().unwrap();
    assert!(name.starts_with("3503995874084926-"), "{name}");
    let folder = data.join(&name);
    wait_logged(&server, &format!("\ndata    {}\n", folder.display()));
    drop(server);
    // A home folder that cannot be written is no error, because nobody asked for it.
    let file = home.join("file");
    fs::write(&file, "").unwrap();
    let server = at_home(&upstream, &pinned, &file);
    wait_logged(&server, "all is kept in memory");
    wait_logged(&server, "\ndata    in memory: ");
}
