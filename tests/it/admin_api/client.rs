//! A client of the admin API that keeps what it asked and what it was answered.

use std::{fs, net::SocketAddr, process::Command};

use serde_json::{Value, json};

use crate::harness::{
    Connection, Process, Response, Server, check, installed, json as parse, scratch,
};

/// The password of test accounts.
pub(crate) const PASSWORD: &str = "correct horse battery";

/// The path of the API.
pub(crate) const ROOT: &str = "/admin/api/v1";

/// A client with some credentials.
pub(crate) struct Admin {
    address: SocketAddr,
    /// Lines of headers that every request has.
    pub(crate) headers: Vec<String>,
    /// What was asked and answered, for the check of the schemas.
    calls: Vec<Value>,
}

/// The token in the link that the program prints while there is no account.
pub(crate) fn first_token(server: &Server) -> String {
    server.process.output.wait_for("the link", |text| {
        let (_, after) = text.split_once("/first-account?token=")?;
        Some(after.split_once('\n')?.0.to_owned())
    })
}

/// The value of the cookie that an answer sets.
pub(crate) fn cookie_of(response: &Response) -> Option<String> {
    let (name, rest) = response.header("set-cookie")?.split_once('=')?;
    let plain = name.strip_prefix("__Host-").unwrap_or(name);
    check("name", &plain, &"nearhead_login");
    Some(rest.split_once(';')?.0.to_owned())
}

impl Admin {
    /// Somebody without credentials.
    pub(crate) fn nobody(server: &Server) -> Self {
        Self {
            address: server.admin.expect("there is an admin listener"),
            headers: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// Makes the first account, `root`; the client has its cookie.
    pub(crate) fn first(server: &Server) -> Self {
        let mut this = Self::nobody(server);
        let body = json!({"token": first_token(server), "name": "root", "password": PASSWORD});
        let (response, _) = this.send("POST", "/first-account", &body);
        check("first account", &response.status, &200);
        this.with_cookie(&cookie_of(&response).expect("a cookie"));
        this
    }

    /// Makes the first account and an API token, which the client has.
    pub(crate) fn start(server: &Server) -> Self {
        let mut this = Self::first(server);
        let body = json!({"name": "tests", "role": "admin"});
        let token = this.done("POST", "/tokens", &body, 201);
        this.with_token(token["token"].as_str().unwrap());
        this
    }

    /// Presents this API token from now on.
    pub(crate) fn with_token(&mut self, token: &str) {
        self.headers = vec![format!("authorization: Bearer {token}")];
    }

    /// Sends this cookie from now on, as a page of the listener does.
    pub(crate) fn with_cookie(&mut self, cookie: &str) {
        self.headers = vec![
            format!("cookie: nearhead_login={cookie}"),
            format!("origin: http://{}", self.address),
        ];
    }

    /// Sends a request; a body that is `null` is none.
    #[track_caller]
    pub(crate) fn send(&mut self, verb: &str, path: &str, body: &Value) -> (Response, Value) {
        let text = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let mut headers = self.headers.clone();
        if !text.is_empty() {
            headers.push("content-type: application/json".to_owned());
        }
        let path = match path.starts_with("/admin") {
            true => path.to_owned(),
            false => format!("{ROOT}{path}"),
        };
        let response = send(self.address, verb, &path, &headers, text.as_bytes());
        let is_json = response.header("content-type") == Some("application/json");
        let answer = match is_json {
            true => parse(&response.body),
            false => Value::Null,
        };
        if is_json || response.body.is_empty() {
            self.calls.push(json!({
                "verb": verb,
                "path": path,
                "body": body,
                "status": response.status,
                "answer": answer,
            }));
        }
        (response, answer)
    }

    /// Sends a request and returns its answer, which has this status.
    #[track_caller]
    pub(crate) fn done(&mut self, verb: &str, path: &str, body: &Value, status: u16) -> Value {
        let (response, answer) = self.send(verb, path, body);
        let case = format!("{verb} {path} {body}: {answer}");
        check(&case, &response.status, &status);
        let cached = response.header("cache-control");
        check(&case, &cached, &Some("no-store"));
        let challenge = response.header("www-authenticate");
        let expected = (status == 401).then_some("Bearer realm=\"nearhead\"");
        check(&case, &challenge, &expected);
        answer
    }

    /// Sends a request that is refused with this status and code.
    #[track_caller]
    pub(crate) fn refused(
        &mut self,
        verb: &str,
        path: &str,
        body: &Value,
        status: u16,
        code: &str,
    ) {
        let answer = self.done(verb, path, body, status);
        let case = format!("{verb} {path} {body}: {answer}");
        check(&case, &answer["error"]["code"], &Value::from(code));
    }

    /// Gets something.
    #[track_caller]
    pub(crate) fn get(&mut self, path: &str) -> Value {
        self.done("GET", path, &Value::Null, 200)
    }

    /// Makes a tenant; returns its id.
    #[track_caller]
    pub(crate) fn tenant(&mut self, name: &str) -> String {
        let tenant = self.done("POST", "/tenants", &json!({"name": name}), 201);
        tenant["id"].as_str().unwrap().to_owned()
    }

    /// Makes a key; returns its id and the key itself.
    #[track_caller]
    pub(crate) fn key(&mut self, tenant: &str, name: &str) -> (String, String) {
        let body = json!({"tenant": tenant, "name": name});
        id_and_key(&self.done("POST", "/keys", &body, 201))
    }

    /// Checks everything that was asked and answered with the OpenAPI document; returns the names
    /// of the operations that were called with success.
    #[track_caller]
    pub(crate) fn check_schemas(&mut self, name: &str) -> Vec<String> {
        installed("tests/clients/node_modules/.installed");
        let document = self.get("/openapi.json");
        let folder = scratch(&format!("openapi-{name}"));
        let files = ["document.json", "calls.json"].map(|name| folder.join(name));
        fs::write(&files[0], document.to_string()).unwrap();
        fs::write(&files[1], json!(self.calls).to_string()).unwrap();
        let mut command = Command::new("node");
        command.arg(installed("tests/clients/openapi.mjs"));
        let (status, text) = Process::start(command.args(&files)).wait();
        assert!(
            status.success() && !text.contains("mistake"),
            "{status}\n{text}"
        );
        let names = text.trim().strip_prefix("operations: ").unwrap();
        names.split(' ').map(str::to_owned).collect()
    }
}

/// The id and the key itself of an answer that has them.
pub(crate) fn id_and_key(answer: &Value) -> (String, String) {
    let member = |name: &str| answer[name].as_str().unwrap().to_owned();
    (member("id"), member("key"))
}

/// Sends a request on a new connection, with the host that it goes to unless a header names one.
#[track_caller]
pub(crate) fn send(
    address: SocketAddr,
    verb: &str,
    path: &str,
    headers: &[String],
    body: &[u8],
) -> Response {
    let mut head = format!(
        "{verb} {path} HTTP/1.1\r\ncontent-length: {}\r\n",
        body.len()
    );
    if !headers.iter().any(|line| line.starts_with("host:")) {
        head.push_str(&format!("host: {address}\r\n"));
    }
    for line in headers {
        head.push_str(&format!("{line}\r\n"));
    }
    let mut connection = Connection::open(address, path);
    connection.send(&[head.as_bytes(), b"\r\n", body].concat());
    connection.receive()
}
