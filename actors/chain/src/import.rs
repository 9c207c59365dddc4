//! Verifies, executes and encodes: makes a block from a raw block.

pub(crate) mod genesis;

use std::{fmt, iter, sync::Arc};

use alloy_consensus::{BlockBody, Header};
use alloy_eips::eip4895::Withdrawals;
use alloy_genesis::{Genesis, GenesisAccount};
use alloy_primitives::{Address, B256, U256};
use alloy_rlp::Encodable;

use crate::{
    block::{
        ANCESTORS_MAX, Block, BlockParts, LazyJson, OMMER_ANCESTORS_MAX, OmmerAncestor, RawBlock,
        Receipt,
    },
    encode::{BlockJson, EncodeError, EncodeOptions},
    execute::{self, ExecuteError, Executed},
    fees::BlockFees,
    log_search::LogPostings,
    network::{ChainSpec, FeeRules, Rules, SpecError},
    trie::{NodeStore, State, TrieError},
    verify::{self, VerifyError},
};

pub use self::genesis::genesis_hash;

/// Imports the blocks of one chain into one node store.
#[derive(Debug)]
pub struct Importer {
    spec: ChainSpec,
    fee_rules: FeeRules,
    options: EncodeOptions,
    store: Arc<NodeStore>,
    /// The genesis header, with the state root of an empty state until the accounts are known.
    genesis: Header,
}

/// A block was refused; nothing of it was stored.
#[derive(Debug)]
pub struct ImportError {
    /// The block's number.
    pub(crate) number: u64,
    /// The block's hash.
    pub hash: B256,
    /// Why it was refused.
    pub(crate) kind: ImportErrorKind,
}

/// Why a block was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportErrorKind {
    /// A check of the header, the body, a signature or the outcome of execution failed.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The block cannot be executed.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// The state cannot be read or updated.
    #[error(transparent)]
    State(#[from] TrieError),
    /// The block's JSON is too large.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {} {}: {}", self.number, self.hash, self.kind)
    }
}

impl std::error::Error for ImportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.kind)
    }
}

impl ImportError {
    fn of(header: &Header, kind: impl Into<ImportErrorKind>) -> Self {
        Self {
            number: header.number,
            hash: header.hash_slow(),
            kind: kind.into(),
        }
    }
}

impl Importer {
    /// An importer for the chain of `genesis`; its accounts are not read here.
    ///
    /// # Errors
    /// A [`SpecError`] if the chain's rules are not supported.
    pub fn new(genesis: &Genesis, options: EncodeOptions) -> Result<Self, SpecError> {
        let spec = ChainSpec::from_genesis(genesis)?;
        let genesis = genesis::header(&spec.genesis_rules(genesis.timestamp), genesis);
        Ok(Self {
            fee_rules: FeeRules::of_genesis(spec.clone()),
            spec,
            options,
            store: NodeStore::new(),
            genesis,
        })
    }

    /// The chain's rules.
    #[must_use]
    pub const fn spec(&self) -> &ChainSpec {
        &self.spec
    }

    /// The node store that all imported blocks share.
    #[must_use]
    pub const fn store(&self) -> &Arc<NodeStore> {
        &self.store
    }

