//! A value's place in a buffer.

use std::ops::Range;

/// A value's byte range in its buffer, at half the size of a `Range`: a block may have 155,000
/// logs, each with one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
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

    pub(super) const fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}
