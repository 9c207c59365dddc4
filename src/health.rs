//! `nearhead health`: asks a running service whether it is ready.

use std::{error::Error, fmt};

use reqwest::{
    Response, StatusCode,
    header::{HOST, HeaderValue},
};
use serde::Deserialize;

use crate::{config::Health, tls::client};

/// Longest answer in bytes: a few reasons, each a short sentence, and the path of a failing store.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// What a service answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthStatus {
    /// It is ready.
    Ready,
    /// It is not. The reasons are empty if the listener for clients was asked, which has none.
    NotReady(Vec<String>),
}

impl fmt::Display for HealthStatus {
    /// One line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::NotReady(reasons) if reasons.is_empty() => f.write_str("not ready"),
            Self::NotReady(reasons) => write!(f, "not ready: {}", reasons.join("; ")),
        }
    }
}

/// Why it is not known whether a service is ready.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// No answer came in time. The text is the system's.
    #[error("{url}: {cause}")]
    Unreachable {
        /// What was asked.
        url: String,
        /// Why there is no answer.
        cause: String,
    },
    /// What answered is no nearhead.
    #[error("{url} does not answer as nearhead does ({what}): is it one of its listeners?")]
    Strange {
        /// What was asked.
        url: String,
        /// What is strange about the answer.
        what: String,
    },
}

/// The body of `/ready`.
#[derive(Deserialize)]
struct Body {
    ready: bool,
    #[serde(default)]
    missing: Vec<String>,
}

/// Asks a service whether it is ready. It must be called inside a tokio runtime.
///
/// # Errors
/// Nobody answers in time, or something else than nearhead does.
pub async fn ask(health: &Health) -> Result<HealthStatus, HealthError> {
    let unreachable = |error: reqwest::Error| HealthError::Unreachable {
        url: health.url.to_string(),
        cause: match error.is_timeout() {
            true => format!("no answer within {:?}", health.timeout),
            false => deepest(&error.without_url()),
        },
    };
    let strange = |what: String| HealthError::Strange {
        url: health.url.to_string(),
        what,
    };
    let failed = |error: &dyn Error| HealthError::Unreachable {
        url: health.url.to_string(),
        cause: error.to_string(),
    };
    let tls = match (health.url.scheme(), &health.certificate) {
        ("https", Some(path)) => client::trusting_file(path).map_err(|error| failed(&error)),
        (scheme, _) => client::trusting_system(scheme == "https").map_err(|error| failed(&error)),
    };
    // What is asked is this listener, and not what a proxy or a redirect leads to.
    let client = client::http_client(tls?)
        .timeout(health.timeout)
        .build()
        .map_err(unreachable)?;
    let mut request = client.get(health.url.clone());
    if health.is_configured {
        request = request.header(HOST, HeaderValue::from_static("localhost"));
    }
    let response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    let bytes = body(response).await.map_err(unreachable)?;
    let bytes = bytes.ok_or_else(|| strange("its answer is too long".to_owned()))?;
    let read: Result<Body, _> = serde_json::from_slice(&bytes);
    match (status, read) {
        (StatusCode::OK, Ok(Body { ready: true, .. })) => Ok(HealthStatus::Ready),
        (
            StatusCode::SERVICE_UNAVAILABLE,
            Ok(Body {
                ready: false,
                missing,
            }),
        ) => Ok(HealthStatus::NotReady(
            missing.iter().map(|one| printable(one)).collect(),
        )),
        (status, _) => Err(strange(format!("status {status}"))),
    }
}

/// The body of an answer, unless it is too long.
async fn body(mut response: Response) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// A reason in one line, without what a terminal would obey: another program may answer.
fn printable(reason: &str) -> String {
    let shown = |one: char| if one.is_control() { ' ' } else { one };
    reason.chars().map(shown).collect()
}

/// The last cause of an error is the system's.
fn deepest(mut error: &dyn Error) -> String {
    while let Some(deeper) = error.source() {
        error = deeper;
    }
    error.to_string()
}
