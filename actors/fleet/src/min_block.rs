//! Waiting for the block that a client has seen at another replica.
//!
//! A client passes on what it saw last: the block's number, its hash, or both. A replica that has
//! not got as far waits for a moment. So the client never goes back in time, whichever replica it
//! meets.

use std::{collections::VecDeque, time::Duration};

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
    /// a block that was replaced; where the number is known, a head above it is enough.
    pub fn is_reached(&self, seen: &impl SeenBlocks) -> bool {
        let head = seen.head().map(|id| id.number);
        match self {
            Self::Number(number) => head >= Some(*number),
            Self::Hash(hash) => seen.has_seen(hash),
            Self::Block(id) => seen.has_seen(&id.hash) || head > Some(id.number),
        }
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

/// Requests that wait for a block: a bounded number of them, all for the same time.
#[derive(Debug)]
pub struct Waiters<T> {
    /// In the order of their deadlines.
    waiting: VecDeque<(MinBlock, Duration, T)>,
    most: usize,
    wait: Duration,
}

impl<T> Waiters<T> {
    /// Nobody; later at most `most`, each for `wait`.
    #[must_use]
    pub const fn new(most: usize, wait: Duration) -> Self {
        Self {
            waiting: VecDeque::new(),
            most,
            wait,
        }
    }

    /// Adds one that waits from `now` on, which does not go back.
    ///
    /// # Errors
    /// As many wait as may: the one that was to be added, to refuse it.
    pub fn add(&mut self, min: MinBlock, now: Duration, waiter: T) -> Result<(), T> {
        if self.waiting.len() >= self.most {
            return Err(waiter);
        }
        self.waiting.push_back((min, now + self.wait, waiter));
        Ok(())
    }

    /// Removes those whose block is reached, in their order: to call at each new head.
    pub fn reached(&mut self, seen: &impl SeenBlocks) -> Vec<T> {
        let all = std::mem::take(&mut self.waiting);
        let mut reached = Vec::new();
        for (min, deadline, waiter) in all {
            match min.is_reached(seen) {
                true => reached.push(waiter),
                false => self.waiting.push_back((min, deadline, waiter)),
            }
        }
        reached
    }

    /// Removes those that have waited long enough, to refuse them.
    pub fn expired(&mut self, now: Duration) -> Vec<T> {
        let count = self.waiting.partition_point(|(_, until, _)| *until <= now);
        self.waiting
            .drain(..count)
            .map(|(.., waiter)| waiter)
            .collect()
    }

    /// When the next one has waited long enough.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.waiting.front().map(|(_, until, _)| *until)
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
        ] {
            assert_eq!(min.is_reached(&seen), want, "{min:?}");
        }
    }

    #[test]
    fn waiters_are_bounded_and_leave_when_reached_or_late() {
        let at = Duration::from_millis;
        let mut waiters = Waiters::new(3, at(1_000));
        waiters.add(MinBlock::Number(11), at(0), "a").unwrap();
        waiters.add(MinBlock::Number(12), at(1), "b").unwrap();
        waiters.add(MinBlock::Number(11), at(2), "c").unwrap();
        assert_eq!(waiters.add(MinBlock::Number(11), at(3), "d"), Err("d"));
        assert_eq!(waiters.reached(&Seen(11, Vec::new())), ["a", "c"]);
        assert_eq!(waiters.next_deadline(), Some(at(1_001)));
        assert_eq!(waiters.expired(at(1_000)), Vec::<&str>::new());
        assert_eq!(waiters.expired(at(1_001)), ["b"]);
        assert_eq!(waiters.next_deadline(), None);
    }
}
