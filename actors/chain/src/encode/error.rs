//! Why a block cannot be encoded.

/// Why a block cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A buffer is longer than 32-bit positions can address.
    #[error(
        "the block has {bytes} bytes of JSON in one buffer, expected at most {}",
        u32::MAX
    )]
    TooLarge {
        /// Bytes of the largest buffer.
        bytes: usize,
    },
}
