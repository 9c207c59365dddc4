//! What every store has to do: checks that the tests of each store run.
//!
//! | file | what is checked |
//! |---|---|
//! | `steps` | the writes that the checks make |
//! | `records` | tenants, keys, accounts and the audit |
//! | `usage` | what keys used |
#![expect(clippy::unwrap_used, reason = "tests")]
#![allow(
    clippy::missing_panics_doc,
    reason = "what a check does if a store fails"
)]

pub mod records;
pub(in crate::store) mod steps;
pub mod usage;

use super::*;

/// A store that is checked.
pub struct CheckedStore<'a> {
    store: Option<Box<dyn TenantStore>>,
    open: Option<Box<dyn Fn() -> Box<dyn TenantStore> + 'a>>,
}

impl<'a> CheckedStore<'a> {
    /// One that ends with its process, so that it is never opened again.
    #[must_use]
    pub fn kept(store: Box<dyn TenantStore>) -> Self {
        Self {
            store: Some(store),
            open: None,
        }
    }

    /// One that is opened by `open`, now and then again.
    #[must_use]
    pub fn reopened(open: impl Fn() -> Box<dyn TenantStore> + 'a) -> Self {
        Self {
            store: Some(open()),
            open: Some(Box::new(open)),
        }
    }

    fn get(&mut self) -> &mut dyn TenantStore {
        &mut **self.store.as_mut().unwrap()
    }

    /// Closes it, and opens it again.
    fn reopen(&mut self) {
        if let Some(open) = &self.open {
            self.store = None;
            self.store = Some(open());
        }
    }
}

/// Numbers that look random, the same for the same seed (SplitMix64).
pub(in crate::store) struct Random(pub(in crate::store) u64);

impl Random {
    pub(in crate::store) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(in crate::store) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
