//! Sockets that a service manager opened before the process started.

use std::{env, io, net::TcpListener};

use listenfd::ListenFd;

use crate::config::{AdminListen, Config};

/// The variable that names the sockets (systemd: `FileDescriptorName=`).
const NAMES: &str = "LISTEN_FDNAMES";

/// Sockets that listen already, each for a listener: systemd opens them, keeps them open while the
/// service restarts, and passes them on (`sd_listen_fds(3)`).
#[derive(Debug, Default)]
pub struct InheritedSockets {
    pub(super) public: Option<TcpListener>,
    pub(super) admin: Option<TcpListener>,
    pub(super) metrics: Option<TcpListener>,
}

/// Why inherited sockets cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InheritError {
    /// Nobody says what it is for.
    #[error(
        "the inherited socket {name:?} is for none of the listeners: name it public, admin or \
         metrics (systemd: FileDescriptorName=)"
    )]
    Name {
        /// Its name.
        name: String,
    },
    /// There are two for one listener.
    #[error("two inherited sockets are named {name}")]
    Twice {
        /// Their name.
        name: String,
    },
    /// It does not listen on TCP.
    #[error("the inherited socket {name:?} cannot be used: {error}")]
    Socket {
        /// Its name.
        name: String,
        /// The system's error.
        error: io::Error,
    },
}

impl InheritedSockets {
    /// The sockets that this process was started with; none if it was started without. Their
    /// addresses replace those of the configuration. To be called once, before there are other
    /// threads: it removes variables of the environment.
    ///
    /// # Errors
    /// See [`InheritError`].
    #[expect(
        clippy::disallowed_methods,
        reason = "a service manager names the sockets in the environment"
    )]
    pub fn of_process(config: &mut Config) -> Result<Self, InheritError> {
        let names = env::var(NAMES).unwrap_or_default();
        let mut sockets = ListenFd::from_env();
        let this = Self::named(sockets.len(), &names, |at| {
            let not_there = || io::Error::from(io::ErrorKind::NotFound);
            sockets.take_tcp_listener(at)?.ok_or_else(not_there)
        })?;
        this.configure(config)?;
        Ok(this)
    }

    /// Replaces the configured addresses.
    fn configure(&self, config: &mut Config) -> Result<(), InheritError> {
        let address = |name: &str, socket: &Option<TcpListener>| {
            let address = socket.as_ref().map(TcpListener::local_addr).transpose();
            address.map_err(|error| InheritError::Socket {
                name: name.to_owned(),
                error,
            })
        };
        if let Some(public) = address("public", &self.public)? {
            config.listens_on(public);
        }
        if let Some(admin) = address("admin", &self.admin)? {
            config.admin_listen = AdminListen::At(admin);
        }
        let metrics = address("metrics", &self.metrics)?;
        config.metrics_listen = metrics.or(config.metrics_listen);
        Ok(())
    }

    /// So many sockets, whose names are separated by colons.
    fn named(
        count: usize,
        names: &str,
        mut take: impl FnMut(usize) -> io::Result<TcpListener>,
    ) -> Result<Self, InheritError> {
        let mut this = Self::default();
        let mut names = names.split(':').map(str::to_owned);
        for at in 0..count {
            let name = names.next().unwrap_or_default();
            let place = match &*name {
                "public" => &mut this.public,
                "admin" => &mut this.admin,
                "metrics" => &mut this.metrics,
                // systemd names a socket that nobody named after its unit.
                _ if count == 1 && is_unnamed(&name) => &mut this.public,
                _ => return Err(InheritError::Name { name }),
            };
            if place.is_some() {
                return Err(InheritError::Twice { name });
            }
            *place = Some(take(at).map_err(|error| InheritError::Socket { name, error })?);
        }
        Ok(this)
    }
}

fn is_unnamed(name: &str) -> bool {
    matches!(name, "" | "unknown") || name.ends_with(".socket")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn check(count: usize, names: &str, expected: Result<[bool; 3], &str>) {
        let listen = |_| TcpListener::bind("127.0.0.1:0");
        let found = InheritedSockets::named(count, names, listen);
        let found = found.map(|found| {
            let InheritedSockets {
                public,
                admin,
                metrics,
            } = found;
            [public, admin, metrics].map(|socket| socket.is_some())
        });
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{names}"),
            (Err(error), Err(part)) => {
                let text = error.to_string();
                assert!(text.contains(part), "{text}");
            }
            (found, _) => panic!("{count} {names}: {found:?}"),
        }
    }

    #[test]
    fn each_socket_is_for_the_listener_that_its_name_says() {
        check(0, "", Ok([false; 3]));
        check(0, "public", Ok([false; 3]));
        for alone in ["public", "nearhead.socket", "unknown", ""] {
            check(1, alone, Ok([true, false, false]));
        }
        check(1, "metrics", Ok([false, false, true]));
        check(3, "admin:metrics:public", Ok([true; 3]));
        check(1, "metric", Err("\"metric\" is for none of the listeners"));
        check(2, "public:nearhead.socket", Err("none of the listeners"));
        check(2, "public", Err("\"\" is for none"));
        check(
            2,
            "admin:admin",
            Err("two inherited sockets are named admin"),
        );
    }

    /// A key for this machine alone is of no use where others reach it.
    #[test]
    fn addresses_of_sockets_replace_those_of_the_configuration() {
        for (at, has_dev_key) in [("127.0.0.1:0", true), ("0.0.0.0:0", false)] {
            let sockets =
                InheritedSockets::named(3, "public:admin:metrics", |_| TcpListener::bind(at));
            let sockets = sockets.unwrap();
            let mut config = Config::default().complete().unwrap();
            config.admin_listen = AdminListen::Off;
            sockets.configure(&mut config).unwrap();
            let config = config.complete().unwrap();
            let address = |socket: Option<TcpListener>| socket.unwrap().local_addr().unwrap();
            assert_eq!(config.listen, address(sockets.public));
            assert_eq!(config.admin_listen, AdminListen::At(address(sockets.admin)));
            assert_eq!(config.metrics_listen, Some(address(sockets.metrics)));
            assert_eq!(config.api_keys.len(), usize::from(has_dev_key), "{at}");
        }
    }

    #[test]
    fn a_socket_that_does_not_listen_on_tcp_is_refused() {
        let refuse = |_| Err(io::ErrorKind::InvalidInput.into());
        let refused = InheritedSockets::named(1, "public", refuse);
        assert!(
            matches!(refused, Err(InheritError::Socket { .. })),
            "{refused:?}"
        );
    }
}
