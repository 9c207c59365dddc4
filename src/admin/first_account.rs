//! The first account: whoever started the service makes it, with a link that works once.

use std::fmt;

use nearhead_tenants::{
    administration::{AdminError, ClaimFirstAccount, HasAccounts, NewLogin, Requester, SecretText},
    name::Name,
    password::PasswordHash,
    secret::{Secret, SecretDigest},
};

use super::{admin_state::AdminState, api::ApiError, logins::begin};

/// A token that makes the first account, while there is none. It is kept in memory alone.
pub(crate) struct FirstAccountToken(Secret);

impl FirstAccountToken {
    /// A new one; `None` if the system gives no random numbers.
    pub(crate) fn generate() -> Option<Self> {
        Secret::generate().ok().map(Self)
    }

    /// What is kept to compare it with.
    pub(crate) fn digest(&self) -> SecretDigest {
        self.0.digest()
    }

    /// The path of the page that takes it.
    pub(crate) fn path(&self) -> String {
        format!("/first-account?token={}", self.0.expose())
    }
}

impl fmt::Debug for FirstAccountToken {
    /// It belongs in no log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FirstAccountToken(..)")
    }
}

/// Makes the first account, an administrator's, and logs it in. The token is used up.
///
/// # Errors
/// The token is not the one, or the name or the password cannot be used; then the token stays good.
pub(super) async fn claim(
    state: &AdminState,
    token: &SecretText,
    name: &str,
    password: SecretText,
    by: Requester,
) -> Result<NewLogin, ApiError> {
    let digest = SecretDigest::of(token.expose());
    // Taken before anything else is awaited: of two requests at once, one has it.
    let taken = state.first_account.lock().take_if(|token| *token == digest);
    taken.ok_or(ApiError::WRONG_TOKEN)?;
    if let Err(error) = create(state, name, password.clone(), by.clone()).await {
        if error.code != ApiError::of_operation(&AdminError::HasAccounts).code {
            *state.first_account.lock() = Some(digest);
        }
        return Err(error);
    }
    let login = begin(state, name.to_owned(), password, by).await?;
    login.ok_or(ApiError::WRONG_LOGIN)
}

async fn create(
    state: &AdminState,
    name: &str,
    password: SecretText,
    by: Requester,
) -> Result<(), ApiError> {
    let name: Result<Name, _> = name.parse();
    let name = name.map_err(|error| ApiError::invalid(format!("name: {error}")))?;
    let hashed = state
        .hash(move || PasswordHash::new(password.expose()))
        .await?;
    let password = hashed.map_err(|error| ApiError::of_operation(&AdminError::from(error)))?;
    state.run(ClaimFirstAccount { name, password }, by).await?;
    Ok(())
}

/// Whether nobody can administer yet; no if that is not known.
pub(super) async fn is_needed(state: &AdminState, by: Requester) -> bool {
    matches!(state.run(HasAccounts, by).await, Ok(false))
}
