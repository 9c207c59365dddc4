//! Reports the follower's events to the standing of the upstreams and to the service.

use std::{collections::HashSet, sync::Arc, time::Instant};

use tokio::sync::oneshot;

use super::{
    follow::Event,
    health::{UpstreamId, UpstreamState},
    standing::Standing,
    verified::UnknownTransaction,
};
use crate::source::{Progress, SourceEvent, SourceLink};

/// Passes the follower's events on, and refuses a chain that cannot be served.
pub(super) struct Reporter {
    link: SourceLink,
    standing: Arc<Standing>,
    unknown_transaction: UnknownTransaction,
    backfill: BackfillProgress,
    start: StartAttempt,
    refuse: Option<oneshot::Sender<String>>,
}

impl Reporter {
    /// A reporter for this many upstreams. The receiver gets the reason if the chain is refused
    /// because of a transaction of an unknown type.
    pub(super) fn new(
        link: SourceLink,
        upstreams: usize,
        standing: Arc<Standing>,
        unknown_transaction: UnknownTransaction,
    ) -> (Self, oneshot::Receiver<String>) {
        let (refuse, refused) = oneshot::channel();
        let this = Self {
            standing,
            unknown_transaction,
            backfill: BackfillProgress::default(),
            start: StartAttempt {
                // A window that is held shows that the chain can be served.
                is_over: link.head.load().is_some(),
                ..StartAttempt::new(upstreams)
            },
            refuse: Some(refuse),
            link,
        };
        (this, refused)
    }

    /// Passes one event on.
    pub(super) fn report(&mut self, event: Event) {
        self.standing.record(&event, Instant::now());
        if self.start.fails_with(&event)
            && let Some(reason) = self.unknown_transaction.lock().take()
            && let Some(refuse) = self.refuse.take()
        {
            // Sending fails if following has ended.
            let _ = refuse.send(reason);
        }
        let reported = match event {
            Event::BackfillRemaining(_) | Event::WindowStarted(_) => {
                self.backfill.progress(&event).map(SourceEvent::Progress)
            }
            Event::Failed {
                upstream,
                reason: Some(reason),
                ..
            } => Some(SourceEvent::UpstreamFault { upstream, reason }),
            Event::Failed { upstream, .. } => Some(SourceEvent::UpstreamLimited { upstream }),
            Event::Advanced { named_ago, .. } => Some(SourceEvent::HeadDelay(named_ago)),
            Event::State { upstream, state } => Some(SourceEvent::UpstreamState {
                upstream,
                state: state.label(),
            }),
            Event::Decided { choice, agreeing } => Some(SourceEvent::HeadChoice {
                choice: choice.label(),
                agreeing,
                needed: self.standing.agreement().needed,
            }),
            Event::Dissent(upstream) => Some(SourceEvent::Dissent { upstream }),
            Event::Settled(blocks) => Some(SourceEvent::Settled(blocks)),
            Event::Preferred(_) => None,
        };
        if let Some(reported) = reported {
            self.link.report(reported);
        }
    }
}

/// The attempt to get a first block from any upstream.
///
/// It fails if every upstream is at fault before a block is readable. An upstream without a fault
/// so far, or one that can be asked again, may still state a block that can be served.
struct StartAttempt {
    upstreams: usize,
    /// The upstreams at fault.
    failed: HashSet<UpstreamId>,
    is_over: bool,
}

impl StartAttempt {
    fn new(upstreams: usize) -> Self {
        Self {
            upstreams,
            failed: HashSet::new(),
            is_over: false,
        }
    }

    /// Records an event, and returns whether the attempt fails with it.
    fn fails_with(&mut self, event: &Event) -> bool {
        match *event {
            Event::WindowStarted(_) => self.is_over = true,
            Event::Failed {
                upstream,
                reason: Some(_),
                ..
            } => {
                self.failed.insert(upstream);
                return !self.is_over && self.failed.len() == self.upstreams;
            }
            Event::State {
                upstream,
                state: UpstreamState::Live | UpstreamState::Lagging,
            } => {
                self.failed.remove(&upstream);
            }
            _ => {}
        }
        false
    }
}

/// The progress of backfill, computed from the number of blocks that remain.
#[derive(Default)]
struct BackfillProgress {
    total: u64,
}

impl BackfillProgress {
    /// Records an event, and returns the progress if it has changed.
    fn progress(&mut self, event: &Event) -> Option<Progress> {
        match *event {
            Event::BackfillRemaining(remaining) => {
                self.total = self.total.max(remaining);
                Some(Progress::Backfill {
                    done: self.total - remaining,
                    total: self.total,
                })
            }
            // A new window is filled from its beginning.
            Event::WindowStarted(_) => {
                self.total = 0;
                None
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::upstream::health::CallClass;

    fn failed(upstream: UpstreamId, reason: Option<&'static str>) -> Event {
        Event::Failed {
            upstream,
            class: CallClass::Blocks,
            reason,
            wait: Duration::from_secs(1),
        }
    }

    fn state(upstream: UpstreamId, state: UpstreamState) -> Event {
        Event::State { upstream, state }
    }

    #[test]
    fn a_start_fails_once_every_upstream_is_at_fault() {
        use UpstreamState::{Lagging, Limited, Live};
        let fault = Some("bad_block");
        let cases: [(&[Event], bool); 9] = [
            (&[failed(0, fault)], false),
            (&[failed(0, fault), failed(0, fault)], false),
            (&[failed(0, fault), failed(1, None)], false),
            (&[failed(0, fault), failed(1, fault)], true),
            (&[failed(0, fault), state(0, Live), failed(1, fault)], false),
            (
                &[failed(0, fault), state(0, Lagging), failed(1, fault)],
                false,
            ),
            (
                &[failed(0, fault), state(0, Limited), failed(1, fault)],
                true,
            ),
            (
                &[
                    failed(0, fault),
                    state(0, Live),
                    failed(1, fault),
                    failed(0, fault),
                ],
                true,
            ),
            (
                &[failed(0, fault), Event::WindowStarted(7), failed(1, fault)],
                false,
            ),
        ];
        for (events, expected) in cases {
            let mut start = StartAttempt::new(2);
            let has_failed: Vec<_> = events.iter().map(|event| start.fails_with(event)).collect();
            assert_eq!(has_failed.last(), Some(&expected), "{events:?}");
        }
    }

    #[test]
    fn a_failed_start_fails_again_with_every_fault() {
        let mut start = StartAttempt::new(1);
        let fault = failed(0, Some("timeout"));
        assert!(start.fails_with(&fault) && start.fails_with(&fault));
    }

    #[test]
    fn backfill_counts_from_the_beginning_of_each_window() {
        let mut backfill = BackfillProgress::default();
        let mut after = |event| backfill.progress(&event);
        assert_eq!(after(Event::WindowStarted(300)), None);
        for (remaining, done) in [(127, 0), (27, 100), (0, 127)] {
            let expected = Progress::Backfill { done, total: 127 };
            assert_eq!(after(Event::BackfillRemaining(remaining)), Some(expected));
        }
        assert_eq!(after(Event::WindowStarted(900)), None);
        let expected = Progress::Backfill { done: 0, total: 50 };
        assert_eq!(after(Event::BackfillRemaining(50)), Some(expected));
    }
}
