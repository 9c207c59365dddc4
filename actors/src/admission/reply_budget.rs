//! Memory of replies that clients have not taken yet, and which reply ends when it runs short.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{
    cost::{REPLY_BYTES_IF_SHORT, REPLY_SLOW_AFTER, RETRY_AFTER_MAX, RETRY_AFTER_UNMEASURED},
    hold_time::HoldTime,
};
use crate::{
    messages::{QueryError, Reply},
    share::Share,
};

/// The bytes that replies hold until their clients have taken them, in the whole process. Clones
/// share it.
///
/// When they run short, the tenant that holds most for its weight gives up the replies of its
/// slowest clients. A tenant that holds no more than its share is never refused for others.
#[derive(Clone, Debug)]
pub struct ReplyBudget {
    max: usize,
    ledger: Arc<Mutex<Ledger>>,
}

/// Bytes that one reply holds. Dropping it gives them back.
#[derive(Debug)]
pub struct ReplyCharge {
    ledger: Arc<Mutex<Ledger>>,
    share: Share,
    tenant: u64,
    id: u64,
    progress: Arc<Progress>,
}

/// Bytes that a reply holds besides those of its charge, for a part of its time. Dropping it gives
/// them back.
#[derive(Debug)]
pub struct ExtraCharge {
    ledger: Arc<Mutex<Ledger>>,
    tenant: u64,
    id: u64,
    bytes: usize,
}

/// Ends a reply whose bytes others need.
pub trait Evict: Debug + Send {
    /// Ends it, on whatever thread. It must not block, nor drop the charge.
    fn evict(self: Box<Self>);
}

/// What a budget holds at one moment, and what it has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyUse {
    /// Bytes that replies hold.
    pub used: usize,
    /// Bytes that they may hold.
    pub max: usize,
    /// Replies that hold them.
    pub replies: usize,
    /// Replies that were refused for want of room.
    pub refused: u64,
    /// Replies that were ended because others needed the room.
    pub evicted_for_room: u64,
    /// Replies that were ended because the process runs out of memory.
    pub evicted_for_memory: u64,
}

/// When a client last took a part of its reply, in milliseconds since the ledger began.
#[derive(Debug)]
struct Progress {
    began: Instant,
    millis: AtomicU64,
}

#[derive(Debug)]
struct Ledger {
    began: Instant,
    /// Whether the process is short of memory.
    is_memory_short: bool,
    tenants: HashMap<u64, Tenant>,
    next_id: u64,
    counts: ReplyUse,
    /// How long the bytes of all tenants are held.
    hold: HoldTime,
}

/// What the replies of one tenant hold. A tenant without any has no entry.
#[derive(Debug)]
struct Tenant {
    weight: u64,
    used: usize,
    /// How long its bytes are held.
    hold: HoldTime,
    replies: HashMap<u64, Held>,
    /// Replies that can be ended, by [`Held::noted`].
    slowest: BTreeSet<(u64, u64)>,
}

#[derive(Debug)]
struct Held {
    bytes: usize,
    /// Those of them that are charged besides.
    extra: usize,
    progress: Arc<Progress>,
    /// The progress by which it is in the order of the slowest. It may be older than the actual
    /// one: it is brought up to date when it comes first, so that a client's progress takes no
    /// lock.
    noted: u64,
    evict: Option<Box<dyn Evict>>,
}

/// Why a reply is ended.
#[derive(Clone, Copy, Debug)]
enum Reason {
    Room,
    Memory,
}

