//! Keys that the configuration names.

use std::fmt;

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
