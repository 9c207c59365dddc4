//! Bounds of what processes of a fleet accept from the store, which others may have written.

use std::time::Duration;

/// Bytes of one entry: the largest block that a client of Ethereum accepts, with its receipts,
/// and room to spare.
pub const ENTRY_BYTES_MAX: usize = 32 << 20;

/// Bytes after which a part of a snapshot is full: one part is one command to the store, which
/// serves nobody else meanwhile.
pub const PART_BYTES: usize = 4 << 20;

/// Blocks of one entry, and blocks that one entry reverts: the window.
pub const ENTRY_BLOCKS_MAX: usize = 128;

/// Parts of one snapshot: one for each block of the window.
pub const SNAPSHOT_PARTS_MAX: u32 = 128;

/// Bytes of one snapshot, which a replica holds until its last part is there.
pub const SNAPSHOT_BYTES_MAX: usize = 512 << 20;

/// Changes after which a leader appends another snapshot: a replica that starts reads at most one
/// snapshot and as many changes.
pub const SNAPSHOT_EVERY: u64 = 128;

/// Changes between two snapshots that replicas want: what wants one is not authenticated.
pub const SNAPSHOT_GAP_MIN: u64 = 8;

/// Entries that stay before the latest complete snapshot, for replicas that lag: on mainnet, six
/// minutes.
pub const MARGIN_ENTRIES: u64 = 32;

/// Bytes of those entries.
pub const MARGIN_BYTES: usize = 64 << 20;

/// Entries in the store, whatever they are: what others have put there is removed with the oldest.
/// Two snapshots, the changes between them, and the margin.
pub const STORE_ENTRIES_MAX: u64 = 1024;

/// The highest epoch: Lua's numbers are exact up to here.
pub const EPOCH_MAX: u64 = (1 << 53) - 1;

/// Epochs by which the store may be ahead of what a process has seen. Who writes a high epoch there
/// uses up no more of them with each change of the leader.
pub const EPOCH_LEAP_MAX: u64 = 1 << 32;

/// Time for which a lease is valid unless it is renewed. It is how long a fleet is without a leader
/// after one died, and how long a leader may be cut off and stay one.
pub const LEASE: Duration = Duration::from_secs(3);

/// The longest lease that is taken for one: a key that others have put there may never expire.
pub const LEASE_MAX: Duration = Duration::from_secs(10);

/// Time for one step of connecting to the store: a socket with TLS, or one small call. A server
/// that hangs is noticed soon enough to try another one before the lease is over.
pub const CONNECT_TIME_MAX: Duration = Duration::from_millis(500);

/// Time for a small call to the store, with the wait for a connection. A leader that is not
/// answered asks twice more before its lease is over.
pub const CALL_TIME_MAX: Duration = Duration::from_millis(750);

/// Time for appending an entry: the largest one takes 0.3 s at 1 Gbit/s. After a lease, it is
/// refused.
pub const APPEND_TIME_MAX: Duration = LEASE;

/// Time for reading entries, after the wait for the first one.
pub const READ_TIME_MAX: Duration = Duration::from_secs(5);

/// Pause between two connections to the store, if callers repeat what fails.
pub const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes of a small reply of the store: what it says of itself has 6 KB.
pub const REPLY_BYTES_MAX: usize = 64 << 10;

/// Entries of one read by a replica that has read all before. One that has not reads one at a time.
pub const READ_ENTRIES_MAX: usize = 4;

/// Bytes of one read: as many parts of a snapshot, and room to spare. If there are more, the next
/// entry is read alone.
pub const READ_BYTES_MAX: usize = 24 << 20;

/// Bytes of a record of a tenant, key or account. A key with full allowlists has some 20 KB.
pub const STORED_RECORD_BYTES_MAX: usize = 64 << 10;

/// Bytes of a manifest, which has some 150: what is longer is none.
pub const MANIFEST_BYTES_MAX: usize = 1 << 10;

/// Records of one read of the store.
pub const READ_RECORDS_MAX: u64 = 64;

/// Changes of one read. If there are more, all records are read.
pub const CHANGES_READ_MAX: u64 = 128;

/// Changes whose names are kept: a process that was away for longer reads all records.
pub const CHANGES_KEPT: u64 = 4096;

/// Bytes of a reply with records: as many as are read, and as many more, because the store may give
/// more of them.
pub const RECORDS_BYTES_MAX: usize = 16 << 20;

/// Bytes of one write: what is put back after a loss, all at once.
pub const COMMIT_BYTES_MAX: usize = 32 << 20;

/// Time for one write of that size.
pub const COMMIT_TIME_MAX: Duration = Duration::from_secs(2);

/// Bytes of one item of the state, a trie node, a code or an access list: the largest code of any
/// chain is smaller, and so is the list of a usual block. A longer list is not shared.
pub const ITEM_BYTES_MAX: usize = 512 << 10;

