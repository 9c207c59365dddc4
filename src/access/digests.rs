//! The look-up by digests of secrets.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hash},
};

use nearhead_tenants::secret::SecretDigest;

use super::shards::{FoundBy, Shards};

/// A map of values that are found by digests; cloning shares it.
///
/// How long a look-up takes depends on the digest alone, which a client cannot steer: SHA-256 of
/// what it presents is either a known digest or one that shares nothing with any, however much of a
/// key it has guessed. So the time reveals nothing about a secret.
///
/// Tests put another digest and another hasher into it, which count.
#[derive(Clone)]
pub(super) struct Digests<T, D = SecretDigest, S = RandomState>(Shards<D, T, S>);

/// What a secret is looked up by.
pub(super) trait Digest: Hash + Eq {
    /// The digest of what a client presents.
    fn of(presented: &str) -> Self;
}

impl Digest for SecretDigest {
    fn of(presented: &str) -> Self {
        Self::of(presented)
    }
}

impl<T, D, S: Default> Default for Digests<T, D, S> {
    fn default() -> Self {
        Self(Shards::default())
    }
}

impl<T: FoundBy<D> + Clone, D: Digest, S: BuildHasher> Digests<T, D, S> {
    /// Adds a value, or replaces that of a known digest.
    pub(super) fn insert(&mut self, value: T) {
        self.0.insert(value);
    }

    /// Removes the value of a digest, if there is one.
    pub(super) fn remove(&mut self, digest: &D) {
        self.0.remove(digest);
    }

    /// The value of what a client presents; `None` if it is unknown.
    pub(super) fn find(&self, presented: &str) -> Option<&T> {
        self.get(&D::of(presented))
    }

    /// The value of a digest.
    pub(super) fn get(&self, digest: &D) -> Option<&T> {
        self.0.get(digest)
    }

    /// How many values there are.
    #[cfg(test)]
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::RefCell,
        hash::{BuildHasherDefault, Hasher},
        sync::Arc,
    };

    use super::*;

    thread_local! {
        /// How many bytes each comparison looked at.
        static COMPARISONS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    /// Bytes whose comparisons are counted. Two are compared up to the first byte that differs, as
    /// a comparison that stops early does.
    struct Counted<B>(B);

    impl<B: AsRef<[u8]>> PartialEq for Counted<B> {
        fn eq(&self, other: &Self) -> bool {
            let (one, other) = (self.0.as_ref(), other.0.as_ref());
            let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
            let looked_at = (same + 1).min(one.len());
            COMPARISONS.with_borrow_mut(|counts| counts.push(looked_at));
            one == other
        }
    }

    impl<B: AsRef<[u8]>> Eq for Counted<B> {}

    impl<B: AsRef<[u8]>> Hash for Counted<B> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            state.write(self.0.as_ref());
        }
    }

    /// The worst case: all keys are in one place, so that each look-up compares with all of them.
    #[derive(Default)]
    struct OnePlace;

    impl Hasher for OnePlace {
        fn finish(&self) -> u64 {
            0
        }

        fn write(&mut self, _: &[u8]) {}
    }

    impl Digest for Counted<[u8; 32]> {
        fn of(presented: &str) -> Self {
            Self(*SecretDigest::of(presented).bytes())
        }
    }

    /// Secrets as they are, which a look-up must not compare.
    impl Digest for Counted<String> {
        fn of(presented: &str) -> Self {
            Self(presented.to_owned())
        }
    }

    /// What is found.
    struct Known<D> {
        digest: D,
        number: usize,
    }

    impl<D> FoundBy<D> for Known<D> {
        fn id(&self) -> &D {
            &self.digest
        }
    }

    /// A map with these digests; the number of each is its place.
    fn known<D: Digest, S: BuildHasher + Default>(
        digests: impl IntoIterator<Item = D>,
    ) -> Digests<Arc<Known<D>>, D, S> {
        let mut known = Digests::default();
        for (number, digest) in digests.into_iter().enumerate() {
            known.insert(Arc::new(Known { digest, number }));
        }
        known
    }

    const KEYS: usize = 100;

    /// A key of 43 characters.
    fn key(number: usize) -> String {
        let digest = String::from(SecretDigest::of(&number.to_string()));
        digest[..43].to_owned()
    }

    /// For each count of characters that a client has guessed, how many comparisons its look-up
    /// makes, and how many bytes the longest of them looks at.
    fn work<B: AsRef<[u8]>>(guessed_of: &str) -> Vec<(usize, usize)>
    where
        Counted<B>: Digest,
    {
        let digests = (0..KEYS).map(|number| Counted::of(&key(number)));
        let digests = known::<Counted<B>, BuildHasherDefault<OnePlace>>(digests);
        let look_up = |guessed: usize| {
            let wrong = "-".repeat(43 - guessed);
            let presented = format!("{}{wrong}", &guessed_of[..guessed]);
            COMPARISONS.take();
            assert!(digests.find(&presented).is_none(), "{presented}");
            let counts = COMPARISONS.take();
            (counts.len(), counts.into_iter().max().unwrap_or(0))
        };
        (0..43).map(look_up).collect()
    }

    /// However much of a key a client has guessed, its look-up compares with as many digests, and
    /// looks at no more of them than chance has it: 3 of 32 bytes.
    #[test]
    fn a_look_up_does_not_depend_on_how_much_was_guessed() {
        for number in 0..KEYS {
            for (guessed, (comparisons, bytes)) in
                work::<[u8; 32]>(&key(number)).into_iter().enumerate()
            {
                assert_eq!(comparisons, KEYS, "{guessed} characters");
                assert!(bytes <= 3, "{guessed} characters: {bytes} bytes");
            }
        }
    }

    /// The same measure sees it if the secrets themselves are compared.
    #[test]
    fn a_look_up_by_the_secret_itself_would_depend_on_it() {
        let work = work::<String>(&key(7)).into_iter();
        for (guessed, (comparisons, bytes)) in work.enumerate() {
            assert_eq!(comparisons, KEYS);
            assert!(bytes > guessed, "{guessed} characters: {bytes} bytes");
        }
    }

    #[test]
    fn a_known_secret_is_found() {
        let mut digests =
            known::<SecretDigest, RandomState>(["one", "two", "two"].map(SecretDigest::of));
        let find = |digests: &Digests<Arc<Known<SecretDigest>>>| {
            ["one", "two", "three", ""].map(|secret| digests.find(secret).map(|known| known.number))
        };
        assert_eq!(find(&digests), [Some(0), Some(2), None, None]);
        digests.remove(&SecretDigest::of("one"));
        digests.remove(&SecretDigest::of("three"));
        assert_eq!(find(&digests), [None, Some(2), None, None]);
    }
}
