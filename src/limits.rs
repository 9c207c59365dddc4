//! Every bound of the server, each with its reason. Bounds of work in progress are in
//! [`nearhead_actors::admission`], beside what they admit.

use std::time::Duration;

/// Largest request body in bytes, and so its memory: room for a full batch of 5 KB per request.
pub(crate) const BODY_BYTES_MAX: usize = 5 << 20;

/// Bytes of large bodies that one worker holds while they are read and answered: 25 of the largest,
/// shared by tenants. Further ones are refused, so that they do not exhaust the memory.
pub(crate) const BODY_BYTES_PER_WORKER: usize = 128 << 20;

/// Longest part of a refused body that is read and discarded, in bytes: a connection whose body was
/// read to its end can be reused, which costs less than a new one. Who sends more is cut off.
pub(crate) const DRAIN_BYTES_MAX: usize = 64 << 20;

/// Longest wait for a request's whole body: 5 MiB take 30 s at the 1.4 Mbit/s of a bad mobile link.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest wait for the headers of a connection's first request. They are one packet; the rest of
/// the time is for bad links.
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may stay idle between requests: longer than the 60 s of most balancers, so
/// that these close it, and send no request on one that the server is closing.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// Longest wait for a client to close its side of a connection; then the socket is closed.
pub(crate) const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Open connections; more wait in the kernel's queue. An idle one costs some 20 KB, so all of them
/// cost 1.3 GB.
pub(crate) const CONNECTIONS_MAX: usize = 65_536;

/// Slots of one worker that connections without an accepted key leave free, at most; one in 16 of
/// those that no key holds, if these are few. The next connection takes one of them while the
/// connection that is evicted for it is still being closed.
pub(crate) const RESERVED_SLOTS_MAX: usize = 64;

/// Connections without an accepted key that one address may have at least, if nothing else is
/// given: a burst of some clients, each of which opens several before its first request.
pub(crate) const CONNECTIONS_PER_ADDRESS_MIN: usize = 64;

/// Time that a connection without an accepted key has for the headers of a request when such
/// connections take three quarters of the slots that no key holds: a second packet that was lost
/// still arrives. Whole seconds.
pub(crate) const CROWDED_HEADER_TIMEOUT: Duration = Duration::from_secs(2);

/// The same when such connections take all slots that they may: the headers are one packet, which
/// takes less than a second from anywhere on Earth. Whole seconds.
pub(crate) const FULL_HEADER_TIMEOUT: Duration = Duration::from_secs(1);

/// Requests and handshakes from one address whose key is not accepted, in a row, before the next
/// one is refused unread: some clients of an office whose key was revoked.
pub(crate) const KEY_GUESSES_MAX: u32 = 100;

/// Time after which one more of them is answered.
pub(crate) const KEY_GUESS_EVERY: Duration = Duration::from_secs(1);

/// How long a page of metrics is given before the next one is gathered: scrapers come every few
/// seconds, and to gather them costs as much as some 20 cheap requests.
pub(crate) const METRICS_AGE_MAX: Duration = Duration::from_secs(1);

/// Connections that wait in the kernel's queue for a worker: room for a burst of reconnecting
/// clients. Linux allows no more unless `net.core.somaxconn` says so. Who finds the queue full is
/// neither accepted nor refused, and tries again a second later.
pub(crate) const BACKLOG: i32 = 4_096;

/// Connections of too slow clients that a worker cuts in one turn of its event loop: one takes as
/// long as some cheap requests. What is left after a second is cut at once.
pub(crate) const CUT_MAX: usize = 16;

/// Connections that a worker takes at a time, and that may wait in its queue. More would delay the
/// requests of the others, so only a worker that lacks connections takes more.
pub(crate) const INTAKE_MAX: usize = 16;

/// Of the clients that a worker takes in this time, `INTAKE_MAX` may wait for an answer, or
/// `INTAKE_GROWTH` times as many as before. A worker with a CPU quota has answered some by then.
pub(crate) const INTAKE_TIME: Duration = Duration::from_millis(100);

