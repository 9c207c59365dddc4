//! What the follower publishes about the upstreams, for the fetches of state and for the readiness
//! probe.

use std::time::Instant;

use parking_lot::Mutex;

use super::{
    follow::Event,
    health::{CallClass, UpstreamId},
};

/// Which upstream is followed, and which are backed off for which class of calls; written by the
/// follower alone.
#[derive(Debug)]
pub struct Standing(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    followed: Option<UpstreamId>,
    backoffs: Box<[Backoffs]>,
}

/// The backoffs of one upstream, by class of calls.
type Backoffs = [Option<StandingBackoff>; CallClass::ALL.len()];

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
    /// Whether other upstreams limit our rate, so that a later attempt may succeed.
    pub(super) is_limited: bool,
}

impl Standing {
    /// The standing of this many upstreams, none of which is followed.
    #[must_use]
    pub fn new(upstreams: usize) -> Self {
        Self(Mutex::new(Inner {
            followed: None,
            backoffs: vec![Backoffs::default(); upstreams].into(),
        }))
    }

    /// Whether an upstream is followed, so that a new head would be noticed.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        self.0.lock().followed.is_some()
    }

    /// Records an event.
    pub(super) fn record(&self, event: &Event, now: Instant) {
        match *event {
            Event::Switched(switch) => self.0.lock().followed = switch.to,
            Event::Failed {
                upstream,
                class,
                reason,
                wait,
            } => {
                if let Some(backoffs) = self.0.lock().backoffs.get_mut(upstream) {
                    backoffs[class as usize] = now.checked_add(wait).map(|until| StandingBackoff {
                        until,
                        is_limited: reason.is_none(),
                    });
                }
            }
            Event::WindowStarted(_)
            | Event::Advanced { .. }
            | Event::BackfillRemaining(_)
            | Event::State { .. } => {}
        }
    }

    /// The followed upstream, then the others in the operator's order, then those that are backed
    /// off for heads or blocks, which may give state all the same, then those with a fault in calls
    /// for state: even they can be asked, because every answer is verified. Upstreams that limit
    /// our calls for state are left out.
    pub(super) fn order(&self, now: Instant) -> Order {
        let inner = self.0.lock();
        let backoff = |id: UpstreamId, class: CallClass| {
            inner.backoffs[id][class as usize].filter(|backoff| backoff.until > now)
        };
        let of_state = |id| backoff(id, CallClass::State);
        let (limited, mut upstreams): (Vec<_>, Vec<_>) = (0..inner.backoffs.len())
            .partition(|id| of_state(*id).is_some_and(|backoff| backoff.is_limited));
        let is_out = |id| {
            let classes = [CallClass::Heads, CallClass::Blocks];
            classes.iter().any(|class| backoff(id, *class).is_some())
        };
        upstreams.sort_by_key(|id| {
            let is_followed = inner.followed == Some(*id);
            (of_state(*id).is_some(), is_out(*id), !is_followed)
        });
        Order {
            upstreams,
            is_limited: !limited.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::upstream::health::{Switch, SwitchReason};

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

    fn followed(to: Option<UpstreamId>) -> Event {
        Event::Switched(Switch {
            from: None,
            to,
            reason: SwitchReason::First,
        })
    }

    #[test]
    fn the_followed_upstream_is_asked_for_state_first_and_faulty_ones_last() {
        use CallClass::{Blocks, Heads, State};
        let fault = Some("timeout");
        let cases: [(&[Event], &[UpstreamId], bool); 11] = [
            (&[], &[0, 1, 2], false),
            (&[followed(Some(2))], &[2, 0, 1], false),
            (&[followed(Some(2)), followed(None)], &[0, 1, 2], false),
            (
                &[followed(Some(0)), failed(0, State, fault)],
                &[1, 2, 0],
                false,
            ),
            (&[followed(Some(1)), failed(1, State, None)], &[0, 2], true),
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
            let (standing, now) = (Standing::new(3), Instant::now());
            for event in events {
                standing.record(event, now);
            }
            let expected = Order {
                upstreams: upstreams.to_vec(),
                is_limited,
            };
            assert_eq!(standing.order(now), expected, "{events:?}");
            // All backoffs are over.
            let later = standing.order(now + SECOND);
            assert_eq!(
                (later.upstreams.len(), later.is_limited),
                (3, false),
                "{events:?}"
            );
        }
    }

    #[test]
    fn a_switch_sets_whether_an_upstream_is_followed() {
        let (standing, now) = (Standing::new(2), Instant::now());
        assert!(!standing.is_followed());
        for to in [Some(1), None, Some(0)] {
            standing.record(&followed(to), now);
            assert_eq!(standing.is_followed(), to.is_some());
        }
    }
}
