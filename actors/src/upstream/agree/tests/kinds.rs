//! What kinds of schedules were drawn.

/// Something that only some schedules have.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A block time of one, two, four or twelve seconds.
    OneSecond,
    TwoSeconds,
    FourSeconds,
    TwelveSeconds,
    /// An honest node has each block one to two block times late.
    Lagging,
    /// Every honest quorum needs such a node.
    LaggingQuorum,
    /// A block was finalized in an earlier run.
    Persisted,
    /// The same, and a minority withholds that block, or states another one.
    PersistedWithheld,
    PersistedDenied,
    /// The same, and a quorum lies from the start.
    PersistedCaptured,
    /// The operator trusts a block, and fewer than a quorum lie.
    Trusted,
    TrustedWithheld,
    TrustedDenied,
    /// The operator trusts a block, and a quorum lies.
    TrustedCaptured,
    /// A node that names heads in time, and gives all else as late as it can.
    Delaying,
}

impl Kind {
    pub(super) const ALL: [Self; 15] = [
        Self::OneSecond,
        Self::TwoSeconds,
        Self::FourSeconds,
        Self::TwelveSeconds,
        Self::Lagging,
        Self::LaggingQuorum,
        Self::Persisted,
        Self::PersistedWithheld,
        Self::PersistedDenied,
        Self::PersistedCaptured,
        Self::Trusted,
        Self::TrustedWithheld,
        Self::TrustedDenied,
        Self::TrustedCaptured,
        Self::Delaying,
    ];
}

/// How many schedules there were of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kinds([u64; Kind::ALL.len()]);

impl Kinds {
    /// Notes that the schedule is of this kind.
    pub(super) const fn note(&mut self, kind: Kind) {
        self.0[kind as usize] = 1;
    }

    pub(super) fn add(&mut self, others: &Self) {
        for (count, other) in self.0.iter_mut().zip(others.0) {
            *count += other;
        }
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = (Kind, u64)> {
        Kind::ALL.into_iter().zip(self.0)
    }
}
