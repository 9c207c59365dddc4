//! The cost of requests: its classes, and how much of each kind may be in progress.

/// The cost of a request, which decides how it is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostClass {
    /// A few look-ups on the worker. The request waits for its turn, and its connection is not
    /// read meanwhile.
    Cheap,
    /// The cost is known only once it is counted. Without a free permit the request is refused at
    /// once.
    Measured,
}

/// Requests of class [`CostClass::Cheap`] in progress on one worker. Each takes as long as the
/// worker needs to get to it, so more would only wait here instead of in their sockets.
pub(crate) const CHEAP_PER_WORKER: usize = 256;

/// Requests of class [`CostClass::Measured`] in progress on all workers. Each holds a few kilobytes
/// while it is counted.
pub(crate) const MEASURED_MAX: usize = 1_024;

/// Bytes that the answers of large batches hold until they are written. A single answer holds
/// little: it is assembled as it is sent, from JSON that was made with the block and is shared.
pub(crate) const BATCH_BYTES_MAX: usize = 256 << 20;

/// Bytes of one permit of [`BATCH_BYTES_MAX`]. A smaller answer needs no permit.
pub(crate) const BATCH_BYTES_UNIT: usize = 64 << 10;

/// Look-ups of large log queries in progress in the pool. At some 50 ns each they are 50 ms of
/// work, which two cores do in half the time.
pub(crate) const LOOKUPS_MAX: usize = 1 << 20;

/// Storage keys and slots of large proofs in progress. At 5 to 10 µs each, 4,096 of them take some
/// 20 ms on two cores.
pub(crate) const PROOF_KEYS_MAX: usize = 4_096;

/// Accounts whose state is awaited from upstreams, in all reads together. Each takes tens of
/// kilobytes until it is verified. At 10 ms a call that is 12,000 a second, more than any upstream
/// serves. Half of [`CHEAP_PER_WORKER`], so that an upstream that stalls does not keep a worker
/// from reading state that is held.
pub(crate) const REMOTE_MAX: usize = 128;

/// The part of [`REMOTE_MAX`] that the reads of one tenant may take: half, so that a tenant whose
/// reads wait for a slow upstream leaves room for the others.
pub(crate) const REMOTE_PER_TENANT_MAX: usize = 64;
