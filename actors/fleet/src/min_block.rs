//! Waiting for the block that a client has seen at another replica.
//!
//! A client passes on what it saw last: the block's number, its hash, or both. A replica that has
//! not got as far waits for a moment. So the client never goes back in time, whichever replica it
//! meets.

use std::{cmp::Ordering, collections::VecDeque};

use alloy_primitives::B256;

use crate::block_id::BlockId;

/// What a client has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinBlock {
    /// A block of this number.
    Number(u64),
    /// A block with this hash.
    Hash(B256),
    /// A block of this number with this hash, as answers name it.
    Block(BlockId),
}

/// The text is neither a number, nor a hash, nor both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("want a block's number, its hash, or both with a comma between them")]
pub struct InvalidMinBlock;

/// What a replica has.
pub trait SeenBlocks {
    /// The head.
    fn head(&self) -> Option<BlockId>;

    /// Whether a block with this hash is or was canonical here, as far as that is remembered.
    fn has_seen(&self, hash: &B256) -> bool;
}

impl MinBlock {
    /// Reads `NUMBER`, `HASH` or `NUMBER, HASH`. Numbers are decimal, or hexadecimal after `0x`.
    ///
    /// # Errors
    /// The text is none of these.
    pub fn parse(text: &str) -> Result<Self, InvalidMinBlock> {
        let text = text.trim();
        if let Some((number, hash)) = text.split_once(',') {
            return Ok(Self::Block(BlockId {
                number: parse_number(number.trim())?,
                hash: parse_hash(hash.trim())?,
            }));
        }
        match text.len() {
            66 => Ok(Self::Hash(parse_hash(text)?)),
            _ => Ok(Self::Number(parse_number(text)?)),
        }
    }

    /// Whether a replica has got as far.
    ///
    /// A hash counts as reached if its block was replaced meanwhile. A replica may never have seen
    /// a block that was replaced; where the number is known, a head above it is enough, and one
    /// below it is not: the client would go back.
    pub fn is_reached(&self, seen: &impl SeenBlocks) -> bool {
        let head = seen.head().map(|id| id.number);
        match self {
            Self::Number(number) => head >= Some(*number),
            Self::Hash(hash) => seen.has_seen(hash),
            // The numbers are compared first, because that costs less.
            Self::Block(id) => match head.cmp(&Some(id.number)) {
                Ordering::Less => false,
                Ordering::Equal => seen.has_seen(&id.hash),
                Ordering::Greater => true,
            },
        }
    }

    /// Whether it is more than `blocks` above the head, as far as its number is known: no replica
    /// comes as far in a moment.
    pub fn is_above(&self, seen: &impl SeenBlocks, blocks: u64) -> bool {
        let number = match self {
            Self::Number(number) => *number,
            Self::Hash(_) => return false,
            Self::Block(id) => id.number,
        };
        let head = seen.head().map_or(0, |id| id.number);
        number > head.saturating_add(blocks)
    }
}

fn parse_number(text: &str) -> Result<u64, InvalidMinBlock> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // `from_str_radix` accepts a sign.
    match digits.starts_with('+') {
        true => Err(InvalidMinBlock),
        false => u64::from_str_radix(digits, radix).map_err(|_| InvalidMinBlock),
    }
}

fn parse_hash(text: &str) -> Result<B256, InvalidMinBlock> {
    match text.len() == 66 && text.starts_with("0x") {
        true => text.parse().map_err(|_| InvalidMinBlock),
        false => Err(InvalidMinBlock),
    }
}

/// Requests of one thread that wait for a block. Who adds them bounds their number and their time.
#[derive(Debug)]
pub struct Waiters<T> {
    /// In the order of their tickets.
    waiting: VecDeque<(Ticket, MinBlock, T)>,
    next: Ticket,
}

/// Identifies one of the [`Waiters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

impl<T> Default for Waiters<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            next: Ticket::default(),
        }
    }
}

impl<T> Waiters<T> {
    /// Adds one.
    pub fn add(&mut self, min: MinBlock, waiter: T) -> Ticket {
        let ticket = self.next;
        self.next.0 += 1;
        self.waiting.push_back((ticket, min, waiter));
        ticket
    }

    /// Removes one that waits no more, if it is still there.
    pub fn remove(&mut self, ticket: Ticket) {
        let place = self
            .waiting
            .binary_search_by_key(&ticket, |(ticket, ..)| *ticket);
        if let Ok(place) = place {
            self.waiting.remove(place);
        }
    }

