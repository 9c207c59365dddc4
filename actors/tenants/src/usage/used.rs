use std::{sync::Arc, time::Duration};

/// The name of a method or of an outcome.
pub type Label = Arc<str>;

/// In the place of a method and of an outcome: what sessions did besides requests, which is to be
/// opened and to be notified.
pub const SESSION_LABEL: &str = "session";

/// The outcome of requests that were answered with a result.
pub const OK_LABEL: &str = "ok";

/// Largest latencies of the buckets but the last, which has no bound.
///
/// An answer from memory takes less than 0.25 ms, one that computes some milliseconds, one that
/// awaits an upstream tens to hundreds, and people notice half a second. Between neighbours is a
/// factor of four or five: enough to see in which of these a key's requests are, in 8 columns.
pub const LATENCY_BOUNDS: [Duration; LATENCY_BUCKETS - 1] = [
    Duration::from_micros(250),
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(25),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_millis(2_500),
];

/// Buckets of latencies.
pub const LATENCY_BUCKETS: usize = 8;

/// How much was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Requests.
    pub requests: u64,
    /// Units that were charged, for requests and for notifications.
    pub units: u64,
    /// Bytes of requests.
    pub bytes_in: u64,
    /// Bytes of answers and notifications.
    pub bytes_out: u64,
    /// Requests by latency: each is in the first bucket of [`LATENCY_BOUNDS`] that it fits.
    pub latency: [u64; LATENCY_BUCKETS],
    /// WebSocket sessions that were opened.
    pub sessions: u64,
    /// Notifications that were sent.
    pub notifications: u64,
}

impl Used {
    /// Adds more of the same. A sum that is too large stays at its largest value.
    pub fn add(&mut self, more: &Self) {
        let sums = self.numbers_mut().into_iter();
        for (sum, more) in sums.zip(more.numbers()) {
            *sum = sum.saturating_add(more);
        }
    }

    /// The bucket of a latency.
    #[must_use]
    pub fn bucket(latency: Duration) -> usize {
        LATENCY_BOUNDS.partition_point(|bound| *bound < latency)
    }

    /// The bound that a share of all requests kept, such as 0.95; `None` if there is no such bound,
    /// or no request.
    #[must_use]
    pub fn latency_of(&self, share: f64) -> Option<Duration> {
        let all: u64 = self.latency.iter().sum();
        let wanted = all as f64 * share;
        let mut within = 0;
        LATENCY_BOUNDS
            .iter()
            .zip(self.latency)
            .find(|(_, requests)| {
                within += requests;
                all > 0 && within as f64 >= wanted
            })
            .map(|(bound, _)| *bound)
    }

    /// Numbers of one `Used`.
    pub const NUMBERS: usize = 6 + LATENCY_BUCKETS;

    /// All of it, in one order: what [`Self::from_numbers`] reads.
    #[must_use]
    pub fn numbers(&self) -> [u64; Self::NUMBERS] {
        let [a, b, c, d, e, f, g, h] = self.latency;
        [
            self.requests,
            self.units,
            self.bytes_in,
            self.bytes_out,
            self.sessions,
            self.notifications,
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
        ]
    }

    /// The one with these numbers, in the order of [`Self::numbers`].
    #[must_use]
    pub fn from_numbers(numbers: [u64; Self::NUMBERS]) -> Self {
        let mut used = Self::default();
        let fields = used.numbers_mut().into_iter();
        fields
            .zip(numbers)
            .for_each(|(field, number)| *field = number);
        used
    }

    fn numbers_mut(&mut self) -> [&mut u64; Self::NUMBERS] {
        let [a, b, c, d, e, f, g, h] = &mut self.latency;
        [
            &mut self.requests,
            &mut self.units,
            &mut self.bytes_in,
            &mut self.bytes_out,
            &mut self.sessions,
            &mut self.notifications,
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_in_the_first_bucket_that_they_fit() {
        for (micros, bucket) in [
            (0, 0),
            (250, 0),
            (251, 1),
            (1_000, 1),
            (500_000, 5),
            (2_500_000, 6),
            (2_500_001, 7),
            (u64::MAX, 7),
        ] {
            assert_eq!(
                Used::bucket(Duration::from_micros(micros)),
                bucket,
                "{micros}"
            );
        }
    }

    #[test]
    fn a_share_of_requests_has_a_bound() {
        let mut used = Used::default();
        assert_eq!(used.latency_of(0.5), None);
        used.latency = [90, 0, 5, 0, 0, 0, 0, 5];
        assert_eq!(used.latency_of(0.5), Some(LATENCY_BOUNDS[0]));
        assert_eq!(used.latency_of(0.95), Some(LATENCY_BOUNDS[2]));
        assert_eq!(used.latency_of(0.99), None);
    }

    #[test]
    fn numbers_are_read_in_the_order_in_which_they_are_written() {
        let numbers = std::array::from_fn(|index| index as u64 + 1);
        let mut used = Used::from_numbers(numbers);
        assert_eq!(used.numbers(), numbers);
        assert_eq!((used.requests, used.latency[7]), (1, 14));
        used.add(&Used::from_numbers([u64::MAX; Used::NUMBERS]));
        assert_eq!(used.numbers(), [u64::MAX; Used::NUMBERS]);
    }
}