    /// The genesis block with the state of `accounts` (`alloc` of genesis.json).
    ///
    /// # Errors
    /// An [`ImportError`] if the state cannot be built.
    pub fn genesis<'a>(
        &self,
        accounts: impl IntoIterator<Item = (&'a Address, &'a GenesisAccount)>,
    ) -> Result<Arc<Block>, ImportError> {
        let state = genesis::state(&self.store, accounts)
            .map_err(|error| ImportError::of(&self.genesis, error))?;
        self.genesis_with_state(state)
    }

    /// The genesis block with a state that was built over [`Self::store`].
    ///
    /// # Errors
    /// An [`ImportError`] if the block's JSON is too large.
    pub(crate) fn genesis_with_state(&self, state: Arc<State>) -> Result<Arc<Block>, ImportError> {
        let header = Header {
            state_root: state.root(),
            ..self.genesis.clone()
        };
        let withdrawals = header.withdrawals_root.map(|_| Withdrawals::default());
        let raw = RawBlock {
            header,
            body: BlockBody {
                withdrawals,
                ..BlockBody::default()
            },
        };
        let block = self.make_block(&raw, &[], &[], Lineage::none())?;
        Ok(Arc::new(Block {
            state: Some(state),
            ..block
        }))
    }

    /// Verifies and executes `raw` on top of `parent`.
    ///
    /// # Errors
    /// An [`ImportError`] with the first check that fails; nothing is stored then.
    pub fn import(&self, raw: RawBlock, parent: &Block) -> Result<Arc<Block>, ImportError> {
        let rules = self.rules_after(parent, &raw.header);
        let checked = || -> Result<_, ImportErrorKind> {
            verify_block(&rules, &raw, parent)?;
            let senders = verify::recover_senders(&rules, &raw.body.transactions)?;
            let executed = execute::execute(&self.spec, parent, &raw, &senders)?;
            verify::check_outcome(&raw.header, &executed)?;
            Ok((senders, executed))
        };
        let (senders, executed) = checked().map_err(|kind| ImportError::of(&raw.header, kind))?;
        self.make_child(&raw, &senders, executed, parent)
    }

    /// Makes a block of the result of execution, without executing it again. The header is checked
    /// against `executed`.
    ///
    /// # Errors
    /// An [`ImportError`] with the first check that fails; nothing is stored then.
    pub fn import_executed(
        &self,
        raw: &RawBlock,
        senders: &[Address],
        executed: Executed,
        parent: &Block,
    ) -> Result<Arc<Block>, ImportError> {
        let rules = self.rules_after(parent, &raw.header);
        verify_block(&rules, raw, parent)
            .and_then(|()| verify::check_outcome(&raw.header, &executed))
            .map_err(|error| ImportError::of(&raw.header, error))?;
        self.make_child(raw, senders, executed, parent)
    }

    fn rules_after(&self, parent: &Block, header: &Header) -> Rules<'_> {
        let merged = self
            .spec
            .merged_after(parent.header.difficulty, parent.total_difficulty);
        self.spec.rules(header.number, header.timestamp, merged)
    }

    fn make_child(
        &self,
        raw: &RawBlock,
        senders: &[Address],
        executed: Executed,
        parent: &Block,
    ) -> Result<Arc<Block>, ImportError> {
        let block = self.make_block(raw, senders, &executed.receipts, Lineage::below(parent))?;
        Ok(Arc::new(Block {
            state: Some(executed.commit()),
            ..block
        }))
    }

    /// Makes the block without its state, which is stored only once nothing more can fail.
    fn make_block(
        &self,
        raw: &RawBlock,
        senders: &[Address],
        receipts: &[Receipt],
        lineage: Lineage,
    ) -> Result<Block, ImportError> {
        let header = &raw.header;
        let hash = header.hash_slow();
        let total_difficulty = lineage
            .total_difficulty
            .map(|sum| sum.saturating_add(header.difficulty));
        let parts = BlockParts {
            raw,
            hash,
            rlp_length: raw.length(),
            senders,
            receipts,
            fees: self.fee_rules.fees(header),
            total_difficulty,
        };
        let json = BlockJson::encode(&parts, self.options)
            .map_err(|error| ImportError::of(header, error))?;
        let ommer_ancestors = if self.spec.merged_after(header.difficulty, total_difficulty) {
            Vec::new()
        } else {
            let own = OmmerAncestor {
                hash,
                header: header.clone(),
                ommers: raw.body.ommers_hashes().collect(),
            };
            iter::once(Arc::new(own))
                .chain(lineage.ommer_ancestors)
                .collect()
        };
        Ok(block_from_parts(
            &parts,
            json.into(),
            lineage.ancestors,
            ommer_ancestors,
        ))
    }
}

/// Makes a block, still without its state, from verified and encoded parts.
pub(crate) fn block_from_parts(
    parts: &BlockParts<'_>,
    lazy_json: LazyJson,
    ancestors: Arc<[B256]>,
    ommer_ancestors: Vec<Arc<OmmerAncestor>>,
) -> Block {
    let transactions = parts.raw.body.transactions.iter();
    let logs = parts.receipts.iter().flat_map(|receipt| receipt.logs());
    Block {
        header: parts.raw.header.clone(),
        hash: parts.hash,
        transaction_hashes: transactions
            .map(|transaction| *transaction.tx_hash())
            .collect(),
        total_difficulty: parts.total_difficulty,
        ancestors,
        ommer_ancestors,
        lazy_json,
        postings: LogPostings::new(logs),
        fees: BlockFees::new(parts),
        state: None,
    }
}

/// What a block inherits from its parent.
#[derive(Debug)]
pub(crate) struct Lineage {
    /// The parent's total difficulty.
    pub(crate) total_difficulty: Option<U256>,
    /// Hashes of the parent and its ancestors.
    pub(crate) ancestors: Arc<[B256]>,
    /// The parent's `ommer_ancestors`, with room for the block itself.
    pub(crate) ommer_ancestors: Vec<Arc<OmmerAncestor>>,
}

impl Lineage {
    fn none() -> Self {
        Self {
            total_difficulty: Some(U256::ZERO),
            ancestors: Arc::from([]),
            ommer_ancestors: Vec::new(),
        }
    }

    pub(crate) fn below(parent: &Block) -> Self {
        Self {
            total_difficulty: parent.total_difficulty,
            ancestors: iter::once(parent.hash)
                .chain(parent.ancestors.iter().copied())
                .take(ANCESTORS_MAX)
                .collect(),
            ommer_ancestors: parent
                .ommer_ancestors
                .iter()
                .take(OMMER_ANCESTORS_MAX - 1)
                .cloned()
                .collect(),
        }
    }
}

fn verify_block(rules: &Rules<'_>, raw: &RawBlock, parent: &Block) -> Result<(), VerifyError> {
    verify::check_header(rules, &parent.header, parent.hash, &raw.header)?;
    verify::check_body(rules, raw)?;
    verify::check_ommers(rules, &parent.ommer_ancestors, &raw.body.ommers)
}

#[cfg(all(test, feature = "all-tests"))]
mod tests;
