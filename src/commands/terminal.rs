//! What is asked for at a terminal: a yes, or a password that is not shown.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};

/// Longest answer in bytes.
const ANSWER_BYTES_MAX: u64 = 4 << 10;

/// Ctrl-C, Ctrl-D, Ctrl-U and two keys for backspace, as a terminal sends them.
const INTERRUPT: u8 = 3;
const END: u8 = 4;
const KILL: u8 = 21;
const ERASE: [u8; 2] = [8, 127];

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    /// The person gave none.
    #[error("nothing was changed")]
    Refused,
    /// Standard input cannot be read.
    #[error("standard input: {0}")]
    Input(#[from] io::Error),
}

/// Whether a person can be asked.
pub(super) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for a yes. Everything else is a no.
pub(super) fn confirm(question: &str) -> Result<(), NoAnswer> {
    write!(io::stderr(), "{question} [y/N] ")?;
    let answer = line()?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(NoAnswer::Refused),
    }
}

/// A new password: typed twice at a terminal, else the first line of standard input.
pub(super) fn new_password(of: &str) -> Result<String, NoAnswer> {
    if !is_interactive() {
        return Ok(line()?);
    }
    loop {
        let password = hidden(&format!("New password of {of}: "))?;
        let again = hidden("Again: ")?;
        if password == again {
            return Ok(password);
        }
        writeln!(io::stderr(), "The two are not the same.")?;
    }
}

/// The first line of standard input, without its end.
fn line() -> io::Result<String> {
    let mut text = String::new();
    io::stdin()
        .lock()
        .take(ANSWER_BYTES_MAX)
        .read_line(&mut text)?;
    let end = text.trim_end_matches(['\r', '\n']).len();
    text.truncate(end);
    Ok(text)
}

/// A line that is typed and not shown.
fn hidden(prompt: &str) -> Result<String, NoAnswer> {
    // Before the prompt, so that nothing that is typed after it is shown.
    let quiet = QuietTerminal::new()?;
    write!(io::stderr(), "{prompt}")?;
    let typed = typed(&mut io::stdin().lock());
    drop(quiet);
    writeln!(io::stderr())?;
    typed
}

/// Reads keys until the line ends.
fn typed(keys: &mut impl Read) -> Result<String, NoAnswer> {
    let mut line: Vec<u8> = Vec::new();
    let mut key = [0];
    loop {
        match (keys.read(&mut key)?, key[0]) {
            (0, _) | (_, INTERRUPT) => return Err(NoAnswer::Refused),
            (_, END) if line.is_empty() => return Err(NoAnswer::Refused),
            (_, b'\n' | b'\r' | END) => break,
            (_, KILL) => line.clear(),
            (_, key) if ERASE.contains(&key) => {
                // A character of UTF-8 begins at a byte that does not continue one.
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            (_, key) if (line.len() as u64) < ANSWER_BYTES_MAX => line.push(key),
            _ => {}
        }
    }
    let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, "the password is not UTF-8");
    Ok(String::from_utf8(line).map_err(invalid)?)
}

/// A terminal that shows nothing of what is typed, and sends keys at once, until this is dropped.
struct QuietTerminal {
    before: Termios,
}

impl QuietTerminal {
    fn new() -> io::Result<Self> {
        let before = termios::tcgetattr(io::stdin())?;
        let mut quiet = before.clone();
        // Without signals of keys: a process that is interrupted would leave the terminal so.
        quiet.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        termios::tcsetattr(io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Self { before })
    }
}

impl Drop for QuietTerminal {
    fn drop(&mut self) {
        // A terminal that is gone needs no repair.
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_make_a_line() {
        for (keys, expected) in [
            ("hunter2\n", Some("hunter2")),
            ("hunter2\r", Some("hunter2")),
            ("abc\u{7f}\u{8}d\n", Some("ad")),
            ("Zoë\u{7f}e\n", Some("Zoe")),
            ("wrong\u{15}right\n", Some("right")),
            ("\u{7f}a\n", Some("a")),
            ("end\u{4}", Some("end")),
            ("\u{4}", None),
            ("abc\u{3}", None),
            ("abc", None),
            ("\n", Some("")),
        ] {
            let found = typed(&mut keys.as_bytes()).ok();
            assert_eq!(found.as_deref(), expected, "{keys:?}");
        }
    }
}
