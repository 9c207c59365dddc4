//! What the memory of the process allows.

/// What the memory of the process allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryLevel {
    /// Everything.
    #[default]
    Enough,
    /// No heavy queries, and no replies that hold much memory.
    Short,
    /// The same, and replies of slow clients are ended.
    Critical,
}
