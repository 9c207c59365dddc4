//! The header that says from which head an answer was made.

use std::cell::RefCell;

use actix_web::http::header::{HeaderName, HeaderValue};
use alloy_primitives::B256;
use nearhead_chain::block::Block;

/// The head of the snapshot that an answer was made from: `NUMBER, HASH`.
pub(super) const X_NEARHEAD_BLOCK: HeaderName = HeaderName::from_static("x-nearhead-block");

/// The value of [`X_NEARHEAD_BLOCK`] that a worker last sent, and the hash of its head. It is made
/// once for each head, so that a small answer costs no formatting and no allocation.
#[derive(Debug, Default)]
pub(super) struct BlockHeader(RefCell<Option<(B256, HeaderValue)>>);

impl BlockHeader {
    /// The value for this head; `None` if it can be no header, which no head is.
    pub(super) fn of(&self, head: &Block) -> Option<HeaderValue> {
        let mut last = self.0.borrow_mut();
        if let Some((hash, value)) = &*last
            && *hash == head.hash
        {
            return Some(value.clone());
        }
        let value = format!("{}, {}", head.number(), head.hash);
        let value = HeaderValue::try_from(value).ok()?;
        *last = Some((head.hash, value.clone()));
        Some(value)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use nearhead_chain::test_block::TestBlock;

    use super::*;

    #[test]
    fn each_head_is_named() {
        let genesis = TestBlock::default().genesis();
        let next = TestBlock::default().child_of(&genesis);
        let header = BlockHeader::default();
        for head in [&genesis, &genesis, &next, &next, &genesis] {
            let expected = format!("{}, {}", head.number(), head.hash);
            assert_eq!(header.of(head).unwrap(), expected.as_str());
        }
    }
}
