//! Following gives way to answering.

/// What is taken off the thread's priority: where a worker wants the same core, it gets nine tenths
/// of it, and does not wait for the end of a slice first. What is left still verifies a block of 20
/// ms within a fifth of a second.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Lowers the priority of this thread, and of those that it will start.
pub(super) fn give_way() {
    // Elsewhere niceness is the whole process's.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::warn!(%error, "following has the priority of answering");
    }
}
