//! The priority of a thread, by which it runs after others that want the same core.

use std::{io, time::Duration};

/// By how much the niceness of threads for light work exceeds that of the workers. A worker that is
/// busy on the same core goes on to read requests: what is too much then waits in the queues, where
/// it is shared and refused in time, and not in sockets. Short calls of contracts have the priority
/// of workers, and hold connections back instead.
pub const LIGHT: i32 = 5;

/// The same for reading large bodies. It is high, so that a thread that does so all the time leaves
/// a worker its share of the core ([`be_prompt`]).
pub const BODIES: i32 = 12;

/// The same for heavy work and for calls that take long, which run after light work.
pub const HEAVY: i32 = 16;

/// The same for the compression of replies: it may take long, because a reply can be sent as it is.
pub const COMPRESSION: i32 = 18;

/// The same for following and verifying. A worker that wants the same core gets nine tenths of it,
/// without waiting for the end of a time slice. In the tenth that is left, a block that takes 20 ms
/// is verified within 200 ms.
pub const FOLLOWING: i32 = 10;

/// The shortest slice that Linux gives.
const PROMPT_SLICE: Duration = Duration::from_micros(100);

/// The niceness of this thread.
#[must_use]
pub fn niceness() -> i32 {
    // Unknown only to a process that may not even see itself.
    rustix::process::getpriority_process(None).unwrap_or(0)
}

/// Gives this thread a name, and this much more niceness than it has.
pub fn lower(name: &str, by: i32) {
    set(name, niceness() + by);
}

/// Lets this thread run as soon as it has something to do, even if another one runs on its core: it
/// gets a slice of 0.1 ms. A thread that waits for requests should have it.
///
/// Linux has slices of 3 ms otherwise, and does not interrupt one for a thread whose own is as
/// long, however different their niceness is. It knows shorter ones from 6.12 on, and ignores them
/// before. A thread that has had more than its share of the core waits all the same.
pub fn be_prompt() {
    #[cfg(target_os = "linux")]
    schedule(niceness(), PROMPT_SLICE);
}

/// Gives this thread a name and a niceness.
pub fn set(name: &str, niceness: i32) {
    // The thread that made this one may have a slice of its own.
    set_with_slice(name, niceness, Duration::ZERO);
}

/// The same, and [`be_prompt`].
pub fn set_prompt(name: &str, niceness: i32) {
    set_with_slice(name, niceness, PROMPT_SLICE);
}

fn set_with_slice(name: &str, niceness: i32, slice: Duration) {
    // On other systems niceness belongs to the process as a whole.
    #[cfg(target_os = "linux")]
    {
        schedule(niceness, slice);
        let name = std::ffi::CString::new(name).unwrap_or_default();
        if let Err(error) = rustix::thread::set_name(&name) {
            tracing::debug!(%error, "a thread was not named");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (name, niceness, slice);
}

/// A thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(#[cfg(target_os = "linux")] rustix::thread::Pid);

impl ThreadId {
    /// The thread that calls this.
    #[must_use]
    pub fn own() -> Self {
        Self(
            #[cfg(target_os = "linux")]
            rustix::thread::gettid(),
        )
    }

    /// Gives the thread a niceness.
    ///
    /// # Errors
    /// The system does not allow it, or the thread has ended.
    pub fn set_niceness(self, niceness: i32) -> io::Result<()> {
        // On other systems niceness belongs to the process as a whole.
        #[cfg(target_os = "linux")]
        rustix::process::setpriority_process(Some(self.0), niceness)?;
        #[cfg(not(target_os = "linux"))]
        let _ = niceness;
        Ok(())
    }
}

/// Gives this thread a niceness and a slice; zero is the system's own.
#[cfg(target_os = "linux")]
fn schedule(niceness: i32, slice: Duration) {
    let attributes = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        sched_flags: KEEP_POLICY,
        sched_nice: niceness,
        sched_runtime: slice.as_nanos() as u64,
        ..SchedAttr::default()
    };
    #[expect(
        unsafe_code,
        reason = "no crate has this call for threads without a deadline"
    )]
    // SAFETY: the kernel reads `size` bytes of the attributes, which live until it returns.
    let failed =
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } != 0;
    if failed {
        let error = std::io::Error::last_os_error();
        tracing::debug!(%error, "the slice of a thread was not set");
        // Where this fails too, only latencies are worse.
        if let Err(error) = rustix::process::setpriority_process(None, niceness) {
            tracing::debug!(%error, "the priority of a thread was not set");
        }
    }
}

/// `SCHED_FLAG_KEEP_POLICY`: the scheduling policy stays as it is.
#[cfg(target_os = "linux")]
const KEEP_POLICY: u64 = 8;

/// `struct sched_attr` of Linux in its first version (sched_setattr(2)).
#[cfg(target_os = "linux")]
#[derive(Default)]
#[repr(C)]
struct SchedAttr {
    size: u32,
    sched_policy: u32,
    sched_flags: u64,
    sched_nice: i32,
    sched_priority: u32,
    /// The slice in ns, for policies without deadlines.
    sched_runtime: u64,
    sched_deadline: u64,
    sched_period: u64,
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::thread;

    use super::*;

    /// The niceness and the slice in ns, which is zero if it is the system's own or unknown to it.
    fn scheduled() -> (i32, u64) {
        let mut attributes = SchedAttr::default();
        let size = size_of::<SchedAttr>();
        #[expect(unsafe_code, reason = "as in `schedule`")]
        // SAFETY: the kernel writes `size` bytes at most.
        let result =
            unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
        assert_eq!(result, 0);
        (attributes.sched_nice, attributes.sched_runtime)
    }

    #[test]
    fn a_thread_of_a_prompt_one_is_not_prompt() {
        let usual = thread::spawn(scheduled).join();
        let of_prompt = thread::spawn(|| {
            be_prompt();
            let lower = thread::spawn(|| {
                lower("lower", 3);
                scheduled()
            });
            (scheduled(), lower.join())
        });
        let (niceness, slice) = usual.unwrap();
        let set = thread::spawn(move || {
            set_prompt("prompt", niceness);
            scheduled()
        });
        let ((prompt_niceness, prompt_slice), lower) = of_prompt.join().unwrap();
        assert_eq!(prompt_niceness, niceness);
        // Linux before 6.12 states no slices.
        assert_eq!(prompt_slice, if slice == 0 { 0 } else { 100_000 });
        assert_eq!(set.join().unwrap(), (niceness, prompt_slice));
        assert_eq!(lower.unwrap(), (niceness + 3, slice));
    }
}
