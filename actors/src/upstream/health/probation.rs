//! The state of a probation; `forks` decides with it.

use super::upstream_state::{Moment, UpstreamId};

/// The probation of the followed upstream: see the module `forks`.
#[derive(Clone, Debug)]
pub(super) struct Probation {
    /// Upstreams that were on the served chain when the followed one was chosen.
    pub(super) witnesses: Vec<UpstreamId>,
    /// The upstream that was followed before.
    pub(super) predecessor: Option<UpstreamId>,
    /// Since when the predecessor has named a different block at the height of a served one.
    pub(super) contradicted_since: Option<Moment>,
    /// Until when the predecessor may still contradict; `None` until the followed upstream has
    /// advanced the head.
    pub(super) until: Option<Moment>,
}
