//! The priority of a thread, by which it runs after others that want the same core.

/// By how much the niceness of threads for light work exceeds that of the workers. A worker that is
/// busy on the same core goes on to read requests: what is too much then waits in the queues, where
/// it is shared and refused in time, and not in sockets.
pub const LIGHT: i32 = 5;

/// The same for heavy work, which runs after light work.
pub const HEAVY: i32 = 10;

/// The same for the compression of replies: it may take long, because a reply can be sent as it is.
pub const COMPRESSION: i32 = 15;

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

/// Gives this thread a name and a niceness.
pub fn set(name: &str, niceness: i32) {
    // On other systems niceness belongs to the process as a whole.
    #[cfg(target_os = "linux")]
    {
        // Where this fails, only latencies are worse, or a list of threads is.
        if let Err(error) = rustix::process::setpriority_process(None, niceness) {
            tracing::debug!(%error, "the priority of a thread was not set");
        }
        let name = std::ffi::CString::new(name).unwrap_or_default();
        if let Err(error) = rustix::thread::set_name(&name) {
            tracing::debug!(%error, "a thread was not named");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (name, niceness);
}
