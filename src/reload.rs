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
    /// The file whose keys are in force.
    seen: Option<FileState>,
    /// Whether there is a reason that nothing has come of yet.
    is_due: bool,
}

/// What changes with a file: where it is on the disk, its size and its time.
type FileState = (u64, u64, i64, i64);

impl<'a> Reload<'a> {
    /// From now on, SIGHUP does not end the process.
    ///
    /// # Errors
    /// The system handles no more signals.
    pub(crate) fn new(resolved: &'a Resolved) -> io::Result<Self> {
        let file = resolved.file.as_deref();
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            file,
            seen: file.and_then(state_of),
            is_due: false,
        })
    }

    /// Puts the keys in force whenever they may have changed; never returns. It may be dropped and
    /// called again: nothing is missed.
    pub(crate) async fn run(&mut self, service: &Service) {
        let mut ticks = interval(FILE_CHECK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let now = self.file.and_then(state_of);
            // A file that is missing is being replaced.
            self.is_due |= now.is_some() && now != self.seen;
            if self.is_due {
                replace_keys(service).await;
                self.is_due = false;
                self.seen = now;
            }
            tokio::select! {
                _ = self.hangup.recv() => self.is_due = true,
                _ = ticks.tick(), if self.file.is_some() => {}
            }
        }
    }
}

fn state_of(file: &Path) -> Option<FileState> {
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
