//! Whose state is asked for first.

use super::*;

/// An upstream that is asked for one thing at a time.
async fn one_at_a_time() -> Scene {
    let served = vec![Script::answering(honest).serve().await];
    let limits = CallLimits {
        concurrency: 1,
        ..LIMITS
    };
    Scene::with_limits(&NodeStore::new(), served, limits)
}

/// The place of an account among those that the upstream was asked for.
fn place(scene: &Scene, account: u64) -> usize {
    let calls = scene.upstreams[0].calls.lock();
    let is_it = |call: &RecordedCall| call.params[0] == format!("{:#x}", address(account));
    calls.iter().position(is_it).unwrap()
}

/// A tenant reads many accounts, and then another one reads one, which the first one may read too.
async fn check_second_is_early(account: u64) {
    const MANY: u64 = 40;
    let mut scene = one_at_a_time().await;
    let read = |scene: &Scene, account| {
        actix::spawn(scene.worker.proofs.send(scene.read_account(account)))
    };
    let mut reads: Vec<_> = (0..MANY).map(|account| read(&scene, account)).collect();
    until("all are asked for", || scene.counts().0 == [0, MANY]).await;
    scene.budget = CallBudget::default();
    reads.push(read(&scene, account));
    for read in reads {
        assert!(read.await.unwrap().unwrap().is_ok());
    }
    // Those that were asked for before the second tenant came, and one or two of the first one's.
    let found = place(&scene, account);
    assert!(found < MANY as usize / 2, "{account} was number {found}");
}

#[actix::test]
async fn a_tenant_does_not_wait_for_all_accounts_of_another_one() {
    check_second_is_early(ACCOUNTS - 1).await;
}

#[actix::test]
async fn nor_if_both_read_the_same_account() {
    check_second_is_early(39).await;
}
