//! What the follower publishes about the upstreams, for the fetches of state and for the readiness
//! probe.

use std::time::Instant;

use parking_lot::Mutex;

use super::{
    agree::{Choice, Effect},
    follow::Event,
    health::{CallClass, UpstreamId, UpstreamState},
};

/// What becomes of the head, and which upstreams are asked for state; written by the follower
/// alone.
#[derive(Debug)]
pub struct Standing(Mutex<Inner>);

/// What becomes of the head, and how many upstreams agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadAgreement {
    /// What becomes of the head; `None` before the first decision.
    pub choice: Option<Choice>,
    /// How many upstreams agree.
    pub agreeing: usize,
    /// How many have to agree.
    pub needed: usize,
}

impl HeadAgreement {
    /// Whether a quorum agrees, so that the head changes or is kept.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        let stands = |choice: Choice| choice.effect() == Effect::Stand;
        self.choice.is_some_and(|choice| !stands(choice))
    }
}

#[derive(Debug)]
struct Inner {
    agreement: HeadAgreement,
    /// The upstream that gave the newest head.
    preferred: Option<UpstreamId>,
    nodes: Box<[Node]>,
}

/// The standing of one upstream.
#[derive(Clone, Debug, Default)]
struct Node {
    is_quarantined: bool,
    /// The backoffs by class of calls.
    backoffs: [Option<StandingBackoff>; CallClass::ALL.len()],
}

/// The backoff of one class of an upstream's calls.
#[derive(Clone, Copy, Debug)]
struct StandingBackoff {
    until: Instant,
    /// Whether the upstream limits our rate.
    is_limited: bool,
}

/// The upstreams to ask for state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// Their ids, in order.
    pub(super) upstreams: Vec<UpstreamId>,
    /// How many of them come before those with a fault in calls for state.
    pub(super) without_fault: usize,
    /// If other upstreams limit our rate: when the first of them may be asked again.
    pub(super) limited_until: Option<Instant>,
}

impl Standing {
    /// The standing of this many upstreams, `needed` of which have to agree.
    #[must_use]
    pub fn new(upstreams: usize, needed: usize) -> Self {
        Self(Mutex::new(Inner {
            agreement: HeadAgreement {
                choice: None,
                agreeing: 0,
                needed,
            },
            preferred: None,
            nodes: vec![Node::default(); upstreams].into(),
        }))
    }

    /// What becomes of the head.
    #[must_use]
    pub fn agreement(&self) -> HeadAgreement {
        self.0.lock().agreement
    }

    /// Forgets what was decided and who was quarantined: nobody follows the upstreams any more.
    /// Backoffs go on.
    pub(super) fn rest(&self) {
        let mut inner = self.0.lock();
        inner.agreement.choice = None;
        inner.agreement.agreeing = 0;
        for node in &mut inner.nodes {
            node.is_quarantined = false;
        }
    }

    /// Records an event.
    pub(super) fn record(&self, event: &Event, now: Instant) {
        let mut inner = self.0.lock();
        match *event {
            Event::Decided { choice, agreeing } => {
                inner.agreement.choice = Some(choice);
                inner.agreement.agreeing = agreeing;
            }
            Event::Preferred(upstream) => inner.preferred = Some(upstream),
            Event::State { upstream, state } => {
                if let Some(node) = inner.nodes.get_mut(upstream) {
                    node.is_quarantined = state == UpstreamState::Quarantined;
                }
            }
            Event::Failed {
                upstream,
                class,
                reason,
                wait,
            } => {
                // A fault that changes nothing else ends no backoff.
                let node = inner.nodes.get_mut(upstream);
                if let Some(node) = node.filter(|_| !wait.is_zero()) {
                    let until = now.checked_add(wait);
                    node.backoffs[class as usize] = until.map(|until| StandingBackoff {
                        until,
                        is_limited: reason.is_none(),
                    });
                }
            }
            Event::WindowStarted(_)
            | Event::Advanced { .. }
            | Event::BackfillRemaining(_)
            | Event::Settled(_)
            | Event::Dissent(_) => {}
        }
    }

    /// The upstreams for forwarded calls: the one that gave the newest head, then the others in the
    /// operator's order, then those that are backed off for heads or blocks. Those that are
    /// quarantined are left out.
    pub(super) fn forward_order(&self, now: Instant) -> Vec<UpstreamId> {
        let inner = self.0.lock();
        let ids = (0..inner.nodes.len()).filter(|id| !inner.nodes[*id].is_quarantined);
        let mut ids: Vec<_> = ids.collect();
        ids.sort_by_key(|id| {
            let is_out = [CallClass::Heads, CallClass::Blocks].iter().any(|class| {
                inner.nodes[*id].backoffs[*class as usize]
                    .is_some_and(|backoff| backoff.until > now)
            });
            (is_out, inner.preferred != Some(*id))
        });
        ids
    }

