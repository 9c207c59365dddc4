//! A TCP relay between a client and the service whose connections a test can cut.

use std::{
    io,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

/// Accepts connections and relays their bytes to the service and back until the test process ends.
pub(crate) struct Relay {
    /// The address for clients.
    pub(crate) address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    is_cut: bool,
    /// Both ends of each connection.
    open: Vec<TcpStream>,
}

impl Relay {
    pub(crate) fn to(service: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::default(),
        };
        let state = relay.state.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                relay_connection(&state, client.unwrap(), service);
            }
        });
        relay
    }

    /// Ends all connections without a close frame. New ones are accepted but not relayed.
    pub(crate) fn cut(&self) {
        let mut state = self.state.0.lock().unwrap();
        state.is_cut = true;
        for end in state.open.drain(..) {
            // The connection may have ended by itself.
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Relays new and waiting connections.
    pub(crate) fn restore(&self) {
        self.state.0.lock().unwrap().is_cut = false;
        self.state.1.notify_all();
    }
}

/// Waits until the relay is not cut, connects to the service, and relays bytes both ways.
fn relay_connection(state: &(Mutex<State>, Condvar), client: TcpStream, service: SocketAddr) {
    let guard = state.0.lock().unwrap();
    let mut state = state.1.wait_while(guard, |state| state.is_cut).unwrap();
    let service = TcpStream::connect(service).unwrap();
    for (from, to) in [(&client, &service), (&service, &client)] {
        from.set_nodelay(true).unwrap();
        state.open.push(from.try_clone().unwrap());
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        thread::spawn(move || {
            // The end of one direction ends the other, whether a side left or the relay was cut.
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
}
