//! Sources: they verify blocks and feed the head tracker, each on a thread of its own.
//!
//! `dev` and `files` are here; upstreams are followed in [`crate::upstream`]. All of them implement
//! [`Source`].

mod blocking_tracker;
mod dev;
mod error;
mod event;
mod files;
mod link;
mod tracker_handle;

#[cfg(test)]
mod tests;

pub use dev::DevSource;
pub use error::SourceError;
pub use event::{Progress, ProgressReport, SourceEvent};
pub use files::FilesSource;
pub(crate) use files::read_genesis_file;
pub use link::{Source, SourceLink};
pub use tracker_handle::TrackerHandle;
