//! `nearhead health` as the command line gives it.

use std::{
    ffi::OsString,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::{Arg, ArgMatches, Command};
use reqwest::Url;

use super::{
    AdminListen, Config, command_error::CommandError, parse::duration, resolved::Resolved,
};

/// How long a service may take to answer unless `--timeout` says otherwise. Docker waits 30 s for a
/// health check by default.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

const TIMEOUT_MIN: Duration = Duration::from_millis(1);
const TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// `nearhead health`: which listener of a running service is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Its `/ready`.
    pub(crate) url: Url,
    /// Whether the listener is that of the configuration, not one that was named. Then it is asked
    /// as `localhost`, which each listener accepts.
    pub(crate) is_configured: bool,
    /// The file with the certificate that it has to show, whatever names that has; `None`: one for
    /// the URL's host, by an authority that the system trusts.
    pub(crate) certificate: Option<PathBuf>,
    /// How long it may take to answer.
    pub(crate) timeout: Duration,
}

/// Adds the arguments of `nearhead health` to the options of the service.
pub(super) fn with_arguments(command: Command) -> Command {
    let url = Arg::new("url").value_name("URL").help(
        "The listener, such as http://127.0.0.1:8545 [default: that of the configuration for \
         metrics, else for operators, else for clients]",
    );
    let timeout = Arg::new("timeout")
        .long("timeout")
        .value_name("TIME")
        .allow_negative_numbers(true)
        .help("How long the service may take to answer [default: 5s]");
    command.arg(url).arg(timeout)
}

impl Health {
    /// Reads what clap has matched. A URL that is given needs no configuration, so none is read.
    ///
    /// # Errors
    /// The URL, the timeout or the configuration is invalid, or the configuration names no port.
    pub(super) fn read(
        matches: &ArgMatches,
        environment: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, CommandError> {
        let timeout = match matches.get_one::<String>("timeout") {
            None => TIMEOUT_DEFAULT,
            Some(text) => {
                let given = std::slice::from_ref(text);
                duration(given, TIMEOUT_MIN, TIMEOUT_MAX).ok_or_else(|| CommandError::Value {
                    option: "--timeout".to_owned(),
                    value: format!("{text:?}"),
                    accepts: "a time from 1ms to 1m, such as 500ms or 5s",
                })?
            }
        };
        let text = matches.get_one::<String>("url");
        let (url, certificate) = match text {
            Some(text) => (ready_of(text), None),
            None => {
                let Resolved { config, .. } = Resolved::new(matches, environment)?;
                let Asked { address, has_tls } = asked(&config)?;
                let certificate = config.tls_cert.filter(|_| has_tls);
                let scheme = if certificate.is_some() {
                    "https"
                } else {
                    "http"
                };
                (ready_of(&format!("{scheme}://{address}")), certificate)
            }
        };
        let url = url.ok_or_else(|| CommandError::Value {
            option: "URL".to_owned(),
            // It may have a password in it.
            value: "(hidden)".to_owned(),
            accepts: "the URL of a listener, such as http://127.0.0.1:8545, without user or query",
        })?;
        Ok(Self {
            url,
            is_configured: text.is_none(),
            certificate,
            timeout,
        })
    }
}

/// `/ready` below the URL of a listener.
fn ready_of(listener: &str) -> Option<Url> {
    let mut url = Url::parse(listener).ok()?;
    let is_plain = url.username().is_empty() && url.password().is_none();
    let has_no_more = url.query().is_none() && url.fragment().is_none();
    let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
    if !is_plain || !has_no_more || !is_http {
        return None;
    }
    let path = format!("{}/ready", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Some(url)
}

/// The listener to ask.
struct Asked {
    address: SocketAddr,
    /// Whether it speaks TLS if any does.
    has_tls: bool,
}

/// The listener of a configuration that answers best: those for operators say why the service is
/// not ready, and answer in an overload too. One that wants a client certificate is not asked, and
/// none that wants the address of a client first.
fn asked(config: &Config) -> Result<Asked, CommandError> {
    let admin = match config.admin_listen {
        _ if config.admin_client_ca.is_some() => None,
        AdminListen::At(address) => Some(address),
        AdminListen::Default => Some(AdminListen::DEFAULT),
        AdminListen::Off => None,
    };
    let (option, address, has_tls) = match (config.metrics_listen, admin) {
        (Some(address), _) => ("metrics-listen", address, false),
        (None, Some(address)) => ("admin-listen", address, true),
        (None, None) if config.proxy_protocol => {
            return Err(CommandError::Value {
                option: "metrics-listen".to_owned(),
                value: "none".to_owned(),
                accepts: "an address, where nearhead health asks: with --proxy-protocol, the \
                          listener for clients answers proxies alone",
            });
        }
        (None, None) => ("listen", config.listen, true),
    };
    if address.port() == 0 {
        return Err(CommandError::Value {
            option: option.to_owned(),
            value: format!("\"{address}\""),
            accepts: "a port other than 0, or the URL of the listener after nearhead health",
        });
    }
    Ok(Asked {
        address: reached(address),
        has_tls,
    })
}

/// Where this machine reaches a listener: one of all addresses has a loopback address too.
fn reached(mut listener: SocketAddr) -> SocketAddr {
    match listener.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => listener.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => listener.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    listener
}
