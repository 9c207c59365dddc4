//! Somebody who administers a prepared store through the API.

use std::net::SocketAddr;

use serde_json::Value;

use super::prepared_store::PreparedStore;
use crate::harness::{Connection, Server, json as parse};

/// Calls the API with a token that the store has.
pub(super) struct Administrator(SocketAddr);

const API_TOKEN: &str = "token-of-the-test";

impl Administrator {
    /// Lets an administrator in.
    pub(super) fn prepare(store: &mut PreparedStore) {
        store.api_token(API_TOKEN);
    }

    /// The administrator of a program that serves such a store.
    pub(super) fn of(server: &Server) -> Self {
        Self(server.admin.expect("there is an admin listener"))
    }

    /// Makes a call that succeeds. A body that is null is none; some calls take none.
    #[track_caller]
    pub(super) fn done(&self, verb: &str, path: &str, body: &Value) -> Value {
        let path = format!("/admin/api/v1{path}");
        let text = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let mut connection = Connection::open(self.0, &path);
        let head = format!(
            "{verb} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {API_TOKEN}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            text.len()
        );
        connection.send(format!("{head}{text}").as_bytes());
        let response = connection.receive();
        assert!(response.status < 300, "{verb} {path} {text}: {response:?}");
        match response.body.is_empty() {
            true => Value::Null,
            false => parse(&response.body),
        }
    }

    /// Reads something.
    #[track_caller]
    pub(super) fn get(&self, path: &str) -> Value {
        self.done("GET", path, &Value::Null)
    }
}
