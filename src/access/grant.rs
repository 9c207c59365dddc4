//! The right of one request, or one session, to be answered.

use std::{
    cell::{Cell, RefCell},
    net::IpAddr,
    sync::Arc,
};

use nearhead_tenants::{
    UnixMillis, allowlists::ListKind, record::BesideSecret, secret::SecretDigest,
};

use super::{
    access_table::Access,
    active_key::ActiveKey,
    caller::{Caller, OwnedCaller},
    local_only::NotLocal,
    meter::Now,
    presented::{Beside, Presented},
    shared_count::Counted,
    token::{TokenError, VerifiedToken},
    token_cache::TokenCache,
};

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The key is missing, unknown, expired or revoked; the client does not learn which.
    UnknownKey,
    /// The key needs its secret, and it is missing or wrong.
    WrongSecret,
    /// The key asks for a token, and it is missing or not accepted.
    Token(TokenError),
    /// The key's allowlist of this kind does not have what the request comes from.
    NotListed(ListKind),
    /// The key serves this machine alone, and the request comes from elsewhere.
    NotLocal(NotLocal),
}

impl Access {
    /// Lets a request in. `tokens` are those that the worker has verified. Where the request comes
    /// from is looked up only if a list of the key is about that.
    ///
    /// # Errors
    /// It is not let in.
    pub(crate) fn admit<'a>(
        &self,
        presented: &Presented<'_>,
        caller: impl Fn() -> Caller<'a>,
        tokens: &TokenCache,
        now: Now,
    ) -> Result<Admitted, Refused> {
        let key = match presented.last {
            Some(last) => last.resolve(self, presented.key, now.unix),
            None => self.resolve(presented.key, now.unix),
        };
        let key = key.ok_or(Refused::UnknownKey)?;
        let settings = &key.record.settings;
        let (token, is_exempt) = match key.needs_token() {
            true => {
                let address = || caller().address;
                let token = check_token(&key, presented, address, tokens, now)?;
                (Some(token), false)
            }
            false => {
                let secret = settings.secret.as_deref();
                (None, check_secret(secret, &presented.beside)?)
            }
        };
        if Caller::is_limited_by(&settings.allow) {
            let checked = caller().check(&settings.allow, is_exempt);
            checked.map_err(Refused::NotListed)?;
        }
        Ok(Admitted {
            key,
            token,
            is_exempt,
        })
    }
}

/// A request that was let in.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) key: Arc<ActiveKey>,
    /// The token that it presented, if the key asks for one.
    token: Option<VerifiedToken>,
    /// Whether it may have any origin and any user agent.
    is_exempt: bool,
}

/// Checks the token that stands beside a key.
fn check_token(
    key: &ActiveKey,
    presented: &Presented<'_>,
    address: impl FnOnce() -> Option<IpAddr>,
    tokens: &TokenCache,
    now: Now,
) -> Result<VerifiedToken, Refused> {
    let Beside::Bearer(token) = presented.beside else {
        return Err(Refused::Token(TokenError::Missing));
    };
    tokens
        .admit(token, (key.record.id, key.public_keys()), address, now)
        .map_err(Refused::Token)
}

/// Checks the secret that stands beside a key. Returns whether the request is exempt from the lists
/// of origins and user agents.
fn check_secret(secret: Option<&BesideSecret>, beside: &Beside<'_>) -> Result<bool, Refused> {
    let Some(secret) = secret else {
        return Ok(false);
    };
    let presented = match beside {
        Beside::Bearer(bearer) => *bearer,
        Beside::Password(password) => password,
        // A proxy may add a header of its own: it is no wrong secret, only none.
        Beside::Nothing | Beside::Unreadable if !secret.is_required => return Ok(false),
        Beside::Nothing | Beside::Unreadable => return Err(Refused::WrongSecret),
    };
    match SecretDigest::of(presented) == secret.digest {
        true => Ok(secret.exempts),
        false => Err(Refused::WrongSecret),
    }
}

