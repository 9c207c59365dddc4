//! What the follower publishes about the upstreams, for the fetches of state and for the readiness
//! probe.

use std::time::Instant;

use parking_lot::Mutex;

use super::{follow::Event, health::UpstreamId};

/// Which upstream is followed and which are backed off; written by the follower alone.
#[derive(Debug)]
pub struct Standing(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    followed: Option<UpstreamId>,
    backoffs: Box<[Option<StandingBackoff>]>,
}

/// The backoff of one upstream.
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
            backoffs: vec![None; upstreams].into(),
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
                reason,
                wait,
            } => {
                if let Some(backoff) = self.0.lock().backoffs.get_mut(upstream) {
                    *backoff = now.checked_add(wait).map(|until| StandingBackoff {
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

    /// The followed upstream, then the others in the operator's order, then those with a fault:
    /// even they can be asked, because every answer is verified. Upstreams that limit our rate are
    /// left out.
    pub(super) fn order(&self, now: Instant) -> Order {
        let inner = self.0.lock();
        let backoff = |id: UpstreamId| inner.backoffs[id].filter(|backoff| backoff.until > now);
        let (limited, mut upstreams): (Vec<_>, Vec<_>) = (0..inner.backoffs.len())
            .partition(|id| backoff(*id).is_some_and(|backoff| backoff.is_limited));
        upstreams.sort_by_key(|id| (backoff(*id).is_some(), inner.followed != Some(*id)));
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

    fn failed(upstream: UpstreamId, reason: Option<&'static str>) -> Event {
        let wait = SECOND;
        Event::Failed {
            upstream,
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
        let cases: [(&[Event], &[UpstreamId], bool); 6] = [
            (&[], &[0, 1, 2], false),
            (&[followed(Some(2))], &[2, 0, 1], false),
            (&[followed(Some(2)), followed(None)], &[0, 1, 2], false),
            (
                &[followed(Some(0)), failed(0, Some("timeout"))],
                &[1, 2, 0],
                false,
            ),
            (&[followed(Some(1)), failed(1, None)], &[0, 2], true),
            (
                &[failed(0, None), failed(1, None), failed(2, None)],
                &[],
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
