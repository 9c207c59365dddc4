//! The longest answer to each call: what is longer is a fault of the upstream.

use nearhead_chain::remote::ANSWER_BYTES_MAX;

/// Longest answer that is a single value, or a few: a chain id, or the progress of a sync.
pub(crate) const VALUE: usize = 4 << 10;

/// Longest header with the hashes of its block's transactions. At 69 bytes each there is room for
/// 30,000 of them, which take 630 million gas.
pub(crate) const CLAIM: usize = 2 << 20;

/// Longest ommer: a header with 16 KiB of extraData, in hex, beside its bloom.
pub(super) const OMMER: usize = 64 << 10;

/// Longest code: half a megabyte in hex, some twenty times what Ethereum allows.
pub(super) const CODE: usize = 1 << 20;

/// Longest access list of a block with this gas limit. Nothing in it takes more bytes for its gas
/// than an account that is only named: some 150 for 2,000 gas (EIP-7928). Twice that is enough, and
/// what blocks change at their start and end fits in too.
pub(crate) fn access_list(gas_limit: u64) -> usize {
    let of_gas = usize::try_from(gas_limit / 2_000 * 300).unwrap_or(usize::MAX);
    of_gas.saturating_add(1 << 20).min(ANSWER_BYTES_MAX)
}

/// Longest list of what a call reads: 70 bytes for each of 7,000 slots.
pub(super) const CALL_ACCESS_LIST: usize = 512 << 10;

/// Longest trace of a block's changes: 100 bytes for each of 160,000 slots.
pub(super) const TRACE: usize = 16 << 20;

/// Longest witness of a block.
pub(super) const WITNESS: usize = 16 << 20;

/// Longest answer to a batch, which asks for some hundreds of proofs of some kilobytes each.
pub(super) const BATCH: usize = 16 << 20;

/// Part of a proof that does not depend on the number of slots: 60 full nodes on the account's
/// path.
const ACCOUNT_PROOF: usize = 64 << 10;

/// Part of a proof for each slot. A full branch node has 532 bytes, so there is room for 18 of them
/// in hex. A storage trie of a billion slots has eight or nine levels.
const SLOT_PROOF: usize = 20 << 10;

/// Part of a block, or of its receipts, that does not depend on gas: header and withdrawals.
const BLOCK: usize = 4 << 20;

/// Longest proof of an account with this many slots.
pub(super) const fn proof(slots: usize) -> usize {
    let bytes = ACCOUNT_PROOF.saturating_add(SLOT_PROOF.saturating_mul(slots));
    if bytes < ANSWER_BYTES_MAX {
        bytes
    } else {
        ANSWER_BYTES_MAX
    }
}

/// Longest answers to proofs of accounts with these numbers of slots, in one request or one by one.
pub(crate) fn proofs(slots: impl Iterator<Item = usize>) -> usize {
    let sum = slots.fold(0, |sum: usize, slots| sum.saturating_add(proof(slots)));
    sum.min(BATCH)
}

/// Longest block, or list of a block's receipts, on a chain whose head has this gas limit; `None`
/// if no head is known.
///
/// Nothing takes more bytes for its gas than an empty log: 375 gas and some 480 bytes. So 1.3 bytes
/// for each gas are enough, and leave room for the next blocks to raise the limit.
pub(crate) fn block(gas_limit: Option<u64>) -> usize {
    let of_gas = |gas_limit: u64| {
        let bytes = gas_limit.saturating_add(gas_limit / 10 * 3);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        bytes.saturating_add(BLOCK).min(ANSWER_BYTES_MAX)
    };
    gas_limit.map_or(ANSWER_BYTES_MAX, of_gas)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_block_is_bounded_by_its_gas() {
        for (gas_limit, expected) in [
            (None, ANSWER_BYTES_MAX),
            (Some(0), 4 * MIB),
            (Some(5), 4 * MIB + 5),
            (Some(30_000_000), 4 * MIB + 39_000_000),
            (Some(60_000_000), 4 * MIB + 78_000_000),
            (Some(140_000_000), ANSWER_BYTES_MAX),
            // Arbitrum states this one; others may state any.
            (Some(1 << 50), ANSWER_BYTES_MAX),
            (Some(u64::MAX), ANSWER_BYTES_MAX),
        ] {
            assert_eq!(block(gas_limit), expected, "{gas_limit:?}");
        }
    }

    #[test]
    fn an_access_list_is_bounded_by_its_gas() {
        for (gas_limit, expected) in [
            (0, MIB),
            (60_000_000, MIB + 9_000_000),
            (u64::MAX, ANSWER_BYTES_MAX),
        ] {
            assert_eq!(access_list(gas_limit), expected, "{gas_limit}");
        }
    }

    #[test]
    fn a_proof_is_bounded_by_its_slots() {
        for (slots, expected) in [
            (0, 64 << 10),
            (1, 84 << 10),
            (1_024, (64 << 10) + 20 * MIB),
            (1 << 20, ANSWER_BYTES_MAX),
            (usize::MAX, ANSWER_BYTES_MAX),
        ] {
            assert_eq!(proof(slots), expected, "{slots}");
        }
    }

    /// A path that no honest trie exceeds: every node a full branch, in hex with quotes and a
    /// comma.
    #[test]
    fn honest_proofs_fit() {
        let full_node = 2 * 532 + 5;
        assert!(60 * full_node <= proof(0));
        assert!(18 * full_node + 2 * 66 + 60 <= SLOT_PROOF);
    }
}