/// Longest time of `TURNS_OF_REQUEST` turns, or wait of large replies, light queries and requests
/// before they begin, after which a worker takes connections; otherwise it is overloaded.
pub(crate) const TURNS_TIME_MAX: Duration = Duration::from_millis(50);

/// Open connections up to which a worker takes further ones however busy it is: with a few, it
/// answers fewer requests, because it has fewer of them at a turn.
pub(crate) const BUSY_CONNECTIONS_MIN: usize = 64;

/// CPU time of a busy worker that one request of each of its connections should take together:
/// about as long as the kernel lets a thread with a CPU quota run. A worker that has less than
/// three quarters of so many connections gets those that it lacks, up to `BUSY_CONNECTIONS_MAX`.
pub(crate) const BUSY_TIME: Duration = Duration::from_millis(4);

/// The most connections that a worker takes however busy it is.
pub(crate) const BUSY_CONNECTIONS_MAX: usize = 256;

/// Requests from one look at what a request costs to the next.
pub(crate) const BUSY_REQUESTS: u64 = 256;

/// The same in CPU time, if that is used before: requests that cost much come slowly.
pub(crate) const BUSY_LOOK_TIME: Duration = Duration::from_millis(100);

/// Long turns of a worker with less than that between them belong to one overload.
pub(crate) const OVERLOAD_MEMORY: Duration = Duration::from_millis(500);

/// Time for which all workers may be overloaded, and a connection wait for them, before new ones
/// are refused: long enough for a small burst, and for a machine that is busy with other work.
pub(crate) const OVERLOAD_PATIENCE: Duration = Duration::from_secs(1);

/// Time for which the kernel's queue may have connections without a break before new ones are
/// refused: thousands of clients that reconnect get in before, if turns are short. Later, those who
/// wait may have left already.
pub(crate) const QUEUE_PATIENCE: Duration = Duration::from_secs(2);

/// An overload that begins within this time after the last one is a relapse.
pub(crate) const RELAPSE_WITHIN: Duration = Duration::from_secs(5);

/// The same as `OVERLOAD_PATIENCE`, for a relapse, and while the kernel's queue is more than half
/// full.
pub(crate) const SHORT_PATIENCE: Duration = Duration::from_millis(250);

/// Time for which a worker has to keep up with its work before connections are let in again.
pub(crate) const WATCHED_TIME: Duration = Duration::from_millis(200);

/// Pause between two looks at that, and at the kernel's queue.
pub(crate) const WATCHED_EVERY: Duration = Duration::from_millis(10);

/// Time for which connections are then let in on trial: at most `INTAKE_MAX` of them, and
/// `INTAKE_GROWTH` times as many each time, or all that a worker lacks. If fewer than `INTAKE_MAX`
/// come, or fewer than were let in because the workers keep up, they are accepted as usual again.
pub(crate) const TRIAL_TIME: Duration = Duration::from_millis(100);

/// Times as many connections as in the `INTAKE_TIME` before, or as the trial before let in, if the
/// workers kept up. A trial and what goes before it take 0.3 s: the third one, which has to be
/// within a second of the overload's end, lets in all who come meanwhile.
pub(crate) const INTAKE_GROWTH: usize = 4;

/// Connections that are let in by one trial.
pub(crate) const TRIAL_CONNECTIONS_MAX: usize = 256;

/// Time from one trial to the next at most, if the workers kept up in between. If it takes longer,
/// the next one begins with few connections again.
pub(crate) const KEEPING_UP_MAX: Duration = Duration::from_millis(400);

/// Pause after connections could not be accepted, for example because no file descriptor is left.
pub(crate) const ACCEPT_ERROR_PAUSE: Duration = Duration::from_millis(500);

/// Steps of TLS handshakes that one worker takes in a turn of its event loop: each takes some 0.1
/// ms, with an RSA key of 2,048 bits 1 ms, and the requests of others wait for that long. Further
/// ones wait for the next turn, first come, first served; how many wait is bounded by the slots.
pub(crate) const HANDSHAKE_STEPS_PER_TURN: usize = 4;

