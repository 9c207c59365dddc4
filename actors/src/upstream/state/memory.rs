//! Splits `--state-bytes` between held state and merges.

/// Memory that a merge works on: proofs as JSON, their nodes, and the paths before and after it.
/// With mainnet-like blocks it was 21 MB (docs/performance.md).
const MERGE_BYTES: usize = 24 << 20;

/// Bytes of state that may be held, of those that state and its merges together may take.
pub(super) fn held_bytes_max(state_bytes_max: usize) -> usize {
    state_bytes_max - MERGE_BYTES.min(state_bytes_max / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_take_their_memory_from_the_bound() {
        for (all, held) in [
            (0, 0),
            (100, 75),
            (64 << 20, 48 << 20),
            (1 << 30, 1_000 << 20),
        ] {
            assert_eq!(held_bytes_max(all), held, "{all}");
        }
    }
}
