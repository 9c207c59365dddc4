//! Clients that never go back in time, as docs/min-block.md prints them, again and again.

use std::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use crate::{
    harness::{check, wait_until},
    min_block::{examples::Example, round_robin::went_back},
};

/// The examples of all libraries, which run one after another, as often as they may, until they are
/// ended. Each run takes a second of a core.
pub(super) struct ExampleLoop {
    url: String,
    examples: [Example; 3],
    /// Runs that may have begun.
    allowed: Mutex<usize>,
    may_go_on: Condvar,
    is_over: AtomicBool,
    has_failed: AtomicBool,
    runs: AtomicUsize,
}

/// Ends a loop when this is dropped, also where a test fails.
pub(super) struct Ending<'a>(&'a ExampleLoop);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Notes that a loop has failed if it has when this is dropped.
struct Noting<'a>(&'a AtomicBool);

impl Drop for Noting<'_> {
    fn drop(&mut self) {
        self.0.store(thread::panicking(), Ordering::Relaxed);
    }
}

impl ExampleLoop {
    /// Clients of this URL; `folder` is the name of their scratch folder.
    pub(super) fn of(url: &str, folder: &str) -> Self {
        Self {
            url: url.to_owned(),
            examples: Example::all(folder),
            allowed: Mutex::new(0),
            may_go_on: Condvar::new(),
            is_over: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            runs: AtomicUsize::new(0),
        }
    }

    /// Lets each run so many times from now on.
    pub(super) fn allow(&self, times: usize) {
        let more = times.saturating_mul(self.examples.len());
        let runs = self.runs.load(Ordering::Relaxed);
        *self.allowed.lock().unwrap() = runs.saturating_add(more);
        self.may_go_on.notify_all();
    }

    /// Waits until one more may run; `false` if they are ended.
    fn wait_allowed(&self) -> bool {
        let is_over = || self.is_over.load(Ordering::Relaxed);
        let waits =
            |allowed: &mut usize| self.runs.load(Ordering::Relaxed) >= *allowed && !is_over();
        let allowed = self.allowed.lock().unwrap();
        drop(self.may_go_on.wait_while(allowed, waits).unwrap());
        !is_over()
    }

    /// Runs them until the end; panics if one fails, or reads an older head than it has read.
    pub(super) fn run(&self) {
        let _noting = Noting(&self.has_failed);
        for example in self.examples.iter().cycle() {
            if !self.wait_allowed() {
                return;
            }
            let numbers = example.run(&self.url);
            let case = format!("{}: {numbers:?}", example.library);
            check(&case, &went_back(&numbers), &0);
            self.runs.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn end(&self) {
        // Who waits has the lock until it waits.
        let allowed = self.allowed.lock();
        self.is_over.store(true, Ordering::Relaxed);
        drop(allowed);
        self.may_go_on.notify_all();
    }

    /// Ends them when what is returned is dropped, also where a test fails.
    pub(super) const fn ending(&self) -> Ending<'_> {
        Ending(self)
    }

    /// Waits until that of each library has run, from begin to end; panics if one has failed.
    #[track_caller]
    pub(super) fn go_on(&self) {
        // The first one may have begun before.
        let runs = || self.runs.load(Ordering::Relaxed);
        let wanted = runs() + 1 + self.examples.len();
        self.allow(2);
        wait_until("examples run", || {
            let has_failed = self.has_failed.load(Ordering::Relaxed);
            assert!(!has_failed, "an example has failed, or has gone back");
            runs() >= wanted
        });
    }
}
