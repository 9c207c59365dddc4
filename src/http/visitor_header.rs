//! For whom the dashboard calls the public listener.

use std::{fmt, net::IpAddr, sync::Arc};

use actix_web::http::header::{HeaderMap, HeaderName};
use nearhead_tenants::secret::{Secret, SecretDigest};

/// The header by which the dashboard says for whom it calls.
const NAME: HeaderName = HeaderName::from_static("x-nearhead-visitor");

/// A header that names the client of a call that this process makes to itself. It has a secret of
/// the process in it, so that nobody else can choose an address.
#[derive(Clone, Debug, Default)]
pub struct VisitorHeader(Option<Arc<VisitorSecret>>);

struct VisitorSecret(Secret);

impl fmt::Debug for VisitorSecret {
    /// It belongs in no log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VisitorSecret(..)")
    }
}

impl VisitorHeader {
    /// With a new secret; believed from nobody if the system gives no random numbers.
    #[must_use]
    pub fn generate() -> Self {
        let secret = Secret::generate().ok();
        Self(secret.map(|secret| Arc::new(VisitorSecret(secret))))
    }

    /// The line of the header for a client; `None` if nobody would believe it.
    pub(crate) fn line(&self, client: IpAddr) -> Option<String> {
        let secret = self.0.as_ref()?.0.expose();
        Some(format!("{NAME}: {secret} {client}"))
    }

    /// The client that these headers name, if this process has written them.
    pub(super) fn client(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let (secret, client) = headers.get(NAME)?.to_str().ok()?.split_once(' ')?;
        let known = self.0.as_ref()?;
        // Digests are compared, so that the time says nothing about the secret.
        let is_known = SecretDigest::of(secret) == known.0.digest();
        client.parse().ok().filter(|_| is_known)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn only_this_process_names_a_client() {
        let [own, other] = [(); 2].map(|()| VisitorHeader::generate());
        let nobody = VisitorHeader::default();
        let client: IpAddr = "2001:db8::1".parse().unwrap();
        let line = own.line(client).unwrap();
        let (_, value) = line.split_once(": ").unwrap();
        assert_eq!(nobody.line(client), None);
        for (header, value, expected) in [
            (&own, value, Some(client)),
            (&other, value, None),
            (&nobody, value, None),
            (&own, "2001:db8::1", None),
            (&own, " 2001:db8::1", None),
            (&own, &value[..44], None),
            (&nobody, " 2001:db8::1", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(NAME, value.parse().unwrap());
            assert_eq!(header.client(&headers), expected, "{value}");
        }
        assert_eq!(own.client(&HeaderMap::new()), None);
        assert!(!format!("{own:?}").contains(&value[..43]));
    }
}
