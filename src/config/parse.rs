//! Parses the text of each kind of value.

use std::{net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use alloy_primitives::B256;
use nearhead_actors::upstream::StateFollow;
use nearhead_actors::{
    data_folder::DataRoot,
    freshness::HeadAgeMax,
    upstream::{Endpoint, Scheme, TRUSTED_MAX},
};
use nearhead_chain::{dev::Profile, network::Network, verify::HeaderRulesMode};
use nearhead_tenants::allowlists;
use tracing_subscriber::EnvFilter;

use super::{
    show::Show,
    value::{AdminListen, Cap, LogFormat, SourceKind},
};
use crate::access::{Host, MethodSet};

/// Largest number of upstreams. Each one costs calls for its head and its hashes in every block
/// time, and `agree` keeps sets of them in 16 bits.
pub(super) const NODES_MAX: usize = 16;

/// Largest number of hosts that may be allowed: each is compared with the header of each request.
const ALLOWED_HOSTS_MAX: usize = 16;

/// Largest number of networks of proxies: each is compared with the address of each request.
const TRUSTED_PROXIES_MAX: usize = 16;

/// Longest name of a header in bytes.
const HEADER_NAME_BYTES_MAX: usize = 64;

/// Largest number of methods to forward: each has series of its own in the metrics.
const FORWARDED_METHODS_MAX: usize = 32;

/// Longest name of a method to forward, in bytes: as long as an allowlist takes.
const METHOD_NAME_BYTES_MAX: usize = 64;

/// Parses a value from the text that a user writes.
pub(super) trait Parse: Sized {
    fn parse(text: &str) -> Option<Self>;
}

macro_rules! words {
    ($($type:ident { $($variant:ident = $word:literal),+ })+) => {
        $(impl Parse for $type {
            fn parse(text: &str) -> Option<Self> {
                match text {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl Show for $type {
            fn show(&self) -> String {
                match self {
                    $(Self::$variant => $word.to_owned(),)+
                }
            }
        })+
    };
}

words! {
    SourceKind { Dev = "dev", Files = "files", Node = "node" }
    LogFormat { Text = "text", Json = "json" }
    Network { Mainnet = "mainnet", Sepolia = "sepolia", Hoodi = "hoodi" }
    StateFollow { Auto = "auto", Proofs = "proofs", Witness = "witness", Off = "off" }
    HeaderRulesMode { Auto = "auto", On = "on", Off = "off" }
    Profile { Small = "small", Mainnet = "mainnet", P99 = "p99", Adversarial = "adversarial" }
}

impl Parse for MethodSet {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "companion" => Some(Self::Companion),
            "core" => Some(Self::Core),
            _ => None,
        }
    }
}

impl Parse for bool {
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Parse for SocketAddr {
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Parse for AdminListen {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "off" => Some(Self::Off),
            _ => text.parse().ok().map(Self::At),
        }
    }
}

/// The one text of an option that is not a list.
pub(super) fn single(texts: &[String]) -> Option<&str> {
    match texts {
        [text] => Some(text.trim()),
        _ => None,
    }
}

/// One of a few words, a truth value or an address.
pub(super) fn parsed<T: Parse>(texts: &[String]) -> Option<T> {
    T::parse(single(texts)?)
}

/// `auto`, or a whole number within bounds.
pub(super) fn cap(texts: &[String], least: usize, most: usize) -> Option<Cap> {
    match single(texts)? {
        "auto" => Some(Cap::Auto),
        _ => whole(texts, least, most).map(Cap::Of),
    }
}

/// A whole number between two bounds, both included.
pub(super) fn whole<T: FromStr + PartialOrd>(texts: &[String], min: T, max: T) -> Option<T> {
    let text = single(texts)?;
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|value| plain && (min..=max).contains(value))
}

/// A time: a whole number with the unit `ms`, `s`, `m` or `h`; zero needs none.
pub(super) fn duration(texts: &[String], min: Duration, max: Duration) -> Option<Duration> {
    let text = single(texts)?;
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let millis = match unit {
        "ms" => 1,
        "" if number == 0 => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let time = Duration::from_millis(number.checked_mul(millis)?);
    (min..=max).contains(&time).then_some(time)
}

/// A time of whole seconds, up to an hour.
pub(super) fn whole_seconds(texts: &[String]) -> Option<Duration> {
    let time = duration(texts, Duration::ZERO, Duration::from_secs(3_600))?;
    (time.subsec_nanos() == 0).then_some(time)
}

/// `auto`, `off` or a time.
pub(super) fn head_age_max(texts: &[String]) -> Option<HeadAgeMax> {
    let (min, max) = (Duration::from_secs(1), Duration::from_secs(24 * 3_600));
    match single(texts)? {
        "auto" => Some(HeadAgeMax::Auto),
        "off" => Some(HeadAgeMax::Off),
        _ => duration(texts, min, max).map(HeadAgeMax::Of),
    }
}

/// `auto`, `none` or a path; the folder is not opened.
pub(super) fn data_root(texts: &[String]) -> Option<DataRoot> {
    match single(texts)? {
        "" => None,
        "auto" => Some(DataRoot::Auto(None)),
        "none" => Some(DataRoot::Memory),
        folder => Some(DataRoot::Given(PathBuf::from(folder))),
    }
}

/// The name of a header (RFC 9110 §5.1), in lower case.
#[expect(
    clippy::option_option,
    reason = "the outer `None` is an invalid text; the inner option is the value itself"
)]
pub(super) fn header_name(texts: &[String]) -> Option<Option<Box<str>>> {
    let text = single(texts)?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_name = (1..=HEADER_NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_token);
    is_name.then(|| Some(text.to_ascii_lowercase().into()))
}

