//! What a session still has to send: slices in order, within a budget of bytes.

use std::collections::VecDeque;

use bytes::Bytes;
use nearhead_actors::wiring::Permit;

/// What a slice takes of memory besides its bytes: its place here, and what the allocator and `Bytes` keep beside them.
pub(super) const SLICE_BYTES: usize = size_of::<Slice>() + 64;

/// Bytes that wait for their connection to take them. Nobody who adds to it ever waits.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    slices: VecDeque<Slice>,
    /// Bytes that wait.
    bytes: usize,
    /// Whether the slice that was taken last did not end its frame.
    is_within_frame: bool,
    /// Bytes that were added and taken since the beginning.
    added: u64,
    taken: u64,
    /// Permits of what was admitted, each with the number of bytes after which it is written.
    permits: VecDeque<(u64, Vec<Permit>)>,
}

#[derive(Debug)]
struct Slice {
    bytes: Bytes,
    ends_frame: bool,
}

impl Outbox {
    /// What waits, as the memory that it takes.
    pub(super) fn len(&self) -> usize {
        self.bytes + self.slices.len() * SLICE_BYTES
    }

    /// Adds a frame in slices.
    pub(super) fn push(&mut self, frame: impl IntoIterator<Item = Bytes>) {
        for bytes in frame {
            if bytes.is_empty() {
                continue;
            }
            self.bytes += bytes.len();
            self.added += bytes.len() as u64;
            let ends_frame = false;
            self.slices.push_back(Slice { bytes, ends_frame });
        }
        if let Some(last) = self.slices.back_mut() {
            last.ends_frame = true;
        }
    }

    /// Keeps permits until everything that was added so far is taken.
    pub(super) fn hold(&mut self, permits: Vec<Permit>) {
        if !permits.is_empty() {
            self.permits.push_back((self.added, permits));
        }
    }

    /// Takes the next slice, of `most` bytes at most.
    pub(super) fn pop(&mut self, most: usize) -> Option<Bytes> {
        let next = self.slices.front_mut()?;
        let slice = if next.bytes.len() > most {
            self.is_within_frame = true;
            next.bytes.split_to(most)
        } else {
            let next = self.slices.pop_front()?;
            self.is_within_frame = !next.ends_frame;
            next.bytes
        };
        self.bytes -= slice.len();
        self.taken += slice.len() as u64;
        while self
            .permits
            .front()
            .is_some_and(|(end, _)| *end <= self.taken)
        {
            self.permits.pop_front();
        }
        if self.slices.is_empty() {
            // An idle session holds no memory for what it once had to send.
            *self = Self {
                added: self.added,
                taken: self.taken,
                is_within_frame: self.is_within_frame,
                ..Self::default()
            };
        }
        Some(slice)
    }

    /// Throws away the frames that were not begun; what follows a begun one must not be taken for a part of it.
    pub(super) fn clear(&mut self) {
        let kept = match self.slices.iter().position(|slice| slice.ends_frame) {
            Some(end) if self.is_within_frame => end + 1,
            _ => 0,
        };
        self.slices.truncate(kept);
        self.bytes = self.slices.iter().map(|slice| slice.bytes.len()).sum();
        self.added = self.taken + self.bytes as u64;
        self.permits.retain(|(end, _)| *end <= self.added);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_and_permits_with_their_last_one() {
        let permits = Arc::new(Semaphore::new(2));
        let take = || vec![Arc::clone(&permits).try_acquire_owned().unwrap()];
        let mut outbox = Outbox::default();
        outbox.push([Bytes::from_static(b"0123456789")]);
        outbox.hold(take());
        outbox.push([Bytes::from_static(b"abc")]);
        outbox.hold(take());
        assert_eq!((outbox.bytes, permits.available_permits()), (13, 0));
        assert_eq!(outbox.len(), 13 + 2 * SLICE_BYTES);
        let mut out = Vec::new();
        for (most, len, available) in [(4, 4, 0), (4, 4, 0), (4, 2, 1), (4, 3, 2)] {
            let slice = outbox.pop(most).unwrap();
            assert_eq!((slice.len(), permits.available_permits()), (len, available));
            out.extend_from_slice(&slice);
        }
        assert_eq!((out.as_slice(), outbox.len()), (&b"0123456789abc"[..], 0));
        assert_eq!(outbox.pop(4), None);
        outbox.push([Bytes::from_static(b"z")]);
        outbox.hold(take());
        outbox.clear();
        assert_eq!((outbox.pop(4), outbox.len()), (None, 0));
        assert_eq!(permits.available_permits(), 2);
    }

    #[test]
    fn a_frame_that_was_begun_is_finished() {
        let slices =
            |texts: [&'static str; 2]| texts.map(|text| Bytes::from_static(text.as_bytes()));
        for (taken, left) in [
            (0, ""),
            (1, "bcd"),
            (2, "cd"),
            (3, "d"),
            (4, ""),
            (5, "fgh"),
        ] {
            let mut outbox = Outbox::default();
            outbox.push(slices(["ab", "cd"]));
            outbox.push(slices(["ef", "gh"]));
            for _ in 0..taken {
                outbox.pop(1).unwrap();
            }
            outbox.clear();
            assert_eq!(outbox.bytes, left.len(), "after {taken} bytes");
            outbox.push([Bytes::from_static(b"!")]);
            let mut out = Vec::new();
            while let Some(slice) = outbox.pop(10) {
                out.extend_from_slice(&slice);
            }
            assert_eq!(out, [left.as_bytes(), b"!"].concat(), "after {taken} bytes");
        }
    }
}
