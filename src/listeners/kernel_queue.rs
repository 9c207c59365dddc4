//! The kernel's queue of connections that nobody has accepted yet.

use std::{
    future,
    io::{self, ErrorKind},
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};
#[cfg(target_os = "linux")]
use std::{mem::MaybeUninit, os::fd::AsRawFd};

use actix_web::rt;
use tokio::task;

/// The queue of one listener.
pub(super) struct KernelQueue {
    listener: rt::net::TcpListener,
    /// Since when somebody has waited in it.
    occupied_since: Option<Instant>,
}

impl KernelQueue {
    /// That of a listener that does not block.
    ///
    /// # Errors
    /// The system has no memory for its events.
    pub(super) fn of(listener: TcpListener) -> io::Result<Self> {
        Ok(Self {
            listener: rt::net::TcpListener::from_std(listener)?,
            occupied_since: None,
        })
    }

    /// The next connection; `None` if its client has left already.
    pub(super) async fn next(&mut self) -> io::Result<Option<TcpStream>> {
        let accepted = future::poll_fn(|context| {
            let accepted = self.listener.poll_accept(context);
            if accepted.is_pending() {
                self.occupied_since = None;
            }
            accepted
        });
        // Without tokio's budget, which would make a full queue look empty.
        match task::unconstrained(accepted).await {
            Ok((stream, _)) => {
                self.occupied_since.get_or_insert_with(Instant::now);
                stream.into_std().map(Some)
            }
            Err(error) if is_of_client(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// For how long it has not been empty.
    pub(super) fn occupied_for(&self) -> Duration {
        self.occupied_since
            .map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Counts from now on for how long it has not been empty.
    pub(super) fn restart_wait(&mut self) {
        self.occupied_since = None;
    }

    /// Whether it is more than half full. Who finds it full is neither accepted nor refused, and
    /// tries again a second later. On other systems than Linux, that is not known.
    pub(super) fn is_more_than_half_full(&self) -> bool {
        #[cfg(target_os = "linux")]
        let known = length_and_room(&self.listener);
        #[cfg(not(target_os = "linux"))]
        let known = None::<(u32, u32)>;
        known.is_some_and(|(waiting, most)| waiting > most / 2)
    }
}

/// How many connections wait in a listener's queue, and how many have room; `None` if the kernel
/// does not say so.
#[cfg(target_os = "linux")]
pub(super) fn length_and_room(listener: &impl AsRawFd) -> Option<(u32, u32)> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut size = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
    #[expect(unsafe_code, reason = "neither rustix nor socket2 has this option")]
    // SAFETY: the kernel writes `size` bytes at most. All fields are numbers, which zeros are, too.
    let (failed, info) = unsafe {
        let failed = libc::getsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut size,
        );
        (failed != 0, info.assume_init())
    };
    // For a listener, these two have another meaning than their names (tcp_get_info of Linux).
    (!failed).then_some((info.tcpi_unacked, info.tcpi_sacked))
}

/// Whether accepting failed because of the client: the next one may be accepted.
fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionRefused
            | ErrorKind::Interrupted
    )
}

#[cfg(all(test, target_os = "linux"))]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use tokio::time;

    use super::*;
    use crate::{limits::QUEUE_PATIENCE, listeners::bind};

    #[tokio::test]
    async fn a_queue_says_when_it_has_more_than_half_of_its_room_taken() {
        const BACKLOG: usize = 16;

        let listener = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        listener.listen(BACKLOG as i32).unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from(listener);
        let address = listener.local_addr().unwrap();
        let mut queue = KernelQueue::of(listener).unwrap();
        let mut clients = Vec::new();
        for count in 1..=BACKLOG {
            clients.push(TcpStream::connect(address).unwrap());
            // A client knows that it is connected a little earlier.
            let arrived = async {
                while length_and_room(&queue.listener) != Some((count as u32, BACKLOG as u32)) {
                    task::yield_now().await;
                }
            };
            time::timeout(QUEUE_PATIENCE, arrived).await.unwrap();
            assert_eq!(
                queue.is_more_than_half_full(),
                count > BACKLOG / 2,
                "{count}"
            );
        }
        for count in (0..BACKLOG).rev() {
            queue.next().await.unwrap();
            assert_eq!(
                queue.is_more_than_half_full(),
                count > BACKLOG / 2,
                "{count}"
            );
        }
    }
}
