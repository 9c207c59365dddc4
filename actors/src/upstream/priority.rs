//! Following has a lower priority than answering.

/// The thread's niceness. A worker that wants the same core gets nine tenths of it, without waiting
/// for the end of a time slice. In the tenth that is left, a block that takes 20 ms is verified
/// within 200 ms.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Lowers the priority of this thread and of the threads that it starts.
pub(super) fn lower_priority() {
    // On other systems niceness belongs to the process as a whole.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::warn!(%error, "cannot lower the priority of following");
    }
}
