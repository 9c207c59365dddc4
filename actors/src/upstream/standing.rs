//! What the follower thinks of the nodes, for those who ask them for state and those who ask
//! whether one is followed.

use std::time::Instant;

use parking_lot::Mutex;

use super::{follow::Event, health::NodeId};

/// Who is followed, and who is left alone; written by the follower alone.
#[derive(Debug)]
pub struct Standing(Mutex<State>);

#[derive(Debug)]
struct State {
    followed: Option<NodeId>,
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
    pub(super) nodes: Vec<NodeId>,
    /// Whether others asked to be left alone: they may be asked later.
    pub(super) is_limited: bool,
}

impl Standing {
    /// So many nodes, none of which is followed.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self(Mutex::new(State {
            followed: None,
            left: vec![None; nodes].into(),
        }))
    }

    /// Whether a node is followed, so that a new head would be heard of.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        self.0.lock().followed.is_some()
    }

    /// Notes what happened.
    pub(super) fn note(&self, event: &Event, now: Instant) {
        match *event {
            Event::Switched(switch) => self.0.lock().followed = switch.to,
            Event::Failed { node, reason, wait } => {
                if let Some(left) = self.0.lock().left.get_mut(node) {
                    *left = now.checked_add(wait).map(|until| Left {
                        until,
                        is_limited: reason.is_none(),
                    });
                }
            }
            Event::Began(_) | Event::Advanced { .. } | Event::Missing(_) | Event::State { .. } => {}
        }
    }

    /// The followed node, then the others as they are configured; last those that did something
    /// wrong, for what they give is checked. Who asked to be left alone is not asked at all.
    pub(super) fn order(&self, now: Instant) -> Order {
        let state = self.0.lock();
        let left = |id: NodeId| state.left[id].filter(|left| left.until > now);
        let (limited, mut nodes): (Vec<_>, Vec<_>) =
            (0..state.left.len()).partition(|id| left(*id).is_some_and(|left| left.is_limited));
        nodes.sort_by_key(|id| (left(*id).is_some(), state.followed != Some(*id)));
        Order {
            nodes,
            is_limited: !limited.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::upstream::health::{Switch, Why};

    const SECOND: Duration = Duration::from_secs(1);

    fn failed(node: NodeId, reason: Option<&'static str>) -> Event {
        let wait = SECOND;
        Event::Failed { node, reason, wait }
    }

    fn followed(to: Option<NodeId>) -> Event {
        Event::Switched(Switch {
            from: None,
            to,
            why: Why::First,
        })
    }

    #[test]
    fn who_is_asked_for_state() {
        let cases: [(&[Event], &[NodeId], bool); 6] = [
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
        for (events, nodes, is_limited) in cases {
            let (standing, now) = (Standing::new(3), Instant::now());
            for event in events {
                standing.note(event, now);
            }
            let expected = Order {
                nodes: nodes.to_vec(),
                is_limited,
            };
            assert_eq!(standing.order(now), expected, "{events:?}");
            // Nobody is left alone any more.
            let later = standing.order(now + SECOND);
            assert_eq!(
                (later.nodes.len(), later.is_limited),
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
