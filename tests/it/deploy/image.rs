//! deploy/Dockerfile: its own last stages, built by buildah without a registry, and started by runc
//! as deploy/compose.yaml starts it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use super::{buildah::Buildah, clean_root::unpack_clean_root, project, run, shipped::shipped};
use crate::harness::{Process, check, installed, json as parse, scratch, wait_until};

/// What distroless/cc has that the program needs: the C library and the compiler's, and a user.
const LIBRARIES: [&str; 5] = [
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "libnss_files.so.2",
];

/// The user of the image, who has no name there.
const USER: u32 = 65_532;

/// An image with the libraries alone, in the place of the one that the Dockerfile names.
fn make_base(buildah: &Buildah, folder: &Path, name: &str) {
    let files = folder.join("base");
    for folder in ["etc", "tmp", "var/lib"] {
        fs::create_dir_all(files.join(folder)).unwrap();
    }
    let libraries = LIBRARIES.map(|name| format!("./usr/lib/x86_64-linux-gnu/{name}"));
    let links = ["./lib", "./lib64", "./usr/lib64"].map(str::to_owned);
    unpack_clean_root(&files, libraries.iter().chain(&links));
    let container = buildah.run(&["from", "scratch"]);
    buildah.run(&["copy", "--quiet", &container, files.to_str().unwrap(), "/"]);
    buildah.run(&["commit", "--quiet", &container, name]);
}

/// A container, which ends with this.
struct Container {
    state: PathBuf,
    process: Option<Process>,
}

impl Container {
    /// Starts what an image says, with a root that cannot be written to and no capabilities, in
    /// namespaces of its own: it reaches nobody, and listens on its own loopback addresses.
    fn start(folder: &Path, root: &str, config: &Value, environment: &[&str]) -> Self {
        let bundle = folder.join("bundle");
        fs::create_dir_all(&bundle).unwrap();
        run(Command::new("runc").arg("spec").current_dir(&bundle));
        let path = bundle.join("config.json");
        let mut spec = parse(&fs::read(&path).unwrap());
        spec["root"] = json!({"path": root, "readonly": true});
        let of_image = config["Env"].as_array().unwrap().iter().cloned();
        let given = environment.iter().map(|one| json!(one));
        let process = &mut spec["process"];
        process["terminal"] = json!(false);
        process["user"] = json!({"uid": USER, "gid": USER});
        process["args"] = config["Entrypoint"].clone();
        process["cwd"] = config["WorkingDir"].clone();
        process["env"] = of_image.chain(given).collect();
        process["capabilities"] = json!({});
        fs::write(&path, spec.to_string()).unwrap();
        let mut container = Self {
            state: folder.join("state"),
            process: None,
        };
        let mut start = container.runc(&["run"]);
        start.current_dir(&bundle).arg("nearhead");
        container.process = Some(Process::start(&mut start));
        container
    }

    fn runc(&self, arguments: &[&str]) -> Command {
        let mut runc = Command::new("runc");
        runc.arg("--root").arg(&self.state).args(arguments);
        runc
    }

    /// Runs a program in the container; whether it succeeded.
    fn succeeds(&self, program: &[&str]) -> bool {
        let mut exec = self.runc(&["exec", "nearhead"]);
        exec.args(program).output().unwrap().status.success()
    }

    fn pid(&self) -> u64 {
        let state = run(&mut self.runc(&["state", "nearhead"]));
        parse(state.as_bytes())["pid"].as_u64().unwrap()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // It is gone if the test succeeded.
        let _ = self.runc(&["delete", "--force", "nearhead"]).output();
    }
}

#[test]
fn the_dockerfile_is_linted() {
    let mut hadolint = Command::new(installed("tests/.tools/bin/hadolint"));
    let said = run(hadolint.arg(installed("deploy/Dockerfile")));
    check("hadolint", &said.as_str(), &"");
}

