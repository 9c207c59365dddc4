//! Keeps threads of the pool busy, for tests.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::mpsc;

use actix::{Context, Handler, Message, dev::Request};

use super::threads::{PoolActor, PoolThreads};

/// Threads of the pool that are kept busy.
pub(crate) struct Occupied {
    releases: Vec<mpsc::SyncSender<()>>,
    handled: Vec<Request<PoolActor, Occupy>>,
}

impl Occupied {
    /// Keeps these threads busy until they are released.
    pub(crate) fn new<'a>(threads: impl IntoIterator<Item = &'a PoolThreads>) -> Self {
        let occupy = |actor: &actix::Addr<PoolActor>| {
            let (release, released) = mpsc::sync_channel(0);
            (release, actor.send(Occupy(released)))
        };
        let actors = threads.into_iter().flat_map(PoolThreads::actors);
        let (releases, handled) = actors.map(occupy).unzip();
        Self { releases, handled }
    }

    pub(crate) async fn release(self) {
        drop(self.releases);
        for handled in self.handled {
            handled.await.unwrap();
        }
    }
}

/// Keeps a thread busy until the sender is dropped.
#[derive(Message)]
#[rtype(result = "()")]
struct Occupy(mpsc::Receiver<()>);

impl Handler<Occupy> for PoolActor {
    type Result = ();

    fn handle(&mut self, Occupy(released): Occupy, _: &mut Context<Self>) {
        // This fails when the sender is dropped.
        let _ = released.recv();
    }
}
