//! A message that comes in pieces, as far as it is kept.

use bytes::{Bytes, BytesMut};

use crate::{
    connections::{BodyBudget, Charge},
    limits::{BODY_BYTES_MAX, UNCOUNTED_MESSAGE_BYTES},
};

/// The pieces that came so far. Nothing is kept of a message that is refused: its rest is only
/// read.
pub(crate) struct Pieces {
    is_text: bool,
    bytes: BytesMut,
    /// What they take of the worker's memory; the little that the usual message is, is not worth
    /// counting.
    charge: Charge,
    refused: Option<Refused>,
}

/// CloseReason a message is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is text, and not UTF-8.
    NotUtf8,
    /// It has more bytes than may be asked at once.
    TooLarge,
    /// Too many large ones are being held already.
    Busy,
}

impl Pieces {
    pub(crate) fn new(is_text: bool, budget: &BodyBudget) -> Self {
        Self {
            is_text,
            bytes: BytesMut::new(),
            charge: budget.open(),
            refused: None,
        }
    }

    /// Adds the next piece.
    pub(crate) fn push(&mut self, piece: &[u8]) {
        if self.refused.is_none()
            && let Err(refused) = self.keep(piece)
        {
            self.refused = Some(refused);
            self.bytes = BytesMut::new();
            self.charge = self.charge.budget().open();
        }
    }

    fn keep(&mut self, piece: &[u8]) -> Result<(), Refused> {
        let len = self.bytes.len() + piece.len();
        if len > BODY_BYTES_MAX {
            return Err(Refused::TooLarge);
        }
        if len > UNCOUNTED_MESSAGE_BYTES {
            self.charge.add(piece.len()).map_err(|_| Refused::Busy)?;
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// The whole message, with what it takes for as long as it is held.
    pub(crate) fn finish(self) -> Result<(Bytes, Charge), Refused> {
        match self.refused {
            Some(refused) => Err(refused),
            None if self.is_text && std::str::from_utf8(&self.bytes).is_err() => {
                Err(Refused::NotUtf8)
            }
            None => Ok((self.bytes.freeze(), self.charge)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::BODY_BYTES_PER_WORKER;

    const PIECE: &[u8] = &[b' '; 8 << 10];

    fn of(bytes: usize, budget: &BodyBudget) -> Pieces {
        let mut pieces = Pieces::new(true, budget);
        (0..bytes / PIECE.len()).for_each(|_| pieces.push(PIECE));
        pieces.push(&PIECE[..bytes % PIECE.len()]);
        pieces
    }

    #[test]
    fn what_is_held_is_counted_and_given_back() {
        let budget = BodyBudget::default();
        for (bytes, taken) in [
            (0, 0),
            (UNCOUNTED_MESSAGE_BYTES, 0),
            (100_000, 100_000 - UNCOUNTED_MESSAGE_BYTES),
            (BODY_BYTES_MAX, BODY_BYTES_MAX - UNCOUNTED_MESSAGE_BYTES),
        ] {
            let whole = of(bytes, &budget).finish();
            assert_eq!(budget.taken(), taken);
            assert_eq!(whole.map(|(whole, _)| whole.len()), Ok(bytes));
            assert_eq!(budget.taken(), 0);
        }
    }

    #[test]
    fn nothing_is_held_of_what_is_refused() {
        let budget = BodyBudget::default();
        let mut pieces = of(BODY_BYTES_MAX, &budget);
        for _ in 0..1_000 {
            pieces.push(PIECE);
            assert_eq!((pieces.bytes.capacity(), budget.taken()), (0, 0));
        }
        assert_eq!(pieces.finish().err(), Some(Refused::TooLarge));

        let held: Vec<_> = (0..BODY_BYTES_PER_WORKER / BODY_BYTES_MAX + 1)
            .map(|_| of(BODY_BYTES_MAX, &budget))
            .collect();
        let refused: Vec<_> = held.iter().filter_map(|pieces| pieces.refused).collect();
        assert_eq!(refused, [Refused::Busy]);
        let small = of(UNCOUNTED_MESSAGE_BYTES, &budget).finish();
        assert!(small.is_ok(), "small ones go on");
        drop((held, small));
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn text_is_utf8_as_a_whole() {
        for (is_text, pieces, expected) in [
            (true, [&b"\xce"[..], b"\xba"], None),
            (true, [b"\xce", b"\xce"], Some(Refused::NotUtf8)),
            (false, [b"\xce", b"\xce"], None),
        ] {
            let mut message = Pieces::new(is_text, &BodyBudget::default());
            pieces.into_iter().for_each(|piece| message.push(piece));
            assert_eq!(message.finish().err(), expected);
        }
    }
}
