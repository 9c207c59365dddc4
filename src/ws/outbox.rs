//! The pieces that a session still has to send, and the memory that they hold.

use std::{collections::VecDeque, time::Instant};

use bytes::Bytes;
use nearhead_actors::admission::Permit;
use nearhead_chain::json::{Piece, Truncated};

use crate::{connections::HeldReply, limits::JOINED_ITEM_BYTES_MAX};

/// The memory of a piece in addition to its bytes: its entry here, and the overhead of `Bytes` and
/// the allocator.
pub(super) const PIECE_BYTES: usize = size_of::<QueuedPiece>() + 64;

/// Pieces that wait until the connection takes them. Adding never blocks.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pieces: VecDeque<QueuedPiece>,
    /// Bytes that the pieces hold.
    held: usize,
    /// Whether the last bytes taken are not the end of their frame.
    is_within_frame: bool,
    /// Bytes added since the session began.
    added: u64,
    /// Bytes taken since the session began.
    taken: u64,
    /// What is kept for answers, each with the number of taken bytes after which it is released.
    kept: VecDeque<(u64, KeptAnswer)>,
}

/// What a session holds for an answer until its client has taken it.
#[derive(Debug)]
pub(super) struct KeptAnswer {
    /// For its memory, if it is large.
    pub(super) reply: Option<HeldReply>,
    /// The session's right to a large answer.
    #[expect(dead_code, reason = "dropping it releases the permit")]
    pub(super) large_answer: Option<Permit>,
}

#[derive(Debug)]
struct QueuedPiece {
    piece: Piece,
    ends_frame: bool,
}

impl Outbox {
    /// The memory that the pieces hold. Bytes that the window holds, or that are not encoded yet,
    /// do not count.
    pub(super) fn held(&self) -> usize {
        self.held + self.pieces.len() * PIECE_BYTES
    }

