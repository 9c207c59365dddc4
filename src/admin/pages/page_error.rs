use std::fmt;

use actix_web::http::{StatusCode, header::HeaderValue};
use nearhead_tenants::administration::AdminError;

use super::form::InvalidField;
use crate::admin::api::ApiError;

/// Why a page or a form is refused.
#[derive(Clone, Debug)]
pub(super) struct PageError {
    pub(super) status: StatusCode,
    message: String,
    /// The header `Retry-After`, if it helps to wait.
    pub(super) retry_after: Option<HeaderValue>,
    is_stale: bool,
}

impl PageError {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            status,
            message,
            retry_after: None,
            is_stale: false,
        }
    }

    /// Whether somebody has changed what a form was opened with.
    pub(super) const fn is_stale(&self) -> bool {
        self.is_stale
    }

    pub(super) fn not_allowed() -> Self {
        Self::new(StatusCode::FORBIDDEN, "Only administrators may do this.")
    }

    /// Something is not allowed to the visitor.
    pub(super) fn forbidden(message: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    pub(super) fn malformed_form() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "The form is malformed: send it again.",
        )
    }

    pub(super) fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Internal error: the log has the reason.",
        )
    }

    /// What is asked for does not exist.
    pub(super) fn unknown(message: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(super) fn invalid(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<AdminError> for PageError {
    fn from(error: AdminError) -> Self {
        Self::from(&ApiError::of_operation(&error))
    }
}

impl From<InvalidField> for PageError {
    fn from(error: InvalidField) -> Self {
        Self::new(StatusCode::BAD_REQUEST, sentence(&error.to_string()))
    }
}

impl From<&ApiError> for PageError {
    fn from(error: &ApiError) -> Self {
        match error.status {
            // The sentence for programs names a header.
            StatusCode::PRECONDITION_FAILED => Self {
                is_stale: true,
                ..Self::new(
                    StatusCode::CONFLICT,
                    "Somebody has changed it since this page was opened, and nothing of yours is saved.",
                )
            },
            status => Self {
                retry_after: error.retry_after(),
                ..Self::new(status, sentence(&error.message))
            },
        }
    }
}

/// With a capital letter, and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    let mut sentence: String = first.chain(letters).collect();
    if !sentence.ends_with(['.', '!', '?']) {
        sentence.push('.');
    }
    sentence
}
