//! The cost of requests: its classes, and how much of each kind may be in progress.

use std::time::Duration;

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

/// Requests of class [`CostClass::Cheap`] in progress on one worker, and as many in its large
/// bodies. Each takes as long as the worker needs to get to it, so more would only wait here
/// instead of in their sockets. They are given in the order of arrival: what tenants share are the
/// turns before that.
pub(crate) const CHEAP_PER_WORKER: usize = 256;

/// Requests of class [`CostClass::Measured`] in progress on all workers, which tenants share: as
/// many as two of them may have waiting in the queues of the pool. Each holds a few kilobytes.
pub(crate) const MEASURED_MAX: usize = 16_384;

/// Time after which a client that has taken no further part of its reply is slow, so that the reply
/// may be ended when others need the memory. A part is 120 KiB: 24 KB/s are fast enough.
pub(crate) const REPLY_SLOW_AFTER: Duration = Duration::from_secs(5);

/// Smallest charge of a reply, in bytes, that is refused while the process is short of memory. What
/// is mostly shared with the window stays below.
pub(crate) const REPLY_BYTES_IF_SHORT: usize = 256 << 10;

/// How long a client should wait where the wait is not measured: while the process is short of
/// memory, and before memory or permits have been held for [`HOLD_TIME_WINDOW`].
pub(crate) const RETRY_AFTER_UNMEASURED: Duration = Duration::from_secs(1);

/// Longest time that a client should wait for memory or a permit, also where nothing is released:
/// what is measured over seconds says little about minutes.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// Time after which it is measured again how long memory and permits are held. Refusals go by the
/// last two of these windows.
pub(crate) const HOLD_TIME_WINDOW: Duration = Duration::from_secs(2);

/// Time for which a worker makes parts of large replies before it looks at its sockets again: one
/// part of a proof (32 KiB) takes longer, so that one is made at a time.
pub(crate) const REPLY_PARTS_TIME_MAX: Duration = Duration::from_micros(30);

/// Turns of a worker's event loop that a cheap request takes: it is read, checked, answered and
/// written. As many come between two parts of large replies, so that a request that came meanwhile
/// waits for one part alone.
pub const TURNS_OF_REQUEST: usize = 4;

/// Longest wait of a large reply for its next turn. It is shorter than what a slow client is given.
pub(crate) const REPLY_TURN_WAIT_MAX: Duration = Duration::from_secs(1);

/// Nanoseconds of work that a request with a small body is estimated to take.
pub(crate) const REQUEST_NANOS: usize = 10_000;

/// Nanoseconds more for each byte of its body: an item of a batch has some 70.
pub(crate) const REQUEST_BYTE_NANOS: usize = 30;

/// Work of small requests, as it is estimated, that a worker begins between two looks at its
/// sockets, while several tenants have connections: three or four usual ones. More would be
/// answered as fast, and the next request would wait for them.
pub(crate) const REQUESTS_TIME_MAX: Duration = Duration::from_micros(40);

/// Small requests of one tenant that wait on one worker; further ones are refused. Each has a
/// connection or a place in a session already.
pub(crate) const REQUESTS_PER_TENANT_MAX: usize = 65_536;

/// Items of one tenant that wait in one queue: as many connections may wait for proofs of some
/// slots. Each takes a few kilobytes.
pub(crate) const QUEUE_ITEMS_PER_TENANT_MAX: usize = 4_096;

/// Longest wait in a queue behind work of the same tenant: a burst of requests is answered, while
/// most clients still wait. What would wait for longer is refused at once.
pub(crate) const QUEUE_WAIT_MAX: Duration = Duration::from_secs(1);

/// Longest wait once a tenant's queue stands, which is when more comes than is done: then a longer
/// wait would only make every answer late. 2,000 connections that each wait for a proof of 64 slots
/// wait for less.
pub(crate) const QUEUE_TARGET: Duration = Duration::from_millis(200);

/// How long every wait of a tenant has to be longer than [`QUEUE_TARGET`] before its queue is said
/// to stand: as long as a burst may take.
pub(crate) const QUEUE_INTERVAL: Duration = Duration::from_millis(500);

/// Work of a light query at most: threads of their own keep light queries from waiting for heavy
/// ones. It is as much as 200 storage keys.
pub(crate) const LIGHT_WORK_MAX: Duration = Duration::from_millis(1);

/// Smallest body, in bytes, that waits for a turn to be parsed: a proof of 200 slots is smaller.
pub const LARGE_BODY_BYTES: usize = 16 << 10;

/// Nanoseconds of work that a byte of a large body is estimated to take.
pub(crate) const BODY_BYTE_NANOS: usize = 5;

/// Nanoseconds of work that a look-up of a log query is estimated to take. Tenants are charged for
/// the CPU time that a query has really taken.
pub(crate) const LOOKUP_NANOS: usize = 50;

/// Nanoseconds of work that a storage key or slot is estimated to take.
pub(crate) const PROOF_KEY_NANOS: usize = 5_000;

/// Nanoseconds of work that a byte of JSON is estimated to take that is encoded again in RLP: 2 of
/// a mainnet block, 6 of a receipt with nothing but empty logs.
pub(crate) const RAW_BYTE_NANOS: usize = 4;

/// Nanoseconds that a call to a node is estimated to take until it is answered. Tenants that wait
/// for turns are charged for the time that it has really taken.
pub(crate) const NODE_CALL_NANOS: u64 = 10_000_000;

/// Accounts whose state is awaited from upstreams, in all reads together. Each takes tens of
/// kilobytes until it is verified. At 10 ms a call that is 12,000 a second, more than any upstream
/// serves. Tenants share them. Half of [`CHEAP_PER_WORKER`], so that an upstream that stalls does
/// not keep a worker from reading state that is held. An access list counts as one account, and so
/// does a batch of those that a call lacks: only few of these are asked for at a time.
pub(crate) const REMOTE_MAX: usize = 128;

/// Calls in progress that are forwarded to nodes, of all tenants together, which share them. With
/// [`REMOTE_MAX`] they are fewer than [`CHEAP_PER_WORKER`], so that nodes that stall do not keep a
/// worker from reading what is held.
pub(crate) const FORWARDED_MAX: usize = 64;

/// Longest answer of a node to a forwarded call, in bytes. With its copy, `FORWARDED_MAX` of them
/// take half a gigabyte.
pub const FORWARDED_ANSWER_BYTES_MAX: usize = 4 << 20;

/// Most arrays and objects that are open at a time in the parameters and the answer of a forwarded
/// call. With what is around it, that is less than the 127 beyond which some parsers give up.
pub const FORWARDED_DEPTH_MAX: usize = 120;
