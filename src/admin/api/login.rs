//! The calls that begin and end a login.

use actix_web::{
    HttpResponse,
    http::{StatusCode, header},
};
use nearhead_tenants::administration::{NewLogin, Requester, SecretText, WhoAmI};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::api_error::ApiError;
use crate::{
    admin::{
        admin_request::AdminRequest,
        admin_state::AdminState,
        cookie, first_account,
        logins::{log_in, log_out},
    },
    http::not_cached,
};

/// The body of a login.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LogIn {
    name: String,
    password: SecretText,
}

/// The body that makes the first account.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FirstAccount {
    token: SecretText,
    name: String,
    password: SecretText,
}

/// Reads a body.
pub(super) fn read<T: DeserializeOwned>(members: Map<String, Value>) -> Result<T, ApiError> {
    let read = serde_json::from_value(Value::Object(members));
    read.map_err(|error| ApiError::invalid(error.to_string()))
}

/// Verifies a password, and sets the cookie of a new login.
pub(super) async fn begin(
    admin: &AdminState,
    request: &AdminRequest,
    members: Map<String, Value>,
) -> Result<HttpResponse, ApiError> {
    let LogIn { name, password } = read(members)?;
    let login = log_in(admin, name, password, request.requester()).await?;
    begun(admin, request, login).await
}

/// Makes the first account, and sets the cookie of its login.
pub(super) async fn first_account(
    admin: &AdminState,
    request: &AdminRequest,
    members: Map<String, Value>,
) -> Result<HttpResponse, ApiError> {
    let FirstAccount {
        token,
        name,
        password,
    } = read(members)?;
    let by = request.requester();
    let login = first_account::claim(admin, &token, &name, password, by).await?;
    begun(admin, request, login).await
}

/// Ends the login of the request's cookie, and removes the cookie. Without a login there is nothing
/// to end.
pub(super) async fn end(
    admin: &AdminState,
    request: &AdminRequest,
) -> Result<HttpResponse, ApiError> {
    log_out(admin, request).await?;
    let mut response = HttpResponse::new(StatusCode::NO_CONTENT);
    if let Some(cookie) = cookie::end(request.is_tls) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

async fn begun(
    admin: &AdminState,
    request: &AdminRequest,
    login: NewLogin,
) -> Result<HttpResponse, ApiError> {
    let by = Requester::new(login.identity, request.from, request.now);
    let me = admin.run(WhoAmI {}, by).await?;
    let body = json!({"me": me, "expires": login.expires});
    let mut response = not_cached(StatusCode::OK, "application/json", body.to_string());
    if let Some(cookie) = cookie::begin(&login.cookie, request.is_tls) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}
