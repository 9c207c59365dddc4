//! Reads the keys of the configuration again: at SIGHUP, and when the file changes.

use std::{fs, io, path::Path, time::Duration};

use nearhead::{
    Service,
    config::{Command, Resolved},
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

/// How often the file is looked at.
const FILE_CHECK: Duration = Duration::from_secs(1);

/// Waits for reasons to read the configuration again.
pub(crate) struct Reload<'a> {
    hangup: Signal,
    /// The configuration file, if there is one.
    file: Option<&'a Path>,
}

impl<'a> Reload<'a> {
    /// From now on, SIGHUP does not end the process.
    ///
    /// # Errors
    /// The system handles no more signals.
    pub(crate) fn new(resolved: &'a Resolved) -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            file: resolved.file.as_deref(),
        })
    }

    /// Puts the keys in force whenever they may have changed; never returns.
    pub(crate) async fn run(&mut self, service: &Service) {
        let mut ticks = interval(FILE_CHECK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = self.file.and_then(state_of);
        loop {
            tokio::select! {
                _ = self.hangup.recv() => seen = self.file.and_then(state_of),
                _ = ticks.tick(), if self.file.is_some() => {
                    let now = self.file.and_then(state_of);
                    // A file that is missing is being replaced.
                    if now.is_none() || now == seen {
                        continue;
                    }
                    seen = now;
                }
            }
            replace_keys(service).await;
        }
    }
}

/// What changes with a file: where it is on the disk, its size and its time.
fn state_of(file: &Path) -> Option<impl PartialEq + use<>> {
    use std::os::unix::fs::MetadataExt as _;

    let metadata = fs::metadata(file).ok()?;
    let (seconds, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
    Some((metadata.ino(), metadata.size(), seconds, nanoseconds))
}

async fn replace_keys(service: &Service) {
    match Command::of_process() {
        Ok(Command::Serve(resolved)) => {
            service.replace_keys(&resolved.config).await;
            tracing::info!("the keys of the configuration were read again");
        }
        Ok(_) => {}
        Err(error) => {
            tracing::error!(%error, "the configuration cannot be read again: the keys stay");
        }
    }
}
