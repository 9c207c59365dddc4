//! The fetches of a sync: which upstream is asked for its blocks, and when another one is.

use std::time::Duration;

use nearhead_chain::window::WINDOW_BLOCKS;
use tokio::task;

use super::{
    Follower,
    fetching::{Goal, HeadSync, SyncCall},
    interface::{HeldWindow, Upstream},
    work::{self, Purpose},
};
use crate::upstream::{
    agree::{Fetch, HeadAuthority, NodeSet},
    health::{CallClass, Fault, Moment, UpstreamId, Verdict},
    plan::{Ask, SyncPath},
};

/// Upstreams that are asked for one block at the same time. A second one bounds what a slow one
/// costs.
const ASKED_MAX: usize = 2;

/// How many times as long as the first upstreams that are asked for a block the next ones have for
/// it at most, while the first are still busy with it.
const WAITS_MAX: usize = 3;

/// How many calls for one block may have been lost for an upstream that has come back to be asked
/// for it at once. Later, it may be busy with this block.
const LOST_MAX: usize = 2;

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
                (sync.upstream, sync.asked_since, sync.is_slow) = (from, None, false);
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
            asked_since: None,
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

    /// How often an upstream was slow, which says who is chosen: one that is slow now comes last.
    pub(super) fn delays(&self, upstream: UpstreamId) -> u32 {
        let sync = self.sync.as_ref();
        match sync.is_some_and(|sync| sync.is_slow && sync.upstream == upstream) {
            true => u32::MAX,
            false => self.health.delays(upstream, self.now()),
        }
    }

    /// Whether an upstream should be chosen for the sync: not while it hangs with one of the blocks
    /// and is not asked for it once more yet.
    pub(super) fn may_be_chosen(&self, upstream: UpstreamId) -> bool {
        let calls = || self.open_calls(upstream);
        let is_awaited = |ask| calls().any(|call| call.ask == ask && call.is_awaited());
        let hangs = |call: &SyncCall| {
            !is_awaited(call.ask) && !self.is_due(upstream, call.ask, call.purpose)
        };
        self.has_room(upstream) && self.may_fetch(upstream) && !calls().any(hangs)
    }

    /// The calls to an upstream for blocks of the sync that have not arrived.
    fn open_calls(&self, upstream: UpstreamId) -> impl Iterator<Item = &SyncCall> {
        let is_open = move |call: &&SyncCall| {
            let sync = self.sync.as_ref();
            call.upstream == upstream && sync.is_some_and(|sync| sync.open.contains(&call.ask))
        };
        self.sync_calls.iter().filter(is_open)
    }

    /// Whether few calls to an upstream are in progress. They may be for earlier syncs.
    fn has_room(&self, upstream: UpstreamId) -> bool {
        self.sync_calls_to(upstream) < 2 * self.width()
    }

    /// Notes that an upstream may not answer what it was asked until then, and returns whether that
    /// is anything. It may answer all the same, so that the oldest calls go on; each has turns that
    /// new calls need.
    pub(super) fn lose_sync_calls(&mut self, upstream: UpstreamId, until: Moment) -> bool {
        let kept_max = self.width() / 2;
        let (mut is_any_lost, mut kept) = (false, 0);
        self.sync_calls.retain_mut(|call| {
            if call.upstream != upstream || call.since > until {
                return true;
            }
            is_any_lost |= !call.is_lost;
            call.is_lost = true;
            kept += 1;
            let is_kept = kept <= kept_max;
            if !is_kept {
                call.task.abort();
            }
            is_kept
        });
        is_any_lost
    }

    /// Asks for the blocks of the sync, several at the same time. What an earlier upstream
    /// has not given yet is asked for as well, and once more what this one should have given by
    /// now: the call may have been lost.
    pub(super) fn ask_for_sync(&mut self, held: Option<&W::Held>) {
        let (now, width) = (self.now(), self.width());
        let upstream = self.sync.as_ref().map(|sync| sync.upstream);
        let Some(upstream) = upstream.filter(|id| self.may_fetch(*id)) else {
            return;
        };
        let is_free = self.has_room(upstream);
        let client = self.client(upstream);
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
        for ask in sync.open.clone() {
            if !self.is_due(upstream, ask, purpose) {
                continue;
            }
            if self
                .calls_for(ask, purpose)
                .any(|call| call.upstream == upstream)
            {
                // The connection may be dead.
                client.reconnect();
            }
            let client = client.clone();
            let task = match purpose {
                Purpose::First => {
                    let call = work::fetch_first(upstream, client, ask, with_parent);
                    self.calls.spawn(call)
                }
                _ => self
                    .calls
                    .spawn(work::fetch(upstream, client, ask, purpose)),
            };
            self.sync_calls.push(SyncCall {
                upstream,
                ask,
                purpose,
                since: now,
                is_stuck: false,
                is_lost: false,
                task,
            });
        }
        let is_asked = self.is_asked(upstream);
        if let Some(sync) = self.sync.as_mut().filter(|_| is_asked) {
            sync.asked_since.get_or_insert(now);
        }
    }

    /// The calls for a block that are in progress.
    fn calls_for(&self, ask: Ask, purpose: Purpose) -> impl Iterator<Item = &SyncCall> {
        let calls = self.sync_calls.iter();
        calls.filter(move |call| (call.ask, call.purpose) == (ask, purpose))
    }

    /// Whether to ask an upstream for a block now: unless it may still answer an earlier call, or
    /// enough others may.
    fn is_due(&self, upstream: UpstreamId, ask: Ask, purpose: Purpose) -> bool {
        let now = self.now();
        let calls = || self.calls_for(ask, purpose);
        let own = || calls().filter(|call| call.upstream == upstream);
        // Each further call waits for twice as long.
        let doublings = own().count().saturating_sub(1).min(16);
        let longest = self
            .health
            .lost_after(upstream)
            .saturating_mul(1 << doublings);
        let is_lost = own().count() <= LOST_MAX && own().all(|call| call.is_lost);
        let is_late = |call: &SyncCall| now.saturating_sub(call.since) >= longest;
        let others = calls().filter(|call| call.upstream != upstream && self.is_awaited(call));
        let others: NodeSet = others.map(|call| call.upstream).collect();
        (is_lost || own().all(is_late)) && others.len() < ASKED_MAX
    }

    /// Whether a call is waited for: not one to an upstream that is backed off.
    fn is_awaited(&self, call: &SyncCall) -> bool {
        let may_ask = |id| self.health.may_ask(id, CallClass::Blocks, self.now());
        call.is_awaited() && may_ask(call.upstream)
    }

    /// Records that a call for a block has ended; `is_given` if the upstream gave it. Returns
    /// whether its answer was still expected.
    pub(super) fn sync_call_ended(&mut self, task: task::Id, is_given: bool) -> bool {
        let now = self.now();
        let ended = |call: &SyncCall| call.task.id() == task;
        let Some(index) = self.sync_calls.iter().position(ended) else {
            // It was given up, or was for an old block.
            return true;
        };
        let call = self.sync_calls.remove(index);
        // That an upstream was away says nothing about its blocks.
        if is_given || !call.is_lost {
            let took = now.saturating_sub(call.since);
            self.health.fetch_ended(call.upstream, now, took, is_given);
        }
        if let Some(sync) = self.sync.as_mut().filter(|_| is_given) {
            sync.open.retain(|open| *open != call.ask);
        }
        call.is_awaited()
    }

    /// Handles a failed call for a block of the sync, unless another call for it is in progress. A
    /// guessed number is asked for again by hash, and not again and again while another upstream
    /// hangs. A sync that no quorum vouches for ends, because the upstream may name another head by
    /// now; so does one to a first block that nobody has given, because it may be too large.
    pub(super) fn sync_fetch_failed(&mut self, ask: Ask) {
        let mut calls = self.sync_calls.iter().filter(|call| call.ask == ask);
        let is_in_progress = calls.clone().next().is_some();
        let is_awaited = matches!(ask, Ask::Hash { .. }) && calls.any(|call| self.is_awaited(call));
        let Some(sync) = self.sync.as_mut().filter(|_| !is_awaited) else {
            return;
        };
        let (number, hash) = sync.head;
        let mut may_end = !sync.is_agreed;
        let is_open = match &mut sync.goal {
            Goal::Path(path) => path.failed(ask) && matches!(ask, Ask::Hash { .. }),
            Goal::Reset { first } => {
                may_end |= !is_in_progress;
                first.is_none() && ask == Ask::Hash { number, hash }
            }
            // A block that was guessed, and that the path did without.
            Goal::Advance { .. } => false,
        };
        sync.open.retain(|open| *open != ask);
        self.sync.take_if(|_| is_open && may_end);
    }

    /// When the upstream that is asked counts as slow, so that another one that vouches for the
    /// agreed head is asked as well; `None` if there is no other one.
    pub(super) fn delayed_at(&self) -> Option<Moment> {
        let sync = self.sync.as_ref().filter(|sync| sync.is_agreed)?;
        let is_over = sync.is_slow || sync.goal.is_complete();
        let asked_since = sync
            .asked_since
            .filter(|_| !is_over && self.is_asked(sync.upstream))?;
        let others = self.others(sync.voters, sync.upstream);
        let patience = self.health.patience(others, self.now())?;
        Some(sync.progressed_at.max(asked_since) + patience)
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

    /// Those who vouch for a head and could be asked for its blocks in the place of this upstream.
    fn others(&self, voters: NodeSet, upstream: UpstreamId) -> impl Iterator<Item = UpstreamId> {
        let is_other = move |id: &UpstreamId| *id != upstream && self.may_fetch(*id);
        voters.iter().filter(is_other)
    }

    /// Treats it as a fault if an upstream gives no block, or not all of a path, for so long that
    /// another one that vouches for the head should be asked in its place. A call's timeout may be
    /// many block times, and blocks that arrive one by one may take as long. Where others are still
    /// busy with these blocks, the next one is likely to need as long.
    pub(super) fn fail_stuck_sync(&mut self) {
        let Some(sync) = self.sync.as_ref().filter(|sync| !sync.goal.is_complete()) else {
            return;
        };
        let now = self.now();
        let is_busy =
            |call: &&SyncCall| call.is_stuck && !call.is_lost && sync.open.contains(&call.ask);
        let busy = self.sync_calls.iter().filter(is_busy);
        let busy: NodeSet = busy.map(|call| call.upstream).collect();
        let waits = (1 + busy.len() / ASKED_MAX).min(WAITS_MAX) as u32;
        let has_lasted = |since, longest: Option<Duration>| {
            let longest = longest.map(|longest| longest.saturating_mul(waits));
            longest.is_some_and(|longest| now.saturating_sub(since) >= longest)
        };
        let voters = sync.voters;
        let is_silent = |call: &&SyncCall| {
            let longest = self
                .health
                .longest_silence(self.others(voters, call.upstream), now);
            let since = sync.progressed_at.max(call.since);
            call.is_awaited() && sync.open.contains(&call.ask) && has_lasted(since, longest)
        };
        let silent = self.sync_calls.iter().filter(is_silent);
        let others = self.others(voters, sync.upstream);
        let longest = self.health.longest_for_path(others, self.rounds(sync), now);
        let asked_since = sync.asked_since.filter(|_| self.is_asked(sync.upstream));
        let is_slow = asked_since.is_some_and(|since| has_lasted(since, longest));
        let slow = is_slow.then_some(sync.upstream);
        let mut stuck: Vec<UpstreamId> = silent.map(|call| call.upstream).chain(slow).collect();
        stuck.sort_unstable();
        stuck.dedup();
        for upstream in stuck {
            // One that failed just now cannot be asked in its place.
            if self.others(voters, upstream).next().is_none() {
                continue;
            }
            let calls = self.sync_calls.iter_mut();
            calls
                .filter(|call| call.upstream == upstream)
                .for_each(|call| call.is_stuck = true);
            let error = "it sent no block, or not all, while another one could be asked";
            let verdict = Verdict::Fault(Fault::Timeout);
            self.failed(upstream, CallClass::Blocks, verdict, &error);
        }
    }

    /// Whether an upstream is asked for a block of the sync, and waited for.
    fn is_asked(&self, upstream: UpstreamId) -> bool {
        self.open_calls(upstream).any(SyncCall::is_awaited)
    }

    /// How many times an upstream is asked for blocks until it has given all of a sync.
    fn rounds(&self, sync: &HeadSync) -> u32 {
        let blocks = match (&sync.goal, self.window.held()) {
            (Goal::Path(path), Some(held)) => path.length(&held),
            _ => 1,
        };
        let rounds = blocks.div_ceil(self.width() as u64).max(1);
        u32::try_from(rounds).unwrap_or(u32::MAX)
    }
}