    /// The upstream that gave the newest head, then the others in the operator's order, then those
    /// that are backed off for heads or blocks, which may give state all the same, then those with
    /// a fault in calls for state: even they can be asked, because every answer is verified.
    /// Upstreams that limit our calls for state are left out, and so are those that are
    /// quarantined.
    pub(super) fn order(&self, now: Instant) -> Order {
        let inner = self.0.lock();
        let backoff = |id: UpstreamId, class: CallClass| {
            inner.nodes[id].backoffs[class as usize].filter(|backoff| backoff.until > now)
        };
        let of_state = |id| backoff(id, CallClass::State);
        let ids = (0..inner.nodes.len()).filter(|id| !inner.nodes[*id].is_quarantined);
        let (limited, mut upstreams): (Vec<_>, Vec<_>) =
            ids.partition(|id| of_state(*id).is_some_and(|backoff| backoff.is_limited));
        let is_out = |id| {
            let classes = [CallClass::Heads, CallClass::Blocks];
            classes.iter().any(|class| backoff(id, *class).is_some())
        };
        upstreams.sort_by_key(|id| {
            let is_preferred = inner.preferred == Some(*id);
            (of_state(*id).is_some(), is_out(*id), !is_preferred)
        });
        let without_fault = upstreams.iter().filter(|id| of_state(**id).is_none());
        Order {
            without_fault: without_fault.count(),
            upstreams,
            limited_until: limited
                .into_iter()
                .filter_map(of_state)
                .map(|it| it.until)
                .min(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn failed(upstream: UpstreamId, class: CallClass, reason: Option<&'static str>) -> Event {
        let wait = SECOND;
        Event::Failed {
            upstream,
            class,
            reason,
            wait,
        }
    }

    fn preferred(upstream: UpstreamId) -> Event {
        Event::Preferred(upstream)
    }

    fn quarantined(upstream: UpstreamId) -> Event {
        let state = UpstreamState::Quarantined;
        Event::State { upstream, state }
    }

    #[test]
    fn the_upstream_of_the_newest_head_is_asked_for_state_first_and_faulty_ones_last() {
        use CallClass::{Blocks, Heads, State};
        let fault = Some("timeout");
        let cases: [(&[Event], &[UpstreamId], bool); 14] = [
            (&[], &[0, 1, 2], false),
            (&[preferred(2)], &[2, 0, 1], false),
            (&[preferred(2), preferred(1)], &[1, 0, 2], false),
            // Who contradicts a quorum is not asked, until that is over.
            (&[preferred(2), quarantined(2)], &[0, 1], false),
            (
                &[
                    quarantined(2),
                    Event::State {
                        upstream: 2,
                        state: UpstreamState::Live,
                    },
                ],
                &[0, 1, 2],
                false,
            ),
            (&[preferred(0), failed(0, State, fault)], &[1, 2, 0], false),
            (&[preferred(1), failed(1, State, None)], &[0, 2], true),
            // A fault without a wait ends no backoff.
            (
                &[
                    failed(1, State, None),
                    Event::Failed {
                        upstream: 1,
                        class: State,
                        reason: fault,
                        wait: Duration::ZERO,
                    },
                ],
                &[0, 2],
                true,
            ),
            (
                &[
                    failed(0, State, None),
                    failed(1, State, None),
                    failed(2, State, None),
                ],
                &[],
                true,
            ),
            // Who is backed off for heads or blocks is still asked for state, after the others.
            (&[failed(0, Heads, fault)], &[1, 2, 0], false),
            (&[failed(0, Heads, None)], &[1, 2, 0], false),
            (
                &[failed(0, Blocks, fault), failed(1, Blocks, None)],
                &[2, 0, 1],
                false,
            ),
            (
                &[failed(0, State, fault), failed(1, Heads, fault)],
                &[2, 1, 0],
                false,
            ),
            (
                &[failed(0, State, None), failed(0, Heads, fault)],
                &[1, 2],
                true,
            ),
        ];
        for (events, upstreams, is_limited) in cases {
            let (standing, now) = (Standing::new(3, 2), Instant::now());
            for event in events {
                standing.record(event, now);
            }
            let faults = events.iter().filter(|event| match event {
                Event::Failed {
                    class,
                    reason,
                    wait,
                    ..
                } => *class == State && reason.is_some() && !wait.is_zero(),
                _ => false,
            });
            let expected = Order {
                upstreams: upstreams.to_vec(),
                without_fault: upstreams.len() - faults.count(),
                limited_until: is_limited.then(|| now + SECOND),
            };
            assert_eq!(standing.order(now), expected, "{events:?}");
            // Limits and faults in calls for state do not matter to forwarded calls.
            let is_of_state = |event: &&Event| matches!(event, Event::Failed { class: State, .. });
            let others = events.iter().filter(|event| !is_of_state(event));
            let without = Standing::new(3, 2);
            others.for_each(|event| without.record(event, now));
            assert_eq!(
                standing.forward_order(now),
                without.order(now).upstreams,
                "{events:?}"
            );
            // All backoffs are over.
            let later = standing.order(now + SECOND);
            assert_eq!(
                (later.upstreams.len(), later.limited_until),
                (
                    if events.last() == Some(&quarantined(2)) {
                        2
                    } else {
                        3
                    },
                    None
                ),
                "{events:?}"
            );
        }
    }

    #[test]
    fn the_last_decision_says_whether_the_head_goes_on() {
        let (standing, now) = (Standing::new(2, 2), Instant::now());
        assert!(!standing.agreement().is_reached());
        for (choice, agreeing, is_reached) in [
            (Choice::First, 2, true),
            (Choice::TooFewNodes, 1, false),
            (Choice::Contested, 2, true),
            (Choice::Finalized, 2, false),
        ] {
            standing.record(&Event::Decided { choice, agreeing }, now);
            let expected = HeadAgreement {
                choice: Some(choice),
                agreeing,
                needed: 2,
            };
            assert_eq!(standing.agreement(), expected);
            assert_eq!(standing.agreement().is_reached(), is_reached, "{choice}");
        }
    }
}
