//! `tests/setup vectors`: each source of the vectors, and each refusal.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::harness::{Process, installed, scratch, vectors};

/// The vector that tests change or remove.
const FILE: &str = "eth_chainId/get-chain-id.io";

/// The default repository.
const PUBLIC: &str = "https://github.com/ethereum/execution-apis";

/// A folder with tests/setup and its digests, and no `../shared` beside it.
struct Project(PathBuf);

impl Project {
    fn new(name: &str) -> Self {
        let project = scratch(&format!("setup-{name}")).join("project");
        fs::create_dir_all(project.join("tests")).unwrap();
        for file in ["tests/setup", "tests/vectors.sha256"] {
            fs::copy(installed(file), project.join(file)).unwrap();
        }
        Self(project)
    }

    /// A path beside the project.
    fn beside(&self, name: &str) -> PathBuf {
        self.0.parent().unwrap().join(name)
    }

    /// Runs `tests/setup vectors` without network access; returns its success and its output.
    fn set_up(&self, environment: &[(&str, &str)]) -> (bool, String) {
        let mut command = Command::new(self.0.join("tests/setup"));
        command
            .arg("vectors")
            .env_remove("NEARHEAD_VECTORS")
            .env("GIT_ALLOW_PROTOCOL", "file")
            .envs(environment.iter().copied());
        let (status, text) = Process::start(&mut command).wait();
        (status.success(), text)
    }

    #[track_caller]
    fn check_installed(&self, environment: &[(&str, &str)]) {
        let (succeeded, text) = self.set_up(environment);
        assert!(succeeded && text.is_empty(), "{environment:?}: {text}");
        let actual = files(&self.0.join("tests/.tools/vectors"));
        assert!(
            actual == files(&vectors()),
            "{environment:?} gave {:?}",
            actual.keys()
        );
    }

    #[track_caller]
    fn check_refused(&self, environment: &[(&str, &str)], parts: &[&str]) {
        let (succeeded, text) = self.set_up(environment);
        assert!(!succeeded, "{environment:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        for part in parts.iter().chain(&["tests/setup: ", "NEARHEAD_VECTORS"]) {
            assert!(text.contains(part), "{part:?} is not in: {text}");
        }
        assert!(!self.0.join("tests/.tools/vectors").exists(), "{text}");
    }
}

/// Names and contents of all files below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_path_buf();
                files.insert(name, fs::read(path).unwrap());
            }
        }
    }
    files
}

/// Copies the vectors to a new folder.
fn copy_vectors(folder: &Path) {
    for (name, content) in files(&vectors()) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments);
    let (status, text) = Process::start(&mut command).wait();
    assert!(status.success(), "git {arguments:?}: {text}");
    text.trim().to_owned()
}

/// A bare repository with the vectors in tests/ at its first commit and one of them changed at its
/// head; returns its path and the first commit.
fn repository(project: &Project, name: &str) -> (PathBuf, String) {
    let (tree, bare) = (project.beside("tree"), project.beside(name));
    copy_vectors(&tree.join("tests"));
    let commit = |message: &str| {
        let author = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
        git(&tree, &["add", "--all"]);
        git(
            &tree,
            &[&author[..], &["commit", "--quiet", "-m", message]].concat(),
        );
    };
    git(
        project.0.as_path(),
        &["init", "--quiet", tree.to_str().unwrap()],
    );
    commit("Add the vectors");
    let first = git(&tree, &["rev-parse", "HEAD"]);
    fs::write(tree.join("tests").join(FILE), "// another").unwrap();
    commit("Change one");
    let clone = ["clone", "--quiet", "--bare", tree.to_str().unwrap()];
    git(
        project.0.as_path(),
        &[&clone[..], &[bare.to_str().unwrap()]].concat(),
    );
    (bare, first)
}

#[test]
fn vectors_are_installed_from_a_folder() {
    let project = Project::new("folder");
    let folder = project.beside("folder");
    copy_vectors(&folder);
    project.check_installed(&[("NEARHEAD_VECTORS", folder.to_str().unwrap())]);
    // Installed vectors need no source.
    fs::remove_dir_all(folder).unwrap();
    project.check_installed(&[]);

    let project = Project::new("clone");
    let clone = project.beside("clone");
    copy_vectors(&clone.join("tests"));
    project.check_installed(&[("NEARHEAD_VECTORS", clone.to_str().unwrap())]);

    let project = Project::new("shared");
    copy_vectors(&project.beside("shared/execution-apis"));
    project.check_installed(&[("NEARHEAD_VECTORS", "/nowhere")]);
}

#[test]
fn vectors_are_installed_from_a_commit_of_a_repository() {
    let project = Project::new("url");
    let (repository, commit) = repository(&project, "vectors.git");
    let path = repository.to_str().unwrap();
    for url in [
        format!("file://{path}#{commit}"),
        format!("{path}#{commit}"),
    ] {
        project.check_installed(&[("NEARHEAD_VECTORS", &url)]);
        fs::remove_dir_all(project.0.join("tests/.tools")).unwrap();
    }
    // Git redirects the default repository to this one, whose head is now the first commit.
    git(&repository, &["update-ref", "HEAD", &commit]);
    project.check_installed(&[
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", &format!("url.file://{path}.insteadOf")),
        ("GIT_CONFIG_VALUE_0", PUBLIC),
    ]);
}

#[test]
fn a_missing_source_is_reported_in_one_line() {
    let project = Project::new("nowhere");
    project.check_refused(&[], &["../shared/execution-apis does not exist", PUBLIC]);
    project.check_refused(&[("NEARHEAD_VECTORS", "/nowhere")], &["/nowhere"]);
}

#[test]
fn a_file_with_another_digest_is_refused_by_name() {
    let project = Project::new("digest");
    let (repository, _) = repository(&project, "vectors.git");
    let url = format!("file://{}", repository.display());
    project.check_refused(&[("NEARHEAD_VECTORS", &url)], &[FILE, "digest", &url]);

    let folder = project.beside("folder");
    copy_vectors(&folder);
    let variable = [("NEARHEAD_VECTORS", folder.to_str().unwrap())];
    fs::write(folder.join("chain.rlp"), "another").unwrap();
    project.check_refused(&variable, &["chain.rlp", "digest"]);
    fs::remove_file(folder.join(FILE)).unwrap();
    project.check_refused(&variable, &[FILE, "missing"]);
}