    /// Removes those whose block is reached, in their order: to call at each new head.
    pub fn reached(&mut self, seen: &impl SeenBlocks) -> Vec<T> {
        let all = std::mem::take(&mut self.waiting);
        let mut reached = Vec::new();
        for (ticket, min, waiter) in all {
            match min.is_reached(seen) {
                true => reached.push(waiter),
                false => self.waiting.push_back((ticket, min, waiter)),
            }
        }
        reached
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A chain up to a number; hashes repeat the number, and replaced blocks have 100 more.
    struct Seen(u64, Vec<u8>);

    impl SeenBlocks for Seen {
        fn head(&self) -> Option<BlockId> {
            Some(id(self.0, u8::try_from(self.0).unwrap()))
        }

        fn has_seen(&self, hash: &B256) -> bool {
            let is_canonical = u64::from(hash[0]) <= self.0;
            is_canonical || self.1.contains(&hash[0])
        }
    }

    fn id(number: u64, hash: u8) -> BlockId {
        BlockId {
            number,
            hash: B256::repeat_byte(hash),
        }
    }

    #[test]
    fn numbers_hashes_and_both_are_read() {
        let hash = format!("0x{}", "ab".repeat(32));
        let block = id(26, 0xab);
        for (text, want) in [
            ("26", Some(MinBlock::Number(26))),
            (" 0x1a ", Some(MinBlock::Number(26))),
            (hash.as_str(), Some(MinBlock::Hash(block.hash))),
            (&format!("26, {hash}"), Some(MinBlock::Block(block))),
            (&format!("0x1a,{hash}"), Some(MinBlock::Block(block))),
            ("", None),
            ("+26", None),
            ("-1", None),
            ("0x", None),
            ("0x+1", None),
            ("18446744073709551616", None),
            ("26,", None),
            ("26, 27", None),
            (&hash[..65], None),
            (&format!("{hash}, 26"), None),
            (&"g".repeat(66), None),
        ] {
            assert_eq!(MinBlock::parse(text).ok(), want, "{text:?}");
        }
    }

    #[test]
    fn a_block_is_reached_by_number_by_hash_or_once_it_was_replaced() {
        let seen = Seen(10, vec![109]);
        for (min, want) in [
            (MinBlock::Number(10), true),
            (MinBlock::Number(11), false),
            (MinBlock::Hash(B256::repeat_byte(10)), true),
            (MinBlock::Hash(B256::repeat_byte(109)), true),
            (MinBlock::Hash(B256::repeat_byte(110)), false),
            (MinBlock::Block(id(10, 10)), true),
            // A sibling of the head, which this replica does not have.
            (MinBlock::Block(id(10, 110)), false),
            // It was replaced before this replica saw it.
            (MinBlock::Block(id(9, 150)), true),
            (MinBlock::Block(id(11, 11)), false),
            // It was replaced by a head that is lower.
            (MinBlock::Block(id(11, 109)), false),
            (MinBlock::Block(id(10, 109)), true),
        ] {
            assert_eq!(min.is_reached(&seen), want, "{min:?}");
        }
    }

    #[test]
    fn a_block_far_above_the_head_is_not_waited_for() {
        let seen = Seen(10, Vec::new());
        for (min, want) in [
            (MinBlock::Number(138), false),
            (MinBlock::Number(139), true),
            (MinBlock::Block(id(138, 1)), false),
            (MinBlock::Block(id(139, 1)), true),
            (MinBlock::Number(9), false),
            (MinBlock::Number(u64::MAX), true),
            (MinBlock::Hash(B256::ZERO), false),
        ] {
            assert_eq!(min.is_above(&seen, 128), want, "{min:?}");
        }
    }

    #[test]
    fn waiters_leave_when_their_block_is_reached_or_when_they_are_removed() {
        let mut waiters = Waiters::default();
        let a = waiters.add(MinBlock::Number(11), "a");
        let b = waiters.add(MinBlock::Number(12), "b");
        waiters.add(MinBlock::Number(11), "c");
        waiters.add(MinBlock::Number(12), "d");
        assert_eq!(waiters.reached(&Seen(10, Vec::new())), Vec::<&str>::new());
        assert_eq!(waiters.reached(&Seen(11, Vec::new())), ["a", "c"]);
        waiters.remove(a);
        waiters.remove(b);
        assert_eq!(waiters.reached(&Seen(12, Vec::new())), ["d"]);
    }
}
