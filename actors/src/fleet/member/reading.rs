//! What a process that does not lead does: it reads entries and applies them, or follows its own
//! nodes if there are none.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use alloy_primitives::Bytes;
use nearhead_fleet::{bounds::READ_ENTRIES_MAX, position::Position, replica::RefillReason};
use tokio::{task, time};

use super::{
    LOOK_EVERY, Member, PAUSE_MIN, Reader,
    calls::{Answer, CallKind},
};
use crate::{
    fleet::window_update::{WindowUpdate, chain_of},
    source::SourceError,
    upstream::{ChangeError, HeldWindow},
};

/// How long a read waits for an entry.
const READ_WAIT: Duration = Duration::from_secs(1);

/// Longest pause before a refill reads on, and after a call to the store that failed.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long a refill looks for a snapshot before the process follows its own nodes, if it has any.
const OWN_NODES_AFTER: Duration = Duration::from_secs(10);

/// The same after the process has led: its nodes have been followed until then.
const OWN_NODES_AFTER_LEADING: Duration = Duration::from_secs(2);

/// How long a process keeps a head that is above the leader's, on another branch: clients have seen
/// it. A leader that has just begun appends its old head first, and what its nodes have soon after.
/// One whose nodes do not agree gives the lease back after 15 s; another one has it within 3 s.
const LEADS_BACK_MAX: Duration = Duration::from_secs(20);

/// How long a block ahead of the clock is waited for: clocks of machines differ.
const EARLY_MAX: Duration = Duration::from_secs(2);

impl Member {
    /// What a process that does not lead does: reads, reports, and asks its nodes little.
    pub(super) async fn read_on(&mut self, now: Duration) -> Result<(), SourceError> {
        let (cursor, refill, report) = {
            let replica = &self.reader.lock().replica;
            (replica.cursor(), replica.refill(), replica.report())
        };
        self.reporter.set(self.has_read.then_some(report));
        if !self.calls.is_running(CallKind::Read) && now >= self.read_at {
            let (count, wait) = match refill.is_none() && self.has_read {
                true => (READ_ENTRIES_MAX, READ_WAIT),
                // All replicas read the snapshot of a new leader, and of several parts at once
                // none may arrive in time.
                false => (1, Duration::ZERO),
            };
            let store = self.store.clone();
            let read = async move { Answer::Entries(store.read(cursor, count, wait).await) };
            self.calls.begin(CallKind::Read, read);
        }
        let head = self.reader.lock().replica.chain().head();
        if let Some(question) = self.nodes.question(head, now) {
            let check = async move { Answer::Checked(question.await) };
            self.calls.begin(CallKind::Check, check);
        }
        self.refill_from_nodes(refill, now);
        if let Some((update, _)) = self.leads_back.take_if(|(_, until)| now >= *until) {
            tracing::warn!("the leader stays below this process' head: it is given up");
            self.apply_now(update).await?;
        }
        Ok(())
    }

    /// Follows the process' own nodes if the stream has had no snapshot for some time.
    fn refill_from_nodes(&mut self, refill: Option<RefillReason>, now: Duration) {
        let Some(reason) = refill else {
            self.refill_since = None;
            return;
        };
        let since = *self.refill_since.get_or_insert(now);
        let after = match reason {
            RefillReason::Led => OWN_NODES_AFTER_LEADING,
            _ => OWN_NODES_AFTER,
        };
        let is_due = now >= since + after && self.nodes.are_there();
        if is_due && !self.nodes.are_followed() {
            tracing::warn!("entries of the fleet are missing: this process follows its own nodes");
            self.leads_back = None;
            self.nodes.begin(now);
        }
    }

