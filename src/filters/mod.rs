//! Filters: each time that a client asks, what has changed since it asked last. A filter has a
//! place in the chain and no data, so that what it costs does not grow with what was missed.
//!
//! | file | what it is |
//! |---|---|
//! | `filter` | one filter: its owner, what it is for, its place in the chain |
//! | `advance` | a filter's move in the chain, which is taken back unless its answer is sent |
//! | `error` | why a filter has no answer |
//! | `filter_id` | the id that a client sees |
//! | `all_filters` | all filters of a service |
//! | `filter_watch` | forgets those that nobody asks about |
//!
//! Filters are shared by all workers. A lock is held to look one up, or to read or move its place,
//! and never while its logs are searched.

mod advance;
mod all_filters;
mod error;
mod filter;
mod filter_id;
mod filter_watch;
#[cfg(test)]
mod tests;

pub(crate) use advance::{Advance, Advances};
pub use all_filters::Filters;
pub(crate) use all_filters::InstallError;
pub use error::FilterError;
pub(crate) use filter::{Filter, FilterKind, Place};
pub(crate) use filter_id::FilterId;
pub(crate) use filter_watch::FilterWatch;