/// Items of one call to the store: a proof has some ten, and others wait for the call.
pub const ITEMS_AT_ONCE: usize = 64;

/// Bytes of all items of one reply: as many nodes, and some codes. What does not fit is asked for
/// again.
pub const ITEMS_BYTES_MAX: usize = 8 << 20;

/// Bytes of each of the two halves that hold items in the store. When one is full, the other one,
/// which is older, is emptied. A mainnet block adds some 2 MB.
pub const ITEMS_HALF_BYTES: u64 = 128 << 20;

/// Bytes of a want: some 256 keys.
pub const WANT_BYTES_MAX: usize = 16 << 10;

/// Accounts and slots of a want.
pub const WANT_KEYS_MAX: usize = 256;

/// Wants that wait in the store. The newest are served first, because somebody waits for them, and
/// the oldest are dropped: who has one repeats it.
pub const WANTS_MAX: u64 = 1024;

/// Longest wait of a read for state from other processes: two turns and one call. A want is kept as
/// long.
pub const STATE_WAIT_MAX: Duration = Duration::from_millis(2500);

/// Longest wait for the block of a want: heads reach processes some 100 ms apart.
pub const WANT_BLOCK_WAIT_MAX: Duration = Duration::from_millis(500);

/// Rounds in which one read loads items from the store, a level of the trie each. No real path has
/// more than some 20 levels: more rounds mean that items are evicted as they arrive.
pub const LOAD_ROUNDS_MAX: usize = 256;

/// Time for which one process alone asks a node for some state.
pub const TURN: Duration = Duration::from_secs(1);

/// Bytes that are read of a turn: an owner, or a sealed report that state is unavailable.
pub const TURN_BYTES_MAX: usize = 128;

/// Time for which a report that state is unavailable counts: five looks of a process that waits.
pub const UNAVAILABLE_LIFETIME: Duration = Duration::from_millis(250);

/// Bytes of what a leader says of blocks below its window: a genesis has some 600, and has no
/// transactions.
pub const BELOW_BYTES_MAX: usize = 64 << 10;

/// Time after which a leader writes it again, though nothing has changed: the store may have lost
/// it, or another one may have overwritten it.
pub const BELOW_EVERY: Duration = Duration::from_secs(60);

/// Longest pause between two looks for it by a process that lacks some of it.
pub const BELOW_PAUSE_MAX: Duration = Duration::from_secs(60);

/// Bytes of a fleet's key. A shorter one could be guessed by who has an entry.
pub const KEY_BYTES_MIN: usize = 32;

/// Bytes of a sealed record of any kind.
pub const RECORD_BYTES_MAX: usize = 1 << 20;

/// Bytes of a record's name.
pub const RECORD_NAME_BYTES_MAX: usize = 256;

/// Records whose revisions are remembered: as many tenants and keys as there may be, twice.
pub const RECORDS_MAX: usize = 1 << 20;

/// Processes of one fleet: all of them read what all of them write.
pub const PROCESSES_MAX: usize = 1024;

/// Bytes of what a process writes of itself: four texts, some numbers, and the seal.
pub const PRESENCE_BYTES_MAX: usize = 512;

/// Bytes of one text that a process writes of itself.
pub const PRESENCE_TEXT_BYTES_MAX: usize = 64;

/// The longest time for which what a process writes of itself counts: five periods of a fleet of
/// as many processes as there may be.
pub const PRESENCE_MAX: Duration = Duration::from_secs(60);

/// Bytes of a reply with all processes.
pub const PRESENCE_REPLY_BYTES_MAX: usize = PROCESSES_MAX * (PRESENCE_BYTES_MAX + 16);

/// Quotas of one call to the store: some 0.5 ms of its time.
pub const QUOTAS_PER_CALL_MAX: usize = 128;

/// Quotas that are borrowed for at once by one process: those that were used within a second. One
/// that finds no room goes on as if the store were away.
pub const QUOTAS_LISTED_MAX: usize = 1 << 16;

/// Cells of one part of what a process counted: some 50 KB. A part is written as a whole.
pub const USAGE_PART_CELLS: usize = 1024;

/// Bytes of one part: as many cells with the longest numbers, names of methods and owners.
pub const USAGE_PART_BYTES_MAX: usize = 512 << 10;

/// Cells that a process holds until they are written and their period is over: some 40 MB. If there
/// is no room, it forgets the minutes that are written, then the hours, days and last uses above
/// [`USAGE_COARSE_PARTS_KEPT`]. What it forgot begins again in another part.
pub const USAGE_CELLS_MAX: usize = 1 << 17;

/// Parts of one hour, day or last use that a process does not forget while the period lasts: 24,576
/// cells each, so that all of them leave room for minutes.
pub const USAGE_COARSE_PARTS_KEPT: usize = 24;

/// Cells of hours and days that are written as often as those of minutes, which is every seven
/// seconds: 50 KB. If there are more, they are written once a minute.
pub const USAGE_COARSE_CELLS_SMALL: usize = 1024;

