//! The upstreams of one chain, which are followed until a signal, and later again.

use std::sync::Arc;

use alloy_primitives::B256;
use tokio::sync::{mpsc, oneshot};

use super::{
    StateFollow, StateSource,
    agree::{Point, Policy, Quorum, highest},
    chain::Chain,
    follow::{FollowConfig, FollowError, Follower, Upstream},
    health::FaultReport,
    reporter::Reporter,
    standing::Standing,
    state::following::StateFollower,
    tracker_window::TrackerWindow,
    verified::{UnknownTransaction, VerifiedUpstream},
};
use crate::source::{SourceError, SourceLink};

/// What an upstream answers to a cheap question.
pub(crate) enum UpstreamAnswer {
    /// The id of its chain.
    ChainId(u64),
    /// The hash of its block of a number, if it has one.
    Hash(Option<B256>),
}

/// The upstreams of one chain. They are followed again and again, never twice at a time.
pub(crate) struct Following {
    pub(super) upstreams: Vec<VerifiedUpstream>,
    pub(super) unknown_transaction: UnknownTransaction,
    pub(super) config: FollowConfig,
    pub(super) policy: Policy,
    /// The block that was finalized before this process started.
    pub(super) finalized: Option<(u64, B256)>,
    /// The block that was safe before this process started.
    pub(super) safe: Option<(u64, B256)>,
    /// The blocks that the operator trusts.
    pub(super) trusted: Vec<(u64, B256)>,
    pub(super) state: StateSource,
    pub(super) state_follow: StateFollow,
    pub(super) standing: Arc<Standing>,
    pub(super) fault_reports: mpsc::Receiver<FaultReport>,
}

impl Following {
    /// Follows from what the window holds, until `ended` has a message or its sender is dropped.
    /// The newest finalized block that the window shows stays canonical. The higher of its safe
    /// block and the saved one stays safe while it is canonical.
    ///
    /// # Errors
    /// The head tracker ends, a call panics, or [`SourceError::UnknownTransaction`]: before a block
    /// was readable, every upstream was at fault, one of them for a transaction of an unknown type.
    pub(crate) async fn run(
        &mut self,
        link: SourceLink,
        window: TrackerWindow,
        ended: oneshot::Receiver<()>,
    ) -> Result<(), SourceError> {
        let held = link.head.load();
        let shown = held.as_ref().and_then(|held| held.finalized());
        let newest = |at: &(u64, B256)| self.finalized.is_none_or(|known| known.0 < at.0);
        if let Some(shown) = shown.filter(newest) {
            self.finalized = Some(shown);
        }
        if let Some(held) = held {
            self.safe = safe_after(&*held, held.safe(), self.safe);
        }
        let nodes = self.upstreams.len();
        let authority = Quorum::new(self.policy, nodes, self.finalized, self.trusted.clone())
            .with_saved_safe(self.safe);
        let (mut reporter, mut refused) = Reporter::new(
            link.clone(),
            nodes,
            Arc::clone(&self.standing),
            self.unknown_transaction.clone(),
        );
        let handler = Box::new(move |event| reporter.report(event));
        let state_follower = StateFollower::of(&self.state, self.state_follow, link);
        if let Some(state_follower) = state_follower {
            // It ends with the window's sender, which the follower has.
            tokio::spawn(state_follower.run(window.readable()));
        }
        let upstreams = self.upstreams.clone();
        let follower = Follower::new(upstreams, window, authority, self.config, handler);
        let following = follower.run(&mut self.fault_reports, ended);
        let outcome = tokio::select! {
            outcome = following => outcome,
            Ok(reason) = &mut refused => {
                Err(FollowError::Window(SourceError::UnknownTransaction { reason }))
            }
        };
        match outcome {
            Ok(()) => Ok(()),
            Err(FollowError::Window(error)) => Err(error),
            Err(error @ FollowError::Panicked) => Err(SourceError::Upstream(error.to_string())),
        }
    }

    /// How many upstreams there are.
    pub(crate) const fn nodes(&self) -> usize {
        self.upstreams.len()
    }

    /// Notes that nothing is followed any more: what upstreams said of the head is over.
    pub(crate) fn rest(&self) {
        self.standing.rest();
    }

    /// Asks one upstream one cheap question: the hash of its block of this number, or without a
    /// number its chain id. `None` if there is no such upstream.
    pub(crate) fn ask(
        &self,
        upstream: usize,
        number: Option<u64>,
    ) -> Option<impl Future<Output = Result<UpstreamAnswer, String>> + Send + 'static> {
        let upstream = self.upstreams.get(upstream)?.clone();
        Some(async move {
            let answer = match number {
                Some(number) => upstream.hash_at(number).await.map(UpstreamAnswer::Hash),
                None => upstream.chain_id().await.map(UpstreamAnswer::ChainId),
            };
            let named = |error| format!("{}: {error}", upstream.name());
            answer.map_err(named)
        })
    }
}

/// The safe block to go on from: the higher of the window's and the saved one, which counts unless
/// the window has another block of its number.
fn safe_after<C: Chain>(held: &C, shown: Option<Point>, saved: Option<Point>) -> Option<Point> {
    let may_be_canonical = |(number, hash): &Point| {
        held.hash_at(*number)
            .is_none_or(|canonical| canonical == *hash)
    };
    highest(shown, saved.filter(may_be_canonical))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window with the blocks 90 to 100.
    struct Held;

    /// The block of this number.
    fn at(number: u64) -> Point {
        (number, B256::with_last_byte(1))
    }

    /// Another block of this number.
    fn other(number: u64) -> Point {
        (number, B256::with_last_byte(2))
    }

    impl Chain for Held {
        fn head(&self) -> Point {
            at(100)
        }

        fn oldest(&self) -> u64 {
            90
        }

        fn hash_at(&self, number: u64) -> Option<B256> {
            (90..=100).contains(&number).then_some(at(number).1)
        }
    }

    #[test]
    fn the_higher_safe_block_counts_unless_the_window_refutes_it() {
        for (shown, saved, expected) in [
            (None, None, None),
            (Some(at(95)), None, Some(at(95))),
            (None, Some(at(97)), Some(at(97))),
            (Some(at(97)), Some(at(95)), Some(at(97))),
            (Some(at(95)), Some(at(97)), Some(at(97))),
            // The window has not got as far.
            (Some(at(95)), Some(at(105)), Some(at(105))),
            (Some(at(95)), Some(other(97)), Some(at(95))),
            (None, Some(other(97)), None),
            // The window has left both behind.
            (Some(at(80)), Some(at(85)), Some(at(85))),
        ] {
            assert_eq!(
                safe_after(&Held, shown, saved),
                expected,
                "{shown:?} {saved:?}"
            );
        }
    }
}
