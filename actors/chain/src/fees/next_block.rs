//! What the block after the head asks for.

use super::block_fees::OtherFeeRules;
use crate::window::Snapshot;

/// The base fee of the block after the head (EIP-1559); zero before London.
///
/// # Errors
/// [`OtherFeeRules`] if the base fee of a block of the window does not follow from its parent as on
/// Ethereum: then that of the next block is not known.
pub fn next_base_fee(snapshot: &Snapshot) -> Result<u64, OtherFeeRules> {
    let mut pairs = snapshot.canonical().windows(2);
    let follows =
        pairs.all(|pair| pair[0].fees.header.next_base_fee == pair[1].header.base_fee_per_gas);
    follows.then_some(()).ok_or(OtherFeeRules)?;
    let next = snapshot.head().fees.header.next_base_fee;
    Ok(next.unwrap_or_default())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{block::Block, test_block::TestBlock, window::Window};

    /// A child with this base fee. What the next block asks for follows from none of them.
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
        assert_eq!(stated(&window), Ok(7), "nothing contradicts it");
        let second = child(&first, 7, 9);
        window.apply(Arc::clone(&second)).unwrap();
        assert_eq!(stated(&window), Ok(9));
        let third = child(&second, 8, 8);
        window.apply(Arc::clone(&third)).unwrap();
        assert_eq!(stated(&window), Err(OtherFeeRules));
        window.apply(child(&third, 8, 8)).unwrap();
        assert_eq!(stated(&window), Err(OtherFeeRules), "one did not follow");
    }
}
