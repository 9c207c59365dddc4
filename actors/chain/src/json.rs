//! A JSON value that is ready to be written: one or more slices of bytes made at ingest.

use bytes::Bytes;

/// A complete JSON value as bytes, in one piece or in several that follow each other.
///
/// The pieces are shared slices: cloning and slicing copy nothing.
#[derive(Clone, Debug)]
pub enum Json {
    /// The whole value.
    Slice(Bytes),
    /// The value in order; concatenated they are one JSON value.
    Pieces(Vec<Bytes>),
}

impl Json {
    /// `null`.
    pub const NULL: Self = Self::Slice(Bytes::from_static(b"null"));

    /// Length of the value in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces().iter().map(Bytes::len).sum()
    }

    /// Whether there are no bytes at all (never so for a complete value).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The slices in order.
    #[must_use]
    pub fn pieces(&self) -> &[Bytes] {
        match self {
            Self::Slice(one) => std::slice::from_ref(one),
            Self::Pieces(many) => many,
        }
    }
}

impl From<Bytes> for Json {
    fn from(bytes: Bytes) -> Self {
        Self::Slice(bytes)
    }
}

impl From<Vec<u8>> for Json {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Slice(bytes.into())
    }
}
