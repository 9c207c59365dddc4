//! Logs people in and out.

use std::time::Instant;

use nearhead_tenants::{
    UnixMillis,
    administration::{
        AdminError, BeginLogin, EndLogin, FindPassword, Identity, ListLogins, NewLogin,
        RefuseLogin, Requester, SecretText,
    },
    name::Name,
};

use super::{admin_request::AdminRequest, admin_state::AdminState, api::ApiError, visitor::Proof};
use crate::limits::{LOGIN_LIFETIME, REMEMBERED_LOGINS_MAX};

/// Logins that are read at once, before others have their turn.
const LOGIN_PAGE: usize = 500;

/// Verifies a password, and begins a login with a cookie of its own. For an account that does not
/// exist, it takes as long and says the same.
///
/// # Errors
/// The name or the password is wrong, too many were tried, or the login cannot be stored.
pub(super) async fn log_in(
    state: &AdminState,
    name: String,
    password: SecretText,
    by: Requester,
) -> Result<NewLogin, ApiError> {
    // A text that is no name is that of no account.
    let account: Option<Name> = name.parse().ok();
    let begun = state
        .throttle
        .lock()
        .begin(account.as_ref(), by.from, Instant::now());
    let attempt = begun.map_err(ApiError::throttled)?;
    match begin(state, name.clone(), password, by.clone()).await? {
        Some(login) => {
            let now = Instant::now();
            state.throttle.lock().succeeded(attempt, now);
            Ok(login)
        }
        None => {
            // It is refused, whether this can be written or not.
            let _ = state.run(RefuseLogin { name }, by).await;
            Err(ApiError::WRONG_LOGIN)
        }
    }
}

/// Begins a login without a throttle; `None` if the name or the password is wrong.
pub(super) async fn begin(
    state: &AdminState,
    name: String,
    password: SecretText,
    by: Requester,
) -> Result<Option<NewLogin>, ApiError> {
    let stored = state.run(FindPassword { name }, by.clone()).await?;
    let verified = state.hash(move || stored.verify(&password)).await?;
    let Some(verified) = verified else {
        return Ok(None);
    };
    let begin = BeginLogin {
        verified,
        lifetime: LOGIN_LIFETIME,
    };
    match state.run(begin, by).await {
        // The account was removed, or its password changed, since it was verified.
        Err(error) if error == ApiError::of_operation(&AdminError::WrongPassword) => Ok(None),
        begun => begun.map(Some),
    }
}

/// Learns from the audit where people have logged in, so that after a restart strangers keep nobody
/// out either.
pub(super) async fn remember_networks(state: &AdminState, now: UnixMillis) {
    let by = Requester::new(Identity::command_line(), None, now);
    let mut list = ListLogins {
        before: None,
        limit: LOGIN_PAGE,
    };
    let mut logins = Vec::new();
    for _ in 0..REMEMBERED_LOGINS_MAX / LOGIN_PAGE {
        // If the audit cannot be read, that is shown; networks are known when they are used.
        let Ok(page) = state.run(list, by.clone()).await else {
            break;
        };
        logins.extend(page.logins);
        list.before = page.next;
        if list.before.is_none() {
            break;
        }
    }
    let mut throttle = state.throttle.lock();
    // The newest one is the last to go.
    for (account, address) in logins.iter().rev() {
        throttle.know(account, *address);
    }
}

/// Ends the login of a request's cookie, if there is one.
///
/// # Errors
/// This cannot be stored.
pub(super) async fn log_out(state: &AdminState, request: &AdminRequest) -> Result<(), ApiError> {
    let proof = request.visitor.as_ref().map(|visitor| visitor.proof);
    match proof {
        Some(Proof::Login(cookie)) => state.run(EndLogin { cookie }, request.requester()).await,
        _ => Ok(()),
    }
}
