#![expect(clippy::unwrap_used, reason = "tests")]

use std::num::NonZeroU32;

use proptest::{collection::vec, prelude::*};

use super::*;

const LONG: Duration = Duration::from_secs(3_600);
const LIMITS: WaitLimits = WaitLimits {
    longest: LONG,
    target: LONG,
    interval: LONG,
};
const LANE_MAX: usize = 8;
const MILLI: u64 = 1_000_000;
/// The most expensive item of the properties.
const COST_MAX: u64 = 1_000;

/// A queue of which what is late is never refused: a tenant's items are done in no time.
fn drain() -> DrainRate {
    DrainRate::new(f64::MAX)
}

fn push<T>(
    queue: &mut FairQueue<T>,
    share: Share,
    cost: u64,
    content: T,
    now: Instant,
) -> Option<Ticket> {
    let pushed = queue.push(share, cost, content, now, Entry::New)?;
    Some(pushed.ticket)
}

/// The next item, which is finished at once.
fn pop<T>(queue: &mut FairQueue<T>, now: Instant) -> Option<TakenItem<T>> {
    let taken = queue.pop(now, &drain())?;
    assert!(!taken.is_late);
    queue.finish(taken.share, taken.cost, taken.cost);
    Some(taken)
}

fn shares(weights: &[u32]) -> Vec<Share> {
    let share = |weight: &u32| Share::default().with_weight(NonZeroU32::new(*weight).unwrap());
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
        let mut queue = FairQueue::new(LANE_MAX, LIMITS);
        let mut model = Model::new();
        let mut given = [[Given::default(); 4]; 4];
        let now = Instant::now();
        for (number, step) in (0_u64..).zip(steps) {
            match step {
                Step::Push { tenant, cost } => {
                    let own = model.iter().filter(|item| item.0 == tenant);
                    let is_full = own.clone().count() >= LANE_MAX;
                    let costliest = own.max_by_key(|item| (magnitude(item.1), item.2)).copied();
                    let displaced = costliest
                        .filter(|item| is_full && magnitude(item.1) > magnitude(cost));
                    let pushed = queue.push(shares[tenant], cost, number, now, Entry::New);
                    prop_assert_eq!(pushed.is_some(), !is_full || displaced.is_some());
                    if let Some(Pushed { ticket, displaced: found }) = pushed {
                        prop_assert_eq!(found, displaced.map(|item| item.2));
                        model.retain(|item| Some(*item) != displaced);
                        model.push((tenant, cost, number, ticket));
                    }
                }
                Step::Pop => {
                    let Some(taken) = pop(&mut queue, now) else {
                        prop_assert!(model.is_empty());
                        continue;
                    };
                    let tenant = shares.iter().position(|share| *share == taken.share).unwrap();
                    let own = model.iter().filter(|item| item.0 == tenant);
                    let key = |item: &&(usize, u64, u64, Ticket)| (magnitude(item.1), item.2);
                    let cheapest = *own.clone().min_by_key(key).unwrap();
                    let most = own.clone().map(|item| magnitude(item.1)).max();
                    let costly = own.filter(|item| Some(magnitude(item.1)) == most);
                    let oldest = *costly.min_by_key(|item| item.2).unwrap();
                    // Which of the two is a matter of turns.
                    let is_one = |item: (usize, u64, u64, Ticket)| item.2 == taken.content;
                    prop_assert!(is_one(cheapest) || is_one(oldest), "{taken:?}");
                    model.retain(|item| item.2 != taken.content);
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
                // Costs are divided by weights: less than 2^-32 is lost for each item.
                prop_assert!(difference <= bound + 1e-6, "{difference} above {bound}");
            }
        }
        while let Some(taken) = pop(&mut queue, now) {
            let at = model.iter().position(|item| item.2 == taken.content).unwrap();
            model.swap_remove(at);
        }
        prop_assert!(model.is_empty());
        prop_assert_eq!((queue.weights, queue.waiting.len()), (0, 0));
    }
}

/// Pops all, and returns the contents.
fn order<T>(queue: &mut FairQueue<T>, now: Instant) -> Vec<T> {
    std::iter::from_fn(|| Some(pop(queue, now)?.content)).collect()
}

#[test]
fn a_newcomer_is_next_and_one_tenant_alone_gets_everything() {
    let now = Instant::now();
    let mut queue = FairQueue::new(LANE_MAX, LIMITS);
    let [flood, other] = shares(&[1, 1])[..] else {
        panic!("two")
    };
    for item in 0..6 {
        push(&mut queue, flood, 10, item, now).unwrap();
    }
    assert_eq!(pop(&mut queue, now).unwrap().content, 0);
    assert_eq!(pop(&mut queue, now).unwrap().content, 1);
    push(&mut queue, other, 10, 100, now).unwrap();
    push(&mut queue, other, 10, 101, now).unwrap();
    assert_eq!(order(&mut queue, now), [100, 2, 101, 3, 4, 5]);
    // It got nothing for the time in which it wanted nothing.
    for item in 0..2 {
        push(&mut queue, flood, 10, item, now).unwrap();
        push(&mut queue, other, 10, 100 + item, now).unwrap();
    }
    let taken = order(&mut queue, now);
    assert_eq!(taken.iter().filter(|item| **item < 100).count(), 2);
    assert!(taken[..2].iter().any(|item| *item >= 100), "{taken:?}");
}

