//! The rules that the headers of a followed chain are checked against.

use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::B256;

use super::{
    VerifyError,
    header::{check_child, ensure_eq},
};
use crate::network::{ChainSpec, Rules};

/// How far ahead of the clock a block may be, in seconds. Clients allow as much: clocks differ.
const AHEAD_SECONDS_MAX: u64 = 15;

/// What a followed chain's headers are checked against: the rules of their forks, or nothing but
/// the link to the parent.
///
/// Without rules, a chain of any kind is followed: some repeat timestamps, have longer extra data,
/// or set the gas limit freely.
#[derive(Clone, Debug)]
pub struct HeaderRules(Option<Box<ChainSpec>>);

/// Whether headers are checked: the values of the option `--header-rules`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderRulesMode {
    /// Where the chain's rules are known: a known network, or a given genesis.
    #[default]
    Auto,
    /// Always; a chain whose rules are not known is refused.
    On,
    /// Never.
    Off,
}

/// Headers are to be checked, and the chain's rules are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the rules of this chain are not known: name its genesis or its network, or do not switch \
     the header rules on"
)]
pub struct RulesUnknown;

/// Why a block is not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderRefusal {
    /// The header breaks a rule: a fault of the upstream that gave it.
    #[error(transparent)]
    Broken(#[from] VerifyError),
    /// The header has the members of a fork whose date is not known here. It cannot be checked, and
    /// that is nobody's fault.
    #[error(
        "block {number} is of a fork that is not known here: upgrade nearhead, or switch the \
         header rules off"
    )]
    UnknownFork {
        /// The block's number.
        number: u64,
    },
}

impl HeaderRules {
    /// The rules by this mode, for a chain with these rules if they are known.
    ///
    /// # Errors
    /// [`RulesUnknown`] if the mode is [`HeaderRulesMode::On`] and `spec` is `None`.
    pub fn new(mode: HeaderRulesMode, spec: Option<ChainSpec>) -> Result<Self, RulesUnknown> {
        match (mode, spec) {
            (HeaderRulesMode::Off, _) | (HeaderRulesMode::Auto, None) => Ok(Self::off()),
            (HeaderRulesMode::On, None) => Err(RulesUnknown),
            (_, Some(spec)) => Ok(Self::on(spec)),
        }
    }

    /// Headers have to obey these rules.
    #[must_use]
    pub fn on(spec: ChainSpec) -> Self {
        Self(Some(Box::new(spec)))
    }

    /// Headers need only continue their chain.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// Whether headers have to obey rules.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Checks that `child` is a valid header after `parent`, whose hash is `parent_hash`.
    ///
    /// The parent's own values are taken as they are. Before the merge the seal and the ancestry of
    /// ommers are not checked, and neither is the total difficulty at which the merge begins.
    ///
    /// # Errors
    /// A [`HeaderRefusal`] for the first check that fails.
    pub fn check_child(
        &self,
        parent: &Header,
        parent_hash: B256,
        child: &Header,
    ) -> Result<(), HeaderRefusal> {
        check_link(parent, parent_hash, child)?;
        let Some(spec) = &self.0 else {
            return Ok(());
        };
        let merged = is_merged(spec, parent, child);
        let rules = spec.rules(child.number, child.timestamp, merged);
        // No time is before the parent's in any fork; other rules may be different there.
        if child.timestamp > parent.timestamp && is_of_unknown_fork(&rules, child) {
            let number = child.number;
            return Err(HeaderRefusal::UnknownFork { number });
        }
        check_child(&rules, parent, child)?;
        check_commitments(&rules, child)?;
        Ok(())
    }

    /// Whether a header is too far ahead of the clock to be followed yet. Its upstream is asked
    /// again later; that is no fault.
    ///
    /// `now_seconds` is the time since the Unix epoch.
    #[must_use]
    pub fn is_early(&self, header: &Header, now_seconds: u64) -> bool {
        self.is_on() && header.timestamp > now_seconds.saturating_add(AHEAD_SECONDS_MAX)
    }
}

fn check_link(parent: &Header, parent_hash: B256, child: &Header) -> Result<(), VerifyError> {
    ensure_eq(parent_hash, child.parent_hash, |expected, found| {
        VerifyError::ParentHash { expected, found }
    })?;
    if parent.number.checked_add(1) == Some(child.number) {
        return Ok(());
    }
    Err(VerifyError::Number {
        expected: parent.number.saturating_add(1),
        found: child.number,
    })
}

/// Whether `child` is under proof of stake, as far as two headers show: the total difficulty is
/// known only at the genesis. A block without difficulty begins the merge, and nothing ends it.
fn is_merged(spec: &ChainSpec, parent: &Header, child: &Header) -> bool {
    // At least this much difficulty has been reached.
    let total = Some(parent.difficulty);
    let begins = spec.merged_after(parent.difficulty, total);
    if parent.number == 0 {
        return begins;
    }
    let is_past = |header: &Header| spec.merged_after(header.difficulty, None);
    begins || is_past(parent) || is_past(child)
}

/// Whether the header has every member of a fork that the chain has no date for.
fn is_of_unknown_fork(rules: &Rules<'_>, header: &Header) -> bool {
    rules.has(EthereumHardfork::Osaka)
        && !rules.spec().is_dated(EthereumHardfork::Amsterdam)
        && header.block_access_list_hash.is_some()
        && header.slot_number.is_some()
}

/// Checks what an importing node checks against the body: that members which commit to the body are
/// there from their fork on. Their values are compared with the body elsewhere.
fn check_commitments(rules: &Rules<'_>, header: &Header) -> Result<(), VerifyError> {
    ensure_eq(
        rules.has(EthereumHardfork::Shanghai),
        header.withdrawals_root.is_some(),
        |expected, found| VerifyError::WithdrawalsRootPresence { expected, found },
    )?;
    ensure_eq(
        rules.has(EthereumHardfork::Cancun),
        header.blob_gas_used.is_some(),
        |expected, found| VerifyError::BlobGasUsedPresence { expected, found },
    )?;
    if rules.merged() && header.ommers_hash != EMPTY_OMMER_ROOT_HASH {
        let found = header.ommers_hash;
        return Err(VerifyError::OmmersAfterMerge { found });
    }
    Ok(())
}
