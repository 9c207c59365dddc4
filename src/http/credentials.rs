//! What a request presents, and where it comes from.

use actix_web::{
    HttpRequest,
    http::{
        StatusCode,
        header::{self, HeaderName},
    },
};
use nearhead_tenants::UnixMillis;

use crate::{
    access::{Access, Admitted, Caller, Presented, Refused},
    rpc::RpcError,
};

/// Lets a request in, by the key in its path and by its headers.
///
/// # Errors
/// It is not let in.
pub(super) fn admit(
    access: &Access,
    request: &HttpRequest,
    key: &str,
    now: UnixMillis,
) -> Result<Admitted, Refused> {
    let presented = Presented::new(key, text(request, header::AUTHORIZATION));
    access.admit(&presented, caller(request), now)
}

/// Where a request comes from.
pub(super) fn caller(request: &HttpRequest) -> Caller<'_> {
    Caller {
        origin: text(request, header::ORIGIN),
        user_agent: text(request, header::USER_AGENT),
        address: request.peer_addr().map(|peer| peer.ip()),
    }
}

/// The status and the error of a request that is not let in.
pub(super) fn status_and_error(refused: Refused) -> (StatusCode, RpcError) {
    let status = match refused {
        Refused::UnknownKey | Refused::WrongSecret => StatusCode::UNAUTHORIZED,
        Refused::NotListed(_) => StatusCode::FORBIDDEN,
    };
    (status, refused.into())
}

/// A header, if there is one and it is text.
fn text(request: &HttpRequest, name: HeaderName) -> Option<&str> {
    request.headers().get(name)?.to_str().ok()
}