/// The versions that it names are those of the project.
#[test]
fn the_dockerfile_is_of_this_version() {
    let dockerfile = project("deploy/Dockerfile");
    let toolchain = project("rust-toolchain.toml");
    let (_, rust) = toolchain.split_once("channel = \"").unwrap();
    let (rust, _) = rust.split_once('"').unwrap();
    for line in [
        format!("ARG RUST_IMAGE=rust:{rust}-trixie"),
        format!("ENV RUSTUP_TOOLCHAIN={rust}"),
        concat!("ARG VERSION=", env!("CARGO_PKG_VERSION")).to_owned(),
    ] {
        assert!(dockerfile.lines().any(|one| one == line), "no line {line}");
    }
}

#[test]
fn the_image_runs_without_a_shell_and_without_root() {
    let folder = scratch("image");
    let buildah = Buildah::new(&folder);
    make_base(&buildah, &folder, "localhost/base");
    let (dockerfile, context) = (installed("deploy/Dockerfile"), shipped());
    buildah.run(&[
        "build",
        "--isolation=chroot",
        // The format of OCI has no health check.
        "--format=docker",
        "--quiet",
        "--build-arg=RUNTIME_IMAGE=localhost/base",
        "--build-arg=PROGRAM=prebuilt",
        "--build-arg=REVISION=abc",
        "--tag=nearhead",
        "--file",
        dockerfile.to_str().unwrap(),
        context.to_str().unwrap(),
    ]);
    let inspected = buildah.run(&["inspect", "--type=image", "localhost/nearhead"]);
    let config = parse(inspected.as_bytes())["Docker"]["config"].take();
    check("user", &config["User"], &json!("65532:65532"));
    check("ports", &config["ExposedPorts"], &json!({"8545/tcp": {}}));
    let health = &config["Healthcheck"]["Test"];
    let expected = json!(["CMD", "/usr/bin/nearhead", "health"]);
    check("health check", health, &expected);
    for (label, value) in [
        ("title", "nearhead"),
        ("licenses", "MIT OR Apache-2.0"),
        ("version", env!("CARGO_PKG_VERSION")),
        ("revision", "abc"),
    ] {
        let name = format!("org.opencontainers.image.{label}");
        check(&name, &config["Labels"][&name], &json!(value));
    }

    let container = buildah.run(&["from", "localhost/nearhead"]);
    let root = buildah.run(&["mount", &container]);
    let programs = fs::read_dir(Path::new(&root).join("usr/bin")).unwrap();
    let programs: Vec<_> = programs.map(|entry| entry.unwrap().file_name()).collect();
    check("programs", &programs, &vec!["nearhead".into()]);
    let key = "NEARHEAD_API_KEY=alice=of-the-image-test";
    let mut container = Container::start(&folder, &root, &config, &[key]);
    let check_of = &health.as_array().unwrap()[1..];
    let check_of: Vec<&str> = check_of.iter().map(|one| one.as_str().unwrap()).collect();
    wait_until("healthy", || container.succeeds(&check_of));
    check(
        "a shell",
        &container.succeeds(&["/bin/sh", "-c", ""]),
        &false,
    );

    let pid = container.pid();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let user = format!("Uid:\t{USER}\t{USER}\t{USER}\t{USER}");
    assert!(status.contains(&user), "{status}");
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    // Into its network alone: curl is not in the image.
    let answer = run(Command::new("nsenter").args([
        "--target",
        &pid.to_string(),
        "--net",
        "curl",
        "--silent",
        "--fail",
        "http://127.0.0.1:8545/v3/of-the-image-test",
        "--header",
        "content-type: application/json",
        "--data",
        r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}"#,
    ]));
    let answer = parse(answer.as_bytes());
    check("answer", &answer["result"], &json!("0x539"));

    run(&mut container.runc(&["kill", "nearhead", "TERM"]));
    container.process.take().unwrap().check_end(0);
}
