//! Where a value is in a buffer.

use std::ops::Range;

/// Where a value stands in its buffer. Half the width of a range: the adversarial block has 155,000
/// of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// From `start` to before `end`; whoever made the buffer checks that it is not longer than 32
    /// bits can say.
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