/// Longest file of certificates or of a key, in bytes: all authorities that a system trusts have
/// 250 KB.
pub(crate) const TLS_FILE_BYTES_MAX: u64 = 1 << 20;

/// Bytes of a request over plain HTTP to a listener with TLS that are read before it is closed, so
/// that its client gets the answer: the rest would reset the connection.
pub(crate) const PLAIN_REQUEST_BYTES_MAX: usize = 64 << 10;

/// Open connections of the admin listener, and of the metrics listener: some scrapers, and some
/// browsers, which open six each.
pub(crate) const OPERATOR_CONNECTIONS_MAX: usize = 64;

/// Connections that wait in the kernel's queue for one of these listeners: as many again.
pub(crate) const OPERATOR_BACKLOG: i32 = 64;

/// How long a client that has just connected has for its first request when the service stops: a
/// round trip to the other side of the world, three times. The other connections are served as
/// before meanwhile.
pub(crate) const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);

/// What is left of `--shutdown-grace` for the last session when it is asked to end.
pub(crate) const SESSION_CLOSE_TIME: Duration = Duration::from_secs(2);

/// Longest time that requests to these listeners may take to finish after those of clients have:
/// they wait for nothing. Whole seconds.
pub(crate) const OPERATOR_GRACE: Duration = Duration::from_secs(1);

/// Largest body of a request to the admin listener, in bytes: a key's settings with all its lists
/// full take a tenth of it.
pub(crate) const OPERATOR_BODY_BYTES_MAX: usize = 256 << 10;

/// Bytes of large answers that a worker of these listeners holds while clients read them: some
/// eight of the largest, which have usage. Further ones are refused.
pub(crate) const OPERATOR_ANSWER_BYTES: usize = 64 << 20;

/// How long a login lasts: a working day. Then its password is asked for again.
pub(crate) const LOGIN_LIFETIME: Duration = Duration::from_secs(43_200);

/// Passwords that are verified at the same time: each takes 19 MiB and a core for some 20 ms. More
/// wait, no more than the listener has connections.
pub(crate) const VERIFICATIONS_MAX: usize = 2;

/// Wrong passwords for one account from one network in a row before the next one has to wait.
pub(crate) const GUESSES_MAX: u32 = 10;

/// Time after which one more guess at an account is allowed to a network: 720 a day.
pub(crate) const GUESS_EVERY: Duration = Duration::from_secs(120);

/// Wrong passwords for one account in a row from all networks together from which nobody has ever
/// logged in to it. More than those of one network, or that one alone would keep out its owner, who
/// is elsewhere for the first time.
pub(crate) const STRANGERS_GUESSES_MAX: u32 = 60;

/// Time after which one more guess at an account is allowed to all of these networks: 2,880 a day,
/// however many they are.
pub(crate) const STRANGERS_GUESS_EVERY: Duration = Duration::from_secs(30);

/// Wrong passwords for one account in a row from all networks together from which somebody has
/// logged in to it: whoever has taken over a login can use it from any number of networks, and is
/// to guess the password no faster for that.
pub(crate) const KNOWN_GUESSES_MAX: u32 = 60;

/// Time after which one more guess at an account is allowed to all of these networks: 2,880 a day.
pub(crate) const KNOWN_GUESS_EVERY: Duration = Duration::from_secs(30);

/// Wrong passwords from one network in a row before its next one has to wait, whatever the account:
/// an office may share one.
pub(crate) const NETWORK_GUESSES_MAX: u32 = 30;

/// Time after which one more guess is allowed to a network.
pub(crate) const NETWORK_GUESS_EVERY: Duration = Duration::from_secs(10);

/// Wrong passwords in a row from a /48 of IPv6 before its next one has to wait: providers give one
/// to a customer, who has 65,536 networks then.
pub(crate) const SITE_GUESSES_MAX: u32 = 90;

/// Time after which one more guess is allowed to a /48 of IPv6.
pub(crate) const SITE_GUESS_EVERY: Duration = Duration::from_secs(5);

