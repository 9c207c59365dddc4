//! A message that arrives in fragments.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::{
    connections::{BodyBudget, Charge, UsedUp},
    limits::{BODY_BYTES_MAX, UNCOUNTED_MESSAGE_BYTES},
};

/// The fragments of a message so far. Nothing is kept of a refused message: its rest is read and
/// discarded.
pub(super) struct Fragments {
    is_text: bool,
    bytes: BytesMut,
    /// Their share of the worker's memory budget. The first [`UNCOUNTED_MESSAGE_BYTES`] are free.
    charge: Charge,
    refused: Option<MessageRefusal>,
}

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageRefusal {
    /// It is marked as text and is not UTF-8.
    NotUtf8,
    /// It has more than [`BODY_BYTES_MAX`] bytes.
    TooLarge,
    /// The worker's budget for large bodies and messages is used up, for this time.
    Busy { retry_after: Duration },
}

impl Fragments {
    pub(super) fn new(is_text: bool, budget: &BodyBudget) -> Self {
        Self {
            is_text,
            bytes: BytesMut::new(),
            charge: budget.open(),
            refused: None,
        }
    }

    /// Adds the next fragment.
    pub(super) fn push(&mut self, fragment: &[u8]) {
        if self.refused.is_none()
            && let Err(refused) = self.keep(fragment)
        {
            self.refused = Some(refused);
            self.bytes = BytesMut::new();
            self.charge = self.charge.budget().open();
        }
    }

    fn keep(&mut self, fragment: &[u8]) -> Result<(), MessageRefusal> {
        let len = self.bytes.len() + fragment.len();
        if len > BODY_BYTES_MAX {
            return Err(MessageRefusal::TooLarge);
        }
        if len > UNCOUNTED_MESSAGE_BYTES {
            let added = self.charge.add(fragment.len());
            added.map_err(|UsedUp { retry_after }| MessageRefusal::Busy { retry_after })?;
        }
        self.bytes.extend_from_slice(fragment);
        Ok(())
    }

    /// The whole message, with its share of the budget.
    pub(super) fn finish(self) -> Result<(Bytes, Charge), MessageRefusal> {
        match self.refused {
            Some(refused) => Err(refused),
            None if self.is_text && std::str::from_utf8(&self.bytes).is_err() => {
                Err(MessageRefusal::NotUtf8)
            }
            None => Ok((self.bytes.freeze(), self.charge)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::BODY_BYTES_PER_WORKER;

    const FRAGMENT: &[u8] = &[b' '; 8 << 10];

    fn message(bytes: usize, budget: &BodyBudget) -> Fragments {
        let mut fragments = Fragments::new(true, budget);
        (0..bytes / FRAGMENT.len()).for_each(|_| fragments.push(FRAGMENT));
        fragments.push(&FRAGMENT[..bytes % FRAGMENT.len()]);
        fragments
    }

    #[test]
    fn held_bytes_are_counted_and_released() {
        let budget = BodyBudget::default();
        for (bytes, taken) in [
            (0, 0),
            (UNCOUNTED_MESSAGE_BYTES, 0),
            (100_000, 100_000 - UNCOUNTED_MESSAGE_BYTES),
            (BODY_BYTES_MAX, BODY_BYTES_MAX - UNCOUNTED_MESSAGE_BYTES),
        ] {
            let whole = message(bytes, &budget).finish();
            assert_eq!(budget.taken(), taken);
            assert_eq!(whole.map(|(whole, _)| whole.len()), Ok(bytes));
            assert_eq!(budget.taken(), 0);
        }
    }

    #[test]
    fn a_refused_message_holds_nothing() {
        let budget = BodyBudget::default();
        let mut fragments = message(BODY_BYTES_MAX, &budget);
        for _ in 0..1_000 {
            fragments.push(FRAGMENT);
            assert_eq!((fragments.bytes.capacity(), budget.taken()), (0, 0));
        }
        assert_eq!(fragments.finish().err(), Some(MessageRefusal::TooLarge));

        // A quarter is left for other tenants.
        let fit = (BODY_BYTES_PER_WORKER - BODY_BYTES_PER_WORKER / 4) / BODY_BYTES_MAX;
        let held: Vec<_> = (0..=fit)
            .map(|_| message(BODY_BYTES_MAX, &budget))
            .collect();
        let refused: Vec<_> = held
            .iter()
            .filter_map(|fragments| fragments.refused)
            .collect();
        assert!(
            matches!(refused[..], [MessageRefusal::Busy { .. }]),
            "{refused:?}"
        );
        let small = message(UNCOUNTED_MESSAGE_BYTES, &budget).finish();
        assert!(small.is_ok(), "small messages are still accepted");
        drop((held, small));
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn text_is_checked_as_a_whole() {
        for (is_text, fragments, expected) in [
            (true, [&b"\xce"[..], b"\xba"], None),
            (true, [b"\xce", b"\xce"], Some(MessageRefusal::NotUtf8)),
            (false, [b"\xce", b"\xce"], None),
        ] {
            let mut message = Fragments::new(is_text, &BodyBudget::default());
            fragments
                .into_iter()
                .for_each(|fragment| message.push(fragment));
            assert_eq!(message.finish().err(), expected);
        }
    }
}
