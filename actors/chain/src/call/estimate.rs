//! The least gas with which a call succeeds.
//!
//! Source: go-ethereum 1.17.4, `eth/gasestimator/gasestimator.go`, whose tolerance is the same.

use alloy_eips::eip4844::DATA_GAS_PER_BLOB;
use alloy_primitives::U256;
use revm::context_interface::cfg::gas::CALL_STIPEND;

use super::{
    error::CallError,
    run::{CallRunner, Ran},
};

/// Gas of a transfer.
const TRANSFER_GAS: u64 = 21_000;

/// An estimate is at most this much of itself too high, in thousandths.
const TOLERANCE: u128 = 15;

impl CallRunner<'_> {
    /// The gas with which the call succeeds, up to 1.5% too much (eth_estimateGas).
    ///
    /// # Errors
    /// Any [`CallError`]; that of the call itself if no gas would be enough.
    pub fn estimate(&self) -> Result<u64, CallError> {
        let request = &self.call.request;
        let mut most = self.most_gas()?;
        if request.input.is_empty() && request.to.is_some() {
            // Most accounts have no code, and what is sent to them takes as much as a transfer.
            let ran = self.run(TRANSFER_GAS);
            match ran {
                Ok(ran) if ran.output.is_ok() && !self.calls_code()? => return Ok(TRANSFER_GAS),
                Err(error @ (CallError::Missing(_) | CallError::Cancelled)) => return Err(error),
                _ => {}
            }
        }
        let ran = match self.run_within(most)? {
            Some(ran) => ran,
            None => return Err(exceeds(most)),
        };
        match ran.output {
            Err(error) if error.is_out_of_gas() => return Err(exceeds(most)),
            output => _ = output?,
        }
        let mut least = ran.gas_used.saturating_sub(1);
        // Contracts may keep a 64th of their gas back.
        let likely = ran
            .gas_before_refund
            .saturating_add(CALL_STIPEND)
            .saturating_mul(64)
            / 63;
        if likely < most {
            self.narrow(likely, &mut least, &mut most)?;
        }
        while least + 1 < most && !is_close(least, most) {
            let middle = least.midpoint(most).min(least.saturating_mul(2));
            self.narrow(middle, &mut least, &mut most)?;
        }
        Ok(most)
    }

    /// Finds out on which side of `gas` the estimate is.
    fn narrow(&self, gas: u64, least: &mut u64, most: &mut u64) -> Result<(), CallError> {
        let ran = self.run_within(gas)?;
        match ran.is_some_and(|ran| ran.output.is_ok()) {
            true => *most = gas,
            false => *least = gas,
        }
        Ok(())
    }

    /// Runs the call; `None` if the gas is not enough to begin.
    fn run_within(&self, gas: u64) -> Result<Option<Ran>, CallError> {
        match self.run(gas) {
            Ok(ran) => Ok(Some(ran)),
            Err(CallError::Refused { reason, .. })
                if reason.starts_with("intrinsic gas too low") =>
            {
                Ok(None)
            }
            Err(error) => {
                Err(error.with_words(|gas, reason| format!("failed with {gas} gas: {reason}")))
            }
        }
    }

    /// The most gas that a transaction could have, and the sender could pay for.
    fn most_gas(&self) -> Result<u64, CallError> {
        let request = &self.call.request;
        let asked = request.gas.filter(|gas| *gas >= TRANSFER_GAS);
        let mut most = asked.unwrap_or(self.environment.evm.block_env.gas_limit);
        if let Some(bound) = self.environment.transaction_gas_max {
            most = most.min(bound);
        }
        let price = U256::from(request.price.most());
        if !price.is_zero() {
            let balance = self.balance()?;
            let blobs = request.blob_hashes.as_ref().map_or(0, Vec::len) as u64;
            let blobs = if self.environment.has_blobs { blobs } else { 0 };
            let blob_price = U256::from(request.max_fee_per_blob_gas.unwrap_or_default());
            let blob_cost = blob_price.saturating_mul(U256::from(blobs * DATA_GAS_PER_BLOB));
            let left = balance.checked_sub(request.value);
            let left = left.filter(|left| !left.is_zero());
            let left = left.ok_or_else(|| CallError::invalid("insufficient funds for transfer"))?;
            let left = left.checked_sub(blob_cost);
            let left = left
                .filter(|left| !left.is_zero())
                .ok_or_else(|| CallError::invalid("insufficient funds for gas * price + value"))?;
            let affordable = u64::try_from(left / price).unwrap_or(u64::MAX);
            most = most.min(affordable);
        }
        Ok(most.min(self.call.gas_max))
    }
}

/// Whether the bounds of an estimate are as close as they need be.
fn is_close(least: u64, most: u64) -> bool {
    u128::from(most - least) * 1_000 < u128::from(most) * TOLERANCE
}

fn exceeds(most: u64) -> CallError {
    CallError::invalid(format!("gas required exceeds allowance ({most})"))
}
