//! Forgets filters that nobody asks about.

use std::{
    rc::Rc,
    time::{Instant, SystemTime},
};

use super::all_filters::Filters;
use crate::{access::Access, connections::every, limits::FILTER_WATCH_EVERY};

/// Looks for filters to forget, from the thread that starts it, until it is dropped.
#[derive(Debug)]
pub(crate) struct FilterWatch {
    filters: Filters,
    access: Access,
}

impl FilterWatch {
    /// Starts the watch.
    pub(crate) fn start(filters: &Filters, access: &Access) -> Rc<Self> {
        let this = Rc::new(Self {
            filters: filters.clone(),
            access: access.clone(),
        });
        every(FILTER_WATCH_EVERY, Rc::downgrade(&this), Self::tick);
        this
    }

    /// Waits until the fleet's store has what the last answers left, if that is not long.
    pub(crate) async fn settle(&self) {
        self.filters.settle().await;
    }

    fn tick(&self) {
        let now = SystemTime::now().into();
        let has_key = |key| self.access.key(key, now).is_some();
        self.filters.forget(has_key, Instant::now());
    }
}
