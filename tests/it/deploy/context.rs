//! What `docker build -f deploy/Dockerfile .` sends: all that the program is compiled from, and
//! nothing else.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{buildah::Buildah, run, shipped::release};
use crate::harness::{check, scratch};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Unpacks what .dockerignore lets through.
fn context() -> PathBuf {
    let folder = scratch("context");
    let dockerfile = folder.join("Dockerfile");
    fs::write(&dockerfile, "FROM scratch\nCOPY . /src\n").unwrap();
    let buildah = Buildah::new(&folder.join("storage"));
    let [dockerfile, root] = [&dockerfile, root()].map(|path: &Path| path.to_str().unwrap());
    buildah.run(&[
        "build",
        "--quiet",
        "--tag=context",
        "--file",
        dockerfile,
        root,
    ]);
    let container = buildah.run(&["from", "localhost/context"]);
    Path::new(&buildah.run(&["mount", &container])).join("src")
}

#[test]
fn the_context_is_what_the_program_is_compiled_from() {
    let context = context();
    // cargo notes the sources of a program beside it: `PROGRAM: FILE FILE...`.
    let noted = fs::read_to_string(release().with_extension("d")).unwrap();
    let (_, sources) = noted.split_once(": ").unwrap();
    let sources = sources.split_whitespace().map(Path::new);
    let sources: Vec<&Path> = sources
        .filter_map(|path| path.strip_prefix(root()).ok())
        .collect();
    check("sources", &(sources.len() > 300), &true);
    let missing = sources.iter().filter(|path| !context.join(path).exists());
    check("missing", &missing.collect::<Vec<_>>(), &Vec::new());
    // Each manifest that cargo reads, and each file that one of them names.
    let mut cargo = Command::new("cargo");
    cargo.env("RUSTC_BOOTSTRAP", "1").current_dir(&context);
    cargo.args(["build", "--locked", "--profile=dist", "--bin=nearhead"]);
    run(cargo.args(["-Zunstable-options", "--unit-graph"]));
    // What is not there changes without a new build, and no secret of a developer is sent.
    let tops = fs::read_dir(&context).unwrap();
    let tops: BTreeSet<String> = tops
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected = [
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "actors",
        "askama.toml",
        "benches",
        "deploy",
        "load-tests",
        "rust-toolchain.toml",
        "src",
        "tests",
    ];
    check("context", &tops, &expected.map(str::to_owned).into());
    let script = context.join("deploy/split-symbols");
    check("script", &script.exists(), &true);
}
