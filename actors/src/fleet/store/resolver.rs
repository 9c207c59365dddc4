//! Names of servers, looked up on a thread of their own.
//!
//! The system's lookup blocks, for half a minute if the name server hangs. On the runtime's threads
//! for such work it would keep blocks from being verified.

use std::{
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
    thread,
};

use crossbeam::channel::{self, Receiver, Sender, TrySendError};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Lookups that wait for the thread: one for each connection of a process, and then some for
/// callers that have left, which are skipped.
const LOOKUPS_MAX: usize = 32;

type LookupFn = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// Looks up one name at a time. The thread begins with the first name, and ends after the resolver.
pub(super) struct Resolver {
    look_up: LookupFn,
    lookups: Mutex<Option<Sender<Lookup>>>,
}

struct Lookup {
    host: String,
    port: u16,
    addresses: oneshot::Sender<io::Result<Vec<SocketAddr>>>,
}

impl Default for Resolver {
    /// One that asks the system.
    fn default() -> Self {
        Self::of(|host, port| Ok((host, port).to_socket_addrs()?.collect()))
    }
}

impl Resolver {
    pub(super) const fn of(look_up: LookupFn) -> Self {
        Self {
            look_up,
            lookups: Mutex::new(None),
        }
    }

    /// The addresses of a server. An address needs no lookup. The caller limits the time.
    ///
    /// # Errors
    /// The name has none, lookups hang, or the system has no thread left.
    pub(super) async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let (addresses, found) = oneshot::channel();
        let lookup = Lookup {
            host: host.to_owned(),
            port,
            addresses,
        };
        self.lookups()?
            .try_send(lookup)
            .map_err(|error| match error {
                TrySendError::Full(_) => io::Error::other(
                    "the name server does not answer: check it, or give an address",
                ),
                TrySendError::Disconnected(_) => ended(),
            })?;
        found.await.unwrap_or_else(|_| Err(ended()))
    }

    /// The sender to the thread, which is started if there is none.
    fn lookups(&self) -> io::Result<Sender<Lookup>> {
        let mut lookups = self.lookups.lock();
        if let Some(lookups) = &*lookups {
            return Ok(lookups.clone());
        }
        let (sender, waiting) = channel::bounded(LOOKUPS_MAX);
        let look_up = self.look_up;
        thread::Builder::new()
            .name("fleet-names".to_owned())
            .spawn(move || run(look_up, &waiting))?;
        Ok(lookups.insert(sender).clone())
    }
}

fn run(look_up: LookupFn, lookups: &Receiver<Lookup>) {
    for lookup in lookups {
        // Who has waited in vain asks again.
        if lookup.addresses.is_closed() {
            continue;
        }
        let addresses = look_up(&lookup.host, lookup.port);
        // Sending fails if nobody waits any more.
        let _ = lookup.addresses.send(addresses);
    }
}

fn ended() -> io::Error {
    io::Error::other("the thread that looks up names has ended")
}
