//! A value's place in a buffer.

use std::ops::Range;

/// A value's byte range in its buffer, at half the size of a `Range`: a block may have 155,000
/// logs, each with one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// The bytes from `start` to before `end`. The caller makes sure that the buffer's length fits
    /// 32 bits.
    pub(super) const fn new(start: usize, end: usize) -> Self {
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    /// From the start of one to the end of another.
    pub(crate) const fn from_to(first: Self, last: Self) -> Self {
        Self {
            start: first.start,
            end: last.end,
        }
    }

    /// All but so many bytes at its end.
    pub(crate) const fn without_end(self, bytes: u32) -> Self {
        Self {
            start: self.start,
            end: self.end.saturating_sub(bytes),
        }
    }

    pub(crate) const fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Number of bytes.
    pub(crate) const fn len(&self) -> usize {
        (self.end - self.start) as usize
    }
}
