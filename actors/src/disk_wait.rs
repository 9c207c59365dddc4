//! Work on a disk that may hang: how long it is waited for, and how others see that it hangs.

use std::{
    convert::Infallible,
    io, thread,
    time::{Duration, Instant},
};

use crossbeam::channel::{self, Receiver, RecvTimeoutError};
use parking_lot::Mutex;

/// Longest wait for one piece of work on a disk. A folder is opened and read in milliseconds, and
/// in seconds if it has a hundred thousand keys on a slow disk; one that hangs may never be.
pub const DISK_WAIT_MAX: Duration = Duration::from_secs(10);

/// Work that takes this long shows that its disk hangs: each piece takes a second or two at most.
const STALLED_AFTER: Duration = Duration::from_secs(10);

/// Does work on a disk that may hang, on a thread of its own, and waits for it. What comes later is
/// dropped, on that thread.
///
/// # Errors
/// The disk has not answered within `longest`, the work panicked, or the system has no thread left.
pub fn in_time<T: Send + 'static>(
    longest: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, outcome) = channel::bounded(1);
    let thread = thread::Builder::new().name("disk".to_owned());
    thread.spawn(move || {
        // Sending fails if nobody waits any more.
        let _ = done.send(work());
    })?;
    outcome.recv_timeout(longest).map_err(|error| match error {
        RecvTimeoutError::Timeout => io::Error::other("the disk does not answer"),
        RecvTimeoutError::Disconnected => io::Error::other("a thread panicked"),
    })
}

/// A thread that works on a disk. It is waited for at the end of the process, but not for long.
#[derive(Debug)]
pub struct DiskThread {
    /// Disconnected when the thread has ended.
    ended: Receiver<Infallible>,
}

impl DiskThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (end, ended) = channel::bounded(0);
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(move || {
            work();
            drop(end);
        })?;
        Ok(Self { ended })
    }

    /// Waits until the thread has ended, for as long as `longest`; returns whether it has.
    #[must_use]
    pub fn ends_within(&self, longest: Duration) -> bool {
        self.ended.recv_timeout(longest) != Err(RecvTimeoutError::Timeout)
    }
}

/// Sees from another thread whether work on a disk hangs. One piece of work is in progress at a
/// time.
#[derive(Debug, Default)]
pub struct StallWatch(Mutex<InProgress>);

#[derive(Debug, Default)]
struct InProgress {
    /// `None` if there is no work.
    began: Option<Instant>,
    /// Whether it was seen to hang.
    has_stalled: bool,
}

impl StallWatch {
    /// Does a piece of work. Returns its outcome, and whether it was seen to hang.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> (T, bool) {
        let work_in_progress = self.begin();
        let outcome = work();
        (outcome, work_in_progress.end())
    }

    /// Reports to `report` if there is work that hangs, with whether that is seen for the first
    /// time. The work does not end before `report` has returned.
    pub fn watch(&self, now: Instant, report: impl FnOnce(bool)) {
        let mut in_progress = self.0.lock();
        let took = in_progress
            .began
            .map(|began| now.saturating_duration_since(began));
        if took.is_some_and(|took| took >= STALLED_AFTER) {
            report(!std::mem::replace(&mut in_progress.has_stalled, true));
        }
    }

    fn begin(&self) -> WorkInProgress<'_> {
        self.0.lock().began = Some(Instant::now());
        WorkInProgress(self)
    }
}

/// Work that ends when this is dropped, so that it ends by a panic too.
struct WorkInProgress<'a>(&'a StallWatch);

impl WorkInProgress<'_> {
    /// Ends it; returns whether it was seen to hang.
    fn end(self) -> bool {
        // At once, so that whoever watches sees it either in progress or ended.
        let ended = std::mem::take(&mut *self.0.0.lock());
        ended.has_stalled
    }
}

impl Drop for WorkInProgress<'_> {
    fn drop(&mut self) {
        *self.0.0.lock() = InProgress::default();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn what_hangs_is_not_waited_for() {
        assert_eq!(in_time(DISK_WAIT_MAX, || 7).unwrap(), 7);
        let (hang, hanging) = channel::bounded::<()>(0);
        let error = in_time(Duration::from_millis(1), move || hanging.recv()).unwrap_err();
        assert_eq!(error.to_string(), "the disk does not answer");
        drop(hang);
        let error = in_time::<()>(DISK_WAIT_MAX, || panic!("a defect")).unwrap_err();
        assert_eq!(error.to_string(), "a thread panicked");
    }

    #[test]
    fn a_thread_is_waited_for_until_it_ends() {
        let (hang, hanging) = channel::bounded::<()>(0);
        let thread = DiskThread::start("hangs", move || {
            let _ = hanging.recv();
        });
        let thread = thread.unwrap();
        assert!(!thread.ends_within(Duration::from_millis(1)));
        drop(hang);
        assert!(thread.ends_within(DISK_WAIT_MAX));
        let panics = DiskThread::start("panics", || panic!("a defect")).unwrap();
        assert!(panics.ends_within(DISK_WAIT_MAX));
    }

    #[test]
    fn work_that_hangs_is_seen_until_it_ends() {
        let watch = StallWatch::default();
        let seen = |now| {
            let mut seen = None;
            watch.watch(now, |is_new| seen = Some(is_new));
            seen
        };
        let late = || Instant::now() + STALLED_AFTER;
        assert_eq!(seen(late()), None);
        let of_work = || (seen(Instant::now()), seen(late()), seen(late()));
        let expected = (None, Some(true), Some(false));
        assert_eq!(watch.during(of_work), (expected, true));
        assert_eq!(seen(late()), None);
        assert_eq!(watch.during(|| 7), (7, false));
        let panics = AssertUnwindSafe(|| watch.during(|| panic!("a defect")));
        assert!(catch_unwind(panics).is_err());
        assert_eq!(seen(late()), None);
    }
}
