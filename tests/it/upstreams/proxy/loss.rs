//! What the loss of packets is for those at the ends of a connection.
//!
//! A program does not see a packet that is lost: TCP sends it again after a timeout, which doubles
//! each time, and what comes behind it waits, because bytes arrive in order. So a link that loses
//! packets is one whose bytes are late, in pieces. The kernel could lose real ones (`tc netem`, a
//! rule of a firewall in a network namespace), but not on every machine that runs these tests, and
//! never the same ones twice. Here a seed chooses them. TCP repairs some losses sooner, when later
//! packets are acknowledged, so this is the worse link.

use std::{
    io::{self, Write},
    time::Duration,
};

use super::state::State;
use crate::rng::Rng;

/// Bytes of a packet on Ethernet.
const PACKET_BYTES: usize = 1_460;

/// How long Linux waits for an acknowledgement at least, and at most.
const RESENT_AFTER_MIN: Duration = Duration::from_millis(200);
const RESENT_AFTER_MAX: Duration = Duration::from_secs(120);

/// Decides which packets are lost.
pub(super) struct Loss {
    percent: usize,
    rng: Rng,
    /// How many were lost.
    lost: usize,
}

impl Loss {
    pub(super) fn new(percent: usize, seed: u64) -> Self {
        assert!(percent < 100, "nothing would ever arrive");
        Self {
            percent,
            rng: Rng::new(seed),
            lost: 0,
        }
    }

    /// After how long each of so many packets that are sent now can be read.
    pub(super) fn delays(&mut self, packets: usize) -> Vec<Duration> {
        let mut readable = Duration::ZERO;
        let delays = (0..packets).map(|_| {
            readable = readable.max(self.arrival());
            readable
        });
        delays.collect()
    }

    /// After how long a packet arrives: at once, unless it is lost.
    fn arrival(&mut self) -> Duration {
        let (mut after, mut resent_after) = (Duration::ZERO, RESENT_AFTER_MIN);
        while self.rng.below(100) < self.percent {
            self.lost += 1;
            after += resent_after;
            resent_after = (resent_after * 2).min(RESENT_AFTER_MAX);
        }
        after
    }

    /// How many packets were lost since the last call.
    pub(super) fn take_lost(&mut self) -> usize {
        std::mem::take(&mut self.lost)
    }
}

/// The way to one end of a connection, on which packets may be lost.
pub(super) struct Link<'a, W> {
    state: &'a State,
    to: W,
}

impl<'a, W: Write> Link<'a, W> {
    pub(super) const fn new(state: &'a State, to: W) -> Self {
        Self { state, to }
    }
}

impl<W: Write> Write for Link<'_, W> {
    /// Returns when all has arrived: whoever writes next is behind it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let packets = bytes.chunks(PACKET_BYTES);
        let Some(arrivals) = self.state.arrivals(packets.len()) else {
            self.to.write_all(bytes)?;
            return Ok(bytes.len());
        };
        for (packet, arrival) in packets.zip(arrivals) {
            if !self.state.wait_until(arrival) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            self.to.write_all(packet)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::check;

    /// Delays in milliseconds.
    fn delays(percent: usize, seed: u64) -> Vec<u128> {
        let mut loss = Loss::new(percent, seed);
        let delays = loss.delays(10_000);
        delays.iter().map(|delay| delay.as_millis()).collect()
    }

    #[test]
    fn lost_packets_hold_up_those_behind_them() {
        check("none", &delays(0, 1), &vec![0; 10_000]);
        let mut loss = Loss::new(20, 1);
        let alone: Vec<u128> = (0..10_000).map(|_| loss.arrival().as_millis()).collect();
        let lost = |times: u32| {
            // 200 ms, then 400 ms, and so on.
            let after = 200 * (2_u128.pow(times) - 1);
            alone.iter().filter(|delay| **delay == after).count()
        };
        for (times, expected) in [(0, 8_000), (1, 1_600), (2, 320), (3, 64)] {
            let found = lost(times);
            assert!(found.abs_diff(expected) < 200, "{times} times: {found}");
        }
        let all: usize = (0..12).map(lost).sum();
        check("each is one of these", &all, &alone.len());
        let counted: usize = (1..12).map(|times| lost(times) * times as usize).sum();
        check("counted", &loss.take_lost(), &counted);
        // The same ones, in order.
        let mut behind = 0;
        for (at, (delay, alone)) in delays(20, 1).iter().zip(&alone).enumerate() {
            behind = behind.max(*alone);
            check(&at.to_string(), delay, &behind);
        }
        assert_ne!(delays(20, 1), delays(20, 2), "another seed");
    }
}
