//! The priority of a thread, by which it runs after others that want the same core.

/// The niceness of this thread.
#[must_use]
pub fn niceness() -> i32 {
    // Unknown only to a process that may not even see itself.
    rustix::process::getpriority_process(None).unwrap_or(0)
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
