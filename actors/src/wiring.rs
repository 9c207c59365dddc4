//! Starts the actors that answer reads: those of each worker, and the pool for heavy work.
#![allow(clippy::todo, unused)]

/// Threads for heavy work with their permits; started once a service, cloning shares them.
#[derive(Clone, Debug)]
pub struct Pools {}

/// Addresses of one worker's own actors.
#[derive(Clone, Debug)]
pub struct Worker {}

impl Pools {
    /// Starts `threads` threads (at least one); must be called inside an actix system.
    #[must_use]
    pub fn start(threads: usize) -> Self {
        todo!()
    }
}

impl Worker {
    /// Starts the read actors on the present arbiter.
    #[must_use]
    pub fn start(pools: &Pools) -> Self {
        todo!()
    }
}
