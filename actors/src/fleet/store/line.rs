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

/// A connection for calls of one kind, one exchange at a time. After a fault, the next call
/// connects again.
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
        let (server, answers) = self.ask_all(vec![command], bytes_max, limit).await?;
        let answer = answers.into_iter().next();
        let none = || Err(StoreFault::Nonsense("no answer".into()));
        match answer.unwrap_or_else(none) {
            Ok(answer) => Ok((server, answer)),
            Err(fault) => Err(StoreError::new(server, fault)),
        }
    }

    /// The same with several commands, which are sent together: each has its own answer, in their
    /// order, and all of these together have at most so many bytes.
    ///
    /// # Errors
    /// Whatever keeps all answers away.
    pub(super) async fn ask_all(
        &self,
        commands: Vec<Cmd>,
        bytes_max: usize,
        limit: Duration,
    ) -> Result<Answers, StoreError> {
        let turn = Arc::clone(&self.state).lock_owned();
        let Ok(state) = time::timeout(limit, turn).await else {
            let fault = StoreFault::NotAsked(limit);
            return Err(StoreError::new(self.connector.name(), fault));
        };
        let exchange = Exchange {
            connector: Arc::clone(&self.connector),
            state,
            commands,
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

    /// What the store is called before a connection says which server it is.
    pub(super) fn name(&self) -> Arc<str> {
        self.connector.name()
    }

    /// Notes that this server is not the master: all connections are given up.
    pub(super) fn is_no_master(&self, server: Arc<str>) -> StoreError {
        self.connector.look_again();
        let fault = StoreFault::NotMaster("its role is another one".into());
        StoreError::new(server, fault)
    }
}

/// The server, and its answers.
pub(super) type Answers = (Arc<str>, Vec<Result<Value, StoreFault>>);

/// Commands and their answers, while no other call has the connection.
struct Exchange {
    connector: Arc<Connector>,
    state: OwnedMutexGuard<State>,
    commands: Vec<Cmd>,
    bytes_max: usize,
}

impl Exchange {
    async fn run(mut self, limit: Duration) -> Result<Answers, StoreError> {
        let mut server = self.connector.name();
        let answers = self.connect_and_ask(&mut server);
        let answers = time::timeout(limit, answers).await;
        match answers {
            Ok(answers) => Ok((server, answers?)),
            Err(_) => Err(StoreError::new(server, StoreFault::TimedOut(limit))),
        }
    }

    async fn connect_and_ask(
        &mut self,
        server: &mut Arc<str>,
    ) -> Result<Vec<Result<Value, StoreFault>>, StoreError> {
        let generation = self.connector.generation();
        let open = self.state.open.take().filter(|(of, _)| *of == generation);
        let mut connection = match open {
            Some((_, connection)) => connection,
            None => self.connect().await?,
        };
        server.clone_from(connection.server());
        let answers = match &*self.commands {
            [command] => match connection.ask(command, self.bytes_max).await {
                Ok(answer) => Ok(vec![Ok(answer)]),
                Err(fault) if fault.keeps_connection() => Ok(vec![Err(fault)]),
                Err(fault) => Err(fault),
            },
            commands => connection.ask_all(commands, self.bytes_max).await,
        };
        let answers = match answers {
            Ok(answers) => answers,
            Err(fault) => {
                if matches!(fault, StoreFault::NotMaster(_)) {
                    self.connector.look_again();
                }
                return Err(StoreError::new(Arc::clone(server), fault));
            }
        };
        let mut faults = answers.iter().filter_map(|answer| answer.as_ref().err());
        if faults.any(|fault| matches!(fault, StoreFault::NotMaster(_))) {
            self.connector.look_again();
        } else if (answers.iter()).all(|answer| {
            answer
                .as_ref()
                .err()
                .is_none_or(StoreFault::keeps_connection)
        }) {
            self.state.open = Some((generation, connection));
        }
        Ok(answers)
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
