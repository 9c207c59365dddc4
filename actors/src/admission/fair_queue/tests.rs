#![expect(clippy::unwrap_used, reason = "tests")]

use std::num::NonZeroU32;

use proptest::{collection::vec, prelude::*};

use super::*;

const LONG: Duration = Duration::from_secs(3_600);
const PATIENT: Patience = Patience {
    longest: LONG,
    target: LONG,
    interval: LONG,
};
const LANE_MAX: usize = 8;
/// Dearest item of the properties.
const COST_MAX: u64 = 1_000;

fn shares(weights: &[u32]) -> Vec<Share> {
    let share = |weight: &u32| Share::new(NonZeroU32::new(*weight).unwrap());
    weights.iter().map(share).collect()
}

/// What happens to a queue.
#[derive(Clone, Debug)]
enum Step {
    Push { tenant: usize, cost: u64 },
    Pop,
    Remove { nth: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..4_usize, 0..=COST_MAX).prop_map(|(tenant, cost)| Step::Push { tenant, cost }),
        2 => Just(Step::Pop),
        1 => any::<usize>().prop_map(|nth| Step::Remove { nth }),
    ];
    vec(step, 1..400)
}

/// The queue as a plain list: tenant, cost, number, ticket.
type Model = Vec<(usize, u64, u64, Ticket)>;

/// The work that two tenants were given since both of them have had items waiting.
#[derive(Clone, Copy, Default)]
struct Given([u64; 2]);

proptest! {
    /// Against a plain list: nothing is lost or taken twice, each tenant's items go in its order,
    /// no tenant has more than it may, and of two tenants whose items wait all the time, neither is
    /// given more than its part and one item of each.
    #[test]
    fn it_is_fair_and_loses_nothing(
        weights in vec(1..5_u32, 4),
        steps in steps(),
    ) {
        let shares = shares(&weights);
        let mut queue = FairQueue::new(LANE_MAX, PATIENT);
        let mut model = Model::new();
        let mut given = [[Given::default(); 4]; 4];
        let now = Instant::now();
        for (number, step) in (0_u64..).zip(steps) {
            match step {
                Step::Push { tenant, cost } => {
                    let fits = model.iter().filter(|item| item.0 == tenant).count() < LANE_MAX;
                    let pushed = queue.push(shares[tenant], cost, number, now);
                    prop_assert_eq!(pushed.is_some(), fits);
                    model.extend(pushed.map(|ticket| (tenant, cost, number, ticket)));
                }
                Step::Pop => {
                    let Some(taken) = queue.pop(now) else {
                        prop_assert!(model.is_empty());
                        continue;
                    };
                    prop_assert!(!taken.is_late);
                    let tenant = shares.iter().position(|share| *share == taken.share).unwrap();
                    let own = model.iter().filter(|item| item.0 == tenant);
                    let first = *own.min_by_key(|item| (magnitude(item.1), item.2)).unwrap();
                    prop_assert_eq!((taken.cost, taken.content), (first.1, first.2));
                    model.retain(|item| *item != first);
                    for other in (0..4).filter(|other| *other != tenant) {
                        given[tenant][other].0[0] += taken.cost;
                        given[other][tenant].0[1] += taken.cost;
                    }
                }
                Step::Remove { nth } => {
                    let Some(at) = nth.checked_rem(model.len()) else { continue };
                    let (_, _, number, ticket) = model.remove(at);
                    prop_assert_eq!(queue.remove(ticket), Some(number));
                    prop_assert_eq!(queue.remove(ticket), None);
                }
            }
            prop_assert_eq!(queue.len(), model.len());
            for (one, two) in (0..4).flat_map(|one| (0..4).map(move |two| (one, two))) {
                let waits = |tenant| model.iter().any(|item| item.0 == tenant);
                if !waits(one) || !waits(two) {
                    given[one][two] = Given::default();
                }
                let Given([work, other]) = given[one][two];
                let part = |work: u64, tenant: usize| work as f64 / f64::from(weights[tenant]);
                let bound = part(COST_MAX, one) + part(COST_MAX, two);
                let difference = part(work, one) - part(other, two);
                // Costs are divided by weights in whole numbers: less than 1 for each item.
                prop_assert!(difference <= bound + 400.0, "{difference} above {bound}");
            }
        }
        while let Some(taken) = queue.pop(now) {
            let at = model.iter().position(|item| item.2 == taken.content).unwrap();
            model.swap_remove(at);
        }
        prop_assert!(model.is_empty());
        prop_assert_eq!((queue.weights, queue.waiting.len()), (0, 0));
    }
}

/// Pops all, and returns the contents.
fn order<T>(queue: &mut FairQueue<T>, now: Instant) -> Vec<T> {
    std::iter::from_fn(|| Some(queue.pop(now)?.content)).collect()
}

