//! Why a search has no result.

/// Why a search has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// More logs match than may be returned.
    #[error("more than {limit} logs match")]
    TooMany {
        /// The most logs that may be returned.
        limit: usize,
        /// The last block of the largest range that starts at the first block and fits; `None` if
        /// the first block alone exceeds the limit.
        fits_to: Option<u64>,
    },
    /// The search was cancelled through its token.
    #[error("cancelled")]
    Cancelled,
}
