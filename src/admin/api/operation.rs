//! Runs an operation on tenants, keys and accounts.

use std::{future::Future, pin::Pin};

use actix::Handler;
use nearhead_tenants::administration::{CreateAccount, Operation, Requester, SetPassword};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{api_error::ApiError, login::read};
use crate::{
    admin::{admin_state::AdminState, passwords},
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
        json_of(passwords::create_account(&admin, create, by).await?)
    })
}

/// Changes a password. It is hashed elsewhere, because that is slow.
pub(super) fn set_password(
    admin: AdminState,
    by: Requester,
    members: Map<String, Value>,
) -> Answer {
    Box::pin(async move {
        let set: SetPassword = read(members)?;
        json_of(passwords::set_password(&admin, set, by).await?)
    })
}

fn json_of(answer: impl Serialize) -> Result<Value, ApiError> {
    serde_json::to_value(answer).map_err(|_| ApiError::INTERNAL)
}
