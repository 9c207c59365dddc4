//! Who did what to which tenant or key, when, and from where. Entries are added and never changed.

mod stored;

use std::{borrow::Cow, fmt, net::IpAddr, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    UnixMillis,
    command::Command,
    id::{KeyId, TenantId},
    name::Name,
};

/// How long an entry is kept: a year, and a month to look back on it.
pub const AUDIT_KEPT: Duration = Duration::from_secs(400 * 86_400);

/// Most entries of changes that are kept: some 300 MB, and one every half minute for a year.
pub const AUDIT_ENTRIES_MAX: u64 = 1_000_000;

/// Most entries of logins that are kept, so that no number of them takes the place of a change.
pub const AUDIT_LOGINS_MAX: u64 = 100_000;

/// Most entries of wrong passwords that are kept, so that nobody hides a login behind them.
pub const AUDIT_REFUSALS_MAX: u64 = 100_000;

/// Most bytes of an entry's detail.
const DETAIL_BYTES_MAX: usize = 4_096;

/// Longest verb in bytes.
const VERB_BYTES_MAX: usize = 32;

/// Something that was done, or that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// When.
    pub at: UnixMillis,
    /// Who.
    pub author: Author,
    /// The address that it came from.
    pub from: Option<IpAddr>,
    /// What.
    pub verb: Verb,
    /// The tenant that it was done to, or the key's tenant.
    pub tenant: Option<TenantId>,
    /// The key that it was done to.
    pub key: Option<KeyId>,
    /// What else is known of it.
    pub detail: Detail,
}

/// Who does something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Author {
    /// Someone with a password: the account's name.
    Account(Name),
    /// A program: the name of its API token.
    Token(Name),
    /// Whoever can run commands on the machine.
    CommandLine,
    /// The configuration: flags, environment, files.
    Configuration,
    /// The service itself: nobody asked for it.
    Service,
    /// Nobody who is known, such as one who gives a wrong password.
    Unknown,
}

/// What is done: a short word such as `key.revoke`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verb(Cow<'static, str>);

/// A text is not a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a verb has 1 to {VERB_BYTES_MAX} lower-case letters, dots and underscores")]
pub struct InvalidVerb;

macro_rules! verbs {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal;)+) => {
        impl Verb {
            $($(#[doc = $doc])+ pub const $name: Self = Self(Cow::Borrowed($text));)+

            /// Those that this program writes. A store may have others, of a newer one.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];
        }
    };
}

verbs! {
    /// A tenant was made.
    TENANT_CREATE = "tenant.create";
    /// A tenant was changed.
    TENANT_UPDATE = "tenant.update";
    /// A tenant was removed with its keys.
    TENANT_REMOVE = "tenant.remove";
    /// A key was made.
    KEY_CREATE = "key.create";
    /// A key was changed.
    KEY_UPDATE = "key.update";
    /// A key got a successor.
    KEY_ROTATE = "key.rotate";
    /// A key was revoked.
    KEY_REVOKE = "key.revoke";
    /// A key that was over was removed.
    KEY_REMOVE = "key.remove";
    /// An account was made.
    ACCOUNT_CREATE = "account.create";
    /// The role of an account was changed.
    ACCOUNT_UPDATE = "account.update";
    /// An account was removed.
    ACCOUNT_REMOVE = "account.remove";
    /// The password of an account was changed.
    ACCOUNT_PASSWORD = "account.password";
    /// Someone logged in.
    LOGIN = "login";
    /// Someone gave a wrong name or password.
    LOGIN_REFUSED = "login.refused";
    /// Someone logged out.
    LOGOUT = "logout";
    /// An API token was made.
    TOKEN_CREATE = "token.create";
    /// An API token was removed.
    TOKEN_REMOVE = "token.remove";
    /// The keys of the configuration were read again.
    CONFIGURATION_RELOAD = "configuration.reload";
}

impl Verb {
    /// The verb of a command.
    #[must_use]
    pub const fn of(command: &Command) -> Self {
        match command {
            Command::CreateTenant { .. } => Self::TENANT_CREATE,
            Command::UpdateTenant { .. } => Self::TENANT_UPDATE,
            Command::RemoveTenant { .. } => Self::TENANT_REMOVE,
            Command::CreateKey { .. } => Self::KEY_CREATE,
            Command::UpdateKey { .. } => Self::KEY_UPDATE,
            Command::RotateKey { .. } => Self::KEY_ROTATE,
            Command::RevokeKey { .. } => Self::KEY_REVOKE,
            Command::RemoveKey { .. } => Self::KEY_REMOVE,
        }
    }

    /// Whether somebody only comes or goes: nothing else has changed then.
    #[must_use]
    pub fn is_of_login(&self) -> bool {
        [Self::LOGIN, Self::LOGOUT].contains(self)
    }

    /// Whether somebody was not let in, which anybody can have written as often as they like.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        *self == Self::LOGIN_REFUSED
    }

    /// The word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Verb {
    type Err = InvalidVerb;

    fn from_str(text: &str) -> Result<Self, InvalidVerb> {
        let is_part = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'.' | b'_');
        match (1..=VERB_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_part) {
            true => Ok(Self(Cow::Owned(text.to_owned()))),
            false => Err(InvalidVerb),
        }
    }
}

