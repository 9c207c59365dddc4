//! A set of upstreams.

use crate::upstream::health::UpstreamId;

/// Upstreams by their place in the configuration, which has at most 16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeSet(u16);

impl NodeSet {
    /// Adds an upstream.
    pub(crate) fn insert(&mut self, node: UpstreamId) {
        self.0 |= Self::bit(node);
    }

    /// Whether it contains this upstream.
    pub(crate) fn has(self, node: UpstreamId) -> bool {
        self.0 & Self::bit(node) != 0
    }

    /// How many upstreams it contains.
    pub(crate) const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether it contains none.
    #[cfg(test)]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that are not in `other`.
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The upstreams, in the operator's order.
    pub(crate) fn iter(self) -> impl Iterator<Item = UpstreamId> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let first = rest.trailing_zeros();
            rest &= rest.checked_sub(1)?;
            Some(first as usize)
        })
    }

    /// Those for which `keep` holds.
    pub(crate) fn filter(self, mut keep: impl FnMut(UpstreamId) -> bool) -> Self {
        self.iter().filter(|node| keep(*node)).collect()
    }

    fn bit(node: UpstreamId) -> u16 {
        u32::try_from(node).map_or(0, |node| 1_u16.checked_shl(node).unwrap_or(0))
    }
}

impl FromIterator<UpstreamId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = UpstreamId>>(nodes: I) -> Self {
        let mut set = Self::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}
