//! Filters: each time that a client asks, what has changed since it asked last. A filter has a
//! place in the chain and no data, so that what it costs does not grow with what was missed.
//!
//! | file | what it is |
//! |---|---|
//! | `filter` | one filter: its owner, what it is for, who has its place |
//! | `filter_kind` | what it is for |
//! | `place` | where in the chain it continues |
//! | `advance` | a filter's move in the chain, which is taken back unless its answer is sent |
//! | `error` | why a filter has no answer |
//! | `filter_id` | the id that a client sees |
//! | `all_filters` | all filters of a service |
//! | `stored_filters` | the filters in the store of a fleet, which all of its processes answer |
//! | `criteria` | what a filter is for, as the store has it |
//! | `filter_watch` | forgets those that nobody asks about |
//!
//! Filters are shared by all workers. A lock is held to look one up, or to read or move its place,
//! and never while its logs are searched.
//!
//! In a fleet, each filter and its place are in the store. A process keeps what a filter is for
//! once it has read it, and asks the store for the place at each question.

mod advance;
mod all_filters;
mod criteria;
mod error;
mod filter;
mod filter_id;
mod filter_kind;
mod filter_watch;
mod place;
mod stored_filters;
#[cfg(test)]
mod tests;

pub(crate) use advance::{Advance, Advances};
pub use all_filters::Filters;
pub(crate) use all_filters::InstallError;
pub use error::{FilterError, StoreAway};
pub(crate) use filter::Filter;
pub(crate) use filter_id::FilterId;
pub(crate) use filter_kind::FilterKind;
pub(crate) use filter_watch::FilterWatch;
pub(crate) use place::Place;
pub(crate) use stored_filters::StoredFilters;
