//! What a store is opened with.

use super::StoreUrl;

/// Bytes of a prefix or an owner: they are sent with each call.
const NAME_BYTES_MAX: usize = 128;

/// URLs of one store: as many sentinels as anybody runs, and then some.
const URLS_MAX: usize = 16;

/// What a store is opened with.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The server, or the sentinels that know it, which are tried in their order. User, password,
    /// database and TLS of a sentinel's URL are those of the server too; a sentinel without a
    /// password is asked without one.
    pub urls: Vec<StoreUrl>,
    /// The name of the master, if the URLs are those of sentinels.
    pub sentinel: Option<String>,
    /// What the names of all keys of the fleet begin with.
    pub prefix: String,
    /// Who this process is: random, and another one at each start.
    pub owner: String,
}

/// Why a store cannot be opened with these options.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OptionsError {
    /// There are no URLs, or too many.
    #[error("the fleet's store needs 1 to {URLS_MAX} URLs: {0} are given")]
    Urls(usize),
    /// A name cannot be used.
    #[error(
        "the {0} must have 1 to {NAME_BYTES_MAX} printable ASCII characters without spaces and braces"
    )]
    Name(&'static str),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(rustls::Error),
}

impl StoreOptions {
    /// Checks what can be checked without a connection.
    ///
    /// # Errors
    /// An option cannot be used.
    pub(super) fn check(&self) -> Result<(), OptionsError> {
        let count = self.urls.len();
        if !(1..=URLS_MAX).contains(&count) {
            return Err(OptionsError::Urls(count));
        }
        let is_name = |text: &str| {
            let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}');
            (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain)
        };
        let sentinel = self.sentinel.as_deref();
        let names = [
            ("prefix", Some(self.prefix.as_str())),
            ("owner", Some(self.owner.as_str())),
            ("name of the sentinels' master", sentinel),
        ];
        for (what, name) in names {
            if !name.is_none_or(is_name) {
                return Err(OptionsError::Name(what));
            }
        }
        Ok(())
    }
}
