//! What a simulated upstream is like.

use super::{tree::Id, world::STEPS};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Honest,
    /// Answers nothing, and never what it was asked in this mode.
    Silent,
    /// Refuses connections.
    Gone,
    /// Answers this many steps late.
    Slow(u64),
    /// Is two backends, one of them this many steps behind.
    Stale(u64),
    /// Keeps the head that it had when this began.
    Stuck,
    /// Refuses what it is asked to prove for a client, for long.
    RefusesState,
    /// Has a chain of its own, with a block for each block time.
    Forked,
    /// Has a chain of its own that is longer than all others.
    Inventing,
    /// Names honest heads, and calls any block finalized.
    LyingAboutFinality,
    /// Names numbers and hashes without sense.
    Extreme,
    /// Is something else with each answer.
    ChangingMind,
    /// Names honest heads, lies about the hashes that it is asked for, and gives no block.
    Obstructing,
    /// Names another block just above the honest head with each answer.
    Racing,
    /// Names honest heads, and has no block below them when it is asked for a hash.
    Withholding,
    /// Names honest heads, and other blocks where the chain has to contain one.
    Denying,
    /// Names honest heads, and gives each other answer as late as it can.
    Delaying,
    /// Names the chain that all of these have agreed on.
    Colluding,
    /// Is on another chain, and says so.
    OtherChain,
}

impl Mode {
    /// Whether it gives no block but honest ones.
    pub(super) const fn gives_honest_blocks(self) -> bool {
        matches!(
            self,
            Self::Honest
                | Self::Slow(_)
                | Self::Stale(_)
                | Self::Stuck
                | Self::RefusesState
                | Self::Withholding
                | Self::Denying
                | Self::Delaying
        )
    }
}

pub(super) struct SimNode {
    pub(super) mode: Mode,
    /// Steps until it has a new block.
    pub(super) lag: u64,
    /// The head of its own chain, or the one that it is stuck at.
    pub(super) own: Id,
    /// Whether it is honest only until its quorum begins to lie.
    pub(super) betrays: bool,
    /// The block that it was asked for last, and since which step.
    pub(super) asked: (Id, u64),
}

impl SimNode {
    /// Whether it is honest, and names its heads in time.
    pub(super) const fn is_good(&self) -> bool {
        matches!(self.mode, Mode::Honest | Mode::RefusesState)
    }

    /// Steps until it has a new block, if they are a block time or more.
    pub(super) const fn late(&self) -> u64 {
        match self.lag < STEPS {
            true => 0,
            false => self.lag,
        }
    }
}