impl ReplyBudget {
    /// A budget of this many bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        let ledger = Ledger {
            began: Instant::now(),
            is_memory_short: false,
            tenants: HashMap::new(),
            next_id: 0,
            counts: ReplyUse {
                max,
                ..ReplyUse::default()
            },
            hold: HoldTime::default(),
        };
        Self {
            max,
            ledger: Arc::new(Mutex::new(ledger)),
        }
    }

    /// Charges a tenant for the bytes of a reply. If there is no room, slow clients of the tenant
    /// that holds most lose their replies.
    ///
    /// # Errors
    /// [`QueryError::Overloaded`]: no other reply may be ended for this one. It says when so many
    /// bytes will have been released, as it was measured.
    pub fn charge(&self, share: Share, bytes: usize, now: Instant) -> Reply<ReplyCharge> {
        let mut ledger = self.ledger.lock();
        let (room, evicted) = ledger.make_room(share, bytes, now);
        let charged = room.map(|()| ledger.add(share, bytes, now));
        drop(ledger);
        evicted.into_iter().for_each(Evict::evict);
        let (tenant, id, progress) = charged?;
        Ok(ReplyCharge {
            ledger: Arc::clone(&self.ledger),
            share,
            tenant,
            id,
            progress,
        })
    }

    /// Bytes that all replies may hold.
    #[must_use]
    pub const fn max(&self) -> usize {
        self.max
    }

    /// Refuses all further charges that are large, or no longer.
    pub(crate) fn set_memory_short(&self, is_short: bool) {
        self.ledger.lock().is_memory_short = is_short;
    }

    /// Ends every reply whose client is slow.
    pub(crate) fn evict_slow(&self, now: Instant) {
        let mut ledger = self.ledger.lock();
        let at = millis(ledger.began, now);
        let tenants: Vec<u64> = ledger.tenants.keys().copied().collect();
        let mut evicted = Vec::new();
        for tenant in tenants {
            while let Some((id, taken)) = ledger.slowest_of(tenant)
                && is_slow(taken, at)
            {
                evicted.extend(ledger.remove(tenant, id, Some(Reason::Memory), now));
            }
        }
        drop(ledger);
        evicted.into_iter().for_each(Evict::evict);
    }

    /// What it holds and has counted.
    #[must_use]
    pub fn usage(&self) -> ReplyUse {
        self.ledger.lock().counts
    }
}

impl ReplyCharge {
    /// The share of the tenant that is charged.
    #[must_use]
    pub const fn share(&self) -> Share {
        self.share
    }

    /// Charges for more bytes of the same reply, until they are `bytes` in all.
    ///
    /// # Errors
    /// As [`ReplyBudget::charge`]. What was charged before stays.
    pub fn grow_to(&self, bytes: usize, now: Instant) -> Reply<()> {
        let mut ledger = self.ledger.lock();
        let held = ledger.held_mut(self.tenant, self.id);
        let more = bytes.saturating_sub(held.map_or(0, |held| held.bytes));
        if more == 0 {
            return Ok(());
        }
        let (room, evicted) = ledger.make_room(self.share, more, now);
        if room.is_ok() {
            ledger.grow(self.tenant, self.id, more, now);
        }
        drop(ledger);
        evicted.into_iter().for_each(Evict::evict);
        room
    }

    /// Charges for bytes that the reply holds for a part of its time, and that it can do without;
    /// `None` if half of the budget would not be free then, or memory is short. No other reply is
    /// ended or refused for them.
    #[must_use]
    pub fn extra(&self, bytes: usize, now: Instant) -> Option<ExtraCharge> {
        let mut ledger = self.ledger.lock();
        let is_short = ledger.is_memory_short && bytes >= REPLY_BYTES_IF_SHORT;
        let used = ledger.counts.used.saturating_add(bytes);
        if is_short || used > ledger.counts.max / 2 {
            return None;
        }
        ledger.grow(self.tenant, self.id, bytes, now);
        if let Some(held) = ledger.held_mut(self.tenant, self.id) {
            held.extra += bytes;
        }
        drop(ledger);
        Some(ExtraCharge {
            ledger: Arc::clone(&self.ledger),
            tenant: self.tenant,
            id: self.id,
            bytes,
        })
    }

    /// From now on the reply can be ended, by `evict`.
    pub fn evict_by(&self, evict: impl Evict + 'static) {
        let mut ledger = self.ledger.lock();
        if let Some(tenant) = ledger.tenants.get_mut(&self.tenant)
            && let Some(held) = tenant.replies.get_mut(&self.id)
        {
            held.evict = Some(Box::new(evict));
            tenant.slowest.insert((held.noted, self.id));
        }
    }

    /// Records that the client took a part of the reply, or that the reply ends now.
    pub fn progressed(&self, now: Instant) {
        let now = millis(self.progress.began, now);
        self.progress.millis.store(now, Ordering::Relaxed);
    }
}

impl Drop for ReplyCharge {
    /// What was recorded last counts as the end: this looks at no clock.
    fn drop(&mut self) {
        let now = self.progress.last();
        let evict = self.ledger.lock().end(self.tenant, self.id, now);
        drop(evict);
    }
}

impl Drop for ExtraCharge {
    fn drop(&mut self) {
        let mut ledger = self.ledger.lock();
        ledger.end_extra(self.tenant, self.id, self.bytes);
    }
}

impl Progress {
    fn last(&self) -> Instant {
        let passed = Duration::from_millis(self.millis.load(Ordering::Relaxed));
        self.began.checked_add(passed).unwrap_or(self.began)
    }
}

