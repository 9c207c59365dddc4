use std::{num::NonZeroU32, sync::atomic::AtomicUsize, time::Duration};

use proptest::prelude::*;

use super::*;

/// Counts the replies that were ended, and remembers the last one.
#[derive(Clone, Debug, Default)]
struct Ended(Arc<AtomicUsize>);

impl Evict for (Ended, usize) {
    fn evict(self: Box<Self>) {
        self.0.0.store(self.1, Ordering::Relaxed);
    }
}

/// Milliseconds after which a client is slow.
const SLOW: u64 = REPLY_SLOW_AFTER.as_millis() as u64;

/// A budget of 100 bytes at times in milliseconds.
struct Scene {
    budget: ReplyBudget,
    began: Instant,
    ended: Ended,
}

impl Scene {
    fn new() -> Self {
        Self {
            budget: ReplyBudget::new(100),
            began: Instant::now() + Duration::from_secs(1),
            ended: Ended::default(),
        }
    }

    fn at(&self, millis: u64) -> Instant {
        self.began + Duration::from_millis(millis)
    }

    /// A reply by this name that can be ended.
    fn reply(&self, share: Share, bytes: usize, name: usize, at: u64) -> Option<ReplyCharge> {
        let charge = self.budget.charge(share, bytes, self.at(at)).ok()?;
        charge.evict_by((self.ended.clone(), name));
        Some(charge)
    }

    fn last_ended(&self) -> usize {
        self.ended.0.load(Ordering::Relaxed)
    }

    /// After how many milliseconds a reply that is refused should be asked for again.
    fn wait(&self, share: Share, bytes: usize, at: u64) -> u64 {
        match self.budget.charge(share, bytes, self.at(at)) {
            Err(QueryError::Overloaded { retry_after }) => retry_after.as_millis() as u64,
            other => panic!("{other:?}"),
        }
    }

    /// Every so many milliseconds, one of these replies of 10 bytes ends, and another one takes its
    /// place.
    fn replace(
        &self,
        share: Share,
        replies: &mut Vec<ReplyCharge>,
        (from, to, every): (u64, u64, usize),
    ) {
        for at in (from..to).step_by(every) {
            replies
                .iter()
                .for_each(|reply| reply.progressed(self.at(at)));
            replies.remove(0);
            replies.extend(self.reply(share, 10, 0, at));
        }
    }
}

const MAX_WAIT: u64 = RETRY_AFTER_MAX.as_millis() as u64;

fn check_near(found: u64, expected: u64) {
    let off = found.abs_diff(expected);
    assert!(off <= expected / 10, "{found} instead of {expected}");
}

#[test]
fn a_refusal_says_when_enough_bytes_will_be_released() {
    let scene = Scene::new();
    let share = Share::default();
    let mut replies: Vec<_> = (0..9)
        .filter_map(|_| scene.reply(share, 10, 1, 0))
        .collect();
    // 10 bytes a second, of which 10 are free.
    scene.replace(share, &mut replies, (1_000, 9_001, 1_000));
    check_near(scene.wait(share, 20, 9_000), 1_000);
    check_near(scene.wait(share, 60, 9_000), 5_000);
    // A reply that grows asks for more as any other.
    let Err(QueryError::Overloaded { retry_after }) = replies[0].grow_to(50, scene.at(9_000))
    else {
        panic!("it is refused");
    };
    check_near(retry_after.as_millis() as u64, 3_000);
    // Ten times as fast.
    scene.replace(share, &mut replies, (9_100, 15_001, 100));
    check_near(scene.wait(share, 60, 15_000), 500);
    assert_eq!(
        scene.wait(share, 101, 15_000),
        MAX_WAIT,
        "more than there is"
    );
}

#[test]
fn a_refusal_is_bounded_where_nothing_is_released() {
    let scene = Scene::new();
    let share = Share::default();
    let held = scene.reply(share, 100, 1, 0).unwrap();
    assert_eq!(scene.wait(share, 1, 0), 1_000, "not measured yet");
    assert_eq!(scene.wait(share, 1, 1_999), 1_000);
    assert_eq!(scene.wait(share, 1, 2_000), MAX_WAIT);
    assert_eq!(scene.wait(share, 1, SLOW - 1), MAX_WAIT);
    held.progressed(scene.at(SLOW));
    drop(held);
    let _held = scene.reply(share, 100, 1, SLOW).unwrap();
    // 100 bytes were held for the three seconds that the windows have.
    check_near(scene.wait(share, 20, SLOW), 600);
}

