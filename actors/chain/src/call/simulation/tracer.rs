//! The logs of a call, and its transfers of ether as logs.

use alloy_evm::eth::EthEvmContext;
use alloy_primitives::{Address, B256, Log, LogData, U256, address, b256};
use revm::{
    Database, Inspector,
    context_interface::JournalTr,
    interpreter::{CallInputs, CallOutcome, CallScheme, CallValue, CreateInputs, CreateOutcome},
};

/// What stands for ether where the address of a token is meant (ERC-7528).
const ETHER: Address = address!("0xEeeeeEeeeEeEeeEeEeEeeEEEeeeeEeeeeeeeEEeE");

/// `Transfer(address,address,uint256)`, as a token logs it (ERC-20).
const TRANSFER: B256 = b256!("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");

/// Records the logs of the calls of one block.
#[derive(Debug, Default)]
pub(super) struct Tracer {
    traces_transfers: bool,
    /// Logs of the block so far, also those that were reverted.
    count: u64,
    /// The logs of all calls that have not ended, the outermost first.
    frames: Vec<Vec<TracedLog>>,
}

/// A log, and its place in the block.
#[derive(Clone, Debug)]
pub(super) struct TracedLog {
    pub(super) log: Log,
    pub(super) index: u64,
}

impl Tracer {
    pub(super) fn new(traces_transfers: bool) -> Self {
        Self {
            traces_transfers,
            ..Self::default()
        }
    }

    /// Counts logs of calls that are not seen here.
    pub(super) fn skip_logs(&mut self, count: usize) {
        self.count += count as u64;
    }

    /// The logs of the call that has ended.
    pub(super) fn take_logs(&mut self) -> Vec<TracedLog> {
        let mut frames = std::mem::take(&mut self.frames).into_iter();
        frames.next().unwrap_or_default()
    }

    fn record(&mut self, log: Log) {
        let index = self.count;
        self.count += 1;
        if let Some(frame) = self.frames.last_mut() {
            frame.push(TracedLog { log, index });
        }
    }

    fn transfer(&mut self, from: Address, to: Address, value: U256) {
        if self.traces_transfers && !value.is_zero() {
            let topics = vec![TRANSFER, from.into_word(), to.into_word()];
            let data = value.to_be_bytes_vec().into();
            self.record(Log {
                address: ETHER,
                data: LogData::new_unchecked(topics, data),
            });
        }
    }

    fn end(&mut self, succeeded: bool) {
        let Some(mut ended) = self.frames.pop() else {
            return;
        };
        if !succeeded {
            ended.clear();
        }
        match self.frames.last_mut() {
            Some(caller) => caller.append(&mut ended),
            None => self.frames.push(ended),
        }
    }
}

impl<DB: Database> Inspector<EthEvmContext<DB>> for Tracer {
    fn log(&mut self, _: &mut EthEvmContext<DB>, log: Log) {
        self.record(log);
    }

    fn call(&mut self, _: &mut EthEvmContext<DB>, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.frames.push(Vec::new());
        if let CallValue::Transfer(value) = inputs.value {
            let to = match inputs.scheme {
                // geth reports the value, although it stays where it is.
                CallScheme::CallCode => inputs.bytecode_address,
                _ => inputs.target_address,
            };
            self.transfer(inputs.caller, to, value);
        }
        None
    }

    fn call_end(&mut self, _: &mut EthEvmContext<DB>, _: &CallInputs, outcome: &mut CallOutcome) {
        self.end(outcome.result.is_ok());
    }

    fn create(
        &mut self,
        context: &mut EthEvmContext<DB>,
        inputs: &mut CreateInputs,
    ) -> Option<CreateOutcome> {
        self.frames.push(Vec::new());
        if self.traces_transfers && !inputs.value().is_zero() {
            let creator = context.journaled_state.load_account(inputs.caller());
            // It was loaded before, so that does not fail.
            let nonce = creator.map_or(0, |creator| creator.info.nonce);
            let created = inputs.created_address(nonce);
            self.transfer(inputs.caller(), created, inputs.value());
        }
        None
    }

    fn create_end(
        &mut self,
        _: &mut EthEvmContext<DB>,
        _: &CreateInputs,
        outcome: &mut CreateOutcome,
    ) {
        self.end(outcome.result.is_ok());
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        self.transfer(contract, target, value);
    }
}
