//! Pages for those who have not logged in.

use actix_web::{
    HttpResponse,
    http::{StatusCode, header},
};
use askama::Template;
use nearhead_tenants::{administration::NewLogin, password::PASSWORD_CHARS_MIN};

use super::{
    form::Form,
    page_context::PageContext,
    page_error::PageError,
    visit::{Answer, form, page_with, see_other},
};
use crate::admin::{admin_request::AdminRequest, assets, cookie, first_account, logins};

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    name: String,
    /// Where to go then.
    next: String,
    error: Option<String>,
    notice: Option<&'static str>,
}

#[derive(Template)]
#[template(path = "first_account.html")]
struct FirstAccountPage {
    token: String,
    name: String,
    error: Option<String>,
    password_min: usize,
}

/// Where somebody goes after the log-in: only a path of this listener.
fn next(form: &Form) -> String {
    let next = form.raw("next");
    let is_path = next.starts_with('/')
        && !next.starts_with("//")
        && next
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    match is_path {
        true => next.to_owned(),
        false => "/".to_owned(),
    }
}

/// The form to log in.
pub(super) async fn login(context: PageContext<'_>, request: &AdminRequest) -> Answer {
    let query: Form = request.parameters().into();
    let is_first = first_account::is_needed(context.admin, request.requester()).await;
    let notice = match query.get("done") {
        _ if is_first => Some(
            "There is no account yet. The link that nearhead printed at its start makes the first one.",
        ),
        "password" => Some("The password is set. Log in with it."),
        "logout" => Some("You have logged out."),
        _ => None,
    };
    let page = LoginPage {
        name: String::new(),
        next: next(&query),
        error: None,
        notice,
    };
    page_with(StatusCode::OK, &page)
}

/// Logs somebody in.
pub(super) async fn log_in(context: PageContext<'_>, request: &AdminRequest) -> Answer {
    let form = form(request)?;
    let name = form.get("name").to_owned();
    let password = form.raw("password").to_owned().into();
    match logins::log_in(context.admin, name, password, request.requester()).await {
        Ok(login) => Ok(begun(&login, request, &next(&form))),
        Err(error) => {
            let error = PageError::from(&error);
            let page = LoginPage {
                name: form.get("name").to_owned(),
                next: next(&form),
                error: Some(error.to_string()),
                notice: None,
            };
            let mut response = page_with(error.status, &page)?;
            if let Some(wait) = error.retry_after {
                response.headers_mut().insert(header::RETRY_AFTER, wait);
            }
            Ok(response)
        }
    }
}

fn begun(login: &NewLogin, request: &AdminRequest, next: &str) -> HttpResponse {
    let mut response = see_other(next);
    if let Some(cookie) = cookie::begin(&login.cookie, request.is_tls) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// The form that makes the first account.
pub(super) fn first_account(request: &AdminRequest) -> Answer {
    let query: Form = request.parameters().into();
    first_account_with(&query, None)
}

fn first_account_with(form: &Form, error: Option<PageError>) -> Answer {
    let status = error.as_ref().map_or(StatusCode::OK, |error| error.status);
    let page = FirstAccountPage {
        token: form.get("token").to_owned(),
        name: form.get("name").to_owned(),
        error: error.map(|error| error.to_string()),
        password_min: PASSWORD_CHARS_MIN,
    };
    page_with(status, &page)
}

/// Makes the first account, and logs it in.
pub(super) async fn make_first_account(context: PageContext<'_>, request: &AdminRequest) -> Answer {
    let form = form(request)?;
    if form.raw("password") != form.raw("again") {
        let error = PageError::invalid("Password again: type the same password twice.");
        return first_account_with(&form, Some(error));
    }
    let token = form.get("token").to_owned().into();
    let password = form.raw("password").to_owned().into();
    let by = request.requester();
    match first_account::claim(context.admin, &token, form.get("name"), password, by).await {
        Ok(login) => Ok(begun(&login, request, "/")),
        Err(error) => first_account_with(&form, Some(PageError::from(&error))),
    }
}

/// Logs somebody out.
pub(super) async fn log_out(context: PageContext<'_>, request: &AdminRequest) -> Answer {
    let ended = logins::log_out(context.admin, request).await;
    ended.map_err(|error| PageError::from(&error))?;
    let mut response = see_other("/login?done=logout");
    if let Some(cookie) = cookie::end(request.is_tls) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_a_page_of_this_listener() {
        for (given, expected) in [
            ("/keys?search=a", "/keys?search=a"),
            ("", "/"),
            ("//example.org", "/"),
            ("/\\example.org", "/"),
            ("/\t/example.org", "/"),
            ("https://example.org", "/"),
            ("javascript:alert(1)", "/"),
            ("/a\r\nset-cookie: x", "/"),
        ] {
            let mut form = Form::default();
            form.set("next", given);
            assert_eq!(next(&form), expected, "{given:?}");
        }
    }
}
