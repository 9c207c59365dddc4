//! The log lines of what a process of a fleet notices, which others may cause.

use std::{fmt, time::Duration};

use nearhead_fleet::replica::ReplicaEvent;

/// Shortest time between two lines of one kind: who writes into the store, or cuts it off, fills no
/// disk.
const PAUSE: Duration = Duration::from_secs(10);

/// The kinds of lines of which one may stand for many.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Refused,
    Refill,
    Store,
    Node,
    OtherHead,
}

/// When lines of each kind were written last, and how many were left out since.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    last: [Option<Duration>; 5],
    left_out: [u64; 5],
}

impl EventLog {
    /// How many lines of this kind were left out, if another one may be written at `now`.
    fn may_write(&mut self, kind: Kind, now: Duration) -> Option<u64> {
        let at = kind as usize;
        if self.last[at].is_some_and(|last| now < last + PAUSE) {
            self.left_out[at] += 1;
            return None;
        }
        self.last[at] = Some(now);
        Some(std::mem::take(&mut self.left_out[at]))
    }

    /// Something that the replica noticed.
    pub(super) fn note(&mut self, event: &ReplicaEvent, now: Duration) {
        match event {
            ReplicaEvent::Applied(position) => {
                tracing::debug!(%position, "an entry of the fleet is applied");
            }
            ReplicaEvent::Epoch(epoch) => {
                tracing::info!(epoch, "the fleet has a new leader");
            }
            ReplicaEvent::Refused(position, refusal) => {
                if let Some(left_out) = self.may_write(Kind::Refused, now) {
                    let reason = refusal.reason().label();
                    tracing::warn!(
                        %position,
                        reason,
                        left_out,
                        "an entry of the fleet is refused: {refusal}"
                    );
                }
            }
            ReplicaEvent::Refill(reason) => {
                if let Some(left_out) = self.may_write(Kind::Refill, now) {
                    let reason = reason.label();
                    tracing::info!(reason, left_out, "a snapshot of the fleet is looked for");
                }
            }
        }
    }

    /// A call to the store failed.
    pub(super) fn store_failed(&mut self, error: &dyn fmt::Display, now: Duration) {
        if let Some(left_out) = self.may_write(Kind::Store, now) {
            tracing::warn!(%error, left_out, "a call to the fleet's store failed");
        }
    }

    /// A node that is not followed gave no answer.
    pub(super) fn node_failed(&mut self, error: &str, now: Duration) {
        if let Some(left_out) = self.may_write(Kind::Node, now) {
            tracing::warn!(left_out, "a node gave no usable answer: {error}");
        }
    }

    /// A node that is not followed has another block in the head's place.
    pub(super) fn other_head(&mut self, now: Duration) {
        if let Some(left_out) = self.may_write(Kind::OtherHead, now) {
            tracing::warn!(left_out, "a node has another block in place of the head");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_stands_for_many_of_its_kind() {
        let mut log = EventLog::default();
        let at = Duration::from_secs;
        assert_eq!(log.may_write(Kind::Refused, at(0)), Some(0));
        assert_eq!(log.may_write(Kind::Store, at(1)), Some(0));
        assert_eq!(log.may_write(Kind::Refused, at(1)), None);
        assert_eq!(log.may_write(Kind::Refused, at(9)), None);
        assert_eq!(log.may_write(Kind::Refused, at(10)), Some(2));
        assert_eq!(log.may_write(Kind::Refused, at(25)), Some(0));
    }
}