/// Accounts, and networks, whose wrong passwords are counted one by one: some megabytes; and
/// networks that guess keys. Beyond that, all others are counted together.
pub(crate) const THROTTLED_MAX: usize = 10_000;

/// Networks from which somebody has logged in to an account that are kept in mind: those of one
/// person. A new one takes the place of the one that was used longest ago.
pub(crate) const KNOWN_NETWORKS_MAX: usize = 16;

/// Logins in the audit that are read at the start for these networks: some 100 ms.
pub(crate) const REMEMBERED_LOGINS_MAX: usize = 10_000;

/// Logins to one account in a row before the next one has to wait: each is a durable write. A
/// script has an API token.
pub(crate) const LOGINS_MAX: u32 = 30;

/// Time after which one more login to an account is allowed.
pub(crate) const LOGIN_EVERY: Duration = Duration::from_secs(30);

/// Reads of usage that one account or API token may have at once, of which one is done at a time: a
/// browser opens six connections.
pub(crate) const VISITOR_READS_MAX: usize = 8;

/// Requests in one batch: bounds the work that one body starts.
pub(crate) const BATCH_ITEMS_MAX: usize = 1_000;

/// Bytes of one batch's reply: bounds the memory that one batch holds until its client has read it.
pub const BATCH_REPLY_BYTES_MAX: usize = 25_000_000;

/// Longest time that one eth_getLogs may run, from admission: bounds how long one query keeps its
/// permits and its snapshot.
pub(crate) const LOGS_DEADLINE: Duration = Duration::from_secs(10);

/// The limits of one call of a contract.
#[derive(Clone, Copy, Debug)]
pub struct CallLimits {
    /// The most gas that it may use.
    pub gas_max: u64,
    /// Longest time that it may take, from admission, with all that it fetches.
    pub timeout: Duration,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            gas_max: CALL_GAS_MAX,
            timeout: CALL_TIMEOUT,
        }
    }
}

/// The most gas of one call, as in geth.
pub(crate) const CALL_GAS_MAX: u64 = 50_000_000;

/// Longest time of one call, as in geth.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of the parameters of a call that is forwarded to a node. A transaction has a bound of its
/// own.
pub(crate) const FORWARDED_PARAMS_BYTES_MAX: usize = 256 << 10;

/// Results of one eth_getLogs: bounds the memory and the size of one answer to some megabytes.
pub(crate) const LOGS_MAX: usize = 10_000;

/// Addresses and topic values of one log filter together: bounds one query to 640,000 look-ups, one
/// for each value in each of 128 blocks.
pub(crate) const FILTER_VALUES_MAX: usize = 5_000;

/// Positions of a log filter's topics: a log has no more (EVM: LOG0 to LOG4).
pub(crate) const TOPICS_MAX: usize = 4;

/// How long a filter is kept that nobody asks about, as in geth. Clients ask every few seconds.
pub(crate) const FILTER_LIFETIME: Duration = Duration::from_secs(300);

/// How often filters are looked for that nobody asks about, or whose key lets nobody in any more:
/// each time, all filters are read, some 100 ns each.
pub(crate) const FILTER_WATCH_EVERY: Duration = Duration::from_secs(10);

/// Filters that are made or removed at a time in the store of a fleet. With the reads that wait for
/// nodes, they are fewer than the cheap requests of one worker, so that a store that stalls does
/// not keep it from reading what is held.
pub(crate) const FILTER_CHANGES_MAX: usize = 60;

/// Filters of one tenant: each takes some 500 bytes. A page that is closed leaves its filters
/// behind for `FILTER_LIFETIME`, so that a site may open some 30 pages a second.
pub(crate) const FILTERS_PER_TENANT_MAX: usize = 10_000;

/// Addresses and topics in all filters of one tenant: as many as in 20 of the largest filters. Each
/// takes up to 64 bytes.
pub(crate) const VALUES_OF_FILTERS_PER_TENANT_MAX: usize = 100_000;

/// Filters of all tenants: some 50 MB.
pub(crate) const FILTERS_MAX: usize = 100_000;

