//! The fetches of a sync: which upstream is asked for its blocks, and when another one is.

use std::time::Duration;

use nearhead_chain::window::WINDOW_BLOCKS;

use super::{
    Follower, STUCK_MIN,
    fetching::{Goal, HeadSync, SyncCall},
    interface::{HeldWindow, Upstream},
    work::{self, Purpose},
};
use crate::upstream::{
    agree::{Fetch, HeadAuthority},
    health::{CallClass, Fault, Moment, UpstreamId, Verdict},
    plan::{Ask, SyncPath},
};

/// Calls for one block at the same time. A second upstream bounds what a slow one costs.
const FETCHES_MAX: usize = 2;

impl<U: Upstream, W: HeldWindow, A: HeadAuthority> Follower<U, W, A> {
    /// Begins or keeps the sync to this head; drops any other.
    pub(super) fn sync_to(&mut self, fetch: Option<Fetch>) {
        let now = self.now();
        let Some(fetch) = fetch else {
            self.sync = None;
            return;
        };
        let Fetch { from, to, .. } = fetch;
        if let Some(sync) = self.sync.as_mut().filter(|sync| sync.head == to) {
            (sync.voters, sync.is_agreed) = (fetch.voters, fetch.is_agreed);
            if sync.upstream != from {
                (sync.upstream, sync.asked_since, sync.is_slow) = (from, now, false);
            }
            return;
        }
        let earlier = self.sync.take();
        // An upstream can name many heads that nobody else has. Each waits for the one before.
        if !fetch.is_agreed && self.sync_calls_to(from) > 0 {
            return;
        }
        let held = self.window.held();
        // The new head is often above the earlier one, whose path may be long.
        let known = earlier.into_iter().flat_map(|sync| sync.goal.into_blocks());
        let known = known.take(WINDOW_BLOCKS);
        let path = |held: &W::Held| Goal::Path(SyncPath::to(to.0, to.1, held).knowing(known));
        self.sync = Some(HeadSync {
            upstream: from,
            voters: fetch.voters,
            head: to,
            is_agreed: fetch.is_agreed,
            named_at: self.health.named_at(from, to.1).unwrap_or(now),
            asked_since: now,
            progressed_at: now,
            is_slow: false,
            open: Vec::new(),
            goal: held.as_ref().map_or(Goal::RESET, path),
        });
    }

    fn sync_calls_to(&self, upstream: UpstreamId) -> usize {
        let calls = self.sync_calls.iter();
        calls.filter(|call| call.upstream == upstream).count()
    }

    /// Asks for the blocks of the sync, up to `width` at the same time. What an earlier upstream
    /// has not given yet is asked for as well, and once more what this one has not given in the
    /// time that it has to name a head: the call may have been lost.
    pub(super) fn ask_for_sync(&mut self, held: Option<&W::Held>, width: usize) {
        let now = self.now();
        let upstream = self.sync.as_ref().map(|sync| sync.upstream);
        let Some(upstream) = upstream.filter(|id| self.may_fetch(*id)) else {
            return;
        };
        // Calls for earlier syncs may still be in progress.
        let is_free = self.sync_calls_to(upstream) < 2 * width;
        let client = self.client(upstream);
        let patience = self.health.heads_timeout().unwrap_or(Duration::MAX);
        let Some(sync) = self.sync.as_mut().filter(|_| is_free) else {
            return;
        };
        let (number, hash) = sync.head;
        let with_parent = self.window.needs_parent();
        let purpose = match (&mut sync.goal, held) {
            (Goal::Path(path), Some(held)) => {
                sync.open.extend(path.ask(width, held));
                Purpose::Sync
            }
            (Goal::Reset { first: None }, _) => {
                sync.open = vec![Ask::Hash { number, hash }];
                Purpose::First
            }
            _ => return,
        };
        for ask in &sync.open {
            let same = |call: &&SyncCall| (call.ask, call.purpose) == (*ask, purpose);
            let is_asked = |call: &SyncCall| call.upstream == upstream;
            let is_late = |call: &SyncCall| now.saturating_sub(call.since) >= patience;
            // Who is backed off is no longer waited for.
            let is_awaited =
                |call: &&SyncCall| self.health.may_ask(call.upstream, CallClass::Blocks, now);
            let calls = || self.sync_calls.iter().filter(same);
            let is_in_time = |call: &SyncCall| is_asked(call) && !is_late(call);
            if calls().any(is_in_time) || calls().filter(is_awaited).count() >= FETCHES_MAX {
                continue;
            }
            if calls().any(is_asked) {
                // The connection may be dead.
                client.reconnect();
            }
            self.sync_calls.push(SyncCall {
                upstream,
                ask: *ask,
                purpose,
                since: now,
            });
            let client = client.clone();
            let call = match purpose {
                Purpose::First => {
                    let call = work::fetch_first(upstream, client, *ask, with_parent);
                    self.calls.spawn(call)
                }
                _ => self
                    .calls
                    .spawn(work::fetch(upstream, client, *ask, purpose)),
            };
            self.upstreams[upstream].note_fetch(now, call);
        }
    }

