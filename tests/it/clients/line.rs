//! A line between a client and the service that can be cut.

use std::{
    io,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

/// Takes connections and carries their bytes to the service and back, for as long as the test
/// process runs.
pub(super) struct Line {
    /// Where clients connect to.
    pub(super) address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    is_cut: bool,
    /// Both ends of each connection.
    open: Vec<TcpStream>,
}

impl Line {
    pub(super) fn to(service: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let line = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::default(),
        };
        let state = line.state.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                carry(&state, client.unwrap(), service);
            }
        });
        line
    }

    /// Ends all connections without a farewell. New ones are taken, and wait.
    pub(super) fn cut(&self) {
        let mut state = self.state.0.lock().unwrap();
        state.is_cut = true;
        for end in state.open.drain(..) {
            // It may have ended by itself.
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Lets new connections through.
    pub(super) fn mend(&self) {
        self.state.0.lock().unwrap().is_cut = false;
        self.state.1.notify_all();
    }
}

/// Opens the way to the service when the line is whole, and carries bytes both ways.
fn carry(state: &(Mutex<State>, Condvar), client: TcpStream, service: SocketAddr) {
    let guard = state.0.lock().unwrap();
    let mut state = state.1.wait_while(guard, |state| state.is_cut).unwrap();
    let service = TcpStream::connect(service).unwrap();
    for (from, to) in [(&client, &service), (&service, &client)] {
        from.set_nodelay(true).unwrap();
        state.open.push(from.try_clone().unwrap());
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        thread::spawn(move || {
            // The end of one direction ends the other: either side may have gone, or the line was
            // cut.
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
}