/// A path; the file is not opened.
#[expect(
    clippy::option_option,
    reason = "the outer `None` is an invalid text; the inner option is the value itself"
)]
pub(super) fn path(texts: &[String]) -> Option<Option<PathBuf>> {
    let text = single(texts)?;
    (!text.is_empty()).then(|| Some(PathBuf::from(text)))
}

/// Hosts, each a name or an address.
pub(super) fn allowed_hosts(texts: &[String]) -> Option<Vec<Host>> {
    list(texts, ALLOWED_HOSTS_MAX)
}

/// Networks of proxies.
pub(super) fn trusted_proxies(texts: &[String]) -> Option<Vec<allowlists::Network>> {
    list(texts, TRUSTED_PROXIES_MAX)
}

/// At most this many values; each text may hold several, separated by commas. One that is given
/// twice counts once.
fn list<T: FromStr + PartialEq>(texts: &[String], most: usize) -> Option<Vec<T>> {
    let mut values: Vec<T> = Vec::new();
    for text in texts.iter().flat_map(|text| text.split(',')) {
        let value = text.trim().parse().ok()?;
        if !values.contains(&value) {
            values.push(value);
        }
    }
    (values.len() <= most).then_some(values)
}

/// Nodes; each text may hold several, separated by commas.
pub(super) fn nodes(texts: &[String]) -> Option<Vec<Endpoint>> {
    let texts = texts.iter().flat_map(|text| text.split(','));
    let nodes: Vec<Endpoint> = texts
        .map(|text| text.trim().parse().ok())
        .collect::<Option<_>>()?;
    (nodes.len() <= NODES_MAX).then_some(nodes)
}

/// Blocks that the operator trusts, each `NUMBER:HASH`; each text may hold several, separated by
/// commas. One that is given twice counts once.
pub(super) fn trusted_blocks(texts: &[String]) -> Option<Vec<(u64, B256)>> {
    let texts = texts.iter().flat_map(|text| text.split(','));
    let mut blocks = Vec::new();
    for text in texts {
        let (number, hash) = text.trim().split_once(':')?;
        let number = whole(&[number.to_owned()], 0, u64::MAX)?;
        let digits = hash.strip_prefix("0x").filter(|hex| hex.len() == 64)?;
        let block = (number, digits.parse().ok()?);
        if !blocks.contains(&block) {
            blocks.push(block);
        }
    }
    (blocks.len() <= TRUSTED_MAX).then_some(blocks)
}

/// Names of methods to forward; each text may hold several, separated by commas. One that is given
/// twice counts once. Whether they may be forwarded is checked at the start.
pub(super) fn forwarded(texts: &[String]) -> Option<Vec<Box<str>>> {
    let mut names: Vec<Box<str>> = Vec::new();
    for name in texts.iter().flat_map(|text| text.split(',')) {
        let name = name.trim();
        let is_name = (1..=METHOD_NAME_BYTES_MAX).contains(&name.len())
            && name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte));
        if !is_name {
            return None;
        }
        if !names.iter().any(|one| &**one == name) {
            names.push(name.into());
        }
    }
    (names.len() <= FORWARDED_METHODS_MAX).then_some(names)
}

/// Directives of a tracing filter.
pub(super) fn log_filter(texts: &[String]) -> Option<String> {
    let text = single(texts)?;
    let valid = !text.is_empty() && EnvFilter::builder().parse(text).is_ok();
    valid.then(|| text.to_owned())
}

/// A collector of traces.
#[expect(
    clippy::option_option,
    reason = "the outer `None` is an invalid text; the inner option is the value itself"
)]
pub(super) fn collector(texts: &[String]) -> Option<Option<Endpoint>> {
    let endpoint: Endpoint = single(texts)?.parse().ok()?;
    (endpoint.scheme() == Scheme::Http).then_some(Some(endpoint))
}

/// A share of a whole.
pub(super) fn ratio(texts: &[String]) -> Option<f64> {
    let text = single(texts)?;
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let ratio = text.parse().ok()?;
    (is_plain && (0.0..=1.0).contains(&ratio)).then_some(ratio)
}
