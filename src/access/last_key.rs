//! The key that a connection presented last: a client presents the same one with each request.

use std::{cell::RefCell, fmt, hint::black_box, sync::Arc};

use nearhead_tenants::{UnixMillis, record::KeyState};

use super::{access_table::Access, active_key::ActiveKey};
use crate::limits::LAST_KEY_BYTES_MAX;

/// The key that was let in last on one connection, which need not be looked up again.
#[derive(Default)]
pub(crate) struct LastKey(RefCell<Option<Resolved>>);

struct Resolved {
    presented: Box<[u8]>,
    key: Arc<ActiveKey>,
    /// The version of the table that it was looked up in.
    version: u64,
}

impl fmt::Debug for LastKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LastKey(..)")
    }
}

impl LastKey {
    /// As [`Access::resolve`], without a look-up if the connection has presented this key before
    /// and the table is still the same. A change of the table thus holds at once.
    pub(super) fn resolve(
        &self,
        access: &Access,
        presented: &str,
        now: UnixMillis,
    ) -> Option<Arc<ActiveKey>> {
        if let Some(last) = &*self.0.borrow()
            && last.version == access.version()
            && is_same(presented.as_bytes(), &last.presented)
        {
            let is_active = last.key.record.state(now) == KeyState::Active;
            return is_active.then(|| Arc::clone(&last.key));
        }
        let (key, version) = access.resolve_with_version(presented, now)?;
        if presented.len() <= LAST_KEY_BYTES_MAX {
            self.0.replace(Some(Resolved {
                presented: presented.as_bytes().into(),
                key: Arc::clone(&key),
                version,
            }));
        }
        Some(key)
    }
}

/// Whether both are the same, in a time that depends on their length alone: a proxy may send the
/// requests of several clients on one connection, and the time must reveal to none how much of
/// another's key it has guessed.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let (words, rest) = one.as_chunks::<8>();
    let (other_words, other_rest) = other.as_chunks::<8>();
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let words = words.iter().map(word).zip(other_words.iter().map(word));
    let rest = rest.iter().copied().map(u64::from);
    let rest = rest.zip(other_rest.iter().copied().map(u64::from));
    let difference = words.chain(rest).fold(0, |difference, (one, other)| {
        #[cfg(test)]
        tests::COMPARISONS.with(|count| count.set(count.get() + 1));
        // Opaque, so that the compiler does not stop at the first difference.
        black_box(difference | (one ^ other))
    });
    difference == 0
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use nearhead_tenants::{command::Command, limits::TenantLimits, record::KeySettings};

    use super::*;
    use crate::access::scene::{NOW, Scene, limits, requests};

    thread_local! {
        /// Words and bytes that were compared.
        pub(super) static COMPARISONS: Cell<usize> = const { Cell::new(0) };
    }

    /// However much of a key a client has guessed, and wherever it is wrong, as much is compared.
    #[test]
    fn a_comparison_does_not_depend_on_what_is_compared() {
        let key = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFG";
        let expected = 43 / 8 + 43 % 8;
        for (what, presented) in (0..key.len()).map(|at| {
            let mut presented = *key;
            presented[at] ^= 1;
            (at, presented)
        }) {
            COMPARISONS.set(0);
            assert!(!is_same(&presented, key), "{what}");
            assert_eq!(COMPARISONS.get(), expected, "{what}");
        }
        COMPARISONS.set(0);
        assert!(is_same(key, key));
        assert_eq!(COMPARISONS.get(), expected);
        for other in [&b""[..], &key[1..], &key[..42]] {
            assert!(!is_same(other, key));
        }
        assert!(is_same(b"", b""));
    }

    /// Whether a key lets in, and whether it was looked up. What is remembered is compared.
    fn resolve(last: &LastKey, access: &Access, presented: &str, now: u64) -> bool {
        let found = last.resolve(access, presented, UnixMillis(now));
        let expected = access.resolve(presented, UnixMillis(now));
        assert_eq!(found.is_some(), expected.is_some(), "{presented} at {now}");
        if let (Some(found), Some(expected)) = (&found, &expected) {
            assert!(Arc::ptr_eq(found, expected), "{presented} at {now}");
        }
        found.is_some()
    }

    fn remembered(last: &LastKey) -> Option<Box<[u8]>> {
        let last = last.0.borrow();
        last.as_ref().map(|last| last.presented.clone())
    }

    #[test]
    fn the_last_key_of_a_connection_is_the_one_that_a_look_up_finds() {
        let mut scene = Scene::default();
        let tenant = scene.tenant(1, TenantLimits::default());
        let long = "k".repeat(LAST_KEY_BYTES_MAX + 1);
        let ids =
            ["one", "two", &long].map(|key| scene.key_with(key, tenant, KeySettings::default()));
        let (access, last) = (Access::new(scene.source(&limits())), LastKey::default());
        for (presented, lets_in, kept) in [
            ("none", false, None),
            ("one", true, Some("one")),
            ("one", true, Some("one")),
            ("onE", false, Some("one")),
            ("", false, Some("one")),
            ("two", true, Some("two")),
            (&*long, true, Some("two")),
            ("one", true, Some("one")),
        ] {
            assert_eq!(resolve(&last, &access, presented, NOW.0), lets_in);
            let expected = kept.map(|kept| kept.as_bytes().into());
            assert_eq!(remembered(&last), expected, "{presented}");
        }
        // It expires by the clock alone, and the clock may go back.
        for (now, lets_in) in [(4_999, true), (5_000, false), (4_999, true)] {
            assert_eq!(resolve(&last, &access, "one", now), lets_in, "{now}");
        }
        // Another table holds at once: the same key narrowed, then revoked.
        scene.key("one", tenant, requests(1));
        access.replace(scene.source(&limits()));
        assert!(resolve(&last, &access, "one", NOW.0));
        scene.run(Command::RevokeKey { id: ids[0] });
        access.replace(scene.source(&limits()));
        assert!(!resolve(&last, &access, "one", NOW.0));
        assert_eq!(format!("{last:?}"), "LastKey(..)");
    }
}
