//! What the block after the head asks for.

use std::sync::Arc;

use super::block_fees::OtherFeeRules;
use crate::{block::Block, window::Snapshot};

/// The base fee of the block after the head (EIP-1559); `None` before London.
///
/// # Errors
/// [`OtherFeeRules`] if the chain's rules are not known, and it does not show that they are
/// Ethereum's: no block of the window has a parent there, or the base fee of one does not follow
/// from its parent, or is zero.
pub fn next_base_fee(snapshot: &Snapshot) -> Result<Option<u64>, OtherFeeRules> {
    let fees = &snapshot.head().fees.header;
    match fees.are_known || (fees.next_base_fee != Some(0) && all_follow(snapshot.canonical())) {
        true => Ok(fees.next_base_fee),
        false => Err(OtherFeeRules),
    }
}

/// Whether there are several blocks, and the base fee of each follows from its parent's header.
fn all_follow(blocks: &[Arc<Block>]) -> bool {
    let follows =
        |pair: &[Arc<Block>]| pair[0].fees.header.next_base_fee == pair[1].header.base_fee_per_gas;
    blocks.len() > 1 && blocks.windows(2).all(follows)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    use crate::{test_block::TestBlock, window::Window};

    /// A child with this base fee, after which `next` follows by Ethereum's rules.
    fn child(parent: &Block, base_fee: u64, next: u64) -> Arc<Block> {
        let mut block = Arc::unwrap_or_clone(TestBlock::default().child_of(parent));
        block.header.base_fee_per_gas = Some(base_fee);
        block.fees.header.next_base_fee = Some(next);
        Arc::new(block)
    }

    #[test]
    fn a_base_fee_is_stated_only_while_all_have_followed() {
        let first = child(&TestBlock::default().genesis(), 5, 7);
        let mut window = Window::new(1, Arc::clone(&first));
        let stated = |window: &Window| next_base_fee(&window.snapshot());
        assert_eq!(stated(&window), Err(OtherFeeRules), "nothing shows it");
        let second = child(&first, 7, 9);
        window.apply(Arc::clone(&second)).unwrap();
        assert_eq!(stated(&window), Ok(Some(9)));
        let third = child(&second, 8, 8);
        window.apply(Arc::clone(&third)).unwrap();
        assert_eq!(stated(&window), Err(OtherFeeRules));
        window.apply(child(&third, 8, 8)).unwrap();
        assert_eq!(stated(&window), Err(OtherFeeRules), "one did not follow");
        let mut known = Arc::unwrap_or_clone(child(window.snapshot().head(), 8, 6));
        known.fees.header.are_known = true;
        window.apply(Arc::new(known)).unwrap();
        assert_eq!(stated(&window), Ok(Some(6)));
    }
}
