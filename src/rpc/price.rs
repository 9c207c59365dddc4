//! What a call costs, in units: a price for each method, and a surcharge for what is measured.
//!
//! A unit is the CPU time of the cheapest request, `eth_chainId` (8.5 µs in docs/performance.md).
//! Two surcharges cover what makes one call of a method dearer than another: the storage keys that
//! it names, each a walk of a trie, or the transactions and logs that it encodes again, and the
//! bytes of its result, whether they are logs, receipts, transactions or proofs. So anybody can
//! compute a bill from the request and the answer.

/// Bytes of a result that the price of a method covers.
pub(crate) const COVERED_RESULT_BYTES: usize = 64 << 10;

/// Units for each further started 64 KiB of a result. 447 kB of a full block take 86 µs and 2.9 MB
/// of logs 801 µs: 1.5 and 2.1 units for 64 KiB.
pub(crate) const RESULT_UNITS: u64 = 2;

/// Units for each storage key after the first: as many as for a read of one slot.
pub(crate) const KEY_UNITS: u64 = 1;

/// Transactions, or receipts and their logs, that are read from JSON for their RLP, and cost as
/// much as a storage key in all: 2 to 3 µs each.
pub(crate) const RAW_ITEMS_OF_KEY: usize = 4;

/// Gas of a call that the price of a method covers: a transfer takes 21,000, and to look up a
/// balance of a token some thousands more.
pub(crate) const COVERED_GAS: u64 = 50_000;

/// Further gas of a call that costs one unit.
pub(crate) const GAS_OF_UNIT: u64 = 5_000;

/// Storage keys that cost as much as a call that a node answers: to send it and to read the answer
/// takes some 100 µs here, and so does to recover the sender of a transaction and to send that.
pub(crate) const FORWARDED_KEYS: usize = 10;

/// Units of a call that a node answers.
pub(crate) const FORWARDED_UNITS: u64 = KEY_UNITS * FORWARDED_KEYS as u64;

/// Units of a request that has no price of its own, because it was read, admitted and not run: an
/// unknown method, what is not a request, a request without an id, an item of a refused batch.
pub const MINIMUM_UNITS: u64 = 1;

/// Units of a subscription's notification: delivering a head takes 9.5 µs.
pub const NOTIFICATION_UNITS: u64 = 1;

/// The units of a call that failed: the price of its method, and of the gas that it used.
pub(super) const fn units_of_failure(price: u64, gas: u64) -> u64 {
    price + gas.saturating_sub(COVERED_GAS).div_ceil(GAS_OF_UNIT)
}

/// The units of an answered call: the price of its method, and the surcharges.
pub(super) const fn units(price: u64, keys: usize, gas: u64, result_bytes: usize) -> u64 {
    let further_keys = keys.saturating_sub(1) as u64;
    let further_bytes = result_bytes.saturating_sub(COVERED_RESULT_BYTES);
    let further_parts = further_bytes.div_ceil(COVERED_RESULT_BYTES) as u64;
    units_of_failure(price, gas) + KEY_UNITS * further_keys + RESULT_UNITS * further_parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_keys_and_bytes_cost_more() {
        const PART: usize = COVERED_RESULT_BYTES;
        for (price, keys, bytes, expected) in [
            (1, 0, 0, 1),
            (1, 0, 4, 1),
            (1, 0, PART, 1),
            (1, 0, PART + 1, 3),
            (1, 0, 2 * PART, 3),
            (1, 0, 2 * PART + 1, 5),
            (2, 1, 9_000, 2),
            (2, 2, 9_000, 3),
            (1, 10, 700, 10),
            (1, FORWARDED_KEYS, 4, FORWARDED_UNITS),
            (2, 1_024, 3 * PART, 1_029),
            // The full block and the logs of docs/performance.md, which take 10 and 94 times as
            // long as eth_chainId.
            (1, 0, 446_939, 13),
            (2, 0, 2_917_606, 90),
        ] {
            let found = units(price, keys, 0, bytes);
            assert_eq!(found, expected, "{price} {keys} {bytes}");
        }
    }
}
