//! Runs an operation on tenants, keys and accounts.

use std::{future::Future, pin::Pin, time::Instant};

use actix::Handler;
use nearhead_tenants::{
    account::Role,
    administration::{CreateAccount, FindPassword, Operation, Requester, SetPassword},
    audit::Author,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{api_error::ApiError, login::read};
use crate::{
    admin::admin_state::AdminState,
    tenants::{Administer, TenantsActor},
};

/// The answer of an operation as JSON.
pub(super) type Answer = Pin<Box<dyn Future<Output = Result<Value, ApiError>>>>;

/// Runs an operation with this input.
pub(super) type Run = fn(AdminState, Requester, Map<String, Value>) -> Answer;

/// Reads an operation from its members, and has the tenants' actor do it.
pub(super) fn run<O>(admin: AdminState, by: Requester, members: Map<String, Value>) -> Answer
where
    O: Operation + DeserializeOwned + Send + 'static,
    O::Answer: Serialize + Send + 'static,
    TenantsActor: Handler<Administer<O>>,
{
    Box::pin(async move {
        let operation: O = read(members)?;
        json_of(admin.run(operation, by).await?)
    })
}

/// Makes an account. Its password is hashed elsewhere, because that is slow.
pub(super) fn create_account(
    admin: AdminState,
    by: Requester,
    members: Map<String, Value>,
) -> Answer {
    Box::pin(async move {
        let create: CreateAccount = read(members)?;
        check_admin(&by)?;
        let prepared = admin.hash(move || create.prepare()).await?;
        let prepared = prepared.map_err(|error| ApiError::of_operation(&error))?;
        json_of(admin.run(prepared, by).await?)
    })
}

/// Changes a password. It is hashed elsewhere, because that is slow. Guesses at the present one are
/// counted as those at logins are.
pub(super) fn set_password(
    admin: AdminState,
    by: Requester,
    members: Map<String, Value>,
) -> Answer {
    Box::pin(async move {
        let set: SetPassword = read(members)?;
        let is_own = by.author == Author::Account(set.name.clone());
        if !is_own {
            check_admin(&by)?;
        }
        let begun = admin
            .throttle
            .lock()
            .begin(Some(&set.name), by.from, Instant::now());
        let attempt = begun.map_err(ApiError::throttled)?;
        let name = set.name.to_string();
        let stored = admin.run(FindPassword { name }, by.clone()).await?;
        let prepared = admin.hash(move || set.prepare(&stored)).await?;
        let prepared = prepared.map_err(|error| ApiError::of_operation(&error))?;
        let answer = admin.run(prepared, by).await?;
        admin.throttle.lock().succeeded(&attempt);
        json_of(answer)
    })
}

/// Checks a right that the operation checks as well, before a password is hashed.
fn check_admin(by: &Requester) -> Result<(), ApiError> {
    match by.role {
        Some(Role::Admin) => Ok(()),
        Some(Role::Holder(_)) => Err(ApiError::NOT_ALLOWED),
        None => Err(ApiError::NOT_LOGGED_IN),
    }
}

fn json_of(answer: impl Serialize) -> Result<Value, ApiError> {
    serde_json::to_value(answer).map_err(|_| ApiError::INTERNAL)
}
