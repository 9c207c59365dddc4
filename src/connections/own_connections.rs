//! Connections of the service to itself.

use std::{collections::HashSet, net::SocketAddr, sync::Arc};

use parking_lot::Mutex;

/// The local ports of the connections that the dashboard makes to the public listener: as many as
/// it has requests. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnConnections(Arc<Mutex<HashSet<u16>>>);

/// One of them, until this is dropped.
#[derive(Debug)]
pub(crate) struct OwnConnection {
    all: OwnConnections,
    port: u16,
}

impl OwnConnections {
    /// A connection begins from this port, which nobody else on this machine has meanwhile.
    pub(crate) fn begin(&self, port: u16) -> OwnConnection {
        self.0.lock().insert(port);
        OwnConnection {
            all: self.clone(),
            port,
        }
    }

    /// Whether an accepted connection is one of them. Both of its ends have one address then: of
    /// another machine, a client could have the same port.
    pub(crate) fn has(&self, peer: SocketAddr, local: SocketAddr) -> bool {
        peer.ip() == local.ip() && self.0.lock().contains(&peer.port())
    }
}

impl Drop for OwnConnection {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_ours_as_long_as_it_is_there() {
        let own = OwnConnections::default();
        let at = |ip: [u8; 4], port| SocketAddr::from((ip, port));
        let (here, there) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let connection = own.begin(4_711);
        assert!(own.has(at(here, 4_711), at(here, 8_545)));
        assert!(!own.has(at(here, 4_712), at(here, 8_545)));
        assert!(!own.has(at(there, 4_711), at(here, 8_545)));
        drop(connection);
        assert!(!own.has(at(here, 4_711), at(here, 8_545)));
    }
}
