//! Why the API does not do what it is asked for, and the exact answer.

use std::{borrow::Cow, time::Duration};

use actix_web::{
    HttpResponse,
    http::{
        StatusCode,
        header::{self, HeaderValue},
    },
};
use nearhead_tenants::administration::{AdminError, AdminErrorKind};
use serde_json::json;

use crate::http::{BodyRefusal, CHALLENGE, not_cached};

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::admin) struct ApiError {
    pub(in crate::admin) status: StatusCode,
    /// A word for programs.
    pub(in crate::admin) code: &'static str,
    /// A sentence for people.
    pub(in crate::admin) message: Cow<'static, str>,
    /// How long to wait.
    retry_after: Option<Duration>,
}

impl ApiError {
    /// A refusal with a fixed sentence.
    pub(in crate::admin) const fn new(
        status: StatusCode,
        code: &'static str,
        message: &'static str,
    ) -> Self {
        Self {
            status,
            code,
            message: Cow::Borrowed(message),
            retry_after: None,
        }
    }

    /// Nobody has logged in, or what is presented is not valid.
    pub(in crate::admin) const NOT_LOGGED_IN: Self = Self::new(
        StatusCode::UNAUTHORIZED,
        "not_logged_in",
        "log in, or present an API token as `Authorization: Bearer`",
    );

    /// The name or the password is wrong: nobody learns which of them.
    pub(in crate::admin) const WRONG_LOGIN: Self = Self::new(
        StatusCode::UNAUTHORIZED,
        "wrong_login",
        "the name or the password is wrong",
    );

    /// The token of the first account is wrong, was used, or there is an account.
    pub(in crate::admin) const WRONG_TOKEN: Self = Self::new(
        StatusCode::UNAUTHORIZED,
        "wrong_token",
        "the token is wrong or was used, or there is an account: restart nearhead for another link, \
         or log in",
    );

    /// A page of another site sent the request.
    pub(in crate::admin) const FOREIGN_ORIGIN: Self = Self::new(
        StatusCode::FORBIDDEN,
        "foreign_origin",
        "a change that a browser asks for has to come from a page of this listener: send Origin or \
         Sec-Fetch-Site, or use an API token. A proxy in between has to pass on the header Host, or \
         to send it as X-Forwarded-Host and be in --trusted-proxy",
    );

    /// Only administrators may.
    pub(in crate::admin) const NOT_ALLOWED: Self = Self::new(
        StatusCode::FORBIDDEN,
        "not_allowed",
        "only administrators may do this",
    );

    /// There is nothing at this path.
    pub(in crate::admin) const UNKNOWN_PATH: Self = Self::new(
        StatusCode::NOT_FOUND,
        "unknown_path",
        "unknown path, /admin/api/v1/openapi.json has all",
    );

    /// The path has other verbs.
    pub(in crate::admin) const WRONG_VERB: Self = Self::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "wrong_verb",
        "wrong verb for this path, see the allow header",
    );

    /// The body is something else than JSON.
    pub(in crate::admin) const NOT_JSON: Self = Self::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "not_json",
        "send the body as `Content-Type: application/json`",
    );

    /// The service is stopping.
    pub(in crate::admin) const STOPPING: Self = Self::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "stopping",
        "the service is stopping",
    );

    /// The disk of the store is known to hang, so it was not asked.
    pub(in crate::admin) const STORE_HANGS: Self = Self::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "store_failed",
        "the disk of the store does not answer: try again later",
    );

    /// The store was asked, and may still do it.
    pub(in crate::admin) const STORE_IS_LATE: Self = Self::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "store_failed",
        "the store has not answered in time: check later whether the change was made",
    );

    /// The visitor reads usage too often at once.
    pub(in crate::admin) const TOO_MANY_READS: Self = {
        let mut this = Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_reads",
            "too many of your requests read usage at once, send one after the other",
        );
        this.retry_after = Some(Duration::from_secs(1));
        this
    };

    /// Clients take too long to read other large answers.
    pub(in crate::admin) const TOO_MANY_ANSWERS: Self = {
        let mut this = Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_answers",
            "too many large answers are being read, ask again later or for less",
        );
        this.retry_after = Some(Duration::from_secs(1));
        this
    };

    /// An answer cannot be written: a defect.
    pub(in crate::admin) const INTERNAL: Self = Self::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal",
        "internal error",
    );

    /// What is asked for is malformed.
    pub(in crate::admin) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            code: "invalid",
            message: message.into(),
            retry_after: None,
        }
    }

    /// Somebody logged in too often, or tried to.
    pub(in crate::admin) fn throttled(wait: Duration) -> Self {
        Self {
            retry_after: Some(wait),
            ..Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "throttled",
                "too many logins or wrong passwords, try again later",
            )
        }
    }

    /// The body of a request was refused.
    pub(in crate::admin) const fn of_body(refusal: BodyRefusal) -> Self {
        let (code, message) = match refusal {
            BodyRefusal::TooLarge | BodyRefusal::Endless => {
                ("body_too_large", "the body has more than 262144 bytes")
            }
            BodyRefusal::TooSlow => ("body_too_slow", "the body was too slow, send it in one go"),
            BodyRefusal::Broken => ("body_broken", "the body broke off, send it again"),
            BodyRefusal::Busy { .. } => ("busy", "resource unavailable"),
        };
        Self::new(refusal.status(), code, message)
    }

    /// An operation was refused.
    pub(in crate::admin) fn of_operation(error: &AdminError) -> Self {
        let status = match error.kind() {
            AdminErrorKind::Invalid => StatusCode::BAD_REQUEST,
            AdminErrorKind::NotLoggedIn => StatusCode::UNAUTHORIZED,
            AdminErrorKind::NotAllowed => StatusCode::FORBIDDEN,
            AdminErrorKind::Unknown => StatusCode::NOT_FOUND,
            AdminErrorKind::Conflict => StatusCode::CONFLICT,
            AdminErrorKind::Stale => StatusCode::PRECONDITION_FAILED,
            AdminErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        };
        if let AdminError::Store(reason) = error {
            tracing::error!(%reason, "what an administrator asked for failed");
        }
        Self {
            status,
            code: error.code(),
            message: error.to_string().into(),
            retry_after: match error {
                AdminError::StoreBusy => Some(Duration::from_secs(1)),
                _ => None,
            },
        }
    }

    /// The header `Retry-After`, if it helps to wait: whole seconds, rounded up.
    pub(in crate::admin) fn retry_after(&self) -> Option<HeaderValue> {
        let wait = self.retry_after?;
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Some(HeaderValue::from(seconds))
    }

    /// The answer.
    pub(in crate::admin) fn response(&self) -> HttpResponse {
        let body = json!({"error": {"code": self.code, "message": self.message}});
        let mut response = not_cached(self.status, "application/json", body.to_string());
        let headers = response.headers_mut();
        if let Some(wait) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, wait);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, CHALLENGE);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It works soon: the answer says when to try again.
    #[test]
    fn a_busy_store_is_to_be_asked_again() {
        let busy = ApiError::of_operation(&AdminError::StoreBusy);
        assert_eq!((busy.status.as_u16(), busy.code), (503, "store_busy"));
        assert_eq!(busy.retry_after(), Some(HeaderValue::from_static("1")));
        let stopping = ApiError::of_operation(&AdminError::Stopping);
        assert_eq!(stopping.retry_after(), None);
    }
}
