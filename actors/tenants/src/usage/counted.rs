use std::time::Duration;

use crate::usage::used::{LATENCY_BUCKETS, Used};

/// What was counted with one key, method and outcome, until it is written: a [`Used`] in little
/// memory, because there is one of it for each key that was used in the last seconds.
///
/// The numbers of four bytes are of one minute at most. They stay at their largest value if four
/// billion is not enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    units: u64,
    bytes_in: u64,
    bytes_out: u64,
    /// Each request is in one bucket, so these are also how many there were.
    latency: [u32; LATENCY_BUCKETS],
    sessions: u32,
    notifications: u32,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct RequestUse {
    /// The method's index in the registry.
    pub method: u16,
    /// The outcome's index.
    pub outcome: u8,
    /// Units that were charged.
    pub units: u64,
    /// Bytes of the request.
    pub bytes_in: u64,
    /// Bytes of the answer.
    pub bytes_out: u64,
    /// How long the answer took.
    pub took: Duration,
}

impl Counted {
    /// Requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.latency.iter().copied().map(u64::from).sum()
    }

    /// Units that were charged, for requests and for notifications.
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.units
    }

    /// Requests, sessions and notifications.
    pub(super) fn events(&self) -> u64 {
        self.requests() + u64::from(self.sessions) + u64::from(self.notifications)
    }

    pub(super) fn request(&mut self, request: &RequestUse) {
        self.units = self.units.saturating_add(request.units);
        self.bytes_in = self.bytes_in.saturating_add(request.bytes_in);
        self.bytes_out = self.bytes_out.saturating_add(request.bytes_out);
        if let Some(bucket) = self.latency.get_mut(Used::bucket(request.took)) {
            *bucket = bucket.saturating_add(1);
        }
    }

    pub(super) fn session_opened(&mut self, units: u64) {
        self.sessions = self.sessions.saturating_add(1);
        self.units = self.units.saturating_add(units);
    }

    pub(super) fn notified(&mut self, notifications: u64, units: u64, bytes_out: u64) {
        let notifications = u32::try_from(notifications).unwrap_or(u32::MAX);
        self.notifications = self.notifications.saturating_add(notifications);
        self.units = self.units.saturating_add(units);
        self.bytes_out = self.bytes_out.saturating_add(bytes_out);
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.units = self.units.saturating_add(more.units);
        self.bytes_in = self.bytes_in.saturating_add(more.bytes_in);
        self.bytes_out = self.bytes_out.saturating_add(more.bytes_out);
        for (bucket, more) in self.latency.iter_mut().zip(more.latency) {
            *bucket = bucket.saturating_add(more);
        }
        self.sessions = self.sessions.saturating_add(more.sessions);
        self.notifications = self.notifications.saturating_add(more.notifications);
    }

    /// What is written of it.
    #[must_use]
    pub fn used(&self) -> Used {
        Used {
            requests: self.requests(),
            units: self.units,
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            latency: self.latency.map(u64::from),
            sessions: self.sessions.into(),
            notifications: self.notifications.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There is one for each key of 100,000 that was used.
    #[test]
    fn what_was_counted_is_small() {
        let bytes = size_of::<Counted>();
        assert!(bytes <= 64, "{bytes} bytes");
    }

    #[test]
    fn sums_are_those_of_what_is_written() {
        let request = |micros| RequestUse {
            method: 0,
            outcome: 0,
            units: 20,
            bytes_in: 100,
            bytes_out: u64::MAX / 2,
            took: Duration::from_micros(micros),
        };
        let (mut one, mut other) = (Counted::default(), Counted::default());
        for micros in [0, 300, 3_000_000] {
            one.request(&request(micros));
        }
        other.request(&request(300));
        other.session_opened(1);
        other.notified(3, 15, 200);
        let mut sum = one.used();
        sum.add(&other.used());
        assert_eq!(sum.latency, [1, 2, 0, 0, 0, 0, 0, 1]);
        assert_eq!((sum.requests, sum.units, sum.bytes_in), (4, 96, 400));
        assert_eq!((sum.sessions, sum.notifications), (1, 3));
        assert_eq!(sum.bytes_out, u64::MAX);
        one.add(&other);
        assert_eq!((one.used(), one.events()), (sum, 8));
    }

    /// A number that is too large stays at its largest value.
    #[test]
    fn numbers_do_not_wrap() {
        let mut counted = Counted::default();
        for _ in 0..2 {
            counted.notified(u64::MAX, u64::MAX, u64::MAX);
            let same = counted;
            counted.add(&same);
        }
        let used = counted.used();
        assert_eq!(used.notifications, u64::from(u32::MAX));
        assert_eq!((used.units, used.bytes_out), (u64::MAX, u64::MAX));
    }
}
