//! What the transactions of a block paid.

use alloy_consensus::{Header, Transaction as _};

use crate::{
    block::{BlockParts, RawBlock, Receipt, Transaction},
    network::HeaderFees,
};

/// Tips of a block that a suggestion looks at.
pub(super) const SAMPLES_MAX: usize = 3;

/// Lower tips say nothing of what others have to pay.
const SAMPLE_MIN: u128 = 2;

/// The chain's fee rules are not Ethereum's, and are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the chain's fee rules are not known")]
pub struct OtherFeeRules;

/// What the transactions of a block paid, and what follows from its header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockFees {
    /// What follows from the header by the chain's rules.
    pub(super) header: HeaderFees,
    /// One for each transaction, the lowest first; equal ones in block order.
    pub(super) tips: Box<[PaidTip]>,
}

/// The priority fee that a transaction paid, and its gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PaidTip {
    pub(super) tip: u128,
    pub(super) gas_used: u64,
}

impl BlockFees {
    /// The fees of this block.
    #[must_use]
    pub fn new(raw: &RawBlock, receipts: &[Receipt], header: HeaderFees) -> Self {
        let mut gas_before = 0;
        let each = raw.body.transactions.iter().zip(receipts);
        let mut tips: Box<[_]> = each
            .map(|(transaction, receipt)| {
                let cumulative = receipt.cumulative_gas_used();
                let gas_used = cumulative.saturating_sub(gas_before);
                gas_before = cumulative;
                let tip = tip(&raw.header, transaction);
                PaidTip { tip, gas_used }
            })
            .collect();
        tips.sort_by_key(|paid| paid.tip);
        Self { header, tips }
    }

    /// Price of a unit of blob gas in the block (EIP-4844); `None` before Cancun.
    ///
    /// # Errors
    /// [`OtherFeeRules`] if the chain's blob parameters are not known.
    pub fn blob_gas_price(&self) -> Result<Option<u128>, OtherFeeRules> {
        let fees = &self.header;
        match fees.are_blobs_known() {
            true => Ok(fees.blob_gas_price),
            false => Err(OtherFeeRules),
        }
    }

    /// Bytes of memory behind it.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.tips)
    }
}

/// The lowest tips of a block that count for a suggestion, ascending: not those close to nothing,
/// and not the proposer's own.
pub(crate) fn tip_samples(parts: &BlockParts<'_>) -> Box<[u128]> {
    let header = &parts.raw.header;
    let each = parts.raw.body.transactions.iter().zip(parts.senders);
    let counts = each.filter(|(_, sender)| **sender != header.beneficiary);
    let tips = counts.map(|(transaction, _)| tip(header, transaction));
    let mut tips: Vec<_> = tips.filter(|tip| *tip >= SAMPLE_MIN).collect();
    tips.sort_unstable();
    tips.truncate(SAMPLES_MAX);
    tips.into()
}

/// The priority fee that a transaction paid in the block with this header.
fn tip(header: &Header, transaction: &Transaction) -> u128 {
    let base_fee = header.base_fee_per_gas;
    let price = transaction.effective_gas_price(base_fee);
    price.saturating_sub(base_fee.unwrap_or_default().into())
}
