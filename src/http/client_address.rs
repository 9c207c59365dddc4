//! Who sent a request that proxies have passed on.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use actix_web::http::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue};
use nearhead_tenants::allowlists::Network;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Most hops that are read, from the right: more than any request has. It bounds the work that a
/// client's own entries cause.
const HOPS_MAX: usize = 32;

/// The networks of the proxies that say who sent a request.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Arc<[Network]>);

impl TrustedProxies {
    /// Proxies in these networks.
    #[must_use]
    pub fn new(networks: &[Network]) -> Self {
        Self(networks.into())
    }

    /// The address of the client whose request came from `peer` with these headers.
    ///
    /// Each proxy adds the address that it was called from to the right of what it received, so the
    /// rightmost one that is not a trusted proxy's is the client's, whatever stands left of it. The
    /// peer's address counts if it is not trusted, or if the headers are malformed or do not agree:
    /// proxies write one of them and pass on the other as the client sent it.
    pub(super) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        match self.contain(peer) {
            true => self.named_in(headers).unwrap_or(peer),
            false => peer,
        }
    }

    /// Whether this is the address of a trusted proxy.
    pub(crate) fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// Whether the client of a request that came from `peer` used TLS, as a trusted proxy says.
    pub(crate) fn is_tls(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        let is_https = |proto: &str| proto.eq_ignore_ascii_case("https");
        let listed = first(headers, X_FORWARDED_PROTO, listed_hops).is_some_and(is_https);
        let forwarded = first(headers, FORWARDED, |line| parameters(line, "proto"));
        self.contain(peer) && (listed || forwarded.is_some_and(is_https))
    }

    /// The host that the client of a request that came from `peer` has asked for, as a trusted
    /// proxy says that has changed the header `Host`.
    pub(crate) fn host<'h>(&self, peer: IpAddr, headers: &'h HeaderMap) -> Option<&'h str> {
        let listed = || first(headers, X_FORWARDED_HOST, listed_hops);
        let forwarded = || first(headers, FORWARDED, |line| parameters(line, "host"));
        let host = self.contain(peer).then(|| listed().or_else(forwarded));
        host.flatten().filter(|host| !host.is_empty())
    }

    /// The client's address by the headers; `None` if they give none.
    fn named_in(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let named = |name, read| {
            let lines = || headers.get_all(&name);
            lines().next().map(|_| self.named_by(lines(), read))
        };
        let forwarded = named(FORWARDED, forwarded_hops);
        match (forwarded, named(X_FORWARDED_FOR, listed_hops)) {
            (Some(one), Some(other)) if one != other => None,
            (Some(address), _) | (None, Some(address)) => address,
            (None, None) => None,
        }
    }

    /// The client's address by one header. If all its hops are trusted, the leftmost one is the
    /// client.
    fn named_by<'a>(
        &self,
        lines: impl Iterator<Item = &'a HeaderValue>,
        read: fn(&'a str) -> Option<Vec<&'a str>>,
    ) -> Option<IpAddr> {
        let lines: Vec<_> = lines.collect();
        let mut leftmost = None;
        let mut seen = 0;
        for line in lines.into_iter().rev() {
            for hop in read(line.to_str().ok()?)?.into_iter().rev() {
                seen += 1;
                let address = address_of(hop).filter(|_| seen <= HOPS_MAX)?;
                if !self.contain(address) {
                    return Some(address);
                }
                leftmost = Some(address);
            }
        }
        leftmost
    }
}

/// What a header says of the leftmost hop, which is the proxy that the client has called.
fn first(
    headers: &HeaderMap,
    name: HeaderName,
    read: fn(&str) -> Option<Vec<&str>>,
) -> Option<&str> {
    let line = headers.get(name)?.to_str().ok()?;
    read(line)?.first().copied()
}

/// The hops of a line of `X-Forwarded-For`.
#[expect(
    clippy::unnecessary_wraps,
    reason = "the other header can be malformed"
)]
fn listed_hops(line: &str) -> Option<Vec<&str>> {
    Some(line.split(',').map(str::trim).collect())
}

/// The hops of a line of `Forwarded`.
fn forwarded_hops(line: &str) -> Option<Vec<&str>> {
    parameters(line, "for")
}

/// The parameter of this name of each element in a line of `Forwarded` (RFC 7239), empty where it
/// is missing. `None` if the line is malformed.
fn parameters<'a>(line: &'a str, wanted: &str) -> Option<Vec<&'a str>> {
    let mut hops = Vec::new();
    let mut rest = line;
    loop {
        let mut hop = None;
        loop {
            let (name, value, after) = pair(rest)?;
            if name.eq_ignore_ascii_case(wanted) && hop.replace(value).is_some() {
                return None;
            }
            rest = after.trim_start();
            match rest.strip_prefix(';') {
                Some(more) => rest = more,
                None => break,
            }
        }
        hops.push(hop.unwrap_or_default());
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return rest.is_empty().then_some(hops),
        }
    }
}

/// The first pair `name=value` of a text, and what follows it. A quoted value is without its
/// quotes; escapes stay, because no address has any.
fn pair(text: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = text.trim_start().split_once('=')?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return None;
    }
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find([';', ',', ' ', '\t']).unwrap_or(rest.len());
        let (value, after) = rest.split_at(end);
        let is_plain = !value.is_empty() && !value.contains('"');
        return is_plain.then_some((name, value, after));
    };
    let mut is_escaped = false;
    let end = quoted.find(|next: char| {
        let ends = next == '"' && !is_escaped;
        is_escaped = next == '\\' && !is_escaped;
        ends
    })?;
    Some((name, &quoted[..end], &quoted[end + 1..]))
}

/// The address of a hop, which may have a port: `192.0.2.1:47011`, `[2001:db8::1]:47011`.
fn address_of(hop: &str) -> Option<IpAddr> {
    let is_port = |port: &str| {
        let digits = port.strip_prefix(':').unwrap_or_default();
        (1..=5).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let address = if let Some(bracketed) = hop.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']')?;
        let address: Ipv6Addr = address.parse().ok()?;
        (port.is_empty() || is_port(port)).then_some(address.into())?
    } else if let Ok(address) = hop.parse::<IpAddr>() {
        address
    } else {
        let (address, port) = hop.split_at(hop.find(':')?);
        is_port(port)
            .then(|| address.parse().ok())?
            .map(IpAddr::V4)?
    };
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests;