/// Addresses and topics in all filters of all tenants: some 64 MB.
pub(crate) const VALUES_OF_FILTERS_MAX: usize = 1_000_000;

/// Keys of one eth_getProof, and slots of one eth_getStorageValues: some 10 ms of work.
pub(crate) const STORAGE_KEYS_MAX: usize = 1_024;

/// How long a client that has closed its side of a connection still gets an answer. A cheap answer
/// takes a hundredth of it; a longer query is cancelled, because the client has probably gone.
pub(crate) const HALF_CLOSED_GRACE: Duration = Duration::from_millis(20);

/// Largest `--state-bytes` that `auto` chooses; below, it is a quarter of the memory. What
/// mainnet-like blocks change fills it in some hours.
pub(crate) const STATE_BYTES_AUTO_MAX: usize = 1 << 30;

/// Smallest `--reply-bytes` that `auto` chooses; in between it is a sixteenth of the memory.
pub(crate) const REPLY_BYTES_AUTO_MIN: usize = 64 << 20;

/// Largest `--reply-bytes` that `auto` chooses.
pub(crate) const REPLY_BYTES_AUTO_MAX: usize = 1 << 30;

/// Percent of the memory limit from which on heavy queries and large replies are refused.
pub(crate) const MEMORY_SHORT_PERCENT: u64 = 90;

/// Percent of the memory limit from which on replies of slow clients end.
pub(crate) const MEMORY_CRITICAL_PERCENT: u64 = 95;

/// Percent of ten seconds in which some tasks waited for memory (PSI), from which on it counts as
/// short.
pub(crate) const MEMORY_WAIT_SOME_PERCENT: f64 = 40.0;

/// Percent of ten seconds in which all tasks waited for memory (PSI), from which on it counts as
/// used up.
pub(crate) const MEMORY_WAIT_ALL_PERCENT: f64 = 20.0;

/// Smallest memory of a reply, in bytes, that is charged to `--reply-bytes` until its client has
/// taken it. A smaller one fits into the buffers that the kernel has for every connection.
pub(crate) const CHARGED_REPLY_BYTES_MIN: usize = 16 << 10;

/// Longest time that a client may take for the next part of a reply. A part is [`CHUNK_BYTES`], and
/// the kernel accepts the next one when half of [`UNSENT_BYTES`] is sent. A slower client holds
/// memory that others need and is cut off; a steady 24 KB/s is fast enough. Whole seconds.
pub(crate) const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(8);

/// Bytes of a connection that the kernel holds unsent. By default it accepts megabytes, and then no
/// more until a third of them is sent: a client that reads 100 KB/s would seem to read nothing for
/// many seconds.
pub(crate) const UNSENT_BYTES: u32 = 128 << 10;

/// Largest message that a session accepts, in bytes, whole or in parts. A request larger than
/// `BODY_BYTES_MAX` is read, discarded and answered with an error; beyond this bound, reading
/// costs more than it is worth, and the session ends.
pub const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// Bytes of a message that are not counted against [`BODY_BYTES_PER_WORKER`]: the size of a usual
/// request, which is thus answered whatever other clients send.
pub(crate) const UNCOUNTED_MESSAGE_BYTES: usize = 16 << 10;

/// Largest frame that a session passes to its decoder, in words of four bytes. A larger frame is
/// split, because the decoder keeps a buffer as large as the largest frame for the session's life.
pub(crate) const FRAME_WORDS_MAX: u32 = 2_048;

/// Pings, pongs and closes of one session that are read within a second; more wait in its socket. A
/// client needs one in 30 seconds.
pub(crate) const CONTROL_FRAMES_PER_SECOND: u32 = 100;

/// Memory for answers and notifications that wait for one session's client: room for about a
/// thousand notifications, and for answers of any size, because answers are assembled while they
/// are sent.
pub(crate) const SESSION_BYTES_MAX: usize = 1 << 20;

/// Requests of one session that are in progress at the same time; the next one waits in its socket.
pub(crate) const SESSION_REQUESTS_MAX: usize = 16;

