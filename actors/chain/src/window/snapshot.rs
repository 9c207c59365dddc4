//! An immutable state of the window.

use std::sync::Arc;

use alloy_primitives::{B256, map::B256Map};

use super::{
    block_id::{BlockId, BlockNumberOrTag, BlockTag, ResolveError},
    limits::WINDOW_BLOCKS,
    past_hashes::PastHashes,
    transactions::TransactionIndex,
};
use crate::{block::Block, network::ServedChain};

/// A consistent, immutable state of the window: what a request, and every item of a batch, reads.
///
/// An old snapshot never changes, and keeps its blocks and their states in memory.
///
/// | method | resolves with |
/// |---|---|
/// | block methods by number or tag | [`Self::resolve_block`]: the window, and the genesis |
/// | block methods by hash | [`Self::by_hash`]: canonical and replaced blocks, and the genesis |
/// | state methods | [`Self::resolve_id`] |
/// | bounds of a log query | [`Self::resolve`], then [`Self::range`] |
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) chain: ServedChain,
    pub(super) version: u64,
    /// Oldest first, numbers without a gap; never empty.
    pub(super) canonical: Vec<Arc<Block>>,
    /// The priority fee that is suggested at each of them.
    pub(super) suggested_tips: Vec<u128>,
    /// Canonical and replaced blocks, by hash.
    pub(super) held: B256Map<Arc<Block>>,
    pub(super) transactions: TransactionIndex,
    /// The canonical block 0 while it is in the window, then a copy of it without its state.
    pub(super) genesis: Option<Arc<Block>>,
    pub(super) safe: Option<SettledBlock>,
    pub(super) finalized: Option<SettledBlock>,
    /// Whether a block was released or refused because the blocks together are too large.
    pub(super) is_cut_short: bool,
    /// Of blocks that were canonical and are not held any more.
    pub(super) past: Arc<PastHashes>,
}

/// A block that the source called safe or finalized; the number stays known after the block leaves
/// the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SettledBlock {
    pub(super) number: u64,
    pub(super) hash: B256,
}

impl Snapshot {
    /// The chain id (EIP-155).
    #[must_use]
    pub const fn chain_id(&self) -> u64 {
        self.chain.id
    }

    /// The chain.
    #[must_use]
    pub const fn chain(&self) -> &ServedChain {
        &self.chain
    }

    /// A number that grows with every change of the window.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The newest block.
    #[must_use]
    pub fn head(&self) -> &Arc<Block> {
        &self.canonical[self.canonical.len() - 1]
    }

    /// Whether a block with this hash is or was canonical, as far as that is remembered: blocks
    /// that are held, and the last thousand that were released.
    #[must_use]
    pub fn has_seen(&self, hash: &B256) -> bool {
        self.by_hash(hash).is_some() || self.past.contains(hash)
    }

    /// Number of the oldest canonical block in the window.
    #[must_use]
    pub fn oldest(&self) -> u64 {
        self.canonical[0].number()
    }

    /// Canonical blocks, oldest first.
    #[must_use]
    pub fn canonical(&self) -> &[Arc<Block>] {
        &self.canonical
    }

    /// The priority fee that is suggested at the head, in wei per unit of gas.
    #[must_use]
    pub fn suggested_tip(&self) -> u128 {
        self.suggested_tips[self.suggested_tips.len() - 1]
    }

    /// The canonical blocks of `from..=to` that are in the window, oldest first.
    #[must_use]
    pub fn range(&self, from: u64, to: u64) -> &[Arc<Block>] {
        let from = from.max(self.oldest());
        let to = to.min(self.head().number());
        if from > to {
            return &[];
        }
        let place = |number| (number - self.oldest()) as usize;
        &self.canonical[place(from)..=place(to)]
    }

    /// The genesis block. It is never released, because clients check it at start; its state is
    /// released when it leaves the window.
    ///
    /// `None` if the window began above it, until the source supplies it or the window reaches it.
    #[must_use]
    pub const fn genesis(&self) -> Option<&Arc<Block>> {
        self.genesis.as_ref()
    }

    /// Any held block: canonical, replaced, or the genesis.
    #[must_use]
    pub fn by_hash(&self, hash: &B256) -> Option<&Arc<Block>> {
        let genesis = || {
            self.genesis
                .as_ref()
                .filter(|genesis| genesis.hash == *hash)
        };
        self.held.get(hash).or_else(genesis)
    }

    /// Number and hash of the safe block, if the source has named it. It may be below the window.
    #[must_use]
    pub fn safe(&self) -> Option<(u64, B256)> {
        self.safe.map(|settled| (settled.number, settled.hash))
    }

