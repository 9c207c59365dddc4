//! A connection between a process and a store that can be cut.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
};

/// Passes bytes on to a server, until the test process ends. While it is cut, connections stay
/// open, and what is sent arrives when it is healed: as in a network that loses packets, which are
/// sent again.
pub(super) struct Link {
    pub(super) address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_cut: Mutex<bool>,
    healed: Condvar,
}

impl State {
    fn wait(&self) {
        let is_cut = self.is_cut.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.healed.wait_while(is_cut, |is_cut| *is_cut));
    }

    fn set(&self, is_cut: bool) {
        *self.is_cut.lock().unwrap_or_else(PoisonError::into_inner) = is_cut;
        self.healed.notify_all();
    }
}

impl Link {
    pub(super) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // The server may be away: the client's connection ends.
                if let Ok(server) = TcpStream::connect(server) {
                    relay(&shared, client, server);
                }
            }
        });
        Self { address, state }
    }

    pub(super) fn cut(&self) {
        self.state.set(true);
    }

    pub(super) fn heal(&self) {
        self.state.set(false);
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
    for (from, to) in [(from_client, server), (from_server, to_client)] {
        let state = Arc::clone(state);
        thread::spawn(move || pass_on(&state, from, to));
    }
}

fn pass_on(state: &State, mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut bytes).unwrap_or(0);
        state.wait();
        if count == 0 || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // Either side may have closed it before.
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}
