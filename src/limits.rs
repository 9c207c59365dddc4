//! Every bound of the edge, each with its reason. Bounds of work that is under way are in
//! [`nearhead_actors::admission`], beside what they admit.

use std::time::Duration;

/// Largest request body in bytes; geth has the same bound.
pub const BODY_BYTES_MAX: usize = 5 << 20;

/// Bytes of large bodies that one worker holds while they are read and answered: 25 of the largest.
/// Clients are refused beyond it, so that the largest bodies on every connection do not fill the
/// memory.
pub const BODY_BYTES_PER_WORKER: usize = 128 << 20;

/// Longest part of a body that is read only to be thrown away, in bytes, before it is refused: a
/// connection that is read to its end can be used again, which costs a client less than a new one.
/// Whoever sends more is cut off.
pub const DRAIN_BYTES_MAX: usize = 64 << 20;

/// Longest wait for a request's whole body: 5 MiB at the 1.4 Mbit/s of a bad mobile link take 30 s.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest wait for the head of a connection's first request: a head is one packet, the rest is for
/// bad links.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may stay idle between requests: longer than the 60 s of the usual load
/// balancer, so that it is the balancer who closes and no request meets a closing server.
pub const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// Longest wait for a client that was told to go: beyond it the socket is closed without a
/// farewell.
pub const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Open connections; more wait in the kernel's queue. An idle one costs some 20 KB, all of them 1.3
/// GB.
pub const CONNECTIONS_MAX: usize = 65_536;

/// Connections that wait in the kernel's queue for a worker: what a burst of reconnecting clients
/// brings.
pub const BACKLOG: i32 = 2_048;

/// Requests in one batch (geth has the same bound).
pub const BATCH_ITEMS_MAX: usize = 1_000;

/// Bytes of one batch's reply (geth has the same bound).
pub const BATCH_REPLY_BYTES_MAX: usize = 25_000_000;

/// Longest run of eth_getLogs, from admission (the product's specification).
pub const LOGS_DEADLINE: Duration = Duration::from_secs(10);

/// Results of one eth_getLogs (the product's specification).
pub const LOGS_MAX: usize = 10_000;

/// Addresses and topic values of one log filter together (the product's specification).
pub const FILTER_VALUES_MAX: usize = 5_000;

/// Positions of a log filter's topics: a log has no more (EVM: LOG0 to LOG4).
pub const TOPICS_MAX: usize = 4;

/// Keys of one eth_getProof, and slots of one eth_getStorageValues: geth's bound, some 10 ms of
/// work.
pub const STORAGE_KEYS_MAX: usize = 1_024;

/// How long a client that has closed its side of a connection is still answered: a cheap answer
/// takes a hundredth of it, and a query that takes longer is taken for one that nobody waits for.
pub const HALF_CLOSED_GRACE: Duration = Duration::from_millis(20);

/// Longest that a reply keeps the permits that admitted it while it is written: a client that reads
/// slowly would shut out the others otherwise. Beyond it the reply goes on without.
pub const WRITE_PERMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest that a client may take for the next part of a reply, which is [`CHUNK_BYTES`] and what
/// the kernel waits for before it takes more, half of [`UNSENT_BYTES`]: who reads that slowly holds
/// memory that others need, and is cut off. At 20 KB/s no link is that bad. Whole seconds.
pub const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that the kernel keeps of a connection and cannot send yet: by default it takes megabytes,
/// and no more before a third of them is gone, so that a client who reads 100 KB/s would seem to
/// take nothing for many seconds.
pub const UNSENT_BYTES: u32 = 128 << 10;

/// Largest message that a session takes, in bytes, whole or in pieces (the product's
/// specification). A request larger than [`BODY_BYTES_MAX`] is answered with an error.
pub const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// Bytes of a message that are not counted against [`BODY_BYTES_PER_WORKER`]: the usual request, so
/// that it is answered whatever others send.
pub const UNCOUNTED_MESSAGE_BYTES: usize = 16 << 10;

/// Words of four bytes of the largest frame that a session's message is decoded in: a larger one is
/// cut into several, for the decoder keeps a buffer of the largest as long as the session lives.
pub const FRAME_WORDS_MAX: u32 = 2_048;

/// Pings, pongs and closes that are read of one session within a second; more wait in its socket. A
/// client needs one in 30 seconds.
pub const CONTROL_FRAMES_PER_SECOND: u32 = 100;

/// Memory that what waits for one session's client may take, answers and notifications: some
/// thousand notifications, and answers of any size, which are put together as they are taken.
pub const SESSION_BYTES_MAX: usize = 1 << 20;

/// Requests of one session that are answered at the same time; the next one waits in its socket.
pub const SESSION_REQUESTS_MAX: usize = 16;

/// Subscriptions of one session.
pub const SESSION_SUBSCRIPTIONS_MAX: usize = 128;

/// Addresses and topics in all subscriptions of one session: as many as one filter may have. One
/// takes some 150 bytes.
pub const SESSION_FILTER_VALUES_MAX: usize = 5_000;

/// Addresses and topics in all subscriptions of one worker's sessions: some 150 MB.
pub const FILTER_VALUES_PER_WORKER: usize = 1_000_000;

/// Steps along the chain that one session's subscriptions catch up by before others have their
/// turn: a step costs some microseconds.
pub const CATCH_UP_STEPS: usize = 32;

/// Smallest reply in bytes that is compressed: below it a reply fits into few packets, and
/// compressing it costs more than sending it.
pub const COMPRESS_BYTES_MIN: usize = 16 << 10;

/// Replies that are compressed at the same time: each keeps a core busy for 10 to 20 ms a megabyte.
/// More go out as they are, for a compressed reply is a convenience.
pub const COMPRESSIONS_MAX: usize = 8;

/// Largest reply in bytes that is put together in one buffer: below it a copy costs less than
/// another slice does.
pub const JOINED_REPLY_BYTES_MAX: usize = 8 << 10;

/// The same for the results in a batch, of which there may be so many that their copies would be
/// much to hold, and for what waits for a session, where thousands that are sent the same would
/// each copy it once more.
pub const JOINED_ITEM_BYTES_MAX: usize = 512;

/// Largest result in bytes that is kept until it is written, where it could be made as it is taken:
/// a proof with some slots, any contract's code. In a batch it is [`JOINED_ITEM_BYTES_MAX`].
pub const KEPT_RESULT_BYTES_MAX: usize = 64 << 10;

/// Bytes of a reply that are handed to the connection at once: with a head before them they fit
/// into the 128 KiB that actix keeps of a connection's buffer, so that it is reused whatever the
/// reply's size. Larger parts had it allocated anew each time, smaller ones cost more system calls
/// (`load-tests/compare`, full blocks).
pub const CHUNK_BYTES: usize = 120 << 10;

/// Longest `X-Request-Id` that is taken over, in bytes: a UUID has 36, a trace id with its span 55.
pub const REQUEST_ID_BYTES_MAX: usize = 128;

/// How long a client that was refused should wait, in seconds: admitted work is done within a
/// fraction of it.
pub const RETRY_AFTER_SECONDS: u64 = 1;