#[test]
fn a_newcomer_is_next_and_one_tenant_alone_gets_everything() {
    let now = Instant::now();
    let mut queue = FairQueue::new(LANE_MAX, PATIENT);
    let [flood, other] = shares(&[1, 1])[..] else {
        panic!("two")
    };
    for item in 0..6 {
        queue.push(flood, 10, item, now).unwrap();
    }
    assert_eq!(queue.pop(now).unwrap().content, 0);
    assert_eq!(queue.pop(now).unwrap().content, 1);
    queue.push(other, 10, 100, now).unwrap();
    queue.push(other, 10, 101, now).unwrap();
    assert_eq!(order(&mut queue, now), [100, 2, 101, 3, 4, 5]);
    // It got nothing for the time in which it wanted nothing.
    for item in 0..2 {
        queue.push(flood, 10, item, now).unwrap();
        queue.push(other, 10, 100 + item, now).unwrap();
    }
    let taken = order(&mut queue, now);
    assert_eq!(taken.iter().filter(|item| **item < 100).count(), 2);
    assert!(taken[..2].iter().any(|item| *item >= 100), "{taken:?}");
}

#[test]
fn cheap_items_of_a_tenant_go_first() {
    let now = Instant::now();
    let mut queue = FairQueue::new(LANE_MAX, PATIENT);
    let share = Share::default();
    for cost in [5_000, 70, 9_000, 64, 1, 127, 4_096, 0] {
        queue.push(share, cost, cost, now).unwrap();
    }
    assert_eq!(queue.push(share, 1, 1, now), None, "as many as it may have");
    // Those of a magnitude, a power of two, go in the order of their arrival.
    let before = |cost| queue.backlog(share, cost).cost;
    assert_eq!(
        [before(0), before(100), before(5_000), before(10_000)],
        [1, 262, 9_358, 18_358]
    );
    assert_eq!(
        order(&mut queue, now),
        [1, 0, 70, 64, 127, 5_000, 4_096, 9_000]
    );
}

#[test]
fn who_cost_more_than_estimated_waits_longer() {
    let now = Instant::now();
    let mut queue = FairQueue::new(LANE_MAX, PATIENT);
    let [one, two] = shares(&[1, 1])[..] else {
        panic!("two")
    };
    for item in 0..4 {
        queue.push(one, 10, item, now).unwrap();
        queue.push(two, 10, 100 + item, now).unwrap();
    }
    let first = queue.pop(now).unwrap();
    queue.charge(first.share, 10, 30);
    let dear = first.content / 100;
    let taken = order(&mut queue, now);
    let is_dear: Vec<_> = taken.iter().map(|item| item / 100 == dear).collect();
    assert_eq!(is_dear[..2], [false, false], "{taken:?}");
    // And when nothing of it waits any more.
    queue.charge(one, 10, 1_000);
    queue.push(one, 10, 0, now).unwrap();
    queue.push(two, 10, 100, now).unwrap();
    assert_eq!(order(&mut queue, now), [100, 0]);
}

/// The lanes of tenants that have gone do not stay.
#[test]
fn tenants_that_are_not_ahead_are_forgotten() {
    let now = Instant::now();
    let mut queue = FairQueue::new(LANE_MAX, PATIENT);
    let busy = Share::default();
    for item in 0..1_000 {
        if queue.len() < 2 {
            queue.push(busy, 10, item, now).unwrap();
            queue.push(busy, 10, item, now).unwrap();
        }
        queue.push(Share::default(), 10, item, now).unwrap();
        queue.pop(now).unwrap();
        queue.pop(now).unwrap();
        assert!(queue.lanes.len() <= 4, "{} lanes", queue.lanes.len());
    }
    order(&mut queue, now);
    assert_eq!((queue.lanes.len(), queue.ahead.len()), (0, 0));
}

/// With time that is simulated: a load of twice what is served is refused at the target, and what
/// is left when it ends is gone within a second.
#[test]
fn under_overload_the_wait_stays_at_the_target() {
    let millis = Duration::from_millis;
    let patience = Patience {
        longest: millis(1_000),
        target: millis(200),
        interval: millis(500),
    };
    let start = Instant::now();
    let mut queue = FairQueue::new(100_000, patience);
    let share = Share::default();
    let (mut longest, mut late, mut served) = (Duration::ZERO, 0, 0);
    for at in 0..10_000_u32 {
        let now = start + millis(1) * at;
        if at < 8_000 {
            queue.push(share, 1, 2 * at, now).unwrap();
            queue.push(share, 1, 2 * at + 1, now).unwrap();
        }
        // One item a millisecond is served.
        while let Some(taken) = queue.pop(now) {
            if !taken.is_late {
                served += 1;
                if at > 3_000 {
                    longest = longest.max(taken.waited);
                }
                break;
            }
            late += 1;
        }
        if at == 8_300 {
            assert_eq!(queue.len(), 0, "what was left is gone");
        }
    }
    assert_eq!(served + late, 16_000);
    assert!(served >= 8_000, "{served} served while it was overloaded");
    assert!(longest <= millis(200), "{longest:?}");
}
