//! Why a search gives no result.

/// Why a search gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// More logs match than may be returned.
    #[error("more than {limit} logs match")]
    TooMany {
        /// The bound.
        limit: usize,
        /// The last block of the largest range from the first block that fits; `None` if the first
        /// block alone does not.
        fits_to: Option<u64>,
    },
    /// Cancelled through the token.
    #[error("cancelled")]
    Cancelled,
}
