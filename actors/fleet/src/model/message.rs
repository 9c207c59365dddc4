//! What is on its way between processes and the store.

use std::{cmp::Ordering, time::Duration};

use alloy_primitives::Bytes;

use crate::{
    leader::Append,
    lease::LeaseCall,
    position::Position,
    replica::Report,
    scripts::{Acquired, Appended, Renewed},
    store_model::Owner,
};

#[derive(Clone, Debug)]
pub(super) enum Request {
    Lease(LeaseCall),
    Release { epoch: u64 },
    Append(Append),
    Report(Report),
    Read { after: Position },
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Acquired(Acquired),
    Renewed(Renewed),
    Appended(Position, Appended),
    Entries(Vec<(Position, Bytes)>),
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    Request(Request),
    Answer(Answer),
}

/// One message.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// When it arrives.
    pub(super) at: Duration,
    /// Messages that arrive at once do so in this order.
    pub(super) number: u64,
    /// Who asked, and when.
    pub(super) owner: Owner,
    pub(super) asked_at: Duration,
    pub(super) body: Body,
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Message {}

impl PartialOrd for Message {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Message {
    /// The first to arrive is the greatest, for a heap.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}
