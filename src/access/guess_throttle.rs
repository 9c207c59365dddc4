//! How often keys may be guessed from one address.

use std::{net::IpAddr, sync::Arc, time::Instant};

use nearhead_actors::budget::Attempts;
use parking_lot::Mutex;

use super::{caller::network_of, meter::seconds};
use crate::limits::{KEY_GUESS_EVERY, KEY_GUESSES_MAX, THROTTLED_MAX};

/// Counts what comes with a key or secret that is not accepted, by the network that it comes from;
/// cloning shares the count.
///
/// It bounds what guesses cost, and does not keep a right key out: nobody can lock out others who
/// share an address. Keys are long enough that no guess succeeds.
#[derive(Clone, Debug)]
pub struct GuessThrottle(Arc<Mutex<Attempts<IpAddr>>>);

impl Default for GuessThrottle {
    /// Nobody has guessed so far.
    fn default() -> Self {
        let attempts = Attempts::new(KEY_GUESSES_MAX, KEY_GUESS_EVERY, THROTTLED_MAX);
        Self(Arc::new(Mutex::new(attempts)))
    }
}

impl GuessThrottle {
    /// Counts a guess.
    ///
    /// # Errors
    /// There were too many from this network: whole seconds after which the next one is answered,
    /// at least 1.
    pub(crate) fn count(&self, address: IpAddr, now: Instant) -> Result<(), u32> {
        let network = network_of(address);
        let mut attempts = self.0.lock();
        match attempts.wait(&network, now) {
            Some(wait) => Err(seconds(wait).max(1)),
            None => {
                attempts.count(network, now);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