/// Subscriptions of one session: bounds the work that it adds to every fan-out.
pub(crate) const SESSION_SUBSCRIPTIONS_MAX: usize = 128;

/// Addresses and topics in all subscriptions of one session: as many as in one filter. Each takes
/// some 150 bytes.
pub(crate) const SESSION_FILTER_VALUES_MAX: usize = 5_000;

/// Addresses and topics in all subscriptions of one worker's sessions: some 150 MB.
pub(crate) const FILTER_VALUES_PER_WORKER: usize = 1_000_000;

/// Blocks that one session's subscriptions catch up by before another session has its turn. A block
/// takes some microseconds.
pub(crate) const CATCH_UP_STEPS: usize = 32;

/// Smallest reply, in bytes, that is compressed. A smaller one fits into few packets, and
/// compressing it costs more than sending it.
pub(crate) const COMPRESS_BYTES_MIN: usize = 16 << 10;

/// Replies of one worker that are compressed at the same time: each keeps a core busy for 10 to 20
/// ms per MB, and holds its encoder until its client has taken it. Further replies go out
/// uncompressed.
pub(crate) const COMPRESSIONS_MAX: usize = 2;

/// Bytes that an encoder for gzip takes at most, with what it gives at once (measured, as the
/// others below).
pub(crate) const GZIP_BYTES: usize = 800 << 10;

/// The same for zstd.
pub(crate) const ZSTD_BYTES: usize = 4 << 20;

/// The same for brotli, whose window of 8 MiB is allocated whatever the reply's length is.
pub(crate) const BROTLI_BYTES: usize = 9 << 20;

/// Bytes of a reply, at most, for each of which brotli takes two more: as long as a reply repeats
/// itself, brotli makes one block of it, and has room for twice as much output.
pub(crate) const BROTLI_BLOCK_BYTES_MAX: usize = 8 << 20;

/// Largest reply, in bytes, that is assembled in one buffer: up to here, a copy costs less than
/// another slice.
pub(crate) const JOINED_REPLY_BYTES_MAX: usize = 8 << 10;

/// Largest result of a batch, or piece of a session's messages, in bytes, that is copied into one
/// buffer with its neighbours. A batch has many results, whose copies would take much memory; a
/// message goes to thousands of sessions, each of which would copy it.
pub(crate) const JOINED_ITEM_BYTES_MAX: usize = 512;

/// Largest result, in bytes, that is built whole before it is sent; a larger one is built while it
/// is sent. A proof with some slots fits, and any contract's code. In a batch the bound is
/// [`JOINED_ITEM_BYTES_MAX`].
pub(crate) const BUILT_RESULT_BYTES_MAX: usize = 64 << 10;

/// Bytes of a reply that are passed to the connection at once. With the headers before them they
/// fit into the 128 KiB buffer that actix keeps for a connection. Larger parts allocate that buffer
/// each time; smaller ones cost more system calls (`load-tests/compare`, full blocks).
pub(crate) const CHUNK_BYTES: usize = 120 << 10;

/// Bytes of a reply that a connection has in its buffer at most: actix asks for the next part while
/// it has less than 32 KiB of the last one.
pub(crate) const BUFFERED_BYTES_MAX: usize = CHUNK_BYTES + (32 << 10);

/// Bytes of a reply that TLS has in its own buffer besides, at most: rustls' default.
pub(crate) const TLS_BUFFERED_BYTES_MAX: usize = 64 << 10;

/// Longest key that a connection remembers, in bytes: three times as long as those that the
/// program makes. A longer one is looked up with each request.
pub(crate) const LAST_KEY_BYTES_MAX: usize = 128;

/// Longest JSON Web Token that is read, in bytes: it has three claims, and those of an issuer's
/// own.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;

/// How much the clocks of a token's issuer and of this machine may differ: its `exp` counts that
/// much later, and its `nbf` that much earlier.
pub const TOKEN_LEEWAY: Duration = Duration::from_secs(60);

/// Tokens that one worker has verified and need not verify again: some 800 KB. To verify one takes
/// as long as some cheap requests.
pub(crate) const VERIFIED_TOKENS_MAX: usize = 4_096;

