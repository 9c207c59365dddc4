//! What follows from the files of TLS.

use nearhead_tenants::{UnixMillis, UtcTime};

use super::finding::Finding;
use crate::relative_time::relative_time;

/// Time before the end of a certificate in which its renewal has failed: it is renewed 30 days
/// before, and the alert has this bound too.
const SOON: u64 = 14 * 86_400_000;

/// A certificate and its key, which fits it.
pub(super) struct Certificate {
    pub(super) not_before: UnixMillis,
    pub(super) not_after: UnixMillis,
    /// The host of `--public-url`, and whether the certificate is for it.
    pub(super) host: Option<(String, bool)>,
}

/// `read` is an error if the files cannot be used.
pub(super) fn judge(read: Result<Certificate, String>, now: UnixMillis) -> Finding {
    let subject = "certificate";
    let certificate = match read {
        Ok(certificate) => certificate,
        Err(error) => {
            let change = "correct --tls-cert, --tls-key or --admin-client-ca, or their files";
            return Finding::bad(subject, error, change);
        }
    };
    let Certificate {
        not_before,
        not_after,
        host,
    } = certificate;
    let (begins, ends) = (UtcTime::from(not_before), UtcTime::from(not_after));
    if not_before > now {
        let found = format!("it is not valid before {begins}");
        return Finding::bad(subject, found, "set the clock, or give another certificate");
    }
    let found = format!("it ends at {ends} ({})", relative_time(not_after, now));
    if not_after < now {
        return Finding::bad(subject, found, "renew it: no client accepts it");
    }
    if let Some((host, false)) = host {
        return Finding::bad(
            subject,
            format!("it is not for {host}, the host of --public-url"),
            "give a certificate with that name, or correct --public-url",
        );
    }
    match not_after.0 - now.0 < SOON {
        true => Finding::weak(
            subject,
            found,
            "renew it, and find out why that was not done",
        ),
        false => Finding::good(subject, found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    const DAY: u64 = 86_400_000;

    #[test]
    fn a_certificate_is_valid_for_some_time_and_for_a_host() {
        use Verdict::{Bad, Good, Weak};
        let host = |is_for| Some(("rpc.example.org".to_owned(), is_for));
        let now = 20_000 * DAY;
        for (not_before, not_after, host, verdict, words) in [
            (now - DAY, now + 14 * DAY, None, Good, "(in 14 days)"),
            (now - DAY, now + 14 * DAY, host(true), Good, "(in 14 days)"),
            (now - DAY, now + 14 * DAY - 1, None, Weak, "(in 14 days)"),
            (now - DAY, now + DAY, host(true), Weak, "(in 1 day)"),
            (
                now - DAY,
                now + 99 * DAY,
                host(false),
                Bad,
                "rpc.example.org",
            ),
            (
                now - 9 * DAY,
                now - 2 * DAY,
                host(false),
                Bad,
                "(2 days ago)",
            ),
            (
                now + 1,
                now + 99 * DAY,
                None,
                Bad,
                "not valid before 2024-10-04T00",
            ),
        ] {
            let certificate = Certificate {
                not_before: UnixMillis(not_before),
                not_after: UnixMillis(not_after),
                host,
            };
            let found = judge(Ok(certificate), UnixMillis(now));
            assert_eq!(found.verdict, verdict, "{found}");
            assert!(found.found.contains(words), "{found}");
        }
        let found = judge(Err("cannot read a.pem".to_owned()), UnixMillis(now));
        assert_eq!((found.verdict, &*found.found), (Bad, "cannot read a.pem"));
    }
}
