//! The content of the dev chain's blocks.

use alloy_consensus::{Header, transaction::Recovered};
use alloy_eips::{
    eip1559::INITIAL_BASE_FEE,
    eip2930::{AccessList, AccessListItem},
    eip4895::Withdrawal,
    eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
    eip7702::SignedAuthorization,
};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, map::AddressMap};

use super::{
    contracts::{self, Codes},
    population::Population,
    profile::{Profile, Sizes},
    random::Random,
    signer::Signers,
    unsigned::{Fees, TransactionCall, TransactionKind},
};
use crate::{
    block::Transaction,
    execute::BlockTemplate,
    network::{ChainSpec, Rules},
    trie::{State, TrieError},
    verify,
};

/// Number of signers that only authorize (EIP-7702) and never send, so that plain transfers do not
/// run their code.
const AUTHORITIES: usize = 8;

/// Number of accounts that take turns in receiving the tips.
const FEE_RECIPIENTS: u64 = 4;

/// Number of addresses that are not in the genesis and receive payments. At a block per second all
/// of them have been paid after about 15 hours, and the state stops growing.
const STRANGERS: u64 = 1 << 16;

/// Number of keys of the store contract that are written. It is small, so that many writes change
/// or clear a slot.
const STORE_KEYS: u64 = 256;

/// Maximum number of logs of one bursting transaction: at 684 gas each they stay below the
/// 16,777,216 gas that a transaction may use (EIP-7825).
const BURST_LOGS_MAX: u64 = 23_000;

/// Makes the content of blocks: a function of the configuration, the parent and the fork branch.
pub(super) struct Traffic {
    pub(super) seed: u64,
    pub(super) block_time_seconds: u64,
    pub(super) profile: Profile,
    pub(super) sizes: Sizes,
    pub(super) codes: Codes,
    pub(super) signers: Signers,
    pub(super) population: Population,
}

/// A transaction without a sender.
struct Intent {
    call: TransactionCall,
    shape: Shape,
}

/// What the type of an [`Intent`] must allow.
enum Shape {
    /// Nothing in particular: any type will do.
    Any,
    /// This many blobs.
    Blobs(u64),
    /// These authorizations.
    SetCode(Vec<SignedAuthorization>),
}

/// One block while it is made.
struct Draft<'a> {
    traffic: &'a Traffic,
    random: Random,
    number: u64,
    /// State of the parent, which has the next nonces.
    state: &'a State,
    /// Nonces that differ from the parent's.
    nonces: AddressMap<u64>,
    intents: Vec<Intent>,
}

impl Traffic {
    /// The content of the block after `parent` on fork branch `branch`; `state` is the parent's.
    pub(super) fn block(
        &self,
        spec: &ChainSpec,
        parent: &Header,
        state: &State,
        branch: u64,
    ) -> Result<BlockTemplate, TrieError> {
        let number = parent.number + 1;
        let timestamp = parent.timestamp + self.block_time_seconds;
        // The merge was before the genesis.
        let fees = fees_after(&spec.rules(number, timestamp, true), parent);
        let mut draft = Draft {
            traffic: self,
            random: Random::of_block(self.seed, number, branch),
            number,
            state,
            nonces: AddressMap::default(),
            intents: Vec::new(),
        };
        let prev_randao = draft.random.hash();
        let parent_beacon_block_root = draft.random.hash();
        let withdrawals = draft.withdrawals();
        draft.bulk();
        draft.burst();
        draft.creations();
        draft.revert_and_record();
        draft.blobs();
        draft.requests();
        draft.set_code()?;
        draft.ballast(&fees);
        Ok(BlockTemplate {
            timestamp,
            beneficiary: self.population.address(1 + number % FEE_RECIPIENTS),
            gas_limit: parent.gas_limit,
            prev_randao,
            extra_data: format!("nearhead dev {branch}").into_bytes().into(),
            withdrawals,
            parent_beacon_block_root,
            transactions: draft.sign(fees)?,
        })
    }
}