    /// Records that a call for a block of a sync has ended; `is_given` if the upstream gave it.
    pub(super) fn sync_call_ended(
        &mut self,
        upstream: UpstreamId,
        ask: Ask,
        purpose: Purpose,
        is_given: bool,
    ) {
        let now = self.now();
        let ended =
            |call: &SyncCall| (call.upstream, call.ask, call.purpose) == (upstream, ask, purpose);
        if let Some(index) = self.sync_calls.iter().position(ended) {
            let call = self.sync_calls.swap_remove(index);
            if is_given {
                let took = now.saturating_sub(call.since);
                self.health.gave_block(upstream, took);
            }
        }
        if let Some(sync) = self.sync.as_mut().filter(|_| is_given) {
            sync.open.retain(|open| *open != ask);
        }
    }

    /// Handles a failed call for a block of the sync, unless another call for it is in progress. A
    /// guessed number is asked for again by hash. A sync that no quorum vouches for ends, because
    /// the upstream may name another head by now.
    pub(super) fn sync_fetch_failed(&mut self, ask: Ask) {
        let now = self.now();
        let is_awaited = self.sync_calls.iter().any(|call| {
            call.ask == ask && self.health.may_ask(call.upstream, CallClass::Blocks, now)
        });
        let Some(sync) = self.sync.as_mut().filter(|_| !is_awaited) else {
            return;
        };
        let (number, hash) = sync.head;
        let is_open = match &mut sync.goal {
            Goal::Path(path) => path.failed(ask) && matches!(ask, Ask::Hash { .. }),
            Goal::Reset { first } => first.is_none() && ask == Ask::Hash { number, hash },
            // A block that was guessed, and that the path did without.
            Goal::Advance { .. } => false,
        };
        sync.open.retain(|open| *open != ask);
        let ends = is_open && !sync.is_agreed;
        self.sync.take_if(|_| ends);
    }

    /// When the upstream that is asked counts as slow, so that another one that vouches for the
    /// agreed head is asked as well; `None` if there is no other one.
    pub(super) fn delayed_at(&self) -> Option<Moment> {
        let sync = self.sync.as_ref().filter(|sync| sync.is_agreed)?;
        if sync.is_slow || sync.goal.is_complete() {
            return None;
        }
        let others = sync.voters.iter().filter(|id| *id != sync.upstream);
        let others = others.filter(|id| self.may_fetch(*id));
        let patience = self.health.patience(others)?;
        Some(sync.progressed_at.max(sync.asked_since) + patience)
    }

    /// Notes that the upstream that is asked is slow, once it is.
    pub(super) fn note_delay(&mut self) {
        let now = self.now();
        if self.delayed_at().is_some_and(|at| at <= now)
            && let Some(sync) = &mut self.sync
        {
            sync.is_slow = true;
            self.health.was_slow(sync.upstream, now);
        }
    }

    /// Treats it as a fault if an upstream gives no block for half a block time, or is not done
    /// after a whole one, while another one that vouches for the head could be asked. A call's
    /// timeout may be many block times, and blocks that arrive one by one may take as long.
    pub(super) fn fail_stuck_sync(&mut self) {
        let (now, block_time) = (self.now(), self.health.block_time());
        let lasts = |since, least| now.saturating_sub(since) >= least;
        let silence = (block_time / 2).max(STUCK_MIN);
        let Some(sync) = self.sync.as_ref().filter(|sync| !sync.goal.is_complete()) else {
            return;
        };
        let is_slow = lasts(sync.asked_since, block_time.max(STUCK_MIN * 2));
        let is_silent = lasts(sync.progressed_at, silence);
        let silent = self.sync_calls.iter().filter(|call| {
            is_silent && sync.open.contains(&call.ask) && lasts(call.since, silence)
        });
        let slow = is_slow.then_some(sync.upstream);
        let mut stuck: Vec<UpstreamId> = silent.map(|call| call.upstream).chain(slow).collect();
        stuck.sort_unstable();
        stuck.dedup();
        let voters = sync.voters;
        for upstream in stuck {
            if voters.iter().any(|id| id != upstream && self.may_fetch(id)) {
                let error = "it sent no block for half a block time, or not all within a whole one";
                let verdict = Verdict::Fault(Fault::Timeout);
                self.failed(upstream, CallClass::Blocks, verdict, &error);
            }
        }
    }
}
