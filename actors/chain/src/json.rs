//! A JSON value that is ready to be written: bytes, held already or made as they are taken.

mod nesting;

use std::fmt::Debug;

use bytes::Bytes;

pub use nesting::nesting;

/// A complete JSON value, in one piece or in several.
#[derive(Debug)]
pub enum Json {
    /// The whole value.
    One(Piece),
    /// Pieces that make one JSON value when they are concatenated.
    Many(Vec<Piece>),
}

/// Some bytes of a value, taken from the front.
#[derive(Debug)]
pub enum Piece {
    /// Bytes that were made for this value.
    Own(Bytes),
    /// A slice of bytes that the window holds.
    Shared(Bytes),
    /// Bytes that are made as they are taken.
    Lazy(Box<dyn LazyBytes>),
}

/// Bytes that are made as they are taken, so that a large answer holds little memory while its
/// client does not read.
pub trait LazyBytes: Debug + Send {
    /// Bytes that are still to be taken.
    fn len(&self) -> usize;

    /// Whether everything was taken.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory held until everything is taken; shared bytes do not count.
    fn held(&self) -> usize;

    /// Takes the next bytes, from one to `max` of them.
    ///
    /// Called only while bytes are left, with a `max` of `TAKE_BYTES_MIN` or more.
    ///
    /// # Errors
    /// [`Truncated`] if the data that the bytes are made from is gone.
    fn take(&mut self, max: usize) -> Result<Bytes, Truncated>;
}

/// The smallest `max` that [`LazyBytes::take`] is called with, so that an implementation need not
/// split shorter tokens.
pub(crate) const TAKE_BYTES_MIN: usize = 64;

/// A value cannot be finished. A client that was sent its beginning has to be disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the data of an answer was released before all of it was written")]
pub struct Truncated;

impl Piece {
    /// Bytes that are still to be taken.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Own(bytes) | Self::Shared(bytes) => bytes.len(),
            Self::Lazy(bytes) => bytes.len(),
        }
    }

    /// Whether everything was taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory held until everything is taken; shared bytes do not count.
    #[must_use]
    pub fn held(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.len(),
            Self::Shared(_) => 0,
            Self::Lazy(bytes) => bytes.held(),
        }
    }

    /// Takes the next bytes, at most `max` of them (`TAKE_BYTES_MIN` if that is more); none if
    /// everything was taken.
    ///
    /// # Errors
    /// [`Truncated`].
    pub fn take(&mut self, max: usize) -> Result<Bytes, Truncated> {
        match self {
            Self::Own(bytes) | Self::Shared(bytes) => Ok(bytes.split_to(max.min(bytes.len()))),
            Self::Lazy(bytes) if bytes.is_empty() => Ok(Bytes::new()),
            Self::Lazy(bytes) => bytes.take(max.max(TAKE_BYTES_MIN)),
        }
    }
}

impl Json {
    /// `null`.
    pub const NULL: Self = Self::fixed("null");

    /// A value that never changes.
    #[must_use]
    pub const fn fixed(text: &'static str) -> Self {
        Self::One(Piece::Shared(Bytes::from_static(text.as_bytes())))
    }

    /// A slice of bytes that the window holds.
    #[must_use]
    pub const fn shared(bytes: Bytes) -> Self {
        Self::One(Piece::Shared(bytes))
    }

    /// Bytes that were made for this value, or that may be held for it alone.
    #[must_use]
    pub const fn own(bytes: Bytes) -> Self {
        Self::One(Piece::Own(bytes))
    }

    /// A value that is made as it is taken.
    #[must_use]
    pub fn lazy(bytes: impl LazyBytes + 'static) -> Self {
        Self::One(Piece::Lazy(Box::new(bytes)))
    }

    /// Length of the value in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces().iter().map(Piece::len).sum()
    }

    /// Whether no bytes are left; a complete value has some.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory held until the value is written; shared bytes do not count.
    #[must_use]
    pub fn held(&self) -> usize {
        self.pieces().iter().map(Piece::held).sum()
    }

    /// The pieces in order.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }

    /// The pieces in order, by value.
    #[must_use]
    pub fn into_pieces(self) -> Vec<Piece> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }

    /// Appends the whole value to `out`.
    ///
    /// # Errors
    /// [`Truncated`].
    pub fn write(self, out: &mut Vec<u8>) -> Result<(), Truncated> {
        let write = |mut piece: Piece, out: &mut Vec<u8>| {
            while !piece.is_empty() {
                out.extend_from_slice(&piece.take(usize::MAX)?);
            }
            Ok(())
        };
        match self {
            Self::One(one) => write(one, out),
            Self::Many(many) => many.into_iter().try_for_each(|piece| write(piece, out)),
        }
    }
}

/// For tests and benches.
#[cfg(any(test, feature = "testing"))]
impl Json {
    /// The whole value, or its beginning if it is truncated.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        let _ = self.write(&mut out);
        out
    }
}

impl From<Vec<u8>> for Json {
    fn from(bytes: Vec<u8>) -> Self {
        Self::own(bytes.into())
    }
}
