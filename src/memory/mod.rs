//! The memory of the process: how much of it is in use, of how much, and what follows.
//!
//! | file | content |
//! |---|---|
//! | `memory_source` | reads the limit, the use and the pressure from cgroups and from the machine |
//! | `memory_watch` | refuses heavy work, and ends replies of slow clients, when memory runs out |

mod memory_source;
mod memory_watch;

pub(crate) use memory_source::MemorySource;
pub(crate) use memory_watch::{MemoryWatch, auto_reply_bytes, auto_state_bytes};