#[test]
fn a_tenant_that_holds_more_than_its_share_waits_for_what_it_holds_itself() {
    let scene = Scene::new();
    let (stalls, reads) = (Share::default(), Share::default());
    let held = scene.reply(stalls, 50, 1, 0).unwrap();
    let mut replies: Vec<_> = (0..5)
        .filter_map(|_| scene.reply(reads, 10, 1, 0))
        .collect();
    scene.replace(reads, &mut replies, (100, 4_001, 100));
    assert_eq!(scene.wait(stalls, 10, 4_000), MAX_WAIT);
    check_near(scene.wait(reads, 10, 4_000), 100);
    drop(held);
    // One that holds less than another waits for whatever is released first.
    replies.extend((0..5).filter_map(|_| scene.reply(reads, 10, 1, 4_000)));
    scene.replace(reads, &mut replies, (4_100, 10_001, 100));
    check_near(scene.wait(stalls, 60, 10_000), 600);
}

#[test]
fn what_a_reply_holds_besides_ends_nobody_and_leaves_half_of_the_budget() {
    let scene = Scene::new();
    let (share, other) = (Share::default(), Share::default());
    let reply = scene.reply(share, 10, 1, 0).unwrap();
    let slow = scene.reply(other, 20, 2, 0).unwrap();
    let now = scene.at(2 * SLOW);
    assert!(reply.extra(21, now).is_none());
    let extra = reply.extra(20, now).unwrap();
    assert!(reply.extra(1, now).is_none());
    let usage = scene.budget.usage();
    assert_eq!((usage.used, usage.replies, usage.refused), (50, 2, 0));
    assert_eq!(scene.last_ended(), 0);
    drop(extra);
    assert_eq!(scene.budget.usage().used, 30);
    drop((reply, slow));
    assert_eq!(scene.budget.usage().used, 0);
}

#[test]
fn what_a_reply_holds_besides_is_charged_until_it_is_given_back() {
    let scene = Scene::new();
    let share = Share::default();
    let reply = scene.reply(share, 10, 1, 0).unwrap();
    let extra = reply.extra(40, scene.at(0)).unwrap();
    // The client has left, and a thread still has the rest.
    drop(reply);
    assert_eq!(scene.budget.usage().used, 40);
    // It cannot be ended any more, by one that holds less for its weight either.
    let heavy = Share::default().with_weight(NonZeroU32::new(3).unwrap());
    assert!(scene.reply(heavy, 61, 2, 2 * SLOW).is_none());
    drop(extra);
    assert_eq!(
        (scene.budget.usage().used, scene.budget.usage().replies),
        (0, 0)
    );

    let reply = scene.reply(share, 10, 3, 0).unwrap();
    let extra = reply.extra(30, scene.at(0)).unwrap();
    let other = scene.reply(heavy, 90, 4, 2 * SLOW).unwrap();
    assert_eq!((scene.last_ended(), scene.budget.usage().used), (3, 90));
    drop((extra, reply));
    assert_eq!(
        scene.budget.usage().used,
        90,
        "an ended reply gives nothing back again"
    );
    drop(other);
    assert_eq!(scene.budget.usage().used, 0);
}

#[test]
fn a_reply_may_be_charged_for_nothing_but_what_it_holds_besides() {
    for is_extra_first in [true, false] {
        let scene = Scene::new();
        let slow = scene.reply(Share::default(), 50, 1, 0).unwrap();
        let reply = scene.budget.charge(Share::default(), 0, scene.at(2 * SLOW));
        let reply = reply.unwrap();
        assert!(reply.extra(1, scene.at(2 * SLOW)).is_none());
        drop(slow);
        let extra = reply.extra(50, scene.at(2 * SLOW)).unwrap();
        assert_eq!((scene.budget.usage().used, scene.last_ended()), (50, 0));
        match is_extra_first {
            true => drop((extra, reply)),
            false => drop((reply, extra)),
        }
        let usage = scene.budget.usage();
        assert_eq!((usage.used, usage.replies), (0, 0));
    }
}

