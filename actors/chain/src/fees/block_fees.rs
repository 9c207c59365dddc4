//! What the transactions of a block paid.

use alloy_consensus::Transaction as _;

use crate::{block::BlockParts, network::HeaderFees};

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
    /// The lowest tips that count for a suggestion, ascending: not those close to nothing, and not
    /// the proposer's own.
    pub(super) samples: Box<[u128]>,
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
    pub fn new(parts: &BlockParts<'_>) -> Self {
        let header = &parts.raw.header;
        let base_fee = header.base_fee_per_gas;
        let mut gas_before = 0;
        let transactions = &parts.raw.body.transactions;
        let paid = transactions.iter().zip(parts.receipts).enumerate();
        let mut paid: Vec<_> = paid
            .map(|(index, (transaction, receipt))| {
                let cumulative = receipt.cumulative_gas_used();
                let gas_used = cumulative.saturating_sub(gas_before);
                gas_before = cumulative;
                let price = transaction.effective_gas_price(base_fee);
                let tip = price.saturating_sub(base_fee.unwrap_or_default().into());
                (PaidTip { tip, gas_used }, index)
            })
            .collect();
        paid.sort_by_key(|(paid, _)| paid.tip);
        // Only those that may count have to be recovered.
        let sender = |index: usize| match parts.senders.get(index) {
            None => transactions[index].sender_source().address(),
            sender => sender.copied(),
        };
        let counts = |(paid, index): &&(PaidTip, usize)| {
            paid.tip >= SAMPLE_MIN && sender(*index) != Some(header.beneficiary)
        };
        let samples = paid.iter().filter(counts).take(SAMPLES_MAX);
        Self {
            header: parts.fees,
            samples: samples.map(|(paid, _)| paid.tip).collect(),
            tips: paid.into_iter().map(|(paid, _)| paid).collect(),
        }
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
        size_of_val(&*self.tips) + size_of_val(&*self.samples)
    }
}
