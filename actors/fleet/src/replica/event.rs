//! What a replica reports: nothing is refused, missed or refilled in silence.

use crate::{chain::BrokenChain, entry::OpenError, position::Position};

/// Something that a replica noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaEvent {
    /// It applied an entry, or began with a snapshot.
    Applied(Position),
    /// It refused an entry at this place.
    Refused(Position, Refusal),
    /// It has to begin again, with a snapshot or with blocks of its own nodes.
    Refill(RefillReason),
    /// It met the first entry of a newer epoch.
    Epoch(u64),
}

/// Why an entry was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is no entry of this fleet, or none that this program can read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its epoch is over.
    #[error("epoch {found} is over: {seen} has begun")]
    Epoch {
        /// Its epoch.
        found: u64,
        /// The newest epoch.
        seen: u64,
    },
    /// It belongs at another place.
    #[error("it belongs at {0}")]
    Misplaced(Position),
    /// Its blocks do not continue the chain.
    #[error(transparent)]
    Broken(#[from] BrokenChain),
    /// Its blocks are not what it says.
    #[error("{0}")]
    False(String),
    /// Its snapshot has more bytes than a replica holds.
    #[error("its snapshot is too large")]
    SnapshotTooLarge,
}

/// Names of the reasons, which counters have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// A MAC that is not the fleet's.
    Mac,
    /// Too long, too short, or it cannot be decoded.
    Malformed,
    /// A version that this program does not know.
    Version,
    /// An epoch that is over.
    Epoch,
    /// An entry at another place than its own.
    Misplaced,
    /// Blocks that do not continue the chain.
    Broken,
    /// Blocks that are not what the entry says.
    False,
    /// A snapshot that is too large.
    TooLarge,
}

impl RefusalReason {
    /// All reasons.
    pub const ALL: [Self; 8] = [
        Self::Mac,
        Self::Malformed,
        Self::Version,
        Self::Epoch,
        Self::Misplaced,
        Self::Broken,
        Self::False,
        Self::TooLarge,
    ];

    /// Its name in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Mac => "mac",
            Self::Malformed => "malformed",
            Self::Version => "version",
            Self::Epoch => "epoch",
            Self::Misplaced => "misplaced",
            Self::Broken => "broken",
            Self::False => "false",
            Self::TooLarge => "too_large",
        }
    }
}

impl Refusal {
    /// The name of its reason.
    #[must_use]
    pub const fn reason(&self) -> RefusalReason {
        match self {
            Self::Open(OpenError::Mac) => RefusalReason::Mac,
            Self::Open(OpenError::Version(_)) => RefusalReason::Version,
            Self::Open(OpenError::Length(_) | OpenError::Malformed(_)) => RefusalReason::Malformed,
            Self::Epoch { .. } => RefusalReason::Epoch,
            Self::Misplaced(_) => RefusalReason::Misplaced,
            Self::Broken(_) => RefusalReason::Broken,
            Self::False(_) => RefusalReason::False,
            Self::SnapshotTooLarge => RefusalReason::TooLarge,
        }
    }
}

/// Why a replica has to begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefillReason {
    /// It has just started.
    Start,
    /// Entries are missing: trimmed, lost or removed.
    Gap,
    /// An entry was refused.
    Refused,
    /// Another entry is in the place of one that was seen, or does not name it: the store has lost
    /// entries.
    Forked,
    /// It led until now, so that it followed its own nodes.
    Led,
    /// The process refused to apply an entry, as one that reverts what is final.
    NotApplied,
}

impl RefillReason {
    /// All reasons.
    pub const ALL: [Self; 6] = [
        Self::Start,
        Self::Gap,
        Self::Refused,
        Self::Forked,
        Self::Led,
        Self::NotApplied,
    ];

    /// Its name in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Gap => "gap",
            Self::Refused => "refused",
            Self::Forked => "forked",
            Self::Led => "led",
            Self::NotApplied => "not_applied",
        }
    }
}

/// How often things happened since the replica started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    refused: [u64; RefusalReason::ALL.len()],
    refills: [u64; RefillReason::ALL.len()],
    applied: u64,
    epochs: u64,
}

impl Counters {
    /// Counts an event.
    pub(super) const fn count(&mut self, event: &ReplicaEvent) {
        match event {
            ReplicaEvent::Applied(_) => self.applied += 1,
            ReplicaEvent::Refused(_, refusal) => self.refused[refusal.reason() as usize] += 1,
            ReplicaEvent::Refill(reason) => self.refills[*reason as usize] += 1,
            ReplicaEvent::Epoch(_) => self.epochs += 1,
        }
    }

    /// Entries that were refused for this reason.
    #[must_use]
    pub const fn refused(&self, reason: RefusalReason) -> u64 {
        self.refused[reason as usize]
    }

    /// How often the replica had to begin again for this reason.
    #[must_use]
    pub const fn refills(&self, reason: RefillReason) -> u64 {
        self.refills[reason as usize]
    }

    /// Entries that were applied; a snapshot is one.
    #[must_use]
    pub const fn applied(&self) -> u64 {
        self.applied
    }

    /// Epochs of which the first entry was met.
    #[must_use]
    pub const fn epochs(&self) -> u64 {
        self.epochs
    }
}