/// Time between two writes of hours and days, if they are many.
pub const USAGE_COARSE_EVERY: Duration = Duration::from_secs(60);

/// Bytes of usage by minute in the store, with what it needs to find it. If there is more, the
/// oldest minutes are removed, and nothing else.
pub const USAGE_MINUTES_BYTES_MAX: u64 = 128 << 20;

/// Bytes of usage by hour in the store. If there is more, the oldest hours are removed.
pub const USAGE_HOURS_BYTES_MAX: u64 = 32 << 20;

/// Bytes of usage by day in the store. If there is more, the oldest days are removed.
pub const USAGE_DAYS_BYTES_MAX: u64 = 64 << 20;

/// Bytes in the store of when keys were last used. If there is more, the oldest are removed.
pub const USAGE_LAST_BYTES_MAX: u64 = 32 << 20;

/// Bytes of one call that writes usage: the store serves nobody else meanwhile.
pub const USAGE_WRITE_BYTES: usize = 1 << 20;

/// How far a clock of the fleet may be ahead: periods of usage that begin later are not read, and
/// removed, because a foreign writer has put them there.
pub const USAGE_AHEAD_MAX: Duration = Duration::from_secs(2 * 86_400);

/// Pages of one read of usage: more than there are if all parts are the shortest. One that has not
/// come to its end by then fails.
pub const USAGE_PAGES_MAX: usize = 512;

/// Time after which one read of usage asks for no more pages, and fails: the tenants' owner does
/// nothing else meanwhile.
pub const USAGE_TIME_MAX: Duration = Duration::from_secs(3);

/// Parts of one read of usage, and of one removal of what is no longer kept.
pub const USAGE_READ_PARTS: u64 = 1024;

/// Bytes after which one read of usage ends; the next one goes on.
pub const USAGE_READ_BYTES: usize = 2 << 20;

/// Bytes of what a filter is for, sealed: 5,000 addresses and topics, of 33 bytes each.
pub const FILTER_CRITERIA_BYTES_MAX: usize = 192 << 10;

/// Bytes of a filter's place, sealed: it has some 130.
pub const FILTER_PLACE_BYTES_MAX: usize = 256;

/// Time for which the store keeps a filter after the last question about it was noted there: five
/// minutes, and the time for which a question need not be noted again.
pub const FILTER_KEPT: Duration = Duration::from_secs(330);

/// Time after which a question about a filter is noted again, so that most questions write nothing.
pub const FILTER_NOTED_EVERY: Duration = Duration::from_secs(30);

/// Bytes that the store needs for a filter besides what it is for (measured): its place, its name
/// three times, and tables.
pub const FILTER_BESIDES: u64 = 900;

/// Sizes in bytes as which filters count: each as the next larger one. The store counts how many
/// there are of each size, so that there is no sum that could be wrong.
pub const FILTER_SIZES: [u64; 5] = [1_280, 4 << 10, 16 << 10, 64 << 10, 256 << 10];

/// Filters in the store: as many as one process without a fleet has.
pub const STORED_FILTERS_MAX: u64 = 100_000;

/// Bytes of all filters in the store, by the sizes as which they count.
pub const STORED_FILTERS_BYTES_MAX: u64 = 128 << 20;

/// Filters of one tenant in the store.
pub const STORED_FILTERS_PER_TENANT_MAX: u64 = 10_000;

/// Bytes of the filters of one tenant in the store, by the sizes as which they count: as many of
/// the smallest, and some of the largest.
pub const STORED_FILTERS_BYTES_PER_TENANT_MAX: u64 = 16 << 20;

/// Names of filters that one call looks at, to forget those that the store has no more.
pub const FILTER_NAMES_TIDIED: u64 = 32;

/// Calls about filters that are sent to the store together: some 1 ms of its time.
pub const FILTER_CALLS_AT_ONCE: usize = 64;

/// KiB of those calls, with the answers that they may have; one larger call is sent as well.
pub const FILTER_CALLS_AT_ONCE_KIB: u32 = 1 << 10;

/// KiB of calls about filters that wait in one process, with the answers that they may have: some
/// ten thousand questions.
pub const FILTER_CALLS_KIB_MAX: u32 = 32 << 10;

/// Time for a call about filters once it is sent: a filter may have moved although no answer came,
/// so that the answer is waited for while that makes sense. All but moves are given up after
/// [`CALL_TIME_MAX`].
pub const FILTER_MOVE_TIME_MAX: Duration = Duration::from_secs(3);

/// Time for which the return of a filter to the place before an answer that was not sent is tried
/// again: after that, its client misses what the answer had.
pub const FILTER_RETURN_MAX: Duration = Duration::from_secs(60);

/// Time after a filter's move in which a process that does not know its block is taken to be
/// behind: processes have the same head within milliseconds, or after a change of the leader.
pub const FILTER_MOVE_RECENT: Duration = Duration::from_secs(5);
