use std::{error::Error, time::Duration};

use nearhead_tenants::administration::ErrorBody;
use reqwest::{
    Client, Method, Request, Response, StatusCode, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use serde_json::{Map, Value};
use tokio::runtime::{self, Runtime};

use super::{
    Failure,
    api_call::{ApiCall, ROOT},
    command_line::place::{Certificates, Token},
    service_tls,
};
use crate::tls::client;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for an answer: a change waits for a disk, and usage of a month is read in seconds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Longest answer in bytes: 20,000 rows of usage have some 8 MB.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A client of the admin API.
pub(super) struct ServiceClient {
    client: Client,
    runtime: Runtime,
    url: Url,
    token: Token,
}

impl ServiceClient {
    /// A client of the listener at `url`. Nothing is sent yet.
    pub(super) fn new(
        url: Url,
        token: Token,
        certificates: &Certificates,
    ) -> Result<Self, Failure> {
        let tls = match url.scheme() {
            "https" => service_tls::config(certificates)?,
            _ => client::unused().map_err(Failure::new)?,
        };
        // Another host must not get the token.
        let client = client::http_client(tls)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .build()
            .map_err(|error| Failure::new(error.without_url()))?;
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::new)?;
        Ok(Self {
            client,
            runtime,
            url,
            token,
        })
    }

    /// Has the service do something.
    pub(super) fn run<C: ApiCall>(&self, call: &C) -> Result<C::Answer, Failure> {
        let request = self.request(call)?;
        let answer = self.runtime.block_on(self.send(request))?;
        let answer = if answer.is_empty() {
            b"null"
        } else {
            &answer[..]
        };
        serde_json::from_slice(answer).map_err(|error| self.strange(&error))
    }

    fn request<C: ApiCall>(&self, call: &C) -> Result<Request, Failure> {
        let mut members = match serde_json::to_value(call) {
            Ok(Value::Object(members)) => members,
            Ok(_) => Map::new(),
            Err(error) => return Err(Failure::new(error)),
        };
        let url = url_of(&self.url, C::PATH, &mut members);
        let mut request = Request::new(C::VERB, url);
        if C::VERB == Method::GET {
            let mut query = request.url_mut().query_pairs_mut();
            for (name, value) in &members {
                query.append_pair(name, &parameter(value));
            }
        } else if !members.is_empty() {
            let body = Value::Object(members).to_string();
            *request.body_mut() = Some(body.into());
        }
        let headers = request.headers_mut();
        let json = HeaderValue::from_static("application/json");
        headers.insert(ACCEPT, json.clone());
        if C::VERB != Method::GET {
            headers.insert(CONTENT_TYPE, json);
        }
        let bearer = HeaderValue::try_from(format!("Bearer {}", self.token.expose()));
        let mut bearer = bearer.map_err(Failure::new)?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
        Ok(request)
    }

    /// Sends a request, and returns the body of its answer.
    async fn send(&self, request: Request) -> Result<Vec<u8>, Failure> {
        let response = self.client.execute(request).await;
        let response = response.map_err(|error| self.unreachable(error))?;
        let status = response.status();
        let body = self.body(response).await?;
        if status.is_success() {
            return Ok(body);
        }
        let Ok(ErrorBody { error }) = serde_json::from_slice(&body) else {
            return Err(self.strange(&format!("status {status}")));
        };
        Err(match status {
            StatusCode::BAD_REQUEST => Failure::misuse(error.message),
            StatusCode::UNAUTHORIZED => Failure::new(format!(
                "{} does not accept the API token: make another one",
                self.url
            )),
            _ => Failure::new(error.message),
        })
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        loop {
            let chunk = response.chunk().await;
            let chunk = chunk.map_err(|error| self.unreachable(error))?;
            let Some(chunk) = chunk else {
                return Ok(body);
            };
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(self.strange(&"too long"));
            }
            body.extend_from_slice(&chunk);
        }
    }

    fn unreachable(&self, error: reqwest::Error) -> Failure {
        let is_connect = error.is_connect();
        let error = error.without_url();
        // The last cause is the system's.
        let mut cause: &dyn Error = &error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        let url = &self.url;
        Failure::new(match is_connect {
            true => format!(
                "no service answers at {url} ({cause}): start it, name another one with \
                 --admin-url, or give --data-dir while none runs"
            ),
            false => format!("{url}: {cause}"),
        })
    }

    /// What answered is no admin API.
    fn strange(&self, what: &dyn std::fmt::Display) -> Failure {
        Failure::new(format!(
            "{} does not answer as an admin API does ({what}): is it the admin listener of a \
             nearhead of this version?",
            self.url
        ))
    }
}

/// The URL of a call. Members that stand in the path are removed from the others.
fn url_of(listener: &Url, path: &str, members: &mut Map<String, Value>) -> Url {
    let mut url = listener.clone();
    let above = url.path().trim_end_matches('/').to_owned();
    url.set_path(&format!("{above}{ROOT}"));
    if let Ok(mut segments) = url.path_segments_mut() {
        for segment in path.split('/').filter(|segment| !segment.is_empty()) {
            let name = segment.strip_prefix('{');
            let name = name.and_then(|name| name.strip_suffix('}'));
            let member = name.and_then(|name| members.remove(name));
            segments.push(&member.map_or_else(|| segment.to_owned(), |value| parameter(&value)));
        }
    }
    url
}

/// A value as text in a URL.
fn parameter(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_stand_in_the_path() {
        let listener = |text: &str| Url::parse(text).unwrap();
        for (url, path, name, expected) in [
            (
                "http://127.0.0.1:8590",
                "/keys/{id}/rotate",
                "00aa",
                "http://127.0.0.1:8590/admin/api/v1/keys/00aa/rotate",
            ),
            (
                "https://example.org/nearhead/",
                "/keys",
                "00aa",
                "https://example.org/nearhead/admin/api/v1/keys",
            ),
            (
                "http://localhost",
                "/accounts/{id}",
                "a/../b?c#d é",
                "http://localhost/admin/api/v1/accounts/a%2F..%2Fb%3Fc%23d%20%C3%A9",
            ),
        ] {
            let mut members = Map::new();
            members.insert("id".to_owned(), json!(name));
            members.insert("limit".to_owned(), json!(7));
            let found = url_of(&listener(url), path, &mut members);
            assert_eq!(found.as_str(), expected);
            assert_eq!(members.len(), if path.contains('{') { 1 } else { 2 });
        }
    }
}
