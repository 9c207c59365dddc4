//! What the follower reports.

use std::time::Duration;

use nearhead_chain::window::SettledBlocks;

use crate::upstream::{
    agree::Choice,
    health::{CallClass, UpstreamId, UpstreamState},
};

/// Something that happened, for the upstreams' standing, metrics and progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// What becomes of the head, or how many upstreams agree, has changed.
    Decided {
        /// What becomes of the head.
        choice: Choice,
        /// How many upstreams agree.
        agreeing: usize,
    },
    /// An upstream contradicts a quorum.
    Dissent(UpstreamId),
    /// This upstream gave the newest head. It is asked first for state and for older blocks.
    Preferred(UpstreamId),
    /// The safe or finalized block to save has changed.
    Settled(SettledBlocks),
    /// An upstream is at fault or limits our rate, and is backed off for one class of calls.
    Failed {
        /// The upstream.
        upstream: UpstreamId,
        /// The class.
        class: CallClass,
        /// The fault's label, or that of the check that a block failed; `None`: the upstream limits
        /// our rate.
        reason: Option<&'static str>,
        /// How long it is backed off; zero for a fault that changes nothing else.
        wait: Duration,
    },
    /// The window started, or was reset, with a block of this number.
    WindowStarted(u64),
    /// The head advanced to the block of this number.
    Advanced {
        /// The number.
        number: u64,
        /// How long ago it was first named by the upstream that gave it.
        named_ago: Duration,
    },
    /// This many blocks below the oldest that is held are still to be fetched.
    BackfillRemaining(u64),
    /// An upstream's state has changed.
    State {
        /// The upstream.
        upstream: UpstreamId,
        /// Its new state.
        state: UpstreamState,
    },
}

/// Receives every event. Called often, so it must not block.
pub(crate) type EventHandler = Box<dyn FnMut(Event) + Send>;
