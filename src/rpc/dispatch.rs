//! Method -> handler and cost class: the only registry.

/// Which methods are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MethodSet {
    /// The seven and their companions, which real clients call before they call anything else.
    #[default]
    Companion,
    /// The seven alone.
    Core,
}
