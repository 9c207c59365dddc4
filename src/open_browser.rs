//! Opens the dashboard in a browser of this machine.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use nearhead_tenants::secret::Secret;

/// What opens a URL or a file in the browser that its user has chosen.
const OPENER: &str = if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

/// How long a browser may take to start and to read a file.
pub(crate) const REDIRECT_KEPT: Duration = Duration::from_secs(60);

/// Opens a URL without a secret, or a file. Nothing waits for the browser; if there is none, a
/// warning says so.
pub(crate) fn open_browser(target: impl AsRef<OsStr>) {
    let mut command = Command::new(OPENER);
    command
        .arg(target)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // The program that opens the browser may live as long as that.
    thread::spawn(move || {
        let failure = match command.status() {
            Ok(status) if status.success() => return,
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!("{OPENER} opens no browser ({failure}): open the printed URL yourself");
    });
}

/// A page that leads to a URL with a secret, in a file that its owner alone can read.
///
/// Every user of the machine sees the arguments of all programs, so a browser gets the name of this
/// file and not the URL. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct RedirectFile(PathBuf);

impl RedirectFile {
    /// Writes the page into a folder that others may write to as well.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(folder: &Path, url: &str) -> io::Result<Self> {
        // Nobody else can have made a file, or a link, of this name before.
        let name = Secret::generate().map_err(io::Error::other)?;
        let path = folder.join(format!("nearhead-{}.html", name.expose()));
        let mut options = File::options();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let this = Self(path);
        // The URL has no character that means something in HTML.
        writeln!(
            file,
            "<!doctype html><meta charset=\"utf-8\"><title>nearhead</title>\
             <meta http-equiv=\"refresh\" content=\"0; url={url}\"><a href=\"{url}\">Go on</a>"
        )?;
        Ok(this)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RedirectFile {
    fn drop(&mut self) {
        // If this fails, the file has a link that works once.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{env, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn a_file_is_for_its_owner_alone_and_goes() {
        let url = "http://[::1]:8590/first-account?token=abc-_";
        let [file, other] = [(); 2].map(|()| RedirectFile::write(&env::temp_dir(), url).unwrap());
        assert_ne!(file.path(), other.path());
        let mode = fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(file.path()).unwrap();
        assert!(
            text.contains(&format!("content=\"0; url={url}\"")),
            "{text}"
        );
        let path = file.path().to_owned();
        drop(file);
        assert!(!path.exists() && other.path().exists());
        assert!(RedirectFile::write(Path::new("/nowhere"), url).is_err());
    }
}