#[test]
fn nothing_large_is_held_besides_while_memory_is_short() {
    let budget = ReplyBudget::new(4 * REPLY_BYTES_IF_SHORT);
    let now = Instant::now();
    let reply = budget.charge(Share::default(), 1, now).unwrap();
    budget.set_memory_short(true);
    assert!(reply.extra(REPLY_BYTES_IF_SHORT, now).is_none());
    assert!(reply.extra(REPLY_BYTES_IF_SHORT - 1, now).is_some());
}

#[test]
fn bytes_are_charged_until_the_reply_is_dropped() {
    let scene = Scene::new();
    let share = Share::default();
    let first = scene.reply(share, 60, 1, 0).unwrap();
    assert!(scene.reply(share, 41, 2, SLOW - 1).is_none(), "it reads");
    let second = scene.reply(share, 40, 3, 1).unwrap();
    let usage = scene.budget.usage();
    assert_eq!((usage.used, usage.replies, usage.refused), (100, 2, 1));
    drop((first, second));
    assert_eq!(scene.budget.usage().used, 0);
    assert!(
        scene.reply(share, 101, 4, 0).is_none(),
        "more than there is"
    );
    assert_eq!(scene.last_ended(), 0);
}

#[test]
fn the_slowest_client_of_the_largest_holder_goes_first() {
    let scene = Scene::new();
    let (large, small) = (Share::default(), Share::default());
    let reads = scene.reply(large, 40, 1, 0).unwrap();
    let stalls = scene.reply(large, 30, 2, 10).unwrap();
    let other = scene.reply(small, 25, 3, 5).unwrap();
    reads.progressed(scene.at(SLOW));
    // The one that took nothing for longest is of the small holder.
    let next = scene.reply(small, 20, 4, SLOW + 20).unwrap();
    assert_eq!(scene.last_ended(), 2);
    assert_eq!(scene.budget.usage().evicted_for_room, 1);
    assert_eq!(scene.budget.usage().used, 85);
    // An ended reply gives nothing back again.
    drop(stalls);
    assert_eq!(scene.budget.usage().used, 85);
    drop((reads, other, next));
    assert_eq!(scene.budget.usage().used, 0);
}

#[test]
fn a_tenant_within_its_share_gets_room_from_one_that_is_not() {
    let scene = Scene::new();
    let (large, small) = (Share::default(), Share::default());
    let held: Vec<_> = (1..=10)
        .map(|name| scene.reply(large, 10, name, 0))
        .collect();
    // All of its clients read, and it asks for more itself.
    assert!(scene.reply(large, 10, 11, 1).is_none());
    let others: Vec<_> = (21..=25)
        .filter_map(|name| scene.reply(small, 10, name, 1))
        .collect();
    assert_eq!(others.len(), 5, "half of the budget");
    assert!(scene.reply(small, 10, 26, 1).is_none(), "more than half");
    assert_eq!(scene.budget.usage().evicted_for_room, 5);
    drop(held);
    assert_eq!(scene.budget.usage().used, 50);
}

#[test]
fn shares_are_by_weight() {
    let scene = Scene::new();
    let (heavy, light) = (
        Share::default().with_weight(NonZeroU32::new(3).unwrap()),
        Share::default(),
    );
    let _held: Vec<_> = (1..=10)
        .map(|name| scene.reply(light, 10, name, 0))
        .collect();
    let given: Vec<_> = (0..10)
        .filter_map(|name| scene.reply(heavy, 10, name, 0))
        .collect();
    assert_eq!(given.len(), 7);
}

#[test]
fn what_cannot_be_ended_is_not() {
    let scene = Scene::new();
    let (one, other) = (Share::default(), Share::default());
    let computed = scene.budget.charge(one, 100, scene.at(0)).unwrap();
    assert!(scene.reply(other, 10, 1, 2 * SLOW).is_none());
    computed.evict_by((scene.ended.clone(), 7));
    assert!(scene.reply(other, 10, 2, 2 * SLOW).is_some());
    assert_eq!(scene.last_ended(), 7);
}