/// More about an entry: a JSON object of at most 4,096 bytes. Whoever makes it leaves out secrets,
/// their digests and passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail(Box<str>);

impl Detail {
    /// Of these members. If they are too long, it says so instead.
    #[must_use]
    pub fn of(members: serde_json::Map<String, Value>) -> Self {
        Self::fitting(members).unwrap_or_else(|| Self(r#"{"truncated":true}"#.into()))
    }

    /// Of these members; `None` if they are too long.
    pub(crate) fn fitting(members: serde_json::Map<String, Value>) -> Option<Self> {
        let text = Value::Object(members).to_string();
        (text.len() <= DETAIL_BYTES_MAX).then(|| Self(text.into()))
    }

    /// The JSON.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As a store has it.
    pub(crate) fn stored(text: &str) -> Option<Self> {
        let is_object = serde_json::from_str::<serde_json::Map<String, Value>>(text).is_ok();
        (is_object && text.len() <= DETAIL_BYTES_MAX).then(|| Self(text.into()))
    }
}

impl Default for Detail {
    fn default() -> Self {
        Self("{}".into())
    }
}

/// The place of an entry among all: later ones have larger numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditNumber(pub u64);

/// Which entries are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Only older ones than this: [`AuditPage::next`] of the page before.
    pub before: Option<AuditNumber>,
    /// Only those of this tenant.
    pub tenant: Option<TenantId>,
    /// Only those of this key.
    pub key: Option<KeyId>,
    /// Only those of people who logged in.
    pub logins: bool,
    /// Most entries of the page.
    pub entries_max: usize,
}

/// Entries, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditPage {
    /// The entries.
    pub entries: Vec<(AuditNumber, AuditEntry)>,
    /// Where the next page begins, if there is one.
    pub next: Option<AuditNumber>,
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn verbs_are_different_words() {
        let words: HashSet<_> = Verb::ALL.iter().map(Verb::as_str).collect();
        assert_eq!(words.len(), Verb::ALL.len());
        for verb in Verb::ALL {
            assert_eq!(verb.as_str().parse().as_ref(), Ok(verb));
        }
        for text in ["", "Key", "key revoke", "k<", &"a".repeat(33)] {
            assert_eq!(text.parse::<Verb>(), Err(InvalidVerb), "{text:?}");
        }
    }

    #[test]
    fn a_detail_is_short() {
        let of = |text: &str| {
            let mut members = serde_json::Map::new();
            members.insert("name".to_owned(), text.into());
            Detail::of(members)
        };
        assert_eq!(of("</script>\"").as_str(), r#"{"name":"</script>\""}"#);
        assert_eq!(of(&"x".repeat(5_000)).as_str(), r#"{"truncated":true}"#);
        assert_eq!(
            Detail::stored(Detail::default().as_str()),
            Some(Detail::default())
        );
        assert_eq!((Detail::stored("[]"), Detail::stored("{")), (None, None));
    }
}