/// The right of an open session to be answered, until its key changes.
#[derive(Debug)]
pub(crate) struct Grant {
    access: Access,
    caller: OwnedCaller,
    token: Option<VerifiedToken>,
    is_exempt: bool,
    key: RefCell<Arc<ActiveKey>>,
    /// The table's version when the key was looked up.
    version: Cell<u64>,
    /// When the key or the token ends.
    ends: Cell<Option<UnixMillis>>,
}

impl Admitted {
    /// The grant of a session that comes from `caller`.
    pub(crate) fn into_grant(self, access: &Access, caller: Caller<'_>) -> Grant {
        Grant {
            // Taken after the key was looked up, it could be that of a later table: the first use
            // looks the key up again.
            version: Cell::new(0),
            access: access.clone(),
            caller: caller.to_owned(),
            is_exempt: self.is_exempt,
            ends: Cell::new(ends(&self.key, self.token.as_ref())),
            token: self.token,
            key: RefCell::new(self.key),
        }
    }
}

/// When a session with this key and this token ends.
fn ends(key: &ActiveKey, token: Option<&VerifiedToken>) -> Option<UnixMillis> {
    let token = token.map(|token| token.ends);
    key.record.expires.into_iter().chain(token).min()
}

impl Grant {
    /// Whether nothing has changed since the key was looked up.
    pub(crate) fn is_current(&self, now: UnixMillis) -> bool {
        self.version.get() == self.access.version() && self.ends.get().is_none_or(|ends| now < ends)
    }

    /// The key as it is at `now`.
    ///
    /// # Errors
    /// The session is no longer let in.
    pub(crate) fn key(&self, now: UnixMillis) -> Result<Arc<ActiveKey>, Refused> {
        let held = self.key.borrow();
        if self.is_current(now) {
            return Ok(Arc::clone(&held));
        }
        // Before the look-up: a key of a later table is looked up again.
        let version = self.access.version();
        let before = &held.record;
        let key = self.access.key(before.id, now).ok_or(Refused::UnknownKey)?;
        // A secret that was required, changed or taken away since the handshake: the session would
        // have to present it again.
        if key.record.settings.secret != before.settings.secret {
            return Err(Refused::WrongSecret);
        }
        // It has perhaps other hosts now, and the session does not say again what it was opened by.
        if key.local_only().is_some() && key.local_only() != held.local_only() {
            return Err(Refused::NotLocal(NotLocal::Host));
        }
        match &self.token {
            Some(token) => token
                .check(key.public_keys(), now)
                .map_err(Refused::Token)?,
            None if key.needs_token() => return Err(Refused::Token(TokenError::Missing)),
            None => {}
        }
        let allow = &key.record.settings.allow;
        let checked = self.caller.as_caller().check(allow, self.is_exempt);
        checked.map_err(Refused::NotListed)?;
        drop(held);
        self.version.set(version);
        self.ends.set(ends(&key, self.token.as_ref()));
        self.key.replace(Arc::clone(&key));
        Ok(key)
    }

    /// The key as it was when it was last looked up.
    pub(crate) fn last_key(&self) -> Arc<ActiveKey> {
        Arc::clone(&self.key.borrow())
    }

    /// Counts one more subscription of the tenant, until the permit is dropped.
    ///
    /// # Errors
    /// The tenant has as many as it may have: how many.
    pub(crate) fn take_subscription(&self) -> Result<SubscriptionPermit, usize> {
        let tenant = Arc::clone(&self.key.borrow().tenant);
        let most = tenant.subscriptions_max.unwrap_or(usize::MAX);
        tenant
            .subscriptions
            .take(most)
            .map(SubscriptionPermit)
            .ok_or(most)
    }
}

/// The right to one subscription; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct SubscriptionPermit(#[expect(dead_code, reason = "held")] Counted);

#[cfg(test)]
impl Access {
    /// A request with the key of [`Access::for_tests`].
    #[expect(clippy::unwrap_used, reason = "tests")]
    pub(crate) fn admit_for_tests(&self) -> Admitted {
        let presented = Presented::new("test", None);
        let tokens = TokenCache::default();
        let now = Now {
            instant: std::time::Instant::now(),
            unix: UnixMillis(0),
        };
        self.admit(&presented, Caller::default, &tokens, now)
            .unwrap()
    }
}

#[cfg(test)]
mod tests;