/// Tokens of one key that one worker verifies in vain in a row for one network, before the next one
/// from there has to wait: pages of an office whose tokens have ended at once.
pub(crate) const TOKEN_REFUSALS_MAX: u32 = 20;

/// Time after which one more is verified. With [`TOKEN_NETWORKS_MAX`] and [`TOKEN_KEYS_MAX`],
/// strangers cause at most 577 verifications a second and worker: some 5% of its time with ES256,
/// a quarter with RSA keys of 8,192 bits.
pub(crate) const TOKEN_REFUSAL_EVERY: Duration = Duration::from_secs(1);

/// Networks, each of one key, whose tokens are counted one by one on a worker. Beyond that, all
/// others of a key are counted together.
pub(crate) const TOKEN_NETWORKS_MAX: usize = 512;

/// Keys for which networks beyond [`TOKEN_NETWORKS_MAX`] are counted. Beyond that, all others are
/// counted together.
pub(crate) const TOKEN_KEYS_MAX: usize = 64;

/// Longest `X-Request-Id` that is returned, in bytes: a UUID has 36, a trace id with its span 55.
pub(crate) const REQUEST_ID_BYTES_MAX: usize = 128;

/// How long a client should wait, in seconds, where nobody knows how long what is missing will be:
/// there is no block yet, nodes are busy, the store of a fleet is away, or there are too many
/// sessions or filters. Where work waits in a queue, or permits or memory are in use, the wait is
/// measured.
pub(crate) const RETRY_AFTER_SECONDS: u32 = 1;

/// Longest id of a request, in bytes, that an error repeats: refusals hold no more than this. The
/// error of a request with a longer one has `null`.
pub(crate) const ERROR_ID_BYTES_MAX: usize = 4 << 10;

/// How long a request waits for the block that its client has seen at another process: some ten
/// times as long as a block takes from one process to the next.
pub(crate) const MIN_BLOCK_WAIT: Duration = Duration::from_secs(1);

/// The most that can be given for it: a process that is further behind is not ready, and a balancer
/// asks another one.
pub(crate) const MIN_BLOCK_WAIT_MAX: Duration = Duration::from_secs(10);

/// Requests of the process that wait for a block at a time: those of a second at 4,000 requests a
/// second. One that waits holds its body and its connection, which have bounds of their own.
pub(crate) const BLOCK_WAITS_MAX: usize = 4_096;

/// The same for one tenant, a quarter: the others have places too.
pub(crate) const BLOCK_WAITS_OF_TENANT_MAX: usize = 1_024;

/// Memory of a batch's results, in bytes, after which its tenant is charged for more.
pub(crate) const CHARGED_BATCH_STEP: usize = 1 << 20;

/// Requests a second, of all clients together, that are traced because their `traceparent` says
/// that the client records its own span. Beyond that, `--otlp-sample-ratio` decides.
pub(crate) const PARENT_TRACES_PER_SECOND: u32 = 20;

/// Items of a batch that have spans of their own in its trace: enough to see what took long.
pub(crate) const TRACED_ITEMS_MAX: usize = 64;

/// Spans that wait for the collector, of some 500 bytes each. Further ones are dropped.
pub(crate) const TRACE_QUEUE_SPANS: usize = 8_192;

/// Spans that are sent to the collector at once, as by other exporters of OpenTelemetry.
pub(crate) const TRACE_BATCH_SPANS: usize = 512;

/// How often spans are sent to the collector, if there are fewer than a batch.
pub(crate) const TRACE_EXPORT_EVERY: Duration = Duration::from_secs(1);

/// Longest wait for the collector's answer. The spans are lost then.
pub(crate) const TRACE_EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest time for which the end of the process waits for spans to be sent.
pub(crate) const TRACE_FLUSH_MAX: Duration = Duration::from_secs(2);

/// Shortest time between two warnings that the collector does not take spans: one that fails and
/// recovers again and again does not fill the log.
pub(crate) const TRACE_WARNING_EVERY: Duration = Duration::from_secs(60);
