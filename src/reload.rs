//! Reads the keys of the configuration and the certificate of the listeners again: at SIGHUP, and
//! when their files change.

use std::{fs, io, path::Path, time::Duration};

use nearhead::{
    Service,
    config::{Command, Resolved},
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

/// How often the files are looked at.
const FILE_CHECK: Duration = Duration::from_secs(1);

/// Waits for reasons to read files again.
pub(crate) struct Reload<'a> {
    hangup: Signal,
    /// The configuration file, if there is one.
    configuration: Watched<'a>,
    /// The files of TLS, if there are any.
    tls: Watched<'a>,
}

/// Files that belong together.
struct Watched<'a> {
    files: Vec<&'a Path>,
    /// As they were when they were read last.
    read: Vec<Option<FileState>>,
    /// As they were when they were looked at last.
    seen: Vec<Option<FileState>>,
    /// Whether there is a reason to read them that nothing has come of yet.
    is_due: bool,
}

/// What changes with a file: where it is on the disk, its size and its time.
type FileState = (u64, u64, i64, i64);

impl<'a> Watched<'a> {
    fn new(files: Vec<&'a Path>) -> Self {
        let now = states_of(&files);
        Self {
            files,
            read: now.clone(),
            seen: now,
            is_due: false,
        }
    }

    /// Looks at the files. Whether they have changed, and not since the last look: several are
    /// replaced one after the other, and one that is missing is being replaced.
    fn look(&mut self) {
        let now = states_of(&self.files);
        let is_settled = now == self.seen && now.iter().all(Option::is_some);
        self.is_due |= is_settled && now != self.read;
        self.seen = now;
    }

    /// They are about to be read as they are now.
    fn begin(&mut self) {
        self.read = states_of(&self.files);
        self.seen.clone_from(&self.read);
    }
}

impl<'a> Reload<'a> {
    /// From now on, SIGHUP does not end the process.
    ///
    /// # Errors
    /// The system handles no more signals.
    pub(crate) fn new(resolved: &'a Resolved) -> io::Result<Self> {
        let config = &resolved.config;
        let tls = [&config.tls_cert, &config.tls_key, &config.admin_client_ca];
        let tls = tls.into_iter().filter_map(Option::as_deref);
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            configuration: Watched::new(resolved.file.as_deref().into_iter().collect()),
            tls: Watched::new(tls.collect()),
        })
    }

    /// Puts keys and certificates in force whenever they may have changed; never returns. It may be
    /// dropped and called again: nothing is missed.
    pub(crate) async fn run(&mut self, service: &Service) {
        let mut ticks = interval(FILE_CHECK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let has_files = !self.configuration.files.is_empty() || !self.tls.files.is_empty();
        // Whether it was said that the keys are not replaced, which is tried again at each tick.
        let mut is_reported = false;
        loop {
            // Before the keys, for which a store may have to be waited for.
            if self.tls.is_due {
                self.tls.begin();
                reload_tls(service);
                self.tls.is_due = false;
            }
            if self.configuration.is_due {
                self.configuration.begin();
                self.configuration.is_due = !replace_keys(service, &mut is_reported).await;
            }
            tokio::select! {
                _ = self.hangup.recv() => {
                    self.configuration.is_due = true;
                    self.tls.is_due = !self.tls.files.is_empty();
                }
                _ = ticks.tick(), if has_files || self.configuration.is_due => {
                    self.configuration.look();
                    self.tls.look();
                }
            }
        }
    }
}

fn states_of(files: &[&Path]) -> Vec<Option<FileState>> {
    files.iter().map(|file| state_of(file)).collect()
}

fn state_of(file: &Path) -> Option<FileState> {
    use std::os::unix::fs::MetadataExt as _;

    let metadata = fs::metadata(file).ok()?;
    let (seconds, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
    Some((metadata.ino(), metadata.size(), seconds, nanoseconds))
}

/// Returns whether nothing is left to do. That it is not is logged once.
async fn replace_keys(service: &Service, is_reported: &mut bool) -> bool {
    match Command::of_process() {
        Ok(Command::Serve(resolved)) => match service.replace_keys(&resolved.config).await {
            Ok(()) => tracing::info!("the keys of the configuration were read again"),
            Err(error) => {
                if !std::mem::replace(is_reported, true) {
                    tracing::error!(%error, "the keys of the configuration are not replaced yet");
                }
                return false;
            }
        },
        Ok(_) => {}
        Err(error) => {
            tracing::error!(%error, "the configuration cannot be read again: the keys stay");
        }
    }
    *is_reported = false;
    true
}

fn reload_tls(service: &Service) {
    match service.reload_tls() {
        Ok(()) => tracing::info!("the certificate of the listeners was read again"),
        Err(error) => {
            tracing::warn!(%error, "the certificate cannot be read again: the one before stays");
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn files_are_read_once_after_they_were_changed() {
        let folder = env::temp_dir().join(format!("nearhead-reload-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.join(name));
        let write = |text| {
            fs::write(&one, text).unwrap();
            fs::write(&other, text).unwrap();
        };
        write("a");
        let mut watched = Watched::new(vec![&one, &other]);
        let look = |watched: &mut Watched<'_>| {
            watched.look();
            let is_due = std::mem::take(&mut watched.is_due);
            if is_due {
                watched.begin();
            }
            is_due
        };
        assert!(!look(&mut watched) && !look(&mut watched), "as before");
        fs::write(&one, "longer").unwrap();
        assert!(!look(&mut watched), "the other one may follow");
        fs::write(&other, "longer, too").unwrap();
        assert!(!look(&mut watched), "it has followed just now");
        assert!(look(&mut watched), "both are settled");
        assert!(!look(&mut watched), "once");
        fs::remove_file(&one).unwrap();
        assert!(!look(&mut watched) && !look(&mut watched), "it is missing");
        write("b");
        assert!(
            !look(&mut watched) && look(&mut watched),
            "it is there again"
        );
        // What was read at a signal is not read again.
        write("a signal");
        watched.begin();
        assert!(!look(&mut watched) && !look(&mut watched), "it was read");
        fs::remove_dir_all(folder).unwrap();
    }
}
