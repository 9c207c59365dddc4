//! Opens the dashboard in a browser of this machine.

use std::{
    process::{Command, Stdio},
    thread,
};

/// What opens a URL in the browser that its user has chosen.
const OPENER: &str = if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

/// Opens a URL. Nothing waits for the browser; if there is none, a warning says so.
pub(crate) fn open_browser(url: &str) {
    let mut command = Command::new(OPENER);
    command
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // The program that opens the browser may live as long as that.
    thread::spawn(move || {
        // The URL is not logged: it may make the first account.
        let failure = match command.status() {
            Ok(status) if status.success() => return,
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!("{OPENER} opens no browser ({failure}): open the printed URL yourself");
    });
}
