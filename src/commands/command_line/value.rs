//! Texts that stand for times, rates and public keys.

use std::{fs::File, io::Read, num::NonZeroU32};

use nearhead_tenants::{
    UnixMillis, UtcTime,
    administration::{RateRequest, SecretRequest, Span},
    allowlists::MethodName,
    name::Name,
    public_key::{Algorithm, PEM_BYTES_MAX, PublicKey, VerifyingKey},
};

use crate::rpc::may_be_served;

/// When something ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// After this time from now.
    In(Span),
    /// At this time.
    At(UnixMillis),
}

impl End {
    /// The time that it is.
    pub(crate) fn at(self, now: UnixMillis) -> UnixMillis {
        match self {
            Self::In(span) => now.after(span.duration()),
            Self::At(time) => time,
        }
    }
}

/// A span of time from now, or a time.
pub(super) fn end(text: &str) -> Result<End, &'static str> {
    const ACCEPTS: &str = "expected a time from now such as 24h or 90d, or a date such as 2030-12-31 or \
         2030-12-31T18:00Z";
    let time = || text.parse::<UtcTime>().map(|time| End::At(time.into()));
    match text.contains('-') {
        true => time().map_err(|_| ACCEPTS),
        false => text.parse().map(End::In).map_err(|_| ACCEPTS),
    }
}

/// A rate, with its burst if that is not one second's worth.
pub(super) fn rate(text: &str) -> Result<RateRequest, &'static str> {
    const ACCEPTS: &str = "expected a whole number from 1, or one with a burst such as 100:500";
    let number = |text: &str| -> Result<NonZeroU32, &'static str> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_plain).ok_or(ACCEPTS)
    };
    let (per_second, burst) = match text.split_once(':') {
        None => (text, None),
        Some((per_second, burst)) => (per_second, Some(number(burst)?)),
    };
    Ok(RateRequest {
        per_second: number(per_second)?,
        burst,
    })
}

/// A method that is served, or that may be forwarded; the service knows which ones it forwards.
pub(super) fn method(text: &str) -> Result<MethodName, &'static str> {
    let name = text.parse().ok().filter(|_| may_be_served(text));
    name.ok_or("expected the name of a method that is served; docs/methods.md has them")
}

/// How the secret beside a key is used.
pub(super) fn secret_use(text: &str) -> Result<SecretRequest, &'static str> {
    let (required, exempts) = match text {
        "required" => (true, false),
        "optional" => (false, false),
        "exempting" => (false, true),
        _ => return Err("expected required, optional or exempting"),
    };
    Ok(SecretRequest { required, exempts })
}

/// A public key: the name that tokens have for it, its algorithm, and its file.
pub(super) fn public_key(text: &str) -> Result<PublicKey, String> {
    const ACCEPTS: &str = "expected KID:ES256:FILE or KID:RS256:FILE";
    let mut parts = text.splitn(3, ':');
    let (Some(kid), Some(algorithm), Some(path)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err(ACCEPTS.to_owned());
    };
    let algorithm = match algorithm {
        "ES256" => Algorithm::Es256,
        "RS256" => Algorithm::Rs256,
        _ => return Err(ACCEPTS.to_owned()),
    };
    let kid: Name = kid.parse().map_err(|error| format!("{error}"))?;
    let mut pem = String::new();
    File::open(path)
        .and_then(|file| file.take(PEM_BYTES_MAX as u64 + 1).read_to_string(&mut pem))
        .map_err(|error| format!("{path}: {error}"))?;
    let key = PublicKey {
        kid,
        algorithm,
        pem,
    };
    match VerifyingKey::new(&key) {
        Ok(_) => Ok(key),
        Err(error) => Err(format!("{path}: {error}")),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn ends() {
        let now = UnixMillis(1_000_000);
        for (text, expected) in [
            ("1h", Some(4_600_000)),
            ("0s", Some(1_000_000)),
            ("2030-12-31", Some(1_924_905_600_000)),
            ("2030-12-31T18:00Z", Some(1_924_970_400_000)),
            ("2030-02-30", None),
            ("tomorrow", None),
            ("", None),
        ] {
            let found = end(text).ok().map(|end| end.at(now));
            assert_eq!(found, expected.map(UnixMillis), "{text:?}");
        }
    }

    #[test]
    fn rates() {
        for (text, expected) in [
            ("100", Some((100, None))),
            ("100:500", Some((100, Some(500)))),
            ("4294967295", Some((u32::MAX, None))),
            ("4294967296", None),
            ("0", None),
            ("5:0", None),
            ("5:", None),
            (":5", None),
            ("+5", None),
            ("5:5:5", None),
            ("", None),
        ] {
            let found = rate(text).ok();
            let found = found.map(|rate| (rate.per_second.get(), rate.burst.map(NonZeroU32::get)));
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn methods_and_secrets() {
        assert_eq!(method("eth_getLogs").unwrap().to_string(), "eth_getLogs");
        assert!(method("eth_getlogs").is_err());
        for (text, expected) in [
            ("required", Some((true, false))),
            ("optional", Some((false, false))),
            ("exempting", Some((false, true))),
            ("Required", None),
        ] {
            let found = secret_use(text).ok();
            let found = found.map(|found| (found.required, found.exempts));
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
