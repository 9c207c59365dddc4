mod classes;
mod forks;
mod policy;
mod simulation;
mod tables;

use super::*;

/// The served chain: the hashes of its blocks from `oldest` on.
pub(super) struct ServedChain {
    pub(super) oldest: u64,
    pub(super) hashes: Vec<B256>,
}

impl Chain for ServedChain {
    fn head(&self) -> (u64, B256) {
        let last = self.hashes.len() - 1;
        (self.oldest + last as u64, self.hashes[last])
    }

    fn oldest(&self) -> u64 {
        self.oldest
    }

    fn hash_at(&self, number: u64) -> Option<B256> {
        let at = number.checked_sub(self.oldest)?;
        self.hashes.get(at as usize).copied()
    }
}

/// The class of calls in which a fault is usually found.
const fn class_of(fault: Fault) -> CallClass {
    match fault {
        Fault::BadBlock | Fault::Missing | Fault::Unfit => CallClass::Blocks,
        Fault::BadProof => CallClass::State,
        _ => CallClass::Heads,
    }
}

impl Health {
    /// The head that an upstream named last.
    fn named_head(&self, upstream: UpstreamId) -> Option<&HeadClaim> {
        self.upstreams[upstream].head.as_ref()
    }
}

/// The hash of the block of this number on a fork; fork 0 is the honest chain.
fn hash(fork: u64, number: u64) -> B256 {
    B256::left_padding_from(&[fork.to_be_bytes(), number.to_be_bytes()].concat())
}

fn claim(fork: u64, number: u64) -> HeadClaim {
    HeadClaim {
        number,
        hash: hash(fork, number),
        parent_hash: hash(fork, number.saturating_sub(1)),
        timestamp: number,
    }
}
