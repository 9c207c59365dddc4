//! Where a request comes from, which allowlists are about.

use std::net::{IpAddr, Ipv6Addr};

use nearhead_tenants::allowlists::{Allowlists, ListKind};

/// Where a request, or the handshake of a session, comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caller<'a> {
    /// The header `Origin`, which browsers send.
    pub(crate) origin: Option<&'a str>,
    /// The header `User-Agent`.
    pub(crate) user_agent: Option<&'a str>,
    /// The client's address; `None` if the connection has none.
    pub(crate) address: Option<IpAddr>,
}

impl Caller<'_> {
    /// Whether any of these lists is about where a request comes from.
    pub(super) fn is_limited_by(allow: &Allowlists) -> bool {
        !(allow.origins.is_empty() && allow.user_agents.is_empty() && allow.networks.is_empty())
    }

    /// Checks the lists about where a request comes from. If it is exempt, it may have any origin
    /// and any user agent.
    ///
    /// # Errors
    /// A list that does not allow it.
    pub(super) fn check(self, allow: &Allowlists, is_exempt: bool) -> Result<(), ListKind> {
        if !is_exempt && !allow.allow_origin(self.origin) {
            return Err(ListKind::Origins);
        }
        if !is_exempt && !allow.allow_user_agent(self.user_agent) {
            return Err(ListKind::UserAgents);
        }
        let is_listed = match self.address {
            Some(address) => allow.allow_address(address),
            None => allow.networks.is_empty(),
        };
        match is_listed {
            true => Ok(()),
            false => Err(ListKind::Networks),
        }
    }

    /// A copy that outlives the request.
    pub(super) fn to_owned(self) -> OwnedCaller {
        OwnedCaller {
            origin: self.origin.map(Box::from),
            user_agent: self.user_agent.map(Box::from),
            address: self.address,
        }
    }
}

/// Where the handshake of an open session came from.
#[derive(Debug)]
pub(super) struct OwnedCaller {
    origin: Option<Box<str>>,
    user_agent: Option<Box<str>>,
    address: Option<IpAddr>,
}

impl OwnedCaller {
    pub(super) fn as_caller(&self) -> Caller<'_> {
        Caller {
            origin: self.origin.as_deref(),
            user_agent: self.user_agent.as_deref(),
            address: self.address,
        }
    }
}

/// What counts as one address: a customer of a provider has a whole /64 of IPv6.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}
