//! Faults of all that the service stands on, one after another, on the real process.
//!
//! | file | what fails |
//! |---|---|
//! | `world` | nothing: a node, a proxy before it, and nearhead; what has to hold after each fault |
//! | `readers` | nothing: clients that read heads and state all the time, and know what is true |
//! | `node` | the node, and the connection to it |
//! | `proxy_process` | the process of a proxy between nearhead and its node |
//! | `process` | nearhead itself: stopped, killed, restarted again and again |
//! | `killed` | nearhead is killed at any moment, through reorgs, with a disk that works and with one that fails |
//! | `machine` | the clock, the names of hosts, room on the disk, file descriptors |
//! | `memory` | memory: clients ask for more than there is, and the kernel kills nearhead |
//! | `disk` | the disk: it gives errors, or does not answer |
//!
//! After each fault, nothing false was served, nearhead is ready again within the time that
//! docs/operations.md states, and it has no more descriptors, threads and memory than before.

mod disk;
mod killed;
mod machine;
mod memory;
mod node;
mod process;
mod proxy_process;
mod readers;
mod world;
