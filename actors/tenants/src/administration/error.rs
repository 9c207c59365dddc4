use serde::{Deserialize, Serialize};

use crate::{
    account::AccountError, bounds::KEYS_KEPT, command::CommandError, id::KeyId, name::Name,
    password::PasswordError, secret::RandomFailed, store::StoreError,
};

/// Why an operation is refused. Nothing has changed then, except that the audit may say so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// The one who asks is not known.
    #[error("log in first, or present an API token")]
    NotLoggedIn,
    /// The one who asks may not do that.
    #[error("only administrators may do this")]
    NotAllowed,
    /// The password is not the account's.
    #[error("the present password is missing or wrong")]
    WrongPassword,
    /// A member of the operation is not valid.
    #[error("{member}: {reason}")]
    Invalid {
        /// Which one.
        member: &'static str,
        /// What is wrong, and what is accepted.
        reason: String,
    },
    /// The password cannot be used.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// There is no such tenant.
    #[error("there is no tenant {0}")]
    NoTenant(String),
    /// There is no such account.
    #[error("there is no account {0}")]
    NoAccount(Name),
    /// There is no such API token.
    #[error("there is no API token {0}")]
    NoToken(Name),
    /// The command is refused.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The account or API token cannot be made.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The configuration names the key.
    #[error(
        "the key {0} is configured: change it where it is written, which is --api-key, \
         NEARHEAD_API_KEY or api-key in the configuration's file"
    )]
    ConfiguredKey(KeyId),
    /// Only the configuration names the tenant.
    #[error(
        "the tenant {0} is only configured: create one of this name to give it limits, or change \
         --api-key, NEARHEAD_API_KEY or api-key in the configuration's file"
    )]
    ConfiguredTenant(Name),
    /// A holder rotates too often.
    #[error(
        "the tenant has {0} keys already, also expired and revoked ones, which are removed after \
         {days} days: ask an administrator to rotate one",
        days = KEYS_KEPT.as_secs() / 86_400
    )]
    TooManyRotations(usize),
    /// What was to be changed is not what was read before.
    #[error(
        "it was changed after you read it, and nothing was saved: read it again, and send the \
         change with its new ETag"
    )]
    Stale,
    /// Nobody could administer any more.
    #[error("the only administrator is {0}: create another one first")]
    LastAdministrator(Name),
    /// The first account was made already.
    #[error("there is an account already: log in with it")]
    HasAccounts,
    /// The system gives no random numbers.
    #[error(transparent)]
    Random(#[from] RandomFailed),
    /// The store cannot be read or written. The message is for those who may not know where it is.
    #[error("the store failed, and nothing was changed: the log has the reason")]
    Store(#[source] StoreError),
    /// Other processes of the fleet changed tenants or keys each time that this was tried.
    #[error(
        "other processes of the fleet changed tenants and keys at the same time, and nothing was \
         changed: try again"
    )]
    StoreBusy,
    /// What administers ends.
    #[error("the service is stopping")]
    Stopping,
}

/// Kinds of errors, each of which has a status in HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminErrorKind {
    /// What was asked is not valid.
    Invalid,
    /// The one who asks is not known.
    NotLoggedIn,
    /// The one who asks may not do that.
    NotAllowed,
    /// There is no such thing.
    Unknown,
    /// It does not fit to what there is.
    Conflict,
    /// Somebody has changed it since it was read.
    Stale,
    /// It may work later.
    Unavailable,
}

impl From<StoreError> for AdminError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict => Self::StoreBusy,
            error => Self::Store(error),
        }
    }
}

impl AdminError {
    pub(super) fn invalid(member: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Invalid { member, reason }
    }

    /// What kind of error it is.
    #[must_use]
    pub const fn kind(&self) -> AdminErrorKind {
        self.row().0
    }

    /// A word for programs; it never changes.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.row().1
    }

    const fn row(&self) -> (AdminErrorKind, &'static str) {
        use AdminErrorKind as Kind;
        match self {
            Self::NotLoggedIn => (Kind::NotLoggedIn, "not_logged_in"),
            Self::NotAllowed => (Kind::NotAllowed, "not_allowed"),
            Self::WrongPassword => (Kind::NotAllowed, "wrong_password"),
            Self::Invalid { .. } => (Kind::Invalid, "invalid"),
            Self::Password(PasswordError::Length) => (Kind::Invalid, "invalid_password"),
            Self::Password(PasswordError::Random(_) | PasswordError::Hash) | Self::Random(_) => {
                (Kind::Unavailable, "unavailable")
            }
            Self::NoTenant(_) | Self::Command(CommandError::NoTenant(_)) => {
                (Kind::Unknown, "unknown_tenant")
            }
            Self::Command(CommandError::NoKey(_)) => (Kind::Unknown, "unknown_key"),
            Self::NoAccount(_) => (Kind::Unknown, "unknown_account"),
            Self::NoToken(_) => (Kind::Unknown, "unknown_token"),
            Self::Command(CommandError::NameTaken(_))
            | Self::Account(AccountError::NameTaken(_)) => (Kind::Conflict, "name_taken"),
            Self::Command(CommandError::Revoked(_)) => (Kind::Conflict, "revoked"),
            Self::Command(CommandError::Expired(_)) => (Kind::Conflict, "expired"),
            Self::Command(CommandError::Rotated { .. }) => (Kind::Conflict, "rotated"),
            Self::Command(CommandError::Overlap { .. }) => (Kind::Conflict, "overlap"),
            Self::Command(CommandError::Active(_)) => (Kind::Conflict, "active"),
            Self::Command(CommandError::KeyTaken | CommandError::TenantTaken) => {
                (Kind::Conflict, "id_taken")
            }
            Self::Command(CommandError::TooManyTenants(_) | CommandError::TooManyKeys(_))
            | Self::Account(AccountError::TooMany(_))
            | Self::TooManyRotations(_) => (Kind::Conflict, "too_many"),
            Self::Command(
                CommandError::TooManyPublicKeys(_)
                | CommandError::PublicKey(..)
                | CommandError::SameKid(_)
                | CommandError::SecretAndPublicKeys,
            ) => (Kind::Invalid, "invalid"),
            Self::ConfiguredKey(_) | Self::ConfiguredTenant(_) => (Kind::Conflict, "configured"),
            Self::Stale => (Kind::Stale, "stale"),
            Self::LastAdministrator(_) => (Kind::Conflict, "last_administrator"),
            Self::HasAccounts => (Kind::Conflict, "has_accounts"),
            Self::Store(_) => (Kind::Unavailable, "store_failed"),
            Self::StoreBusy => (Kind::Unavailable, "store_busy"),
            Self::Stopping => (Kind::Unavailable, "stopping"),
        }
    }
}

/// An error as the admin API answers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorView,
}

/// What the admin API says of an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorView {
    /// A word for programs.
    pub code: String,
    /// A sentence for people.
    pub message: String,
}

impl From<&AdminError> for ErrorBody {
    fn from(error: &AdminError) -> Self {
        Self {
            error: ErrorView {
                code: error.code().to_owned(),
                message: error.to_string(),
            },
        }
    }
}
