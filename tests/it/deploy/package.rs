//! The Debian package: checked by lintian, installed into a clean root, upgraded, removed, purged.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use super::{clean_root::CleanRoot, project, run, shipped::release};
use crate::harness::{Server, check, installed, scratch};

const CONFIG: &str = "/etc/nearhead/nearhead.toml";

/// What an operator has changed in it.
const EDITS: [(&str, &str); 2] = [
    ("#listen = \"127.0.0.1:8545\"", "listen = \"127.0.0.1:0\""),
    (
        "#admin-listen = \"127.0.0.1:8590\"",
        "admin-listen = \"127.0.0.1:0\"",
    ),
];

/// The package, which is made once.
fn package() -> &'static Path {
    static PACKAGE: OnceLock<PathBuf> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        let folder = scratch("package");
        let mut make = Command::new(installed("deploy/deb"));
        // Its compression takes longest, and is not tested.
        run(make.arg(release()).arg(&folder).arg("--fast"));
        let version = env!("CARGO_PKG_VERSION");
        folder.join(format!("nearhead_{version}-1_amd64.deb"))
    })
}

/// The next version of a package, whose configuration file has one more line.
fn next_version(folder: &Path) -> PathBuf {
    let parts = folder.join("parts");
    run(Command::new("dpkg-deb")
        .arg("--raw-extract")
        .arg(package())
        .arg(&parts));
    let replace = |file: &str, from: &str, to: &str| {
        let path = parts.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from} is not in {text}");
        fs::write(&path, text.replace(from, to)).unwrap();
    };
    replace(
        "DEBIAN/control",
        concat!("Version: ", env!("CARGO_PKG_VERSION"), "-1"),
        "Version: 9.0.0-1",
    );
    let config = CONFIG.trim_start_matches('/');
    replace(
        config,
        "\n#listen = ",
        "\n# Of the next version.\n#listen = ",
    );
    let next = folder.join("next.deb");
    run(Command::new("dpkg-deb")
        .args(["-Znone", "--build"])
        .arg(&parts)
        .arg(&next));
    next
}

#[test]
fn the_changelog_is_of_this_version() {
    let changelog = project("deploy/debian/changelog");
    let version = concat!("nearhead (", env!("CARGO_PKG_VERSION"), "-1) ");
    assert!(changelog.starts_with(version), "{changelog}");
}

#[test]
fn lintian_finds_nothing() {
    let mut lintian = Command::new("lintian");
    // Information and pedantry count as well.
    lintian.args(["--allow-root", "--display-info", "--pedantic"]);
    lintian.arg("--fail-on=error,warning,info,pedantic");
    let said = run(lintian.arg(package()));
    check("lintian", &said.as_str(), &"");
}

/// Runs dpkg, which asks nobody.
fn dpkg(root: &CleanRoot, arguments: &[&str]) {
    let mut dpkg = root.command("dpkg");
    run(dpkg
        .args(["--force-confdef", "--force-confold"])
        .args(arguments));
}

fn install(root: &CleanRoot, package: &Path) {
    let inside = "/new.deb";
    fs::copy(package, root.path(inside)).unwrap();
    dpkg(root, &["--install", inside]);
    fs::remove_file(root.path(inside)).unwrap();
}

/// Starts what the unit says, as a user who is not root, and stops it.
fn serve(root: &CleanRoot) {
    let unit = fs::read_to_string(root.path("/usr/lib/systemd/system/nearhead.service")).unwrap();
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let mut words = start.unwrap().split_whitespace();
    let mut chroot = Command::new("chroot");
    chroot
        .args(["--userspec=65534:65534".as_ref(), root.0.as_os_str()])
        .args(&mut words)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin");
    let server = Server::of(&mut chroot);
    server.process.terminate();
    server.process.check_end(0);
}

#[test]
fn it_is_installed_upgraded_removed_and_purged() {
    let root = CleanRoot::unpack("package-root");
    let before = root.files();
    install(&root, package());
    for file in [
        "usr/share/man/man1/nearhead.1.gz",
        "usr/share/bash-completion/completions/nearhead",
        "usr/share/zsh/vendor-completions/_nearhead",
        "usr/share/fish/vendor_completions.d/nearhead.fish",
        "usr/share/doc/nearhead/copyright",
        "usr/share/doc/nearhead/changelog.gz",
        "usr/share/doc/nearhead/changelog.Debian.gz",
        "usr/lib/systemd/system/nearhead.socket",
    ] {
        let there = fs::metadata(root.path(file)).is_ok_and(|file| file.len() > 0);
        check(file, &there, &true);
    }
    // Every option is a comment, so that it is valid as it is.
    run(root
        .command("/usr/bin/nearhead")
        .args(["check", "--config", CONFIG]));

    // What an operator and a running service leave. systemctl needs no systemd that runs.
    let config = root.path(CONFIG);
    let mut edited = fs::read_to_string(&config).unwrap();
    for (from, to) in EDITS {
        assert!(edited.contains(from), "{from} is not in {edited}");
        edited = edited.replace(from, to);
    }
    fs::write(&config, &edited).unwrap();
    fs::write(root.path("/etc/nearhead/nearhead.env"), "A=b\n").unwrap();
    let enable = ["enable", "nearhead.service", "nearhead.socket"];
    run(Command::new("systemctl")
        .arg(format!("--root={}", root.0.display()))
        .args(enable));
    let data = root.path("/var/lib/private/nearhead");
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("kept"), "").unwrap();
    symlink("private/nearhead", root.path("/var/lib/nearhead")).unwrap();
    serve(&root);

    let folder = scratch("package-next");
    install(&root, &next_version(&folder));
    let mut query = root.command("dpkg-query");
    let version = run(query.args(["--show", "--showformat=${Version}", "nearhead"]));
    check("version", &version.as_str(), &"9.0.0-1");
    let kept = fs::read_to_string(&config).unwrap();
    check("configuration after the upgrade", &kept, &edited);
    serve(&root);

    dpkg(&root, &["--remove", "nearhead"]);
    let program = root.path("/usr/bin/nearhead");
    check("program", &program.exists(), &false);
    let kept = fs::read_to_string(&config).unwrap();
    check("configuration after the removal", &kept, &edited);
    check("data", &data.join("kept").exists(), &true);

    dpkg(&root, &["--purge", "nearhead"]);
    // The folder is not of the package: another service may have made it.
    fs::remove_dir(root.path("/var/lib/private")).unwrap();
    let after = root.files();
    let left: Vec<_> = after.iter().filter(|file| !before.contains(file)).collect();
    check("left after the purge", &left, &Vec::new());
    check("all that was there", &after.len(), &before.len());
}
