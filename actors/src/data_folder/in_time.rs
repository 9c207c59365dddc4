use std::{io, sync::mpsc, thread, time::Duration};

/// Longest wait for a disk at the start. A folder is opened and read in milliseconds, and in
/// seconds if it has a hundred thousand keys on a slow disk; one that hangs may never be.
pub const OPEN_MAX: Duration = Duration::from_secs(10);

/// Does work on a disk that may hang, on a thread of its own, and waits for it. What comes later is
/// dropped, on that thread.
///
/// # Errors
/// The disk has not answered within `longest`, the work panicked, or the system has no thread left.
pub fn in_time<T: Send + 'static>(
    longest: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, outcome) = mpsc::sync_channel(1);
    let thread = thread::Builder::new().name("disk".to_owned());
    thread.spawn(move || {
        // Sending fails if nobody waits any more.
        let _ = done.send(work());
    })?;
    outcome.recv_timeout(longest).map_err(|error| match error {
        mpsc::RecvTimeoutError::Timeout => io::Error::other("the disk does not answer"),
        mpsc::RecvTimeoutError::Disconnected => io::Error::other("a thread panicked"),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_not_waited_for() {
        assert_eq!(in_time(OPEN_MAX, || 7).unwrap(), 7);
        let (hang, hanging) = mpsc::sync_channel::<()>(0);
        let error = in_time(Duration::from_millis(1), move || hanging.recv()).unwrap_err();
        assert_eq!(error.to_string(), "the disk does not answer");
        drop(hang);
        let error = in_time::<()>(OPEN_MAX, || panic!("a defect")).unwrap_err();
        assert_eq!(error.to_string(), "a thread panicked");
    }
}
