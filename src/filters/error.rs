//! Why a filter has no answer, or is not made.

/// Why a filter has no answer, or is not made. The text goes to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// The key has no filter of this id: it never had, or it was removed or forgotten.
    #[error("filter not found")]
    NotFound,
    /// The logs of a filter of blocks are asked for.
    #[error("the filter is one of blocks, which has no logs")]
    OfBlocks,
    /// Blocks between the filter's place and the head are not held any more. It goes on after the
    /// head.
    #[error("the filter missed blocks {from} to {to}, it goes on after them")]
    Behind {
        /// Number of the first block that it missed, or that may have been replaced since.
        from: u64,
        /// Number of the head.
        to: u64,
    },
    /// The tenant has as many filters as it may have.
    #[error("too many filters, at most {most} a project ID")]
    TooMany {
        /// How many.
        most: usize,
    },
    /// The tenant's filters would have too many addresses and topics.
    #[error("too many addresses and topics in filters, at most {most} a project ID")]
    TooManyValues {
        /// How many they may have.
        most: usize,
    },
}

/// The store of the fleet, which has the places of filters, did not answer: the question may be
/// asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fleet's store does not answer")]
pub struct StoreAway;