impl Ledger {
    /// Makes room for so many bytes of a tenant. The replies that are returned have to be ended.
    ///
    /// # Errors
    /// There is none. The refusal is counted.
    fn make_room(
        &mut self,
        share: Share,
        bytes: usize,
        now: Instant,
    ) -> (Reply<()>, Vec<Box<dyn Evict>>) {
        let max = self.counts.max;
        let at = millis(self.began, now);
        let mut evicted = Vec::new();
        if self.is_memory_short && bytes >= REPLY_BYTES_IF_SHORT {
            // How long memory stays short is not known.
            return (self.refuse(RETRY_AFTER_UNMEASURED), evicted);
        }
        if bytes > max {
            return (self.refuse(RETRY_AFTER_MAX), evicted);
        }
        while self.counts.used.saturating_add(bytes) > max {
            let largest = self.largest(share, bytes);
            let slowest = self.slowest_of(largest);
            // A client that reads keeps its reply, unless that is more than its tenant's share, and
            // the one who asks is within its own.
            let is_for_another = largest != share.id() && self.is_within_share(share, bytes);
            match slowest {
                Some((id, taken)) if is_slow(taken, at) || is_for_another => {
                    evicted.extend(self.remove(largest, id, Some(Reason::Room), now));
                }
                _ => {
                    let wait = self.wait_for(bytes, largest, share, now);
                    return (self.refuse(wait), evicted);
                }
            }
        }
        (Ok(()), evicted)
    }

    /// Counts a reply that is refused, whose client should wait for so long.
    const fn refuse(&mut self, retry_after: Duration) -> Reply<()> {
        self.counts.refused += 1;
        Err(QueryError::Overloaded { retry_after })
    }

    /// The time until there is room for so many bytes of a tenant, where this one holds most.
    ///
    /// What others release is theirs again as long as they are within their shares. So a tenant
    /// that holds most itself waits for what it holds.
    fn wait_for(&mut self, bytes: usize, largest: u64, share: Share, now: Instant) -> Duration {
        let missing = self.counts.used.saturating_add(bytes) - self.counts.max;
        self.hold.mark(self.counts.used, now);
        let is_alone = self.tenants.len() == 1;
        match self.tenants.get_mut(&largest) {
            Some(tenant) if largest == share.id() && !is_alone => {
                tenant.hold.mark(tenant.used, now);
                tenant.hold.time_for(missing, tenant.used)
            }
            _ => self.hold.time_for(missing, self.counts.used),
        }
    }

    /// The tenant that holds most for its weight if this one is given so many bytes.
    fn largest(&self, share: Share, bytes: usize) -> u64 {
        let weight = u64::from(share.weight().get());
        let own = self.used_by(share).saturating_add(bytes);
        let mut largest = (share.id(), own as u128, u128::from(weight));
        for (id, tenant) in &self.tenants {
            let (used, weight) = (tenant.used as u128, u128::from(tenant.weight));
            if *id != share.id() && used * largest.2 > largest.1 * weight {
                largest = (*id, used, weight);
            }
        }
        largest.0
    }

    /// Whether a tenant holds no more than its part of the budget with so many bytes more.
    fn is_within_share(&self, share: Share, bytes: usize) -> bool {
        let own = u128::from(share.weight().get());
        let others = self.tenants.iter().filter(|(id, _)| **id != share.id());
        let weights = own
            + others
                .map(|(_, tenant)| u128::from(tenant.weight))
                .sum::<u128>();
        let used = self.used_by(share).saturating_add(bytes) as u128;
        used * weights <= self.counts.max as u128 * own
    }

    fn used_by(&self, share: Share) -> usize {
        self.tenants
            .get(&share.id())
            .map_or(0, |tenant| tenant.used)
    }

    fn add(&mut self, share: Share, bytes: usize, now: Instant) -> (u64, u64, Arc<Progress>) {
        let noted = millis(self.began, now);
        let progress = Arc::new(Progress {
            began: self.began,
            millis: AtomicU64::new(noted),
        });
        let tenant = self.tenants.entry(share.id()).or_insert_with(|| Tenant {
            weight: 0,
            used: 0,
            hold: HoldTime::default(),
            replies: HashMap::new(),
            slowest: BTreeSet::new(),
        });
        let id = self.next_id;
        self.next_id += 1;
        tenant.weight = share.weight().get().into();
        tenant.hold.mark(tenant.used, now);
        self.hold.mark(self.counts.used, now);
        tenant.used += bytes;
        let held = Held {
            bytes,
            extra: 0,
            progress: Arc::clone(&progress),
            noted,
            evict: None,
        };
        tenant.replies.insert(id, held);
        self.counts.used += bytes;
        self.counts.replies += 1;
        (share.id(), id, progress)
    }