#[test]
fn cheap_items_do_not_keep_an_expensive_one_waiting_for_ever() {
    let now = Instant::now();
    let mut queue = FairQueue::new(LANE_MAX, LIMITS);
    let share = Share::default();
    push(&mut queue, share, 9_000, 9_000, now).unwrap();
    let turns = (0..100).position(|cheap| {
        push(&mut queue, share, 1, cheap, now).unwrap();
        pop(&mut queue, now).unwrap().content == 9_000
    });
    assert_eq!(turns, Some(7));
}

#[test]
fn cheap_items_of_a_tenant_go_first() {
    let now = Instant::now();
    let mut queue = FairQueue::new(LANE_MAX, LIMITS);
    let share = Share::default();
    for cost in [5_000, 70, 9_000, 64, 1, 127, 4_096, 0] {
        push(&mut queue, share, cost, cost, now).unwrap();
    }
    assert_eq!(
        push(&mut queue, share, 10_000, 1, now),
        None,
        "as many as it may have"
    );
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
    let mut queue = FairQueue::new(LANE_MAX, LIMITS);
    let [one, two] = shares(&[1, 1])[..] else {
        panic!("two")
    };
    for item in 0..4 {
        push(&mut queue, one, 10, item, now).unwrap();
        push(&mut queue, two, 10, 100 + item, now).unwrap();
    }
    let first = queue.pop(now, &drain()).unwrap();
    queue.finish(first.share, 10, 30);
    let expensive = first.content / 100;
    let taken = order(&mut queue, now);
    let is_expensive: Vec<_> = taken.iter().map(|item| item / 100 == expensive).collect();
    assert_eq!(is_expensive[..2], [false, false], "{taken:?}");
    // And when nothing of it waits any more, as long as something runs.
    push(&mut queue, one, 10, 0, now).unwrap();
    push(&mut queue, two, 10, 100, now).unwrap();
    let runs = [(), ()].map(|()| queue.pop(now, &drain()).unwrap());
    queue.finish(one, 10, 1_000);
    push(&mut queue, one, 10, 1, now).unwrap();
    push(&mut queue, two, 10, 101, now).unwrap();
    let next = queue.pop(now, &drain()).unwrap();
    assert_eq!((next.content, queue.running), (101, 2), "{runs:?}");
    queue.finish(two, 10, 10);
    queue.finish(two, 10, 10);
    assert_eq!(order(&mut queue, now), [1]);
    assert!(queue.lanes.is_empty(), "{queue:?}");
}

/// However large a weight is, whoever has it pays.
#[test]
fn a_large_weight_starves_nobody() {
    let now = Instant::now();
    let mut queue = FairQueue::new(5_000, LIMITS);
    let [large, small] = shares(&[1_000, 1])[..] else {
        panic!("two")
    };
    for item in 0..4_000 {
        push(&mut queue, large, 10, item, now).unwrap();
    }
    for item in 0..4 {
        push(&mut queue, small, 10, 10_000 + item, now).unwrap();
    }
    let taken = order(&mut queue, now);
    let places: Vec<_> = (0..4)
        .map(|item| {
            taken
                .iter()
                .position(|taken| *taken == 10_000 + item)
                .unwrap()
        })
        .collect();
    assert!(places[3] <= 3_010, "{places:?}");
    assert!(places[3] >= 2_990, "{places:?}");
}

#[test]
fn a_weight_changes_while_items_wait() {
    let now = Instant::now();
    let mut queue = FairQueue::new(100, LIMITS);
    let [one, two] = shares(&[1, 1])[..] else {
        panic!("two")
    };
    let raised = one.with_weight(NonZeroU32::new(3).unwrap());
    assert_eq!(raised.id(), one.id());
    for item in 0..40 {
        let share = if item == 0 { one } else { raised };
        push(&mut queue, share, 10, item, now).unwrap();
        push(&mut queue, two, 10, 100 + item, now).unwrap();
    }
    assert_eq!(queue.weights, 4);
    let first: Vec<_> = (0..40)
        .map(|_| pop(&mut queue, now).unwrap().content)
        .collect();
    let raised_count = first.iter().filter(|item| **item < 100).count();
    assert!((29..=31).contains(&raised_count), "{first:?}");
    order(&mut queue, now);
    assert_eq!(queue.weights, 0);
}

/// The lanes of tenants that have gone do not stay.
#[test]
fn tenants_that_are_not_ahead_are_forgotten() {
    let now = Instant::now();
    let mut queue = FairQueue::new(LANE_MAX, LIMITS);
    let busy = Share::default();
    for item in 0..1_000 {
        if queue.len() < 2 {
            push(&mut queue, busy, 10, item, now).unwrap();
            push(&mut queue, busy, 10, item, now).unwrap();
        }
        push(&mut queue, Share::default(), 10, item, now).unwrap();
        pop(&mut queue, now).unwrap();
        pop(&mut queue, now).unwrap();
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
    let limits = WaitLimits {
        longest: millis(1_000),
        target: millis(200),
        interval: millis(500),
    };
    let start = Instant::now();
    let mut queue = FairQueue::new(100_000, limits);
    let drain = DrainRate::new(1.0);
    let share = Share::default();
    let (mut longest, mut late, mut served) = (Duration::ZERO, 0, 0);
    for at in 0..10_000_u32 {
        let now = start + millis(1) * at;
        if at < 8_000 {
            push(&mut queue, share, MILLI, 2 * at, now).unwrap();
            push(&mut queue, share, MILLI, 2 * at + 1, now).unwrap();
        }
        // One item a millisecond is served.
        while let Some(taken) = queue.pop(now, &drain) {
            if !taken.is_late {
                queue.finish(share, MILLI, MILLI);
                served += 1;
                if (3_000..8_000).contains(&at) {
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
