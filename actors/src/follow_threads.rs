//! The threads that follow nodes and verify what they give.

use std::{cell::RefCell, io, sync::Arc, thread};

use parking_lot::Mutex;

use crate::thread_priority::{FOLLOWING, ThreadId, niceness};

/// The threads that follow. They run like any others until the first block is readable: nobody is
/// answered before, and a machine that other programs keep busy would leave too little for a start.
/// From then on, those that answer have priority over them.
#[derive(Clone, Debug)]
pub(crate) struct FollowThreads(Arc<Mutex<Members>>);

#[derive(Debug)]
struct Members {
    threads: Vec<ThreadId>,
    /// Their niceness.
    niceness: i32,
    is_lowered: bool,
}

/// A thread's place among the members, which it leaves when it ends: the system may give its id to
/// another one.
struct Place {
    thread: ThreadId,
    members: FollowThreads,
}

thread_local! {
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

impl FollowThreads {
    /// No members yet. They will have the niceness of the thread that calls this.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Members {
            threads: Vec::new(),
            niceness: niceness(),
            is_lowered: false,
        })))
    }

    /// Starts a member that nobody waits for.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let members = self.clone();
        let builder = thread::Builder::new().name(name.to_owned());
        let started = builder.spawn(move || {
            members.join();
            work();
        });
        started.map(drop)
    }

    /// Adds the thread that calls this, until it ends. It is a member of these alone.
    pub(crate) fn join(&self) {
        drop(PLACE.take());
        let thread = ThreadId::own();
        let mut members = self.0.lock();
        // It has that of the thread which started it, which may be a member or not. A failure was
        // reported for the others.
        let _ = thread.set_niceness(members.niceness);
        members.threads.push(thread);
        drop(members);
        let place = Place {
            thread,
            members: self.clone(),
        };
        PLACE.set(Some(place));
    }

    /// Lowers the priority of all, and of those that join later.
    pub(crate) fn lower(&self) {
        let mut members = self.0.lock();
        if !std::mem::replace(&mut members.is_lowered, true) {
            members.niceness += FOLLOWING;
            let mut failed = None;
            for thread in &members.threads {
                failed = thread.set_niceness(members.niceness).err().or(failed);
            }
            if let Some(error) = failed {
                tracing::warn!(%error, "cannot lower the priority of following");
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut members = self.members.0.lock();
        members.threads.retain(|thread| *thread != self.thread);
    }
}

#[cfg(all(test, target_os = "linux"))]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use crossbeam::channel::{self, Receiver, Sender};

    use super::*;

    /// A member that reports its niceness when it is asked.
    fn start(members: &FollowThreads) -> (Sender<()>, Receiver<i32>) {
        let (ask, asked) = channel::bounded(1);
        let (report, reported) = channel::bounded(1);
        let work = move || {
            for () in asked {
                report.send(niceness()).unwrap();
            }
        };
        members.spawn("member", work).unwrap();
        (ask, reported)
    }

    #[test]
    fn members_are_lowered_together_and_once_and_later_ones_too() {
        let usual = niceness();
        let members = FollowThreads::new();
        let niceness_of = |(ask, reported): &(Sender<()>, Receiver<i32>)| {
            ask.send(()).unwrap();
            reported.recv().unwrap()
        };
        let early = start(&members);
        assert_eq!(niceness_of(&early), usual);
        members.lower();
        members.lower();
        let late = start(&members);
        let lower = (usual + FOLLOWING).min(19);
        assert_eq!([&early, &late].map(niceness_of), [lower; 2]);
        assert_eq!(niceness(), usual, "this thread is no member");
    }

    #[test]
    fn a_thread_is_one_member_until_it_ends() {
        let members = FollowThreads::new();
        let of_thread = members.clone();
        let joined = thread::spawn(move || {
            of_thread.join();
            of_thread.join();
            of_thread.0.lock().threads.len()
        });
        assert_eq!(joined.join().unwrap(), 1);
        assert!(members.0.lock().threads.is_empty());
    }
}
