//! The examples of docs/min-block.md, as they are printed.

use std::{fs, os::unix::fs::symlink, path::PathBuf, process::Command};

use crate::{
    clients::{alloy_client, steps, wait_for_end},
    harness::{Process, check, installed, scratch},
};

/// How often each example reads the number of the head.
const READS: usize = 8;

/// An example, which passes on the block that it has seen.
pub(crate) struct Example {
    pub(crate) library: &'static str,
    program: Program,
}

enum Program {
    /// Code, and the file from which it runs.
    Script(String, PathBuf),
    Alloy,
}

impl Example {
    /// Those of all libraries; `folder` is the name of their scratch folder.
    pub(crate) fn all(folder: &str) -> [Self; 3] {
        let folder = scratch(folder);
        // An example finds its libraries as it would in a project of its own.
        installed("tests/clients/node_modules/.installed");
        let libraries = installed("tests/clients/node_modules");
        symlink(libraries, folder.join("node_modules")).unwrap();
        let page = fs::read_to_string(installed("docs/min-block.md")).unwrap();
        let scripts: Vec<_> = page.split("```js\n").skip(1).collect();
        check("examples", &scripts.len(), &2);
        let script = |at: usize, library| {
            let (code, _) = scripts[at].split_once("```").unwrap();
            assert!(code.contains(&format!("from '{library}'")), "{code}");
            // A file may not have the name of a library.
            let file = folder.join(format!("{library}-example.mjs"));
            let program = Program::Script(code.to_owned(), file);
            Self { library, program }
        };
        let source = fs::read_to_string(installed("tests/clients/alloy/seen.rs")).unwrap();
        let is_printed = page.contains(&format!("```rust\n{source}```\n"));
        assert!(is_printed, "the example for alloy is not its source");
        let alloy = Self {
            library: "alloy",
            program: Program::Alloy,
        };
        [script(0, "ethers"), script(1, "viem"), alloy]
    }

    /// The same script, which passes on nothing.
    pub(super) fn without_min_block(&self) -> Option<Self> {
        let Program::Script(code, file) = &self.program else {
            return None;
        };
        let plain = code.replace("if (seen !== '')", "if (false)");
        check("it is changed", &(plain != *code), &true);
        Some(Self {
            library: self.library,
            program: Program::Script(plain, file.clone()),
        })
    }

    /// Runs it against this URL; returns the numbers that it has read.
    pub(crate) fn run(&self, url: &str) -> Vec<u64> {
        let numbers: Vec<u64> = match &self.program {
            Program::Script(code, file) => {
                fs::write(file, code).unwrap();
                let process = Process::start(Command::new("node").arg(file).arg(url));
                let (status, text) = process.wait();
                assert!(status.success(), "{}: {text}", self.library);
                text.lines().map(|line| line.parse().unwrap()).collect()
            }
            Program::Alloy => {
                let (_, text) = wait_for_end(Process::start(alloy_client().args(["reads", url])));
                let reads = steps(&text).filter(|step| step["step"] == "read");
                reads.map(|read| read["value"].as_u64().unwrap()).collect()
            }
        };
        check(self.library, &numbers.len(), &READS);
        numbers
    }
}
