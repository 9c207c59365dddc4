//! Where a command works, and how a test runs one.

use std::path::PathBuf;

use serde_json::Value;

use crate::harness::{Server, json, nearhead, run_with_input, scratch};

/// A password, as a test gives it on standard input.
pub(super) const PASSWORD: &str = "correct horse battery";

/// What a command left behind.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

/// Where commands work.
pub(super) enum Place {
    /// A data folder that no service has.
    Folder(PathBuf),
    /// A running service.
    Service {
        server: Server,
        token: String,
        /// Where it keeps its data.
        root: PathBuf,
    },
}

impl Place {
    /// A new data folder, which a service has made.
    pub(super) fn folder(name: &str) -> Self {
        let root = scratch(name);
        stop(Server::on_data(&root, &[]));
        Self::Folder(root)
    }

    /// A new running service, with an API token of an administrator.
    pub(super) fn service(name: &str) -> Self {
        Self::folder(name).start()
    }

    /// Both places.
    pub(super) fn both(name: &str) -> [Self; 2] {
        let folder = Self::folder(&format!("{name}-folder"));
        [folder, Self::service(&format!("{name}-service"))]
    }

    /// Starts a service on a data folder, with a new API token.
    pub(super) fn start(self) -> Self {
        let token = self.token(&[]);
        self.start_with(token)
    }

    /// Starts a service on a data folder.
    pub(super) fn start_with(self, token: String) -> Self {
        let (Self::Folder(root) | Self::Service { root, .. }) = self;
        let server = Server::on_data(&root, &[]);
        Self::Service {
            server,
            token,
            root,
        }
    }

    /// Stops the service, if it runs.
    pub(super) fn stop(self) -> Self {
        match self {
            Self::Folder(root) => Self::Folder(root),
            Self::Service { server, root, .. } => {
                stop(server);
                Self::Folder(root)
            }
        }
    }

    /// Makes an API token of a name that no other one has.
    pub(super) fn token(&self, more: &[&str]) -> String {
        let tokens = self.json(&["admin", "token", "list"]);
        let name = format!("token-{}", tokens["tokens"].as_array().unwrap().len());
        let create = ["admin", "token", "create", &name];
        let made = self.json(&[&create, more].concat());
        made["token"].as_str().unwrap().to_owned()
    }

    /// The service.
    pub(super) fn server(&self) -> &Server {
        match self {
            Self::Service { server, .. } => server,
            Self::Folder(root) => panic!("no service runs on {}", root.display()),
        }
    }

    /// Runs a command, with a line on standard input.
    pub(super) fn run_with(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = nearhead(arguments.iter().copied());
        match self {
            Self::Folder(root) => {
                command.arg("--data-dir").arg(root);
            }
            Self::Service { server, token, .. } => {
                let admin = server.admin.unwrap();
                command.env("NEARHEAD_ADMIN_URL", format!("http://{admin}"));
                command.env("NEARHEAD_ADMIN_TOKEN", token);
            }
        }
        ran(command, input)
    }

    /// Runs a command.
    pub(super) fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, "")
    }

    /// The answer of a command as JSON.
    #[track_caller]
    pub(super) fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.err);
        json(ran.out.as_bytes())
    }
}

/// Runs a command to its end.
pub(super) fn ran(mut command: std::process::Command, input: &str) -> Ran {
    let output = run_with_input(&mut command, format!("{input}\n").as_bytes());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran {
        code: output.status.code(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

fn stop(server: Server) {
    server.process.terminate();
    let (status, text) = server.process.wait();
    assert!(status.success(), "{text}");
}
