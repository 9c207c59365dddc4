//! nginx before listeners, on a loopback address of its own, so that no other test takes its ports.

use std::{
    fmt::Write as _,
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    process::Command,
};

use crate::harness::{Process, installed, scratch, wait_until};

/// A port of nginx, and what answers it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site<'a> {
    pub(super) port: u16,
    pub(super) is_tls: bool,
    /// The block `location` of the configuration.
    pub(super) location: &'a str,
}

/// A running nginx.
pub(super) struct Nginx {
    pub(super) address: IpAddr,
    /// Stops it when dropped.
    _process: Process,
}

impl Nginx {
    /// Starts it with a certificate of its own for this name.
    pub(super) fn start(name: &str, sites: &[Site<'_>]) -> Self {
        let folder = scratch("nginx");
        make_certificate(&folder, name);
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let address = IpAddr::from(Ipv4Addr::new(127, 77, high, low));
        let file = folder.join("nginx.conf");
        fs::write(&file, configuration(&folder, address, sites)).unwrap();
        let mut command = Command::new(installed("tests/.tools/bin/nginx"));
        command.arg("-e").arg("stderr").arg("-p").arg(&folder);
        let process = Process::start(command.arg("-c").arg(&file));
        for site in sites {
            let address = SocketAddr::new(address, site.port);
            wait_until("nginx listens", || TcpStream::connect(address).is_ok());
        }
        Self {
            address,
            _process: process,
        }
    }
}

fn make_certificate(folder: &Path, name: &str) {
    let mut command = Command::new("openssl");
    command
        .current_dir(folder)
        .args(["req", "-x509", "-nodes", "-days", "2", "-newkey", "ec"])
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-keyout", "key.pem", "-out", "certificate.pem"])
        .args(["-subj", &format!("/CN={name}")]);
    let (status, text) = Process::start(&mut command).wait();
    assert!(status.success(), "{text}");
}

fn configuration(folder: &Path, address: IpAddr, sites: &[Site<'_>]) -> String {
    let folder = folder.display();
    // One process, which needs no user of its own, and writes to its folder alone.
    let mut text = "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\n\
                    events {}\nhttp {\naccess_log off;\n"
        .to_owned();
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        writeln!(text, "{kind}_temp_path {folder}/{kind};").unwrap();
    }
    for site in sites {
        let tls = match site.is_tls {
            true => format!(
                " ssl;\nssl_certificate {folder}/certificate.pem;\n\
                 ssl_certificate_key {folder}/key.pem"
            ),
            false => String::new(),
        };
        let (port, location) = (site.port, site.location);
        writeln!(
            text,
            "server {{\nlisten {address}:{port}{tls};\n{location}\n}}"
        )
        .unwrap();
    }
    text + "}\n"
}