    /// The same of the finalized block.
    #[must_use]
    pub fn finalized(&self) -> Option<(u64, B256)> {
        self.finalized.map(|settled| (settled.number, settled.hash))
    }

    /// Whether the window has [`WINDOW_BLOCKS`] blocks, all blocks of the chain, or as many as its
    /// budget of bytes allows.
    #[must_use]
    pub fn is_filled(&self) -> bool {
        self.canonical.len() >= WINDOW_BLOCKS || self.oldest() == 0 || self.is_cut_short
    }

    /// The error for a hash that is not found: while the window fills, the block or transaction may
    /// exist.
    #[must_use]
    pub fn not_found(&self) -> ResolveError {
        match self.is_filled() {
            true => ResolveError::UnknownHash,
            false => ResolveError::NotFilled,
        }
    }

    /// Whether the block is canonical, as far as the window and the genesis show.
    #[must_use]
    pub fn is_canonical(&self, block: &Block) -> bool {
        self.by_number(block.number())
            .or(self.genesis())
            .is_some_and(|canonical| canonical.hash == block.hash)
    }

    /// A canonical transaction by its hash: its block and index. If the chain has it twice, the
    /// newer one.
    #[must_use]
    pub fn transaction(&self, hash: &B256) -> Option<(&Arc<Block>, usize)> {
        let place = self.transactions.get(hash)?;
        Some((self.by_number(place.number)?, place.index as usize))
    }

    /// Resolves a number or tag to a canonical block of the window.
    ///
    /// # Errors
    /// [`ResolveError::AboveHead`], [`ResolveError::BelowWindow`], and [`ResolveError::UnknownTag`]
    /// if the source has not named the safe or finalized block.
    pub fn resolve(&self, at: BlockNumberOrTag) -> Result<&Arc<Block>, ResolveError> {
        let number = self.number(at)?;
        let (oldest, newest) = (self.oldest(), self.head().number());
        if number > newest {
            Err(ResolveError::AboveHead { number })
        } else {
            self.by_number(number)
                .ok_or(ResolveError::BelowWindow { number, oldest })
        }
    }

    /// Resolves a number or tag for a method that reads no state: like [`Self::resolve`], but the
    /// genesis is found below the window too.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub fn resolve_block(&self, at: BlockNumberOrTag) -> Result<&Arc<Block>, ResolveError> {
        match self.resolve(at) {
            Err(ResolveError::BelowWindow { number: 0, oldest }) => self
                .genesis()
                .ok_or(ResolveError::BelowWindow { number: 0, oldest }),
            resolved => resolved,
        }
    }

    /// Resolves a block parameter of the state methods: a block whose state is held.
    ///
    /// # Errors
    /// As [`Self::resolve`] by number; [`ResolveError::UnknownHash`],
    /// [`ResolveError::NotCanonical`], and [`ResolveError::BelowWindow`] for the genesis by hash.
    pub fn resolve_id(&self, at: BlockId) -> Result<&Arc<Block>, ResolveError> {
        let (hash, require_canonical) = match at {
            BlockId::Number(at) => return self.resolve(at),
            BlockId::Hash {
                hash,
                require_canonical,
            } => (hash, require_canonical),
        };
        let block = self.by_hash(&hash).ok_or(ResolveError::UnknownHash)?;
        let (number, oldest) = (block.number(), self.oldest());
        if number < oldest {
            Err(ResolveError::BelowWindow { number, oldest })
        } else if require_canonical && !self.is_canonical(block) {
            Err(ResolveError::NotCanonical)
        } else {
            Ok(block)
        }
    }

    /// The canonical block with this number, if the window holds it.
    pub(super) fn by_number(&self, number: u64) -> Option<&Arc<Block>> {
        let place = number.checked_sub(self.oldest())?;
        self.canonical.get(usize::try_from(place).ok()?)
    }

    fn number(&self, at: BlockNumberOrTag) -> Result<u64, ResolveError> {
        let settled = |block: Option<SettledBlock>| {
            block.map_or(Err(ResolveError::UnknownTag), |block| Ok(block.number))
        };
        match at {
            BlockNumberOrTag::Number(number) => Ok(number),
            BlockNumberOrTag::Tag(tag) => match tag {
                BlockTag::Latest | BlockTag::Pending => Ok(self.head().number()),
                BlockTag::Earliest => Ok(self.oldest()),
                BlockTag::Safe => settled(self.safe),
                BlockTag::Finalized => settled(self.finalized),
            },
        }
    }
}
