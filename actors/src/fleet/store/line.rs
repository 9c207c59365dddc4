//! One connection, which is opened when it is needed.

use std::{sync::Arc, time::Duration};

use nearhead_fleet::bounds::RECONNECT_PAUSE;
use redis::{Cmd, Value};
use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    task,
    time::{self, Instant},
};

use super::{
    StoreError, StoreFault,
    connect::{Connection, Connector},
};

/// A connection for calls of one kind, one at a time. After a fault, the next call connects again.
pub(super) struct Line {
    connector: Arc<Connector>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The connection, and its generation. An exchange takes it out, and puts it back when it has
    /// its answer: one that is given up leaves no answer behind for the next one.
    open: Option<(u64, Connection)>,
    /// When the next connection may be opened.
    connect_at: Option<Instant>,
}

impl Line {
    pub(super) fn new(connector: Arc<Connector>) -> Self {
        Self {
            connector,
            state: Arc::default(),
        }
    }

    /// Sends a command to the master. Returns the answer, of at most so many bytes, with the server
    /// that gave it. The wait for other calls takes no longer than `limit`, and neither does the
    /// exchange, also with the wait for a connection.
    ///
    /// The exchange goes on if its caller is dropped, so that the next call finds the connection as
    /// it was. A call that waits for its turn is its caller's alone: there is one exchange at most.
    ///
    /// # Errors
    /// Whatever keeps the answer away. The command may have been run, unless the fault is
    /// [`StoreFault::NotAsked`].
    pub(super) async fn ask(
        &self,
        command: Cmd,
        bytes_max: usize,
        limit: Duration,
    ) -> Result<(Arc<str>, Value), StoreError> {
        let turn = Arc::clone(&self.state).lock_owned();
        let Ok(state) = time::timeout(limit, turn).await else {
            let fault = StoreFault::NotAsked(limit);
            return Err(StoreError::new(self.connector.name(), fault));
        };
        let exchange = Exchange {
            connector: Arc::clone(&self.connector),
            state,
            command,
            bytes_max,
        };
        match task::spawn(exchange.run(limit)).await {
            Ok(answer) => answer,
            // The runtime ends.
            Err(_) => Err(StoreError::new(
                self.connector.name(),
                StoreFault::Unreachable("the exchange did not end".into()),
            )),
        }
    }

    /// Notes that this server is not the master: all connections are given up.
    pub(super) fn is_no_master(&self, server: Arc<str>) -> StoreError {
        self.connector.look_again();
        let fault = StoreFault::NotMaster("its role is another one".into());
        StoreError::new(server, fault)
    }
}

/// A command and its answer, while no other call has the connection.
struct Exchange {
    connector: Arc<Connector>,
    state: OwnedMutexGuard<State>,
    command: Cmd,
    bytes_max: usize,
}

impl Exchange {
    async fn run(mut self, limit: Duration) -> Result<(Arc<str>, Value), StoreError> {
        let mut server = self.connector.name();
        let answer = self.connect_and_ask(&mut server);
        let answer = time::timeout(limit, answer).await;
        match answer {
            Ok(answer) => Ok((server, answer?)),
            Err(_) => Err(StoreError::new(server, StoreFault::TimedOut(limit))),
        }
    }

    async fn connect_and_ask(&mut self, server: &mut Arc<str>) -> Result<Value, StoreError> {
        let generation = self.connector.generation();
        let open = self.state.open.take().filter(|(of, _)| *of == generation);
        let mut connection = match open {
            Some((_, connection)) => connection,
            None => self.connect().await?,
        };
        server.clone_from(connection.server());
        let answer = connection.ask(&self.command, self.bytes_max).await;
        let fault = match answer {
            Ok(answer) => {
                self.state.open = Some((generation, connection));
                return Ok(answer);
            }
            Err(fault) => fault,
        };
        if matches!(fault, StoreFault::NotMaster(_)) {
            self.connector.look_again();
        } else if fault.keeps_connection() {
            self.state.open = Some((generation, connection));
        }
        Err(StoreError::new(Arc::clone(server), fault))
    }

    /// Connects, but not soon after the last time: callers may repeat at once.
    async fn connect(&mut self) -> Result<Connection, StoreError> {
        if let Some(at) = self.state.connect_at {
            time::sleep_until(at).await;
        }
        self.state.connect_at = Some(Instant::now() + RECONNECT_PAUSE);
        self.connector.connect().await
    }
}
