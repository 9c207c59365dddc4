//! Whether a client still waits for its answer.

use std::{
    any::Any,
    future::{Future, poll_fn},
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    pin::{Pin, pin},
    task::Poll,
};

use actix_web::{dev::Extensions, rt::net::TcpStream};
use socket2::SockRef;
use tokio::time::{Sleep, sleep};

use crate::limits::HALF_CLOSED_GRACE;

/// The socket that a request came by: data of its connection.
///
/// TCP cannot tell a client that is gone from one that has said everything and still reads, so one whose side is closed
/// has [`HALF_CLOSED_GRACE`] for its answer: enough for what is cheap, while what is long is not worked out for nobody.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(RawFd);

/// Remembers a connection's socket; for `HttpServer::on_connect`, which calls it once a connection.
pub fn on_connect(io: &dyn Any, data: &mut Extensions) {
    if let Some(stream) = io.downcast_ref::<TcpStream>() {
        data.insert(Peer(stream.as_raw_fd()));
    }
}

impl Peer {
    /// Whether the client has closed its side and everything it sent was read.
    fn is_closed(self) -> bool {
        #[expect(
            unsafe_code,
            reason = "actix-web lends the stream only while it is set up"
        )]
        // SAFETY: the connection owns both the socket and the request's future, and drops the future first; a `Peer` is
        // not kept beyond the request that it is taken from.
        let socket = unsafe { BorrowedFd::borrow_raw(self.0) };
        matches!(
            SockRef::from(&socket).peek(&mut [MaybeUninit::uninit()]),
            Ok(0)
        )
    }
}

/// Waits for `answer`; `None` if the client went away meanwhile.
pub(super) async fn unless_gone<T>(
    answer: impl Future<Output = T>,
    peer: Option<Peer>,
) -> Option<T> {
    let mut answer = pin!(answer);
    let mut is_first = true;
    let mut grace: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
            return Poll::Ready(Some(answer));
        }
        // The connection polls its request whenever something happens on the socket, so it is looked at then: not for
        // the request itself, which most often is answered by the next poll.
        let looks = !std::mem::take(&mut is_first) && grace.is_none();
        if looks && peer.is_some_and(Peer::is_closed) {
            grace = Some(Box::pin(sleep(HALF_CLOSED_GRACE)));
        }
        match &mut grace {
            Some(grace) => grace.as_mut().poll(cx).map(|()| None),
            None => Poll::Pending,
        }
    })
    .await
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::{
        future::{pending, ready},
        io::Write as _,
        net::{Shutdown, TcpListener, TcpStream},
        task::{Context, Waker},
        time::{Duration, Instant},
    };

    use super::*;

    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        server.set_nonblocking(true).unwrap();
        (client, server)
    }

    /// Polls until the client is found gone, or `patience` is over.
    async fn finds_gone(server: &TcpStream, patience: Duration) -> bool {
        let mut waiting = pin!(unless_gone(pending::<()>(), Some(Peer(server.as_raw_fd()))));
        let began = Instant::now();
        while began.elapsed() < patience {
            if let Poll::Ready(answer) = waiting
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
            {
                return answer.is_none();
            }
            tokio::task::yield_now().await;
        }
        false
    }

    #[actix::test]
    async fn a_client_that_closes_is_gone_after_the_grace() {
        for close in [true, false] {
            let (client, server) = connection();
            let client = if close {
                drop(client);
                None
            } else {
                client.shutdown(Shutdown::Write).map(|()| client).ok()
            };
            let began = Instant::now();
            assert!(finds_gone(&server, Duration::from_secs(10)).await);
            assert!(began.elapsed() >= HALF_CLOSED_GRACE);
            drop(client);
        }
    }

    #[actix::test]
    async fn a_client_that_waits_or_sends_more_is_there() {
        let (mut client, server) = connection();
        assert!(!finds_gone(&server, 4 * HALF_CLOSED_GRACE).await);
        client.write_all(b"more").unwrap();
        assert!(!finds_gone(&server, 4 * HALF_CLOSED_GRACE).await);
    }

    #[actix::test]
    async fn an_answer_that_is_there_is_given_to_whoever_it_is() {
        let (client, server) = connection();
        drop(client);
        let peer = Some(Peer(server.as_raw_fd()));
        assert_eq!(unless_gone(ready(7), peer).await, Some(7));
        assert_eq!(unless_gone(ready(7), None).await, Some(7));
    }
}
