//! Clients of subscriptions through a proxy, which resume whenever their session ends.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use alloy_primitives::B256;

use super::subscriber::{Ended, Subscriber};
use crate::harness::Connection;

/// The pause of a client before it tries again to open a session.
const PAUSE: Duration = Duration::from_millis(20);

/// Clients that run until they have what they should end with. Each panics at a gap, and at what
/// comes twice.
pub(super) struct Sessions {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    proxy: SocketAddr,
    node: SocketAddr,
    /// The head with which they end.
    last: OnceLock<(u64, B256)>,
    ended: Mutex<Vec<Ended>>,
    /// Clients that have lost their session, and have no other one yet.
    resuming: AtomicUsize,
    refused: AtomicUsize,
    dropped: AtomicUsize,
    /// Blocks and logs.
    removed: [AtomicUsize; 2],
}

impl Sessions {
    /// So many clients of this proxy, whose answers are compared with this node's. They subscribe
    /// to what follows the head, which is this one.
    pub(super) fn start(
        count: usize,
        proxy: SocketAddr,
        node: SocketAddr,
        head: (u64, B256),
    ) -> Self {
        let shared = Arc::new(Shared {
            proxy,
            node,
            last: OnceLock::new(),
            ended: Mutex::default(),
            resuming: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            dropped: AtomicUsize::new(0),
            removed: Default::default(),
        });
        let start = |_| {
            let subscriber = Subscriber::open(proxy, head);
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.follow(subscriber))
        };
        let threads = (0..count).map(start).collect();
        Self { shared, threads }
    }

    /// How sessions have ended so far; panics if a client has.
    #[track_caller]
    pub(super) fn ended(&self) -> Vec<Ended> {
        let has_ended = self.threads.iter().any(JoinHandle::is_finished);
        assert!(!has_ended, "a client has met a gap, or what comes twice");
        let ended = self.shared.ended.lock();
        ended.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether all clients have a session; panics if a client has ended.
    #[track_caller]
    pub(super) fn are_live(&self) -> bool {
        self.ended();
        self.shared.resuming.load(Ordering::Relaxed) == 0
    }

    /// How often a session could not be resumed at once, and how often a process had not seen the
    /// last block of the client.
    pub(super) fn failed(&self) -> [usize; 2] {
        [&self.shared.refused, &self.shared.dropped].map(|count| count.load(Ordering::Relaxed))
    }

    /// Says with which head they end, before that is the head.
    pub(super) fn end_at(&self, last: (u64, B256)) {
        self.shared.last.set(last).unwrap();
    }

    /// Waits for their end; panics if one of them has met a gap, or what comes twice. Returns how
    /// many blocks and logs were taken off because of reorgs.
    pub(super) fn wait(self) -> [usize; 2] {
        for thread in self.threads {
            thread.join().expect("no gap, and nothing twice");
        }
        let removed = &self.shared.removed;
        removed
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed))
    }
}

impl Shared {
    /// A connection to the node, which closes those that are idle.
    fn node(&self) -> Connection {
        Connection::open(self.node, "/")
    }

    fn follow(&self, mut subscriber: Subscriber) {
        let is_at_end = |subscriber: &Subscriber| {
            let last = self.last.get();
            last.is_some_and(|last| subscriber.is_at(*last, &mut self.node()))
        };
        while !is_at_end(&subscriber) {
            if let Err(ended) = subscriber.take() {
                self.resuming.fetch_add(1, Ordering::Relaxed);
                let all = self.ended.lock();
                all.unwrap_or_else(PoisonError::into_inner).push(ended);
                self.resume(&mut subscriber);
                self.resuming.fetch_sub(1, Ordering::Relaxed);
            }
        }
        subscriber.check(&mut self.node());
        for (all, removed) in self.removed.iter().zip(subscriber.removed) {
            all.fetch_add(removed, Ordering::Relaxed);
        }
    }

    fn resume(&self, subscriber: &mut Subscriber) {
        loop {
            match subscriber.try_resume(self.proxy, &mut self.node()) {
                Some(true) => return,
                Some(false) => _ = self.dropped.fetch_add(1, Ordering::Relaxed),
                None => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    thread::park_timeout(PAUSE);
                }
            }
        }
    }
}
