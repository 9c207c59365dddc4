//! The workflows of .github/: valid, and no more privileged than they have to be.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use super::chart::read_yaml;
use crate::harness::{check, installed, run_with_input};

/// Names and texts of the workflows.
fn workflows() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/workflows");
    let entries = fs::read_dir(folder).unwrap();
    let mut all: Vec<_> = entries
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let text = fs::read_to_string(entry.path()).unwrap();
            (entry.file_name().into_string().unwrap(), text)
        })
        .collect();
    all.sort();
    let names: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
    check(
        "workflows",
        &names,
        &vec!["ci.yaml", "release.yaml", "scheduled.yaml"],
    );
    all
}

/// What actionlint and shellcheck find in a workflow.
fn lint(text: &str) -> String {
    let mut actionlint = Command::new(installed("tests/.tools/bin/actionlint"));
    actionlint
        .arg("-shellcheck")
        .arg(installed("tests/.tools/bin/shellcheck"))
        .args(["-pyflakes", "", "-oneline", "-"]);
    let output = run_with_input(&mut actionlint, text.as_bytes());
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn workflows_are_valid() {
    for (name, text) in workflows() {
        check(&name, &lint(&text).as_str(), &"");
    }
    // Both look at a workflow: the one at expressions, the other at scripts.
    let (_, text) = &workflows()[0];
    for (script, found) in [
        ("echo '${{ github.head_ref }}'", "potentially untrusted"),
        ("cd $HOME", "SC2086"),
    ] {
        let run = "run: sudo --preserve-env=PATH,HOME,CI .ci/run";
        assert!(text.contains(run), "{text}");
        let wrong = text.replace(run, &format!("run: {script}"));
        let report = lint(&wrong);
        assert!(report.contains(found), "{script}: {report}");
    }
}

/// The steps of all jobs.
fn steps(workflow: &Value) -> impl Iterator<Item = &Value> {
    let jobs = workflow["jobs"].as_object().unwrap().values();
    jobs.flat_map(|job| job["steps"].as_array().unwrap())
}

/// A tag can be moved to other code, a commit cannot.
#[test]
fn actions_are_pinned_by_commit() {
    for (name, text) in workflows() {
        let lines = text.lines().filter(|line| line.contains("uses: "));
        let mut count = 0;
        for line in lines {
            let (_, action) = line.split_once("uses: ").unwrap();
            let (_, pin) = action.split_once('@').unwrap();
            let (commit, version) = pin.split_once(" # v").unwrap();
            let is_hash = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_hash && version.contains('.'), "{name}: {line}");
            // Others are programs that run with our tokens.
            assert!(action.starts_with("actions/"), "{name}: {line}");
            count += 1;
        }
        assert!(count > 0, "{name}");
    }
}

#[test]
fn workflows_may_do_little() {
    for (name, text) in workflows() {
        let workflow = &read_yaml(&text, &[]).unwrap()[0];
        // What a job may change, it says itself.
        let by_default = workflow["permissions"].as_object().unwrap();
        assert!(by_default.values().all(|may| may == "read"), "{name}");
        assert!(workflow["concurrency"]["group"].is_string(), "{name}");
        for (job, content) in workflow["jobs"].as_object().unwrap() {
            let limit = content["timeout-minutes"].as_u64();
            assert!(limit.is_some(), "{name}: {job} has no timeout-minutes");
        }
        for step in steps(workflow) {
            // A value of an expression becomes a part of the script: it goes through a variable.
            let script = step["run"].as_str().unwrap_or_default();
            assert!(!script.contains("${{"), "{name}: {script}");
            let action = step["uses"].as_str().unwrap_or_default();
            if action.starts_with("actions/checkout@") {
                let keeps = &step["with"]["persist-credentials"];
                check(&name, keeps, &json!(false));
            }
        }
    }
}

/// The one that publishes runs no code of the project, nor of a dependency.
#[test]
fn who_publishes_builds_nothing() {
    let (_, text) = workflows().swap_remove(1);
    let workflow = &read_yaml(&text, &[]).unwrap()[0];
    let jobs = workflow["jobs"].as_object().unwrap();
    let may_write = |job: &Value, what: &str| job["permissions"][what] == "write";
    for (name, job) in jobs {
        let script = job["steps"].to_string();
        let builds = script.contains("cargo ");
        let writes = ["contents", "packages", "id-token", "attestations"];
        let writes = writes.iter().any(|what| may_write(job, what));
        assert!(!(builds && writes), "{name} builds and may write");
    }
    assert!(may_write(&jobs["release"], "contents"));
    assert!(may_write(&jobs["attest"], "attestations"));
}
