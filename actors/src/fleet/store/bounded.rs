//! A socket that reads no more than was asked for: a reply has no length that is known before.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many bytes may still be read.
#[derive(Clone, Debug, Default)]
pub(super) struct Allowance(Arc<State>);

#[derive(Debug, Default)]
struct State {
    left: AtomicUsize,
    is_exceeded: AtomicBool,
}

impl Allowance {
    /// Allows so many bytes from now on.
    pub(super) fn set(&self, bytes: usize) {
        self.0.left.store(bytes, Ordering::Relaxed);
    }

    /// Whether more came than was allowed.
    pub(super) fn is_exceeded(&self) -> bool {
        self.0.is_exceeded.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> io::Result<()> {
        let left = self.0.left.load(Ordering::Relaxed);
        let Some(left) = left.checked_sub(bytes) else {
            self.0.is_exceeded.store(true, Ordering::Relaxed);
            return Err(io::Error::other("the reply is too long"));
        };
        self.0.left.store(left, Ordering::Relaxed);
        Ok(())
    }
}

/// A stream with an allowance.
#[derive(Debug)]
pub(super) struct Bounded<S> {
    pub(super) stream: S,
    pub(super) allowance: Allowance,
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.allowance.take(buffer.filled().len() - before))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
