//! What schedules have in them, so that a test sees that nothing has become rare.

/// Something that happens in a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Paused,
    Restarted,
    Cut,
    NodesSilent,
    StoreAway,
    StoreEmptied,
    WritesLost,
    SplitBrain,
    Reorg,
    Invented,
    Rewritten,
    Replayed,
    ReplayedSnapshot,
    Reordered,
    Removed,
    KeysDamaged,
    KeyLeaked,
    LeaderChanged,
    EpochRaised,
    Refilled,
    RefilledFromNodes,
    Refused,
    Snapshot,
}

impl Kind {
    const ALL: [Self; 23] = [
        Self::Paused,
        Self::Restarted,
        Self::Cut,
        Self::NodesSilent,
        Self::StoreAway,
        Self::StoreEmptied,
        Self::WritesLost,
        Self::SplitBrain,
        Self::Reorg,
        Self::Invented,
        Self::Rewritten,
        Self::Replayed,
        Self::ReplayedSnapshot,
        Self::Reordered,
        Self::Removed,
        Self::KeysDamaged,
        Self::KeyLeaked,
        Self::LeaderChanged,
        Self::EpochRaised,
        Self::Refilled,
        Self::RefilledFromNodes,
        Self::Refused,
        Self::Snapshot,
    ];
}

/// How many schedules had each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kinds([u64; Kind::ALL.len()]);

impl Kinds {
    /// This schedule has it.
    pub(super) const fn note(&mut self, kind: Kind) {
        self.0[kind as usize] = 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = (Kind, u64)> {
        Kind::ALL.into_iter().zip(self.0)
    }
}
