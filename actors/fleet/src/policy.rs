//! The rules of the protocol, which a test can take out one by one.

/// A rule that a test can take out, to see that it notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Only what has the fleet's MAC is read.
    Mac,
    /// A replica never goes back to an earlier epoch or entry.
    Epoch,
    /// An entry continues the one before it.
    Chain,
    /// Blocks are verified, whoever says what they are.
    #[cfg(test)]
    Verify,
    /// Entries before a snapshot stay for replicas that lag.
    Margin,
    /// A replica reports what it has seen to a store that has lost it.
    #[cfg(test)]
    Report,
    /// The store accepts an entry from the holder of the lease alone.
    #[cfg(any(test, feature = "testing"))]
    Fence,
    /// The store accepts an entry only after the one before it.
    #[cfg(any(test, feature = "testing"))]
    Continuity,
    /// A change is split only where no part of it leads back.
    Split,
    /// A process acquires an epoch above each that it has seen.
    Floor,
}

/// All rules, except in a test of what one is for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Policy {
    #[cfg(test)]
    without: Option<Rule>,
}

impl Policy {
    /// All rules but this one.
    #[cfg(test)]
    pub(crate) const fn without(rule: Option<Rule>) -> Self {
        Self { without: rule }
    }

    /// Whether this rule holds.
    #[cfg(test)]
    pub(crate) fn holds(self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    /// Whether this rule holds.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "as in tests")]
    pub(crate) const fn holds(self, _: Rule) -> bool {
        true
    }
}
