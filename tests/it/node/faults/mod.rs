//! Faults of all that the service stands on, one after another, on the real process.
//!
//! | file | what fails |
//! |---|---|
//! | `world` | nothing: a node, a proxy before it, and nearhead; what has to hold after each fault |
//! | `node` | the node, and the connection to it |
//! | `process` | nearhead itself: stopped, killed, restarted again and again |
//! | `machine` | the clock, the names of hosts, room on the disk, file descriptors, memory |
//! | `disk` | the disk: it gives errors, or does not answer |
//!
//! After each fault, nothing false was served, nearhead is ready again within the time that
//! docs/operations.md states, and it has no more descriptors, threads and memory than before.

mod disk;
mod machine;
mod node;
mod process;
mod world;
