//! One connection, which is opened when it is needed.

use std::{sync::Arc, time::Duration};

use nearhead_fleet::bounds::RECONNECT_PAUSE;
use redis::{Cmd, Value};
use tokio::{
    sync::Mutex,
    time::{self, Instant},
};

use super::{
    StoreError, StoreFault,
    connect::{Connection, Connector},
};

/// A connection for calls of one kind, one at a time. After a fault, the next call connects again.
pub(super) struct Line {
    connector: Arc<Connector>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The connection, and its generation. A call takes it out, and puts it back when it has its
    /// answer: a call that is given up leaves no answer behind for the next one.
    open: Option<(u64, Connection)>,
    /// When the next connection may be opened.
    connect_at: Option<Instant>,
}

impl Line {
    pub(super) fn new(connector: Arc<Connector>) -> Self {
        Self {
            connector,
            state: Mutex::default(),
        }
    }

    /// Sends a command to the master. Returns the answer, of at most so many bytes, with the server
    /// that gave it. All of it, also the wait for other calls and a connection, takes no longer
    /// than `limit`.
    ///
    /// # Errors
    /// Whatever keeps the answer away. The command may have been run.
    pub(super) async fn ask(
        &self,
        command: &Cmd,
        bytes_max: usize,
        limit: Duration,
    ) -> Result<(Arc<str>, Value), StoreError> {
        let mut server = self.connector.name();
        let answer = self.connect_and_ask(command, bytes_max, &mut server);
        let answer = time::timeout(limit, answer).await;
        match answer {
            Ok(answer) => Ok((server, answer?)),
            Err(_) => Err(StoreError::new(server, StoreFault::TimedOut(limit))),
        }
    }

    async fn connect_and_ask(
        &self,
        command: &Cmd,
        bytes_max: usize,
        server: &mut Arc<str>,
    ) -> Result<Value, StoreError> {
        let mut state = self.state.lock().await;
        let generation = self.connector.generation();
        let open = state.open.take().filter(|(of, _)| *of == generation);
        let mut connection = match open {
            Some((_, connection)) => connection,
            None => self.connect(&mut state).await?,
        };
        server.clone_from(connection.server());
        let answer = connection.ask(command, bytes_max).await;
        let fault = match answer {
            Ok(answer) => {
                state.open = Some((generation, connection));
                return Ok(answer);
            }
            Err(fault) => fault,
        };
        if matches!(fault, StoreFault::NotMaster(_)) {
            self.connector.look_again();
        } else if fault.keeps_connection() {
            state.open = Some((generation, connection));
        }
        Err(StoreError::new(Arc::clone(server), fault))
    }

    /// Connects, but not soon after the last time: callers may repeat at once.
    async fn connect(&self, state: &mut State) -> Result<Connection, StoreError> {
        if let Some(at) = state.connect_at {
            time::sleep_until(at).await;
        }
        state.connect_at = Some(Instant::now() + RECONNECT_PAUSE);
        self.connector.connect().await
    }

    /// Notes that this server is not the master: all connections are given up.
    pub(super) fn is_no_master(&self, server: Arc<str>) -> StoreError {
        self.connector.look_again();
        let fault = StoreFault::NotMaster("its role is another one".into());
        StoreError::new(server, fault)
    }
}
