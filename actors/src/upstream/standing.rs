//! What the follower thinks of the upstreams, for those who ask them for state and those who ask
//! whether one is followed.

use std::time::Instant;

use parking_lot::Mutex;

use super::{follow::Event, health::UpstreamId};

/// Who is followed, and who is left alone; written by the follower alone.
#[derive(Debug)]
pub struct Standing(Mutex<State>);

#[derive(Debug)]
struct State {
    followed: Option<UpstreamId>,
    left: Box<[Option<Left>]>,
}

/// Left alone.
#[derive(Clone, Copy, Debug)]
struct Left {
    until: Instant,
    /// It asked for that itself.
    is_limited: bool,
}

/// Whom to ask for state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// In this order.
    pub(super) upstreams: Vec<UpstreamId>,
    /// Whether others asked to be left alone: they may be asked later.
    pub(super) is_limited: bool,
}

impl Standing {
    /// So many upstreams, none of which is followed.
    #[must_use]
    pub fn new(upstreams: usize) -> Self {
        Self(Mutex::new(State {
            followed: None,
            left: vec![None; upstreams].into(),
        }))
    }

    /// Whether an upstream is followed, so that a new head would be heard of.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        self.0.lock().followed.is_some()
    }

    /// Notes what happened.
    pub(super) fn note(&self, event: &Event, now: Instant) {
        match *event {
            Event::Switched(switch) => self.0.lock().followed = switch.to,
            Event::Failed {
                upstream,
                reason,
                wait,
            } => {
                if let Some(left) = self.0.lock().left.get_mut(upstream) {
                    *left = now.checked_add(wait).map(|until| Left {
                        until,
                        is_limited: reason.is_none(),
                    });
                }
            }
            Event::WindowStarted(_)
            | Event::Advanced { .. }
            | Event::Missing(_)
            | Event::State { .. } => {}
        }
    }

    /// The followed upstream, then the others as they are configured; last those that did something
    /// wrong, for what they give is checked. Who asked to be left alone is not asked at all.
    pub(super) fn order(&self, now: Instant) -> Order {
        let state = self.0.lock();
        let left = |id: UpstreamId| state.left[id].filter(|left| left.until > now);
        let (limited, mut upstreams): (Vec<_>, Vec<_>) =
            (0..state.left.len()).partition(|id| left(*id).is_some_and(|left| left.is_limited));
        upstreams.sort_by_key(|id| (left(*id).is_some(), state.followed != Some(*id)));
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
    fn who_is_asked_for_state() {
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
                standing.note(event, now);
            }
            let expected = Order {
                upstreams: upstreams.to_vec(),
                is_limited,
            };
            assert_eq!(standing.order(now), expected, "{events:?}");
            // Nobody is left alone any more.
            let later = standing.order(now + SECOND);
            assert_eq!(
                (later.upstreams.len(), later.is_limited),
                (3, false),
                "{events:?}"
            );
        }
    }

    #[test]
    fn whether_one_is_followed() {
        let (standing, now) = (Standing::new(2), Instant::now());
        assert!(!standing.is_followed());
        for to in [Some(1), None, Some(0)] {
            standing.note(&followed(to), now);
            assert_eq!(standing.is_followed(), to.is_some());
        }
    }
}
