//! What administrators do from a terminal, on a data folder and on a running service.
//!
//! | file | tests |
//! |---|---|
//! | `place` | where a command works, and how a test runs one |
//! | `example` | the examples of docs/commands.md |
//! | `documented` | each example, run on both places |
//! | `refused` | what is refused, with exit code and message |
//! | `answers` | JSON, secrets, keys that work |
//! | `prompted` | questions at a terminal |

mod answers;
mod documented;
mod example;
mod place;
#[cfg(feature = "all-tests")]
mod prompted;
mod refused;
