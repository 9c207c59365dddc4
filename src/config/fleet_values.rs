//! Types of values of a fleet.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use nearhead_actors::fleet::store::StoreUrl;
use nearhead_fleet::bounds::KEY_BYTES_MIN;

use super::{parse::single, show::Show};

/// Largest number of sentinels.
const URLS_MAX: usize = 16;

/// Longest prefix, and longest name of a master, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Largest file with a secret, in bytes: anything longer is another file.
const FILE_BYTES_MAX: u64 = 4_096;

/// The secret of a fleet, or the file that has it.
#[derive(Clone, PartialEq, Eq)]
pub enum FleetSecret {
    /// The secret.
    Bytes(Box<[u8]>),
    /// A file with its hex digits, which is read at the start.
    File(PathBuf),
}

/// Why a file has no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// It has something else.
    #[error("{}: it has no {} hex digits alone: make some by `openssl rand -hex 32`", path.display(), 2 * KEY_BYTES_MIN)]
    NoSecret {
        /// The file.
        path: PathBuf,
    },
}

impl FleetSecret {
    /// The secret, of at least 32 bytes.
    ///
    /// # Errors
    /// The file cannot be read, or has no secret.
    pub(crate) fn read(&self) -> Result<Box<[u8]>, SecretError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.clone()),
            Self::File(path) => read_file(path),
        }
    }
}

fn read_file(path: &Path) -> Result<Box<[u8]>, SecretError> {
    let failed = |error| SecretError::Read {
        path: path.to_owned(),
        error,
    };
    let no_secret = || SecretError::NoSecret {
        path: path.to_owned(),
    };
    if fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(no_secret());
    }
    let text = fs::read(path).map_err(failed)?;
    let text = str::from_utf8(&text).map_err(|_| no_secret())?;
    from_hex(text.trim()).ok_or_else(no_secret)
}

impl fmt::Debug for FleetSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

impl Show for FleetSecret {
    fn show(&self) -> String {
        match self {
            Self::Bytes(_) => "hidden".to_owned(),
            Self::File(path) => path.show(),
        }
    }
}

impl Show for Vec<StoreUrl> {
    fn show(&self) -> String {
        match self.is_empty() {
            true => "none".to_owned(),
            false => {
                let urls: Vec<String> = self.iter().map(ToString::to_string).collect();
                urls.join(", ")
            }
        }
    }
}

/// The bytes of these hex digits; `None` if there are other characters, or too few.
fn from_hex(text: &str) -> Option<Box<[u8]>> {
    let bytes = alloy_primitives::hex::decode(text).ok()?;
    (bytes.len() >= KEY_BYTES_MIN).then(|| bytes.into())
}

/// URLs of the store or of sentinels; each text may hold several, separated by commas.
pub(super) fn fleet_urls(texts: &[String]) -> Option<Vec<StoreUrl>> {
    let texts = texts.iter().flat_map(|text| text.split(','));
    let urls: Vec<StoreUrl> = texts
        .map(|text| text.trim().parse().ok())
        .collect::<Option<_>>()?;
    (urls.len() <= URLS_MAX).then_some(urls)
}

/// A secret. A text of hex digits alone is no path, so that a secret that is too short is an error.
#[expect(
    clippy::option_option,
    reason = "the outer `None` is an invalid text; the inner option is the value itself"
)]
pub(super) fn fleet_secret(texts: &[String]) -> Option<Option<FleetSecret>> {
    let text = single(texts)?;
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some(Some(FleetSecret::Bytes(from_hex(digits)?)));
    }
    Some(Some(FleetSecret::File(PathBuf::from(text))))
}

/// A prefix, or the name of a master.
pub(super) fn fleet_name(texts: &[String]) -> Option<Box<str>> {
    let text = single(texts)?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    let fits = (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_name);
    fits.then(|| text.into())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn texts(text: &str) -> [String; 1] {
        [text.to_owned()]
    }

    #[test]
    fn no_password_is_shown() {
        let given = texts("rediss://me:p%40ss@host/1, redis://:secret@[::1]:7000");
        let urls = fleet_urls(&given).unwrap();
        assert_eq!(urls.show(), "rediss://host:6379, redis://[::1]:7000");
        for given in ["", "http://host", "redis://", "redis://user@", "redis://a,"] {
            assert_eq!(fleet_urls(&texts(given)), None, "{given:?}");
        }
    }

    #[test]
    fn a_secret_is_long_and_never_shown() {
        let digits = "0a".repeat(KEY_BYTES_MIN);
        let secret = fleet_secret(&texts(&digits)).unwrap().unwrap();
        assert_eq!(&*secret.read().unwrap(), &[10; KEY_BYTES_MIN]);
        assert_eq!(
            (secret.show(), format!("{secret:?}")),
            ("hidden".into(), "(hidden)".into())
        );
        assert_eq!(fleet_secret(&texts(&digits[2..])), None);
        assert_eq!(fleet_secret(&texts(&digits[1..])), None);
        let file = fleet_secret(&texts("/no/such/file")).unwrap().unwrap();
        let error = file.read().unwrap_err().to_string();
        assert!(error.starts_with("/no/such/file: "), "{error}");
    }

    #[test]
    fn a_file_has_the_digits_and_no_more() {
        let path = std::env::temp_dir().join(format!("nearhead-key-{}", std::process::id()));
        let digits = "0b".repeat(40);
        for (content, is_secret) in [
            (format!("{digits}\n"), true),
            (digits[..62].to_owned(), false),
            (format!("{digits} x"), false),
            ("b".repeat(5_000), false),
            (String::new(), false),
        ] {
            fs::write(&path, &content).unwrap();
            let read = FleetSecret::File(path.clone()).read();
            assert_eq!(read.is_ok(), is_secret, "{content}");
            if let Err(error) = read {
                assert!(!error.to_string().contains(&digits[..60]), "{error}");
            }
        }
        fs::remove_file(&path).unwrap();
    }
}
