//! Fleets of real processes: nearheads over one Redis, and a geth whose head the test chooses.
//!
//! | file | what it tests |
//! |---|---|
//! | `following` | replicas answer as geth does, after each change of the head |
//! | `leading` | leaders that are killed, paused or ended |
//! | `shared_state` | state that one process asks of a node is there for all |
//! | `store` | a store that is restarted, and what others write into it |
//!
//! `redis` is a Redis of a test's own; `stage` has it, geth and the processes.

mod following;
mod leading;
mod redis;
mod shared_state;
mod stage;
mod store;
