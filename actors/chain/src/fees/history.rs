//! The fees of several blocks (eth_feeHistory).

use std::sync::Arc;

use super::{
    block_fees::{OtherFeeRules, PaidTip},
    next_block::next_base_fee,
};
use crate::{
    block::Block, encode::writer::JsonWriter, json::Json, network::HeaderFees, window::Snapshot,
};

/// Most percentiles of one request, as in geth.
pub const PERCENTILES_MAX: usize = 100;

/// The fees of canonical blocks whose numbers follow each other.
#[derive(Debug)]
pub struct FeeHistory<'a> {
    blocks: &'a [Arc<Block>],
    /// The base fee of the block after them.
    next_base_fee: u64,
}

impl<'a> FeeHistory<'a> {
    /// Up to `count` blocks, of which `newest` is the last. It is in the window; blocks below the
    /// window are left out.
    ///
    /// # Errors
    /// [`OtherFeeRules`] if `newest` is the head, and what the next block asks for is not known.
    pub fn new(snapshot: &'a Snapshot, newest: u64, count: u64) -> Result<Self, OtherFeeRules> {
        let oldest = newest.saturating_add(1).saturating_sub(count);
        let after = newest.saturating_add(1);
        let next = snapshot.range(after, after).first();
        Ok(Self {
            blocks: match count {
                0 => &[],
                _ => snapshot.range(oldest, newest),
            },
            next_base_fee: match next {
                Some(next) => next.header.base_fee_per_gas.unwrap_or_default(),
                None => next_base_fee(snapshot)?.unwrap_or_default(),
            },
        })
    }

    /// The object, with the priority fees at these percentiles of each block's gas if there are
    /// any. They ascend, from 0 to 100.
    ///
    /// Arrays of fees have one member more than there are blocks, for the next block. Fees before
    /// London or Cancun are zero. The blob members are left out if the parameters of blobs are
    /// not known.
    #[must_use]
    pub fn json(&self, percentiles: &[f64]) -> Json {
        let Some(newest) = self.blocks.last() else {
            return Json::fixed(r#"{"oldestBlock":"0x0","baseFeePerGas":[],"gasUsedRatio":[]}"#);
        };
        let fees = self.blocks.iter().map(|block| &block.fees.header);
        let size_hint = self.blocks.len() * (128 + 16 * percentiles.len());
        let mut w = JsonWriter::with_capacity(size_hint);
        w.raw("{");
        w.member("oldestBlock").number(self.blocks[0].number());
        if !percentiles.is_empty() {
            w.member("reward").array(self.blocks, |w, block| {
                w.array(rewards(block, percentiles), |w, tip| {
                    w.wide(tip);
                });
            });
        }
        let base_fees = self.blocks.iter();
        let base_fees = base_fees.map(|block| block.header.base_fee_per_gas.unwrap_or_default());
        w.member("baseFeePerGas")
            .array(base_fees.chain([self.next_base_fee]), |w, fee| {
                w.number(fee);
            });
        w.member("gasUsedRatio").array(self.blocks, |w, block| {
            ratio(w, block.header.gas_used, block.header.gas_limit);
        });
        if !fees.clone().all(HeaderFees::are_blobs_known) {
            w.raw("}");
            return Json::own(w.finish());
        }
        let blob_fees = fees.clone().map(|fees| fees.blob_gas_price);
        let next = newest.fees.header.next_blob_gas_price;
        w.member("baseFeePerBlobGas")
            .array(blob_fees.chain([next]), |w, fee| {
                w.wide(fee.unwrap_or_default());
            });
        w.member("blobGasUsedRatio")
            .array(self.blocks.iter().zip(fees), |w, (block, fees)| {
                let used = block.header.blob_gas_used.unwrap_or_default();
                ratio(w, used, fees.blob_gas_max.unwrap_or_default());
            });
        w.raw("}");
        Json::own(w.finish())
    }
}

/// The priority fees at these percentiles of the gas that the block used.
fn rewards<'a>(block: &'a Block, percentiles: &'a [f64]) -> impl Iterator<Item = u128> + 'a {
    let tips = &block.fees.tips;
    let mut at = 0;
    let mut gas = tips.first().map_or(0, |paid| paid.gas_used);
    percentiles.iter().map(move |percentile| {
        let threshold = (block.header.gas_used as f64 * percentile / 100.0) as u64;
        while gas < threshold
            && let Some(PaidTip { gas_used, .. }) = tips.get(at + 1)
        {
            gas = gas.saturating_add(*gas_used);
            at += 1;
        }
        tips.get(at).map_or(0, |paid| paid.tip)
    })
}

/// A number from 0 to 1, with as many digits as tell it from every other one.
fn ratio(w: &mut JsonWriter, used: u64, max: u64) {
    let ratio = match max {
        0 => 0.0,
        max => used as f64 / max as f64,
    };
    w.raw(ratio.to_string());
}
