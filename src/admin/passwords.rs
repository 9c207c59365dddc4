//! Makes accounts and changes passwords. These are verified and hashed where nobody waits for it.

use std::time::Instant;

use nearhead_tenants::{
    account::Role,
    administration::{AccountView, CreateAccount, FindPassword, Requester, SetPassword},
    audit::Author,
};

use super::{admin_state::AdminState, api::ApiError};

/// Makes an account.
///
/// # Errors
/// It is refused, or the store failed.
pub(super) async fn create_account(
    state: &AdminState,
    create: CreateAccount,
    by: Requester,
) -> Result<AccountView, ApiError> {
    check_admin(&by)?;
    let prepared = state.hash(move || create.prepare()).await?;
    let prepared = prepared.map_err(|error| ApiError::of_operation(&error))?;
    state.run(prepared, by).await
}

/// Changes a password. Guesses at one's own present one are counted as those at logins are: a login
/// that was stolen does not find out the password.
///
/// # Errors
/// It is refused, the present password was tried too often, or the store failed.
pub(super) async fn set_password(
    state: &AdminState,
    set: SetPassword,
    by: Requester,
) -> Result<(), ApiError> {
    let is_own = by.author == Author::Account(set.name.clone());
    let attempt = match is_own {
        true => {
            let mut throttle = state.throttle.lock();
            let begun = throttle.begin_change(&set.name, by.from, Instant::now());
            Some(begun.map_err(ApiError::throttled)?)
        }
        false => {
            check_admin(&by)?;
            None
        }
    };
    // Nobody is asked for the present password of another account, so it cannot be guessed here.
    let set = SetPassword {
        present: set.present.filter(|_| is_own),
        ..set
    };
    let name = set.name.to_string();
    let stored = state.run(FindPassword { name }, by.clone()).await?;
    let prepared = state.hash(move || set.prepare(&stored)).await?;
    let prepared = prepared.map_err(|error| ApiError::of_operation(&error))?;
    state.run(prepared, by).await?;
    if let Some(attempt) = attempt {
        state.throttle.lock().was_right(attempt);
    }
    Ok(())
}

/// Checks a right that the operation checks as well, before a password is hashed.
fn check_admin(by: &Requester) -> Result<(), ApiError> {
    match by.role {
        Some(Role::Admin) => Ok(()),
        Some(Role::Holder(_)) => Err(ApiError::NOT_ALLOWED),
        None => Err(ApiError::NOT_LOGGED_IN),
    }
}
