//! A connection between a process and a store that can be cut, and whose store can change.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// The command that reads entries, as connections have it.
const READ: &[u8] = b"\r\nXREAD\r\n";

/// Passes bytes on to a server, until the test process ends. While it is cut, connections stay
/// open, and what is sent arrives when it is healed: as in a network that loses packets, which are
/// sent again. New connections may lead to another server, as behind an address that moves.
pub(super) struct Link {
    pub(super) address: SocketAddr,
    state: Arc<State>,
}

struct State {
    flow: Mutex<Flow>,
    healed: Condvar,
}

struct Flow {
    server: SocketAddr,
    is_cut: bool,
    /// Connections that read entries are cut.
    are_reads_cut: bool,
    /// Directions of connections in which bytes wait.
    waiting: usize,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, is_reader: &AtomicBool) {
        let mut flow = self.lock();
        flow.waiting += 1;
        let waited = self.healed.wait_while(flow, |flow| {
            flow.is_cut || flow.are_reads_cut && is_reader.load(Ordering::Relaxed)
        });
        waited.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
    }

    fn set(&self, is_cut: bool, are_reads_cut: bool) {
        let mut flow = self.lock();
        (flow.is_cut, flow.are_reads_cut) = (is_cut, are_reads_cut);
        self.healed.notify_all();
    }
}

impl Link {
    pub(super) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let flow = Flow {
            server,
            is_cut: false,
            are_reads_cut: false,
            waiting: 0,
        };
        let state = Arc::new(State {
            flow: Mutex::new(flow),
            healed: Condvar::new(),
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // The server may be away: the client's connection ends.
                let server = shared.lock().server;
                if let Ok(server) = TcpStream::connect(server) {
                    relay(&shared, client, server);
                }
            }
        });
        Self { address, state }
    }

    pub(super) fn cut(&self) {
        self.state.set(true, false);
    }

    /// Cuts what reads entries, and nothing else.
    pub(super) fn cut_reads(&self) {
        self.state.set(false, true);
    }

    pub(super) fn heal(&self) {
        self.state.set(false, false);
    }

    /// Whether it is cut, and somebody has sent something.
    pub(super) fn is_waited_for(&self) -> bool {
        let flow = self.state.lock();
        flow.is_cut && flow.waiting > 0
    }

    /// Passes new connections on to another server.
    pub(super) fn lead_to(&self, server: SocketAddr) {
        self.state.lock().server = server;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.heal();
    }
}

fn relay(state: &Arc<State>, client: TcpStream, server: TcpStream) {
    let (Ok(from_client), Ok(to_client)) = (client.try_clone(), client.try_clone()) else {
        return;
    };
    let Ok(from_server) = server.try_clone() else {
        return;
    };
    let is_reader = Arc::new(AtomicBool::new(false));
    for (from, to) in [(from_client, server), (from_server, to_client)] {
        let (state, is_reader) = (Arc::clone(state), Arc::clone(&is_reader));
        thread::spawn(move || pass_on(&state, &is_reader, from, to));
    }
}

fn pass_on(state: &State, is_reader: &AtomicBool, mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut bytes).unwrap_or(0);
        if bytes[..count].windows(READ.len()).any(|word| word == READ) {
            is_reader.store(true, Ordering::Relaxed);
        }
        state.wait(is_reader);
        if count == 0 || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // Either side may have closed it before.
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}
