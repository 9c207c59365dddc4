//! A JSON value that is ready to be written: slices of bytes made at ingest, or a plan of them.

use std::fmt::Debug;

use bytes::Bytes;

/// A complete JSON value, in one piece or in several that follow each other.
#[derive(Debug)]
pub enum Json {
    /// The whole value.
    One(Piece),
    /// The value in order; put together they are one JSON value.
    Many(Vec<Piece>),
}

/// Some bytes of a value, which are taken from the front.
#[derive(Debug)]
pub enum Piece {
    /// Bytes that were made for this value.
    Own(Bytes),
    /// A slice of what the window holds, whoever asks for it.
    Shared(Bytes),
    /// Bytes that are put together as they are taken.
    Lazy(Box<dyn LazyBytes>),
}

/// How bytes are put together as they are taken: so that an answer that nobody takes holds little,
/// however large it is.
pub trait LazyBytes: Debug + Send {
    /// Bytes that are still to be taken.
    fn len(&self) -> usize;

    /// Whether everything was taken.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that it takes until then, without what is shared.
    fn held(&self) -> usize;

    /// Takes the next bytes, `most` at most and at least one; asked only while there are any, and
    /// for [`TAKE_BYTES_MIN`] or more.
    ///
    /// # Errors
    /// [`Truncated`]: what the plan rests on is gone.
    fn take(&mut self, most: usize) -> Result<Bytes, Truncated>;
}

/// The fewest bytes that a plan is asked for: it need not cut what is smaller.
pub const TAKE_BYTES_MIN: usize = 64;

/// A value that was begun cannot be ended. Whoever was sent its beginning has to be cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what an answer was to be made of is gone")]
pub struct Truncated;

impl Piece {
    /// Bytes that are still to be taken.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Own(bytes) | Self::Shared(bytes) => bytes.len(),
            Self::Lazy(plan) => plan.len(),
        }
    }

    /// Whether everything was taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that it takes until then, without what is shared.
    #[must_use]
    pub fn held(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.len(),
            Self::Shared(_) => 0,
            Self::Lazy(plan) => plan.held(),
        }
    }

    /// Takes the next bytes, `most` at most ([`TAKE_BYTES_MIN`] where that is more); none if everything
    /// was taken.
    ///
    /// # Errors
    /// [`Truncated`].
    pub fn take(&mut self, most: usize) -> Result<Bytes, Truncated> {
        match self {
            Self::Own(bytes) | Self::Shared(bytes) => Ok(bytes.split_to(most.min(bytes.len()))),
            Self::Lazy(plan) if plan.is_empty() => Ok(Bytes::new()),
            Self::Lazy(plan) => plan.take(most.max(TAKE_BYTES_MIN)),
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

    /// A slice of what the window holds.
    #[must_use]
    pub const fn shared(bytes: Bytes) -> Self {
        Self::One(Piece::Shared(bytes))
    }

    /// Bytes that were made for this value.
    #[must_use]
    pub const fn own(bytes: Bytes) -> Self {
        Self::One(Piece::Own(bytes))
    }

    /// A value that is put together as it is taken.
    #[must_use]
    pub fn lazy(plan: impl LazyBytes + 'static) -> Self {
        Self::One(Piece::Lazy(Box::new(plan)))
    }

    /// Length of the value in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces().iter().map(Piece::len).sum()
    }

    /// Whether there are no bytes at all (never so for a complete value).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that it takes until it is written, without what is shared.
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

    /// The pieces in order, to be taken.
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
    /// The whole value; less of it, which nobody expects, if it is torn.
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