    fn held_mut(&mut self, tenant: u64, id: u64) -> Option<&mut Held> {
        self.tenants.get_mut(&tenant)?.replies.get_mut(&id)
    }

    fn grow(&mut self, tenant: u64, id: u64, more: usize, now: Instant) {
        if let Some(tenant) = self.tenants.get_mut(&tenant)
            && let Some(held) = tenant.replies.get_mut(&id)
        {
            tenant.hold.mark(tenant.used, now);
            self.hold.mark(self.counts.used, now);
            held.bytes += more;
            tenant.used += more;
            self.counts.used += more;
        }
    }

    /// Gives back what a reply holds, except what it is charged for besides, and returns what would
    /// end it.
    fn end(&mut self, tenant: u64, id: u64, now: Instant) -> Option<Box<dyn Evict>> {
        let holder = self.tenants.get_mut(&tenant)?;
        let held = holder.replies.get_mut(&id)?;
        if held.extra == 0 {
            return self.remove(tenant, id, None, now);
        }
        holder.slowest.remove(&(held.noted, id));
        let (evict, less) = (held.evict.take(), held.bytes - held.extra);
        self.shrink(tenant, id, less, now);
        evict
    }

    /// Gives back what a reply is charged for besides, unless it was ended.
    fn end_extra(&mut self, tenant: u64, id: u64, less: usize) {
        if let Some(held) = self.held_mut(tenant, id) {
            held.extra -= less;
            let now = held.progress.last();
            match held.bytes == less {
                true => drop(self.remove(tenant, id, None, now)),
                false => self.shrink(tenant, id, less, now),
            }
        }
    }

    fn shrink(&mut self, tenant: u64, id: u64, less: usize, now: Instant) {
        if let Some(tenant) = self.tenants.get_mut(&tenant)
            && let Some(held) = tenant.replies.get_mut(&id)
        {
            tenant.hold.mark(tenant.used, now);
            self.hold.mark(self.counts.used, now);
            held.bytes -= less;
            tenant.used -= less;
            self.counts.used -= less;
            tenant.hold.released(less);
            self.hold.released(less);
        }
    }

    /// The reply of a tenant whose client has taken nothing for longest, of those that can be
    /// ended, and when it last did.
    fn slowest_of(&mut self, tenant: u64) -> Option<(u64, u64)> {
        let tenant = self.tenants.get_mut(&tenant)?;
        loop {
            let (noted, id) = *tenant.slowest.first()?;
            let held = tenant.replies.get_mut(&id)?;
            let taken = held.progress.millis.load(Ordering::Relaxed);
            if taken == noted {
                return Some((id, taken));
            }
            held.noted = taken;
            tenant.slowest.remove(&(noted, id));
            tenant.slowest.insert((taken, id));
        }
    }

    /// Gives back what a reply holds, and returns what ends it if it is to be ended.
    fn remove(
        &mut self,
        tenant: u64,
        id: u64,
        reason: Option<Reason>,
        now: Instant,
    ) -> Option<Box<dyn Evict>> {
        let holder = self.tenants.get_mut(&tenant)?;
        let held = holder.replies.remove(&id)?;
        holder.hold.mark(holder.used, now);
        self.hold.mark(self.counts.used, now);
        // What makes room for another reply is not free for those that wait.
        if !matches!(reason, Some(Reason::Room)) {
            holder.hold.released(held.bytes);
            self.hold.released(held.bytes);
        }
        holder.used -= held.bytes;
        self.counts.used -= held.bytes;
        self.counts.replies -= 1;
        match reason {
            None => {}
            Some(Reason::Room) => self.counts.evicted_for_room += 1,
            Some(Reason::Memory) => self.counts.evicted_for_memory += 1,
        }
        holder.slowest.remove(&(held.noted, id));
        if holder.replies.is_empty() {
            self.tenants.remove(&tenant);
        }
        held.evict
    }
}

fn millis(began: Instant, now: Instant) -> u64 {
    let passed = now.saturating_duration_since(began).as_millis();
    u64::try_from(passed).unwrap_or(u64::MAX)
}

/// Whether a client that last took a part then is slow.
const fn is_slow(taken: u64, now: u64) -> bool {
    now.saturating_sub(taken) as u128 >= REPLY_SLOW_AFTER.as_millis()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