    /// Whether the last bytes taken are not the end of their frame.
    pub(super) const fn is_within_frame(&self) -> bool {
        self.is_within_frame
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The pieces that are already encoded.
    #[cfg(test)]
    pub(super) fn pieces(&self) -> Vec<Bytes> {
        let bytes = |queued: &QueuedPiece| match &queued.piece {
            Piece::Own(bytes) | Piece::Shared(bytes) => Some(bytes.clone()),
            Piece::Lazy(_) => None,
        };
        self.pieces.iter().filter_map(bytes).collect()
    }

    /// Adds a frame in pieces.
    pub(super) fn push(&mut self, frame: impl IntoIterator<Item = Piece>) {
        for piece in frame {
            if piece.is_empty() {
                continue;
            }
            self.held += piece.held();
            self.added += piece.len() as u64;
            let ends_frame = false;
            self.pieces.push_back(QueuedPiece { piece, ends_frame });
        }
        if let Some(last) = self.pieces.back_mut() {
            last.ends_frame = true;
        }
    }

    /// Keeps this until everything added so far is taken.
    pub(super) fn keep(&mut self, answer: KeptAnswer) {
        self.kept.push_back((self.added, answer));
    }

    /// Takes the next bytes, at most `most`. Consecutive small pieces are joined: a copy costs less
    /// than another poll.
    pub(super) fn pop(&mut self, most: usize) -> Result<Option<Bytes>, Truncated> {
        let most_joined = most.min(JOINED_ITEM_BYTES_MAX);
        let mut len = 0;
        let mut count = 0;
        for queued in &self.pieces {
            if len + queued.piece.len() > most_joined {
                break;
            }
            len += queued.piece.len();
            count += 1;
        }
        if count < 2 {
            return self.pop_piece(most);
        }
        let mut joined = Vec::with_capacity(len);
        for _ in 0..count {
            joined.extend_from_slice(&self.pop_piece(most_joined)?.unwrap_or_default());
        }
        Ok(Some(joined.into()))
    }

    /// Takes the next bytes of the first piece.
    fn pop_piece(&mut self, most: usize) -> Result<Option<Bytes>, Truncated> {
        let Some(next) = self.pieces.front_mut() else {
            return Ok(None);
        };
        let held_before = next.piece.held();
        let bytes = next.piece.take(most)?;
        self.held = self.held + next.piece.held() - held_before;
        self.is_within_frame = !(next.piece.is_empty() && next.ends_frame);
        if next.piece.is_empty() {
            self.held -= next.piece.held();
            self.pieces.pop_front();
        }
        self.taken += bytes.len() as u64;
        self.release_taken();
        if self.pieces.is_empty() {
            // An idle session keeps no memory from a busy time.
            self.pieces = VecDeque::new();
        }
        Ok(Some(bytes))
    }

    /// Releases what is kept for answers that were taken, and records progress for the others.
    fn release_taken(&mut self) {
        while self.kept.front().is_some_and(|(end, _)| *end <= self.taken) {
            self.kept.pop_front();
        }
        if self.kept.is_empty() {
            return;
        }
        let now = Instant::now();
        let replies = self.kept.iter().filter_map(|(_, kept)| kept.reply.as_ref());
        replies.for_each(|reply| reply.progressed(now));
    }

    /// Discards all frames except one that is sent in part: the client would read whatever follows
    /// as the rest of it.
    pub(super) fn clear(&mut self) {
        let kept = match self.pieces.iter().position(|queued| queued.ends_frame) {
            Some(end) if self.is_within_frame => end + 1,
            _ => 0,
        };
        self.pieces.truncate(kept);
        self.held = self.pieces.iter().map(|queued| queued.piece.held()).sum();
        let left: usize = self.pieces.iter().map(|queued| queued.piece.len()).sum();
        self.added = self.taken + left as u64;
        self.kept.retain(|(end, _)| *end <= self.added);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use nearhead_chain::json::LazyBytes;
    use tokio::sync::Semaphore;

    use super::*;

    fn own(text: &'static str) -> Piece {
        Piece::Own(text.into())
    }

    fn kept(permits: &Arc<Semaphore>) -> KeptAnswer {
        KeptAnswer {
            reply: None,
            large_answer: Some(Arc::clone(permits).try_acquire_owned().unwrap()),
        }
    }

    #[test]
    fn bytes_keep_their_order_and_the_permit_goes_with_its_last_byte() {
        let permits = Arc::new(Semaphore::new(1));
        let mut outbox = Outbox::default();
        outbox.push([own("0123456789"), Piece::Shared("shared".into())]);
        outbox.keep(kept(&permits));
        outbox.push([own("abc")]);
        assert_eq!(outbox.held(), 13 + 3 * PIECE_BYTES);
        let mut out = Vec::new();
        for (most, len, available) in [
            (4, 4, 0),
            (4, 4, 0),
            (4, 2, 0),
            (4, 4, 0),
            (4, 2, 1),
            (4, 3, 1),
        ] {
            let bytes = outbox.pop(most).unwrap().unwrap();
            assert_eq!((bytes.len(), permits.available_permits()), (len, available));
            out.extend_from_slice(&bytes);
        }
        assert_eq!(out, b"0123456789sharedabc");
        assert!(outbox.is_empty() && outbox.held() == 0);
        assert_eq!(outbox.pop(4), Ok(None));
        outbox.push([own("z")]);
        outbox.keep(kept(&permits));
        outbox.clear();
        assert_eq!((outbox.pop(4), outbox.held()), (Ok(None), 0));
        assert_eq!(permits.available_permits(), 1);
    }

    #[test]
    fn a_frame_that_is_sent_in_part_is_finished() {
        let pieces = |texts: [&'static str; 2]| texts.map(own);
        for (taken, left) in [
            (0, ""),
            (1, "bcd"),
            (2, "cd"),
            (3, "d"),
            (4, ""),
            (5, "fgh"),
        ] {
            let mut outbox = Outbox::default();
            outbox.push(pieces(["ab", "cd"]));
            outbox.push(pieces(["ef", "gh"]));
            for _ in 0..taken {
                outbox.pop(1).unwrap().unwrap();
            }
            outbox.clear();
            assert_eq!(outbox.held, left.len(), "after {taken} bytes");
            outbox.push([own("!")]);
            let mut out = Vec::new();
            while let Some(bytes) = outbox.pop(10).unwrap() {
                out.extend_from_slice(&bytes);
            }
            assert_eq!(out, [left.as_bytes(), b"!"].concat(), "after {taken} bytes");
        }
    }

    /// Bytes that are made a few at a time, until making them fails.
    #[derive(Debug)]
    struct Made {
        left: usize,
        fails_at: usize,
    }

    impl LazyBytes for Made {
        fn len(&self) -> usize {
            self.left
        }

        fn held(&self) -> usize {
            self.left / 1_000
        }

        fn take(&mut self, most: usize) -> Result<Bytes, Truncated> {
            if self.left == self.fails_at {
                return Err(Truncated);
            }
            let len = most.min(self.left);
            self.left -= len;
            Ok(vec![b'x'; len].into())
        }
    }

    #[test]
    fn a_lazy_piece_counts_only_what_it_holds() {
        let mut outbox = Outbox::default();
        let plan = |fails_at| {
            Piece::Lazy(Box::new(Made {
                left: 100_000,
                fails_at,
            }))
        };
        outbox.push([plan(usize::MAX), own("end")]);
        for left in [90, 80, 70] {
            assert_eq!(outbox.pop(10_000).unwrap().unwrap().len(), 10_000);
            assert_eq!(outbox.held(), left + 3 + 2 * PIECE_BYTES);
        }
        while outbox.pop(10_000).unwrap().is_some() {}
        assert_eq!(outbox.held(), 0);
        outbox.push([plan(50_000)]);
        for _ in 0..5 {
            assert!(outbox.pop(10_000).is_ok());
        }
        assert_eq!(outbox.pop(10_000), Err(Truncated));
    }
}
