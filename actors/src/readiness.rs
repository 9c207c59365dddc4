//! Whether the service is ready to serve.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nearhead_chain::window::WINDOW_BLOCKS;

use crate::{head::Head, upstream::Standing};

/// Decides whether the service is ready; clones read the same state.
#[derive(Clone, Debug)]
pub struct Readiness {
    /// The pointer to the current snapshot.
    pub head: Head,
    /// How long a head is fresh; `None`: forever.
    pub head_fresh_for: Option<Duration>,
    /// The standing of the upstreams, if the source has any.
    pub upstreams: Option<Arc<Standing>>,
    /// Set while the service stops.
    pub draining: Arc<AtomicBool>,
}

/// One reason why the service is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unready {
    /// The service is stopping.
    Draining,
    /// No upstream is followed, so no new head would be noticed.
    NoUpstream,
    /// No block is readable.
    NoBlock,
    /// The window is being filled.
    WindowNotFilled,
    /// The head has not changed for too long.
    HeadStale,
}

/// The readiness at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadinessReport {
    /// The reasons why the service is not ready; empty if it is.
    pub reasons: Vec<Unready>,
    /// The head, if there is one.
    pub head: Option<HeadStatus>,
}

/// The head and the window below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadStatus {
    /// The head's number.
    pub number: u64,
    /// Canonical blocks in the window.
    pub blocks: usize,
    /// Canonical blocks in the window once it is filled.
    pub blocks_wanted: u64,
    /// How long ago the head changed.
    pub age: Duration,
}

impl Readiness {
    /// The readiness now.
    #[must_use]
    pub fn report(&self) -> ReadinessReport {
        let mut reasons = Vec::new();
        if self.draining.load(Ordering::Relaxed) {
            reasons.push(Unready::Draining);
        }
        let upstreams = self.upstreams.as_ref();
        if upstreams.is_some_and(|standing| !standing.is_followed()) {
            reasons.push(Unready::NoUpstream);
        }
        let Some(snapshot) = self.head.load() else {
            reasons.push(Unready::NoBlock);
            return ReadinessReport {
                reasons,
                head: None,
            };
        };
        let number = snapshot.head().number();
        let age = self.head.age().unwrap_or_default();
        if !snapshot.is_filled() {
            reasons.push(Unready::WindowNotFilled);
        }
        if self.head_fresh_for.is_some_and(|fresh_for| age > fresh_for) {
            reasons.push(Unready::HeadStale);
        }
        let head = HeadStatus {
            number,
            blocks: snapshot.canonical().len(),
            blocks_wanted: number.saturating_add(1).min(WINDOW_BLOCKS as u64),
            age,
        };
        ReadinessReport {
            reasons,
            head: Some(head),
        }
    }
}
