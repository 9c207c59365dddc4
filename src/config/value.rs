//! Parses and shows each kind of value.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use alloy_primitives::B256;
use nearhead_actors::{
    data_folder::DataRoot,
    freshness::HeadAgeMax,
    upstream::{Endpoint, TRUSTED_MAX},
};
use nearhead_chain::{dev::Profile, network::Network, verify::HeaderRulesMode};
use nearhead_tenants::allowlists;
use tracing_subscriber::EnvFilter;

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

/// Where blocks come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceKind {
    /// A chain that this process generates.
    #[default]
    Dev,
    /// An import of genesis.json and chain.rlp.
    Files,
    /// Real nodes.
    Node,
}

/// Format of the log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// A bound that is configured or derived from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    /// Derived from other options.
    Auto,
    /// This many.
    Of(usize),
}

impl Cap {
    /// The bound, if one is given.
    #[must_use]
    pub(crate) const fn given(self) -> Option<usize> {
        match self {
            Self::Auto => None,
            Self::Of(count) => Some(count),
        }
    }

    /// The bound, with `auto` in place of [`Self::Auto`].
    #[must_use]
    pub(crate) const fn or(self, auto: usize) -> usize {
        match self {
            Self::Auto => auto,
            Self::Of(count) => count,
        }
    }
}

/// Where the admin listener is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminListen {
    /// Not given: `Self::DEFAULT`, or a free port if that is taken.
    Default,
    /// There is none.
    Off,
    /// At this address, or the service does not start.
    At(SocketAddr),
}

impl AdminListen {
    /// The default address. It is not 8546, where geth has its WebSocket port.
    pub(crate) const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8_590);
}

/// A key and the name of its tenant.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Name of the tenant, for logs.
    pub(crate) tenant: String,
    secret: String,
    /// Whether it is the key `dev` that nobody gave, which serves this machine alone.
    is_default: bool,
}

impl ApiKey {
    /// Longest name or secret in bytes: it is part of a URL's path.
    const LENGTH_MAX: usize = 128;

    /// A key of `tenant`.
    pub fn new(tenant: impl Into<String>, secret: impl Into<String>) -> Self {
        Self {
            tenant: tenant.into(),
            secret: secret.into(),
            is_default: false,
        }
    }

    /// The key of source dev on a loopback address if none is given.
    #[must_use]
    pub(crate) fn default_dev() -> Self {
        Self {
            is_default: true,
            ..Self::new("dev", "dev")
        }
    }

    /// Whether it is the key that is known to everybody.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.is_default
    }

    /// The secret. It must not get into a log, a metric or an error.
    #[must_use]
    pub(crate) fn secret(&self) -> &str {
        &self.secret
    }

    /// The key, if its name and its secret are valid.
    fn checked(self) -> Option<Self> {
        let fits = |part: &str| {
            let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
            (1..=Self::LENGTH_MAX).contains(&part.len()) && part.bytes().all(unreserved)
        };
        (fits(&self.tenant) && fits(&self.secret)).then_some(self)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=(hidden)", self.tenant)
    }
}

/// Shows a value as a user would write it.
pub(super) trait Show {
    fn show(&self) -> String;
}

impl<T: Show> Show for Option<T> {
    fn show(&self) -> String {
        self.as_ref().map_or_else(|| "none".to_owned(), T::show)
    }
}

impl Show for PathBuf {
    fn show(&self) -> String {
        Path::display(self).to_string()
    }
}

impl Show for Duration {
    fn show(&self) -> String {
        match self.subsec_millis() {
            0 => format!("{}s", self.as_secs()),
            _ => format!("{}ms", self.as_millis()),
        }
    }
}

impl Show for Cap {
    fn show(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Of(count) => count.to_string(),
        }
    }
}

impl Show for HeadAgeMax {
    fn show(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Off => "off".to_owned(),
            Self::Of(age) => age.show(),
        }
    }
}

impl Show for AdminListen {
    fn show(&self) -> String {
        match self {
            Self::Default => Self::DEFAULT.to_string(),
            Self::Off => "off".to_owned(),
            Self::At(address) => address.to_string(),
        }
    }
}

impl Show for DataRoot {
    fn show(&self) -> String {
        match self {
            Self::Auto(None) => "auto".to_owned(),
            Self::Memory => "none".to_owned(),
            Self::Auto(Some(folder)) | Self::Given(folder) => folder.show(),
        }
    }
}

