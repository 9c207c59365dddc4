//! When a process asks for the lease, renews it, and believes that it leads.

use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A process that leads epoch 5 from 0 ms on, with a lease of 300 ms.
fn leading() -> Lease {
    let mut lease = Lease::new(ms(300));
    lease.saw(4);
    let call = lease.call(ms(0), true);
    assert_eq!(call, Some(LeaseCall::Acquire { seen: 4 }));
    let event = lease.acquired(ms(0), Acquired::Epoch(5), ms(10));
    assert_eq!(event, Some(LeaseEvent::Leads(5)));
    lease
}

#[test]
fn only_who_can_lead_asks_for_the_lease() {
    let mut lease = Lease::new(ms(300));
    assert_eq!(lease.call(ms(0), false), None);
    assert!(lease.call(ms(0), true).is_some());
    assert_eq!(lease.call(ms(1), true), None, "a call is in progress");
    lease.acquired(ms(0), Acquired::Held(ms(200)), ms(20));
    assert_eq!(lease.call(ms(219), true), None);
    assert!(lease.call(ms(220), true).is_some());
}

#[test]
fn a_lease_is_renewed_at_a_third_and_counts_from_the_question() {
    let mut lease = leading();
    assert_eq!(lease.call(ms(99), true), None);
    let call = lease.call(ms(100), true);
    assert_eq!(call, Some(LeaseCall::Renew { epoch: 5 }));
    let answer = lease.renewed(ms(100), Renewed::Renewed(true), ms(150));
    assert_eq!(answer, (None, true));
    assert_eq!(lease.check(ms(399)), None);
    let lost = Some(LeaseEvent::Lost(LostReason::Expired));
    assert_eq!(lease.check(ms(400)), lost);
    assert_eq!(lease.epoch(), None);
}

#[test]
fn a_leader_that_is_not_answered_asks_again_until_its_lease_is_over() {
    let mut lease = leading();
    assert!(lease.call(ms(100), true).is_some());
    assert_eq!(lease.failed(ms(150)), None);
    assert_eq!(lease.call(ms(174), true), None);
    assert!(lease.call(ms(175), true).is_some());
    let lost = Some(LeaseEvent::Lost(LostReason::Expired));
    assert_eq!(lease.failed(ms(300)), lost);
    let call = lease.call(ms(300), true);
    assert_eq!(call, Some(LeaseCall::Acquire { seen: 5 }));
}

#[test]
fn a_paused_process_does_not_lead_when_it_goes_on() {
    let mut lease = leading();
    assert!(lease.call(ms(100), true).is_some());
    let (event, _) = lease.renewed(ms(100), Renewed::Renewed(false), ms(5_000));
    assert_eq!(event, Some(LeaseEvent::Lost(LostReason::Expired)));
    // A lease that it was given just before it was paused.
    let mut lease = Lease::new(ms(300));
    assert!(lease.call(ms(0), true).is_some());
    assert_eq!(lease.acquired(ms(0), Acquired::Epoch(1), ms(300)), None);
    assert_eq!(lease.epoch(), None);
}

#[test]
fn an_epoch_exceeds_each_that_was_seen_meanwhile() {
    let mut lease = Lease::new(ms(300));
    assert!(lease.call(ms(0), true).is_some());
    lease.saw(7);
    assert_eq!(lease.acquired(ms(0), Acquired::Epoch(7), ms(10)), None);
    let call = lease.call(ms(10), true);
    assert_eq!(call, Some(LeaseCall::Acquire { seen: 7 }));
    let event = lease.acquired(ms(10), Acquired::Epoch(8), ms(20));
    assert_eq!(event, Some(LeaseEvent::Leads(8)));
}

#[test]
fn a_late_answer_is_ignored() {
    let mut lease = Lease::new(ms(300));
    assert!(lease.call(ms(0), true).is_some());
    lease.failed(ms(100));
    assert_eq!(lease.acquired(ms(0), Acquired::Epoch(1), ms(110)), None);
    assert_eq!(lease.epoch(), None);
}

#[test]
fn a_refused_entry_ends_the_epoch_it_is_of() {
    let mut lease = leading();
    assert_eq!(lease.refused(4, Some(5), ms(50)), None);
    let lost = Some(LeaseEvent::Lost(LostReason::Fenced));
    assert_eq!(lease.refused(5, Some(8), ms(50)), lost);
    let call = lease.call(ms(50), true);
    assert_eq!(call, Some(LeaseCall::Acquire { seen: 5 }));
    let mut lease = leading();
    let lost = Some(LeaseEvent::Lost(LostReason::Store));
    assert_eq!(lease.refused(5, None, ms(50)), lost);
    let mut lease = leading();
    assert!(lease.call(ms(100), true).is_some());
    let (event, _) = lease.renewed(ms(100), Renewed::Lost(6), ms(101));
    assert_eq!(event, Some(LeaseEvent::Lost(LostReason::Fenced)));
}

#[test]
fn a_process_that_ends_gives_the_lease_back() {
    let mut lease = leading();
    let lost = Some(LeaseEvent::Lost(LostReason::Released));
    assert_eq!(lease.released(ms(50), ms(900)), lost);
    assert_eq!(lease.call(ms(949), true), None);
    assert!(lease.call(ms(950), true).is_some());
    assert_eq!(lease.acquired(ms(950), Acquired::Exhausted, ms(960)), None);
    assert_eq!(lease.call(ms(1_009), true), None);
    assert!(lease.call(ms(1_010), true).is_some());
}
