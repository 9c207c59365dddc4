//! Units of a day that this process has counted, as requests and the lender share them.

use std::sync::Arc;

use nearhead_fleet::quota::SharedUnits;
use parking_lot::Mutex;

use crate::fleet::store::CountCall;

/// The units of one quota.
#[derive(Debug)]
pub(super) struct UnitsAccount {
    name: String,
    state: Mutex<UnitsState>,
}

#[derive(Debug)]
struct UnitsState {
    units: SharedUnits,
    is_listed: bool,
}

/// A report to the store that is due.
#[derive(Debug)]
#[must_use = "the store has to be asked"]
pub struct UnitsCount {
    account: Arc<UnitsAccount>,
    /// What is reported.
    pub call: CountCall,
}

impl UnitsAccount {
    pub(super) fn new(name: &str, day: u64, used: u64) -> Self {
        Self {
            name: name.to_owned(),
            state: Mutex::new(UnitsState {
                units: SharedUnits::new(day, used),
                is_listed: false,
            }),
        }
    }

    /// Units used on this day.
    pub(super) fn used(&self, day: u64) -> u64 {
        self.state.lock().units.used(day)
    }

    /// Changes them, and lists them if they are not listed; `list` returns whether there was room.
    pub(super) fn change(
        &self,
        change: impl FnOnce(&mut SharedUnits),
        list: impl FnOnce() -> bool,
    ) {
        let mut state = self.state.lock();
        change(&mut state.units);
        if !state.is_listed {
            state.is_listed = list();
        }
    }

    /// What is due. It is not listed any more: the next change lists it again.
    pub(super) fn due(this: Arc<Self>) -> Option<UnitsCount> {
        let mut state = this.state.lock();
        state.is_listed = false;
        let report = state.units.report()?;
        let name = this.name.clone();
        drop(state);
        Some(UnitsCount {
            account: this,
            call: CountCall { name, report },
        })
    }
}

impl UnitsCount {
    /// The store has counted them: so many were used in all.
    pub(super) fn counted(self, sum: u64) {
        let mut state = self.account.state.lock();
        state.units.counted(self.call.report.day, sum);
    }

    /// The store has not answered. They are listed and reported again.
    pub(super) fn failed(self, list: impl FnOnce(&Arc<UnitsAccount>) -> bool) {
        let day = self.call.report.day;
        let account = &self.account;
        account.change(|units| units.failed(day), || list(account));
    }
}