impl Show for Vec<Endpoint> {
    fn show(&self) -> String {
        let nodes: Vec<String> = self.iter().map(ToString::to_string).collect();
        match nodes.is_empty() {
            true => "none".to_owned(),
            false => nodes.join(", "),
        }
    }
}

impl Show for Vec<Host> {
    fn show(&self) -> String {
        listed(self)
    }
}

impl Show for Vec<allowlists::Network> {
    fn show(&self) -> String {
        listed(self)
    }
}

fn listed(values: &[impl fmt::Display]) -> String {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    match values.is_empty() {
        true => "none".to_owned(),
        false => values.join(", "),
    }
}

impl Show for Vec<(u64, B256)> {
    fn show(&self) -> String {
        let blocks: Vec<String> = self
            .iter()
            .map(|(number, hash)| format!("{number}:{hash}"))
            .collect();
        match blocks.is_empty() {
            true => "none".to_owned(),
            false => blocks.join(", "),
        }
    }
}

impl Show for Vec<ApiKey> {
    fn show(&self) -> String {
        let mut tenants: Vec<&str> = Vec::new();
        for key in self {
            if !tenants.contains(&key.tenant.as_str()) {
                tenants.push(&key.tenant);
            }
        }
        match self.len() {
            0 => "none".to_owned(),
            count => format!("{count} hidden ({})", tenants.join(", ")),
        }
    }
}

macro_rules! show_as_displayed {
    ($($type:ty),+) => {
        $(impl Show for $type {
            fn show(&self) -> String {
                self.to_string()
            }
        })+
    };
}

show_as_displayed!(u32, u64, usize, bool, String, Box<str>, SocketAddr);

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
    MethodSet { Companion = "companion", Core = "core" }
    LogFormat { Text = "text", Json = "json" }
    Network { Mainnet = "mainnet", Sepolia = "sepolia", Hoodi = "hoodi" }
    HeaderRulesMode { Auto = "auto", On = "on", Off = "off" }
    Profile { Small = "small", Mainnet = "mainnet", P99 = "p99", Adversarial = "adversarial" }
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

/// Keys, each `NAME=SECRET` or `SECRET`; each text may hold several, separated by commas.
///
/// A key without a name is a tenant of its own. It is named after its position, or after the next
/// number whose name is free.
pub(super) fn api_keys(texts: &[String]) -> Option<Vec<ApiKey>> {
    let texts = texts.iter().flat_map(|text| text.split(',')).map(str::trim);
    let parts: Vec<(Option<&str>, &str)> = texts
        .map(|text| match text.split_once('=') {
            Some((name, secret)) => (Some(name), secret),
            None => (None, text),
        })
        .collect();
    let mut keys: Vec<ApiKey> = Vec::new();
    for (name, secret) in &parts {
        let free = |name: &String| {
            !parts.iter().any(|(given, _)| given == &Some(name.as_str()))
                && !keys.iter().any(|key| key.tenant == *name)
        };
        let name = match name {
            Some(name) => (*name).to_owned(),
            None => (keys.len() + 1..)
                .map(|number| format!("key-{number}"))
                .find(free)?,
        };
        let key = ApiKey::new(name, *secret).checked()?;
        if keys.iter().any(|known| known.secret == key.secret) {
            return None;
        }
        keys.push(key);
    }
    Some(keys)
}

/// Hosts, each a name or an address; each text may hold several, separated by commas. One that is
/// given twice counts once.
pub(super) fn allowed_hosts(texts: &[String]) -> Option<Vec<Host>> {
    let texts = texts.iter().flat_map(|text| text.split(','));
    let mut hosts: Vec<Host> = Vec::new();
    for text in texts {
        let host = text.trim().parse().ok()?;
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    (hosts.len() <= ALLOWED_HOSTS_MAX).then_some(hosts)
}

/// Networks of proxies; each text may hold several, separated by commas. One that is given twice
/// counts once.
pub(super) fn trusted_proxies(texts: &[String]) -> Option<Vec<allowlists::Network>> {
    let texts = texts.iter().flat_map(|text| text.split(','));
    let mut networks: Vec<allowlists::Network> = Vec::new();
    for text in texts {
        let network = text.trim().parse().ok()?;
        if !networks.contains(&network) {
            networks.push(network);
        }
    }
    (networks.len() <= TRUSTED_PROXIES_MAX).then_some(networks)
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

/// Directives of a tracing filter.
pub(super) fn log_filter(texts: &[String]) -> Option<String> {
    let text = single(texts)?;
    let valid = !text.is_empty() && EnvFilter::builder().parse(text).is_ok();
    valid.then(|| text.to_owned())
}
