//! Where a command works: on a running service, or on the data folder of one that is stopped.

use std::{fmt, fs::File, io::Read, net::IpAddr, path::PathBuf};

use clap::{Arg, Command, value_parser};
use reqwest::Url;

use super::argument::{Environment, given, option, switch};

/// Where a service listens for operators unless it is told otherwise.
const URL_DEFAULT: &str = "http://127.0.0.1:8590";

const URL_ENVIRONMENT: &str = "NEARHEAD_ADMIN_URL";
const TOKEN_ENVIRONMENT: &str = "NEARHEAD_ADMIN_TOKEN";

/// Longest file with a token in bytes. A token is 43 characters.
const TOKEN_FILE_BYTES_MAX: u64 = 4 << 10;

/// Where a command works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A running service.
    Service {
        /// Its listener for operators.
        url: Url,
        /// What it lets the command in by.
        token: Token,
        /// With which certificates they talk over https.
        certificates: Certificates,
    },
    /// The data folder of a service that is not running.
    Folder {
        /// The folder of all chains, or the one of a chain.
        root: PathBuf,
        /// The chain, if there are several.
        chain_id: Option<u64>,
    },
}

/// Files with certificates, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Certificates {
    /// Authorities of the service, in place of those that the system trusts.
    pub(crate) authorities: Option<PathBuf>,
    /// What the service asks the command for, and its key.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
}

/// An API token. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    /// What is sent.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    fn of(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        (is_visible && !text.is_empty()).then(|| Self(text.to_owned()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Adds the options that say where a command works.
pub(super) fn with_options(command: Command) -> Command {
    let heading = "Where";
    let url = option(
        "admin-url",
        "URL",
        "The admin listener of a running service [environment: NEARHEAD_ADMIN_URL] [default: \
         http://127.0.0.1:8590]",
    );
    let token = option(
        "token",
        "TOKEN",
        "API token for it. Other users of this machine see the command line, so prefer the \
         environment or a file [environment: NEARHEAD_ADMIN_TOKEN]",
    );
    let token_file = option("token-file", "FILE", "File that holds the API token");
    let authorities = option(
        "ca",
        "FILE",
        "Authorities in PEM that have signed the certificate of the service, in place of those \
         that the system trusts",
    );
    let client_certificate = option(
        "client-cert",
        "FILE",
        "Certificate in PEM, if the service asks for one (--admin-client-ca)",
    );
    let client_key = option("client-key", "FILE", "Private key of --client-cert in PEM");
    let folder = option(
        "data-dir",
        "FOLDER",
        "Data folder to work on while no service uses it, instead of a running service. No token \
         is needed",
    );
    let chain = option(
        "chain-id",
        "NUMBER",
        "Chain whose folder in --data-dir it is, if there are several",
    );
    let not_there = [
        "admin-url",
        "token",
        "token-file",
        "ca",
        "client-cert",
        "client-key",
    ];
    let file = |option: Arg| {
        option
            .help_heading(heading)
            .value_parser(value_parser!(PathBuf))
    };
    command.args([
        url.help_heading(heading),
        token.help_heading(heading).conflicts_with("token-file"),
        file(token_file),
        file(authorities),
        file(client_certificate).requires("client-key"),
        file(client_key).requires("client-cert"),
        file(folder).conflicts_with_all(not_there),
        chain.help_heading(heading).value_parser(value_parser!(u64)),
        switch("json", "Print JSON, as the admin API has it").help_heading("Output"),
    ])
}

impl Place {
    pub(super) fn read(
        matches: &clap::ArgMatches,
        environment: &Environment<'_>,
    ) -> Result<Self, String> {
        if let Some(root) = given(matches, "data-dir") {
            let chain_id = given(matches, "chain-id");
            return Ok(Self::Folder { root, chain_id });
        }
        if given::<u64>(matches, "chain-id").is_some() {
            return Err("--chain-id is for --data-dir: a running service has one chain".to_owned());
        }
        let variable = |name| {
            let text = environment(name)?.to_string_lossy().into_owned();
            (!text.is_empty()).then_some(text)
        };
        let (option, text) = match (
            given::<String>(matches, "admin-url"),
            variable(URL_ENVIRONMENT),
        ) {
            (Some(text), _) => ("--admin-url", text),
            (None, Some(text)) => (URL_ENVIRONMENT, text),
            (None, None) => ("--admin-url", URL_DEFAULT.to_owned()),
        };
        let url = admin_url(&text).map_err(|reason| format!("{option} {text:?}: {reason}"))?;
        let token = match (
            given::<String>(matches, "token"),
            given::<PathBuf>(matches, "token-file"),
            variable(TOKEN_ENVIRONMENT),
        ) {
            (Some(text), ..) => ("--token", text),
            (_, Some(file), _) => ("--token-file", token_of_file(&file)?),
            (.., Some(text)) => (TOKEN_ENVIRONMENT, text),
            _ => {
                return Err(format!(
                    "an API token is needed for {url}: give --token-file or {TOKEN_ENVIRONMENT}, or \
                     --data-dir while no service runs"
                ));
            }
        };
        let (option, text) = token;
        let token = Token::of(&text).ok_or_else(|| {
            format!("{option} (hidden): expected an API token, one line of ASCII")
        })?;
        let client = given(matches, "client-cert").zip(given(matches, "client-key"));
        let certificates = Certificates {
            authorities: given(matches, "ca"),
            client,
        };
        Ok(Self::Service {
            url,
            token,
            certificates,
        })
    }
}

/// The URL of an admin listener. Over plain HTTP the token would be readable on the way.
fn admin_url(text: &str) -> Result<Url, &'static str> {
    const ACCEPTS: &str =
        "expected a URL such as https://nearhead.example.org or http://127.0.0.1:8590";
    let url = Url::parse(text).map_err(|_| ACCEPTS)?;
    let is_plain = url.username().is_empty() && url.password().is_none();
    let has_no_more = url.query().is_none() && url.fragment().is_none();
    match (url.scheme(), url.host_str()) {
        _ if !is_plain || !has_no_more => Err(ACCEPTS),
        ("https", Some(_)) => Ok(url),
        ("http", Some(host)) if is_loopback(host) => Ok(url),
        ("http", Some(_)) => Err(
            "the token would be sent in the clear: use https, or a tunnel to a loopback address",
        ),
        _ => Err(ACCEPTS),
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn token_of_file(path: &PathBuf) -> Result<String, String> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text))
        .map_err(|error| format!("--token-file {}: {error}", path.display()))?;
    Ok(text)
}