impl Draft<'_> {
    fn withdrawals(&mut self) -> Vec<Withdrawal> {
        let count = self.traffic.sizes.withdrawals;
        (0..count)
            .map(|position| Withdrawal {
                index: (self.number - 1) * count + position,
                validator_index: self.random.below(1_000_000),
                address: self.anyone(),
                amount: 10_000_000 + self.random.below(10_000_000),
            })
            .collect()
    }

    /// Adds the transactions that make up most of a block.
    fn bulk(&mut self) {
        let sizes = self.traffic.sizes;
        for _ in 0..self.random.within(sizes.transfers) {
            let to = self.anyone();
            let memo = if self.random.once_in(sizes.memo_once_in) {
                let mut memo = vec![0; self.random.within(sizes.memo_bytes) as usize];
                self.random.fill(&mut memo);
                memo
            } else {
                Vec::new()
            };
            // EIP-7623 charges 40 gas per byte of calldata if the call uses little other gas.
            // Contracts of the population read the memo as keys and values.
            let gas_limit = 60_000 + 40 * memo.len() as u64;
            let value = U256::from(self.random.below(1 << 60));
            self.push(TxKind::Call(to), value, memo.into(), gas_limit, Shape::Any);
        }
        for _ in 0..self.random.within(sizes.token_transfers) {
            self.token_transfers(1);
        }
        for _ in 0..self.random.within(sizes.token_batches) {
            let count = self.random.within(sizes.batch_transfers);
            self.token_transfers(count);
        }
        for _ in 0..self.random.within(sizes.swaps) {
            let count = self.random.within(sizes.batch_swaps);
            self.swaps(count);
        }
        for _ in 0..self.random.within(sizes.stores) {
            let input = self.stores(3);
            self.push(
                TxKind::Call(contracts::STORE),
                U256::ZERO,
                input,
                300_000,
                Shape::Any,
            );
        }
    }

    fn token_transfers(&mut self, count: u64) {
        let token = contracts::token(self.random.index(self.traffic.sizes.tokens));
        let input = contracts::transfers(&self.payments(count));
        let gas_limit = 60_000 + 40_000 * count;
        self.push(
            TxKind::Call(token),
            U256::ZERO,
            input,
            gas_limit,
            Shape::Any,
        );
    }

    fn swaps(&mut self, count: u64) {
        let pool = contracts::pool(self.random.index(self.traffic.sizes.pools));
        let input = contracts::swaps(&self.payments(count));
        let gas_limit = 100_000 + 10_000 * count;
        self.push(TxKind::Call(pool), U256::ZERO, input, gas_limit, Shape::Any);
    }

    fn payments(&mut self, count: u64) -> Vec<(Address, u64)> {
        (0..count)
            .map(|_| (self.anyone(), self.random.below(1 << 40)))
            .collect()
    }

    /// Calldata of the store: one to `count_max` writes, one in four a deletion.
    fn stores(&mut self, count_max: u64) -> Bytes {
        let pairs: Vec<_> = (0..self.random.within((1, count_max)))
            .map(|_| {
                let cleared = self.random.once_in(4);
                let value = if cleared { 0 } else { self.random.word() };
                (self.random.below(STORE_KEYS), value)
            })
            .collect();
        contracts::stores(&pairs)
    }

    /// The logs without topics of an adversarial block.
    fn burst(&mut self) {
        let mut left = self.traffic.profile.burst_logs(self.number);
        while left > 0 {
            let logs = left.min(BURST_LOGS_MAX);
            let input = U256::from(logs).to_be_bytes::<32>().into();
            let gas_limit = 50_000 + 690 * logs;
            self.push(
                TxKind::Call(contracts::BURST),
                U256::ZERO,
                input,
                gas_limit,
                Shape::Any,
            );
            left -= logs;
        }
    }

    /// Adds a creation that deploys a contract, one that leaves none (four ways take turns), and
    /// one through the factory.
    fn creations(&mut self) {
        let codes = &self.traffic.codes;
        self.push(
            TxKind::Create,
            U256::ZERO,
            codes.create_store.clone(),
            300_000,
            Shape::Any,
        );
        let leaves_none = match self.number % 4 {
            3 => &codes.create_and_destroy,
            other => &codes.create_nothing[other as usize],
        };
        self.push(
            TxKind::Create,
            U256::ZERO,
            leaves_none.clone(),
            100_000,
            Shape::Any,
        );
        let child = if self.random.once_in(4) {
            leaves_none
        } else {
            &codes.create_store
        };
        let input = [self.random.hash().as_slice(), child].concat().into();
        self.push(
            TxKind::Call(contracts::FACTORY),
            U256::ZERO,
            input,
            400_000,
            Shape::Any,
        );
    }

    /// Adds a call that reverts, and a call of the recorder.
    fn revert_and_record(&mut self) {
        self.push(
            TxKind::Call(contracts::REVERTER),
            U256::ZERO,
            Bytes::new(),
            100_000,
            Shape::Any,
        );
        let shape = match self.number % 3 {
            0 => Shape::Any,
            _ => Shape::Blobs(self.random.within((1, 3))),
        };
        self.push(
            TxKind::Call(contracts::RECORDER),
            U256::from(1),
            Bytes::new(),
            500_000,
            shape,
        );
    }

    /// Adds blobs to two of three blocks, sometimes more than the target of 14, so that their price
    /// moves. A block may have 21 blobs, 3 of which are for the recorder.
    fn blobs(&mut self) {
        if self.number.is_multiple_of(3) {
            return;
        }
        for _ in 0..self.random.within((1, 3)) {
            let recipient = TxKind::Call(self.anyone());
            let shape = Shape::Blobs(self.random.within((4, 6)));
            self.push(recipient, U256::ZERO, Bytes::new(), 60_000, shape);
        }
    }

    /// Execution layer requests: a deposit (EIP-6110), a validator's withdrawal (EIP-7002), a
    /// consolidation (EIP-7251).
    fn requests(&mut self) {
        let fill = self.random.word() as u8;
        let (to, input) = match self.number % 6 {
            1 => (contracts::DEPOSIT, contracts::deposit(fill, self.number)),
            3 => (
                WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
                Bytes::from([fill; 56]),
            ),
            5 => (
                CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
                Bytes::from([fill; 96]),
            ),
            _ => return,
        };
        // The fee is one wei while requests are few; the contract keeps the excess.
        self.push(TxKind::Call(to), U256::from(10), input, 400_000, Shape::Any);
    }

    /// In every other block, accounts delegate to the store or remove their delegation, and the
    /// first of them is called.
    fn set_code(&mut self) -> Result<(), TrieError> {
        if !self.number.is_multiple_of(2) {
            return Ok(());
        }
        let signers = &self.traffic.signers;
        let senders = signers.len() - AUTHORITIES;
        let first = self.random.index(AUTHORITIES);
        let mut authorizations = Vec::new();
        for position in 0..self.random.within((1, 3)) as usize {
            let authority = senders + (first + position) % AUTHORITIES;
            let is_removal = self.random.once_in(4);
            let delegate = if is_removal {
                Address::ZERO
            } else {
                contracts::STORE
            };
            let nonce = self.next_nonce(signers.address(authority))?;
            authorizations.push(signers.authorize(authority, delegate, nonce));
        }
        // An authorization with the wrong nonce, which is skipped.
        if self.number.is_multiple_of(8) {
            authorizations.push(signers.authorize(senders + first, Address::ZERO, u64::MAX - 1));
        }
        let to = TxKind::Call(signers.address(senders + first));
        let input = self.stores(2);
        self.push(
            to,
            U256::from(1),
            input,
            500_000,
            Shape::SetCode(authorizations),
        );
        Ok(())
    }

    /// Keeps the base fee near its initial value: while it is lower, a creation that fails burns
    /// gas.
    fn ballast(&mut self, fees: &Fees) {
        let gas_limit = self.traffic.sizes.ballast_gas;
        if gas_limit > 0 && fees.base < u128::from(INITIAL_BASE_FEE) {
            // Deploying code that begins with 0xef uses all the gas (EIP-3541).
            let code = self.traffic.codes.create_nothing[1].clone();
            self.push(TxKind::Create, U256::ZERO, code, gas_limit, Shape::Any);
        }
    }

    fn push(&mut self, to: TxKind, value: U256, input: Bytes, gas_limit: u64, shape: Shape) {
        self.intents.push(Intent {
            call: TransactionCall {
                to,
                value,
                input,
                gas_limit,
            },
            shape,
        });
    }

    /// A recipient: nine times in ten an account of the genesis, else one of [`STRANGERS`].
    fn anyone(&mut self) -> Address {
        let Traffic {
            signers,
            population,
            ..
        } = self.traffic;
        match self.random.below(10) {
            0 => population.address(population.len + self.random.below(STRANGERS)),
            1 => signers.address(self.random.index(signers.len() - AUTHORITIES)),
            _ => population.address(self.random.below(population.len)),
        }
    }

    /// The nonce of `address` for its next transaction or authorization in this block.
    fn next_nonce(&mut self, address: Address) -> Result<u64, TrieError> {
        let nonce = match self.nonces.get(&address) {
            Some(nonce) => *nonce,
            None => self
                .state
                .account(&address)?
                .map_or(0, |account| account.nonce),
        };
        self.nonces.insert(address, nonce + 1);
        Ok(nonce)
    }

    /// Gives the intents an order, senders, types and signatures.
    fn sign(mut self, fees: Fees) -> Result<Vec<Recovered<Transaction>>, TrieError> {
        let signers = &self.traffic.signers;
        let mut intents = std::mem::take(&mut self.intents);
        self.random.shuffle(&mut intents);
        let mut plain = 0;
        let mut signed = Vec::with_capacity(intents.len());
        for Intent { call, shape } in intents {
            let sender = self.random.index(signers.len() - AUTHORITIES);
            let address = signers.address(sender);
            let kind = match shape {
                Shape::Blobs(count) => TransactionKind::Eip4844(self.versioned_hashes(count)),
                Shape::SetCode(authorizations) => TransactionKind::Eip7702(authorizations),
                Shape::Any => {
                    plain += 1;
                    self.any_kind(plain, &call, &address)
                }
            };
            let nonce = self.next_nonce(address)?;
            let tip = 1 + u128::from(self.random.below(2_000_000_000));
            signed.push(signers.sign(sender, nonce, call, kind, Fees { tip, ..fees }));
        }
        Ok(signed)
    }

    /// The type of the plain transaction with this number: the first four of a block have four
    /// different types, the others mostly the common one.
    fn any_kind(
        &mut self,
        plain: u64,
        call: &TransactionCall,
        sender: &Address,
    ) -> TransactionKind {
        let draw = if plain <= 4 {
            plain
        } else {
            1 + self.random.below(20)
        };
        match draw {
            1 => TransactionKind::Unprotected,
            2 => TransactionKind::Eip2930(access_list(call, sender)),
            4 => TransactionKind::Eip1559(access_list(call, sender)),
            3 | 5 | 6 => TransactionKind::Legacy,
            _ => TransactionKind::Eip1559(AccessList::default()),
        }
    }

    fn versioned_hashes(&mut self, count: u64) -> Vec<B256> {
        (0..count)
            .map(|_| {
                let mut hash = self.random.hash();
                // VERSIONED_HASH_VERSION_KZG (EIP-4844).
                hash[0] = 1;
                hash
            })
            .collect()
    }
}

/// The slot that the sender's call touches if the callee is a token.
fn access_list(call: &TransactionCall, sender: &Address) -> AccessList {
    let item = |address: &Address| AccessListItem {
        address: *address,
        storage_keys: vec![contracts::balance_slot(sender)],
    };
    AccessList(call.to.to().map(item).into_iter().collect())
}

/// The fees of the block after `parent`.
fn fees_after(rules: &Rules<'_>, parent: &Header) -> Fees {
    let base = verify::base_fee(rules, parent).unwrap_or_default();
    let blob = rules
        .blob_params()
        .zip(verify::excess_blob_gas(rules, parent))
        .map_or(0, |(params, excess)| params.calc_blob_fee(excess));
    Fees {
        base: u128::from(base),
        blob,
        tip: 0,
    }
}
