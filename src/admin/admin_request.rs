//! A request of an operator, after its body was read.

use std::net::IpAddr;

use bytes::Bytes;
use nearhead_tenants::{
    UnixMillis,
    administration::{Identity, Requester},
};

use super::{path_pattern::pairs, visitor::Visitor};

/// A request, as the API and the pages see it.
#[derive(Clone, Debug)]
pub(super) struct AdminRequest {
    /// What stands in the place of the braces of its path's pattern, decoded.
    pub(super) captured: String,
    /// Its path, with the query.
    pub(super) target: String,
    /// Its query, encoded.
    pub(super) query: String,
    /// The header `Content-Type`, without parameters, in lower case.
    pub(super) content_type: String,
    /// The header `If-Match`.
    pub(super) if_match: Option<String>,
    /// Its body.
    pub(super) body: Bytes,
    /// Who sends it, if that is known.
    pub(super) visitor: Option<Visitor>,
    /// The address that it came from.
    pub(super) from: Option<IpAddr>,
    /// Whether a proxy received it by TLS.
    pub(super) is_tls: bool,
    /// When it came.
    pub(super) now: UnixMillis,
}

impl AdminRequest {
    /// Who asks.
    pub(super) fn requester(&self) -> Requester {
        let identity = match &self.visitor {
            Some(visitor) => visitor.identity.clone(),
            None => Identity::nobody(),
        };
        Requester::new(identity, self.from, self.now)
    }

    /// The fields of a form in its body; `None` if it is no form, or malformed.
    pub(super) fn form(&self) -> Option<Vec<(String, String)>> {
        match self.content_type == "application/x-www-form-urlencoded" {
            true => pairs(std::str::from_utf8(&self.body).ok()?),
            false => None,
        }
    }

    /// The parameters of its query; none if it is malformed.
    pub(super) fn parameters(&self) -> Vec<(String, String)> {
        pairs(&self.query).unwrap_or_default()
    }
}
