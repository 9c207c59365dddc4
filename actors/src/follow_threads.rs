//! The threads that follow nodes and verify what they give.

use std::{cell::RefCell, io, sync::Arc};

use parking_lot::Mutex;

use crate::thread_priority::{ThreadId, niceness};

/// By how much their niceness exceeds that of the workers. A worker that wants the same core gets
/// nine tenths of it, without waiting for the end of a time slice. In the tenth that is left, a
/// block that takes 20 ms is verified within 200 ms.
const LOWER_BY: i32 = 10;

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
            members.niceness += LOWER_BY;
            let threads = members.threads.iter();
            let set = threads.map(|thread| thread.set_niceness(members.niceness));
            if let Err(error) = set.collect::<io::Result<()>>() {
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
    use std::thread;

    use crossbeam::channel::{self, Receiver, Sender};

    use super::*;

    /// A member that tells its niceness when it is asked.
    fn start(members: &FollowThreads) -> (Sender<()>, Receiver<i32>) {
        let (ask, asked) = channel::bounded(1);
        let (tell, told) = channel::bounded(1);
        let members = members.clone();
        thread::spawn(move || {
            members.join();
            for () in asked {
                tell.send(niceness()).unwrap();
            }
        });
        (ask, told)
    }

    #[test]
    fn members_are_lowered_together_and_once_and_later_ones_too() {
        let usual = niceness();
        let members = FollowThreads::new();
        let niceness_of = |(ask, told): &(Sender<()>, Receiver<i32>)| {
            ask.send(()).unwrap();
            told.recv().unwrap()
        };
        let early = start(&members);
        assert_eq!(niceness_of(&early), usual);
        members.lower();
        members.lower();
        let late = start(&members);
        let lower = (usual + LOWER_BY).min(19);
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