    /// Waits before it reads on, longer each time.
    pub(super) fn slow_down(&mut self, now: Duration) {
        self.read_at = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// Reads what the store has after the cursor.
    pub(super) async fn read(
        &mut self,
        entries: Vec<(Position, Bytes)>,
    ) -> Result<(), SourceError> {
        if entries.is_empty() {
            self.has_read = true;
            let refill = {
                let replica = &mut self.reader.lock().replica;
                replica.at_end();
                replica.refill()
            };
            if refill.is_some() {
                self.slow_down(self.now());
            }
            self.status.change(|facts| {
                facts.has_read |= refill.is_none();
                facts.read_to_end(Instant::now());
            });
            return Ok(());
        }
        let mut left = entries.len() as u64;
        let is_refilling = self.reader.lock().replica.refill().is_some();
        let is_end = self.has_read && !is_refilling && entries.len() < READ_ENTRIES_MAX;
        self.status.change(|facts| {
            facts.received = left;
            facts.lags_since.get_or_insert_with(Instant::now);
        });
        for (id, bytes) in entries {
            if self.link.is_stopped() {
                return Ok(());
            }
            self.read_one(id, bytes).await?;
            left -= 1;
            let applied = self.reader.lock().replica.seen();
            self.status
                .change(|facts| (facts.received, facts.applied) = (left, applied));
        }
        // As long as there may be more, it lags.
        if is_end {
            self.status
                .change(|facts| facts.read_to_end(Instant::now()));
        }
        Ok(())
    }

    async fn read_one(&mut self, id: Position, bytes: Bytes) -> Result<(), SourceError> {
        let reader = Arc::clone(&self.reader);
        let read = move || {
            let Reader { replica, verifier } = &mut *reader.lock();
            let reading = replica.read(id, &bytes, verifier);
            (reading, replica.refill(), replica.chain().clone())
        };
        let read = task::spawn_blocking(read).await;
        let Ok((reading, refill, target)) = read else {
            return Err(SourceError::Upstream(
                "a check of an entry panicked".to_owned(),
            ));
        };
        for event in &reading.events {
            self.log.note(event, self.now());
        }
        if refill.is_none() {
            // The stream is whole again.
            self.pause = PAUSE_MIN;
            self.nodes.end().await?;
        }
        if let Some(update) = reading.update {
            self.apply(WindowUpdate::new(target, update)).await?;
        }
        Ok(())
    }

    /// Applies an entry. If it leads back, it waits for what follows it: a client that has seen the
    /// head would read an older one.
    async fn apply(&mut self, update: WindowUpdate) -> Result<(), SourceError> {
        let now = self.now();
        let (update, until) = match self.leads_back.take() {
            Some((earlier, until)) => (update.after(earlier), until),
            None => (update, now + LEADS_BACK_MAX),
        };
        if now < until && update.leads_back(self.window.held().as_deref()) {
            self.leads_back = Some((update, until));
            return Ok(());
        }
        self.apply_now(update).await
    }

    /// Applies an entry, all at once. If the window does not take it, the replica keeps what it has
    /// and looks for a snapshot.
    async fn apply_now(&mut self, update: WindowUpdate) -> Result<(), SourceError> {
        let until = self.now() + EARLY_MAX;
        let refusal = loop {
            match update.apply(&mut self.window).await {
                Ok(_) => {
                    self.settled = update.settled();
                    self.fill_below().await?;
                    self.json.look();
                    return Ok(());
                }
                Err(ChangeError::Gone(error)) => return Err(error),
                Err(ChangeError::Early { .. }) if self.now() < until => {
                    time::sleep(LOOK_EVERY).await;
                }
                Err(refusal) => break refusal,
            }
        };
        tracing::error!(%refusal, "the window does not take an entry of the fleet");
        let own = chain_of(self.window.held().as_deref());
        let event = self.reader.lock().replica.not_applied(own);
        self.log.note(&event, self.started.elapsed());
        Ok(())
    }

    /// Adds blocks below the window that it has room for again.
    async fn fill_below(&mut self) -> Result<(), SourceError> {
        loop {
            let held = self.window.held();
            let below = held.and_then(|held| self.reader.lock().verifier.below(&held));
            let Some(block) = below else {
                return Ok(());
            };
            match self.window.extend_to_oldest(block).await {
                Ok(()) => {}
                Err(ChangeError::Gone(error)) => return Err(error),
                // The window begins with another block by now.
                Err(_) => return Ok(()),
            }
        }
    }
}