#[test]
fn slow_clients_lose_their_replies_when_memory_runs_out() {
    let scene = Scene::new();
    let share = Share::default();
    let _slow = scene.reply(share, 10, 1, 0);
    let reads = scene.reply(share, 10, 2, 0).unwrap();
    reads.progressed(scene.at(SLOW - 1));
    scene.budget.evict_slow(scene.at(SLOW));
    let usage = scene.budget.usage();
    assert_eq!((usage.evicted_for_memory, usage.used), (1, 10));
}

#[test]
fn large_replies_are_refused_while_memory_is_short() {
    let budget = ReplyBudget::new(4 * REPLY_BYTES_IF_SHORT);
    let (share, now) = (Share::default(), Instant::now());
    budget.set_memory_short(true);
    assert!(budget.charge(share, REPLY_BYTES_IF_SHORT, now).is_err());
    assert!(budget.charge(share, REPLY_BYTES_IF_SHORT - 1, now).is_ok());
    budget.set_memory_short(false);
    assert!(budget.charge(share, REPLY_BYTES_IF_SHORT, now).is_ok());
}

#[test]
fn a_charge_grows_with_its_reply() {
    let scene = Scene::new();
    let share = Share::default();
    let reply = scene.reply(share, 30, 1, 0).unwrap();
    assert!(reply.grow_to(90, scene.at(0)).is_ok());
    assert_eq!(scene.budget.usage().used, 90);
    assert!(reply.grow_to(101, scene.at(0)).is_err());
    assert!(reply.grow_to(40, scene.at(0)).is_ok());
    let usage = scene.budget.usage();
    assert_eq!((usage.used, usage.replies, usage.refused), (90, 1, 1));
    drop(reply);
    assert_eq!(scene.budget.usage().used, 0);
}

proptest! {
    /// Whatever happens, the sum is that of the replies that are held, and at most the budget; and
    /// a tenant within its share is refused only where nothing can be ended.
    #[test]
    fn the_sum_is_what_is_held(
        steps in prop::collection::vec((0..4usize, 1..60usize, 0..5u8, 0..700u64), 1..200),
    ) {
        let scene = Scene::new();
        let weights = [1, 1, 2, 5].map(|weight| NonZeroU32::new(weight).unwrap());
        let shares = weights.map(|weight| Share::default().with_weight(weight));
        let mut held: Vec<(usize, ReplyCharge)> = Vec::new();
        let mut besides = Vec::new();
        let mut now = 0;
        for (tenant, bytes, kind, passed) in steps {
            now += passed;
            match kind {
                0 => held.truncate(bytes / 4),
                1 => {
                    for (_, reply) in held.iter().step_by(2) {
                        reply.progressed(scene.at(now));
                    }
                }
                2 => {
                    let reply = held.get(bytes % held.len().max(1));
                    besides.extend(reply.and_then(|(_, reply)| reply.extra(bytes, scene.at(now))));
                }
                3 => besides.truncate(bytes / 8),
                _ => held.extend(scene
                    .reply(shares[tenant], bytes, 1, now)
                    .map(|reply| (bytes, reply))),
            }
            let usage = scene.budget.usage();
            prop_assert!(usage.used <= usage.max);
            let ledger = scene.budget.ledger.lock();
            let by_tenant: usize = ledger.tenants.values().map(|tenant| tenant.used).sum();
            let by_reply: usize = ledger
                .tenants
                .values()
                .flat_map(|tenant| tenant.replies.values().map(|held| held.bytes))
                .sum();
            prop_assert_eq!((by_tenant, by_reply), (usage.used, usage.used));
            let ordered: usize = ledger.tenants.values().map(|tenant| tenant.slowest.len()).sum();
            let can_end = |tenant: &Tenant| {
                let replies = tenant.replies.values();
                replies.filter(|held| held.evict.is_some()).count()
            };
            prop_assert_eq!(ordered, ledger.tenants.values().map(can_end).sum::<usize>());
            let replies: usize = ledger.tenants.values().map(|tenant| tenant.replies.len()).sum();
            prop_assert_eq!(replies, usage.replies);
            prop_assert!(ledger.tenants.values().all(|tenant| !tenant.replies.is_empty()));
        }
        held.clear();
        besides.clear();
        prop_assert_eq!(scene.budget.usage().used, 0);
    }
}
