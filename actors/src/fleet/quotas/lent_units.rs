//! Units of a day, counted over the fleet.

use std::sync::Arc;

use nearhead_fleet::quota::SharedUnits;

use super::{loan_desk::LoanDesk, units_account::UnitsAccount};

/// The units that a tenant has used on a day in all processes of a fleet, as far as this one knows.
#[derive(Debug)]
pub struct LentUnits {
    desk: LoanDesk,
    account: Arc<UnitsAccount>,
}

impl LentUnits {
    /// Units of a day since some start, of which so many are known to be used.
    #[must_use]
    pub fn new(desk: &LoanDesk, name: &str, day: u64, used: u64) -> Self {
        Self {
            desk: desk.clone(),
            account: Arc::new(UnitsAccount::new(name, day, used)),
        }
    }

    /// Units used on this day.
    #[must_use]
    pub fn used(&self, day: u64) -> u64 {
        self.account.used(day)
    }

    /// Counts units.
    pub fn add(&self, units: u64, day: u64) {
        self.change(|known| known.add(units, day));
    }

    /// Gives back units that were counted and not used.
    pub fn give_back(&self, units: u32) {
        self.change(|known| known.give_back(units));
    }

    fn change(&self, change: impl FnOnce(&mut SharedUnits)) {
        let Self { desk, account } = self;
        account.change(change, || desk.list_units(account));
    }
}
