use std::num::NonZeroU32;

use super::*;
use crate::{
    admission::{FairPermit, REMOTE_MAX},
    read::ask,
};

#[actix::test]
async fn a_miss_is_fetched_once_and_then_a_hit() {
    let scene = Scene::of(&[honest]).await;
    for (hits, slot) in [(0, 5), (1, 5), (2, 5)] {
        let value = ask(&scene.worker.proofs, scene.read_storage(0, slot)).await;
        assert_eq!(value.unwrap(), stored(0, slot));
        assert_eq!(scene.counts(), ([hits, 1], [1, 0, 0]));
    }
    // The account came with the same proof, so it is a hit too.
    let account = ask(&scene.worker.proofs, scene.read_account(0)).await;
    assert_eq!(account.unwrap(), FULL.account(&address(0)).unwrap());
    assert_eq!(scene.counts(), ([3, 1], [1, 0, 0]));
    scene.wait_until_idle().await;
}

#[actix::test]
async fn equal_reads_share_one_call() {
    let scene = Scene::of(&[honest]).await;
    let reads: Vec<_> = (0..50)
        .map(|_| actix::spawn(scene.worker.proofs.send(scene.read_storage(3, 7))))
        .collect();
    for read in reads {
        assert_eq!(read.await.unwrap().unwrap().unwrap(), stored(3, 7));
    }
    assert_eq!(scene.calls(0), 1);
    let ([hits, misses], _) = scene.counts();
    assert_eq!(hits + misses, 50);
    scene.wait_until_idle().await;
}

#[actix::test]
async fn absence_is_proved() {
    let scene = Scene::of(&[honest]).await;
    let absent = ACCOUNTS + 1;
    for _ in 0..2 {
        let value = ask(&scene.worker.proofs, scene.read_storage(absent, 1)).await;
        assert_eq!(value.unwrap(), U256::ZERO);
        let account = ask(&scene.worker.proofs, scene.read_account(absent)).await;
        assert_eq!(account.unwrap(), None);
        let code = ask(&scene.worker.proofs, scene.read_code(absent)).await;
        assert_eq!(code.unwrap(), Bytes::new());
    }
    assert_eq!(scene.upstreams[0].methods(), ["eth_getProof"]);
    // An absent slot of an account that exists.
    let value = ask(&scene.worker.proofs, scene.read_storage(3, 1_000)).await;
    assert_eq!(value.unwrap(), U256::ZERO);
    assert_eq!(scene.calls(0), 2);
}

#[actix::test]
async fn code_is_fetched_if_the_account_has_any() {
    let scene = Scene::of(&[honest]).await;
    for _ in 0..2 {
        for (account, expected) in [(3, code(3)), (1, Bytes::new())] {
            let found = ask(&scene.worker.proofs, scene.read_code(account)).await;
            assert_eq!(found.unwrap(), expected);
        }
    }
    let expected = ["eth_getProof", "eth_getCode", "eth_getProof"];
    assert_eq!(scene.upstreams[0].methods(), expected);
    // For a resident account only the code is fetched.
    let account = ask(&scene.worker.proofs, scene.read_account(6)).await;
    assert!(account.unwrap().is_some());
    let found = ask(&scene.worker.proofs, scene.read_code(6)).await;
    assert_eq!(found.unwrap(), code(6));
    assert_eq!(
        scene.upstreams[0].methods()[3..],
        ["eth_getProof", "eth_getCode"]
    );
}

#[actix::test]
async fn proofs_of_many_keys_go_through_the_pool() {
    let scene = Scene::of(&[honest]).await;
    for keys in [1_024, 1_024, 1_025, 3] {
        let json = ask(&scene.worker.proofs, scene.prove(0, keys)).await;
        let expected = proof(&FULL, address(0), keys_to(keys), usize::MAX).unwrap();
        assert_eq!(json.unwrap().into_bytes(), expected.into_bytes(), "{keys}");
    }
    // For the second and the last everything was resident; the third lacked one slot.
    let calls = scene.upstreams[0].calls.lock();
    let slots: Vec<_> = calls
        .iter()
        .map(|call| call.params[1].as_array().unwrap().len())
        .collect();
    assert_eq!(slots, [1_024, 1]);
    assert_eq!(scene.counts().0, [2, 2]);
    let waiting = scene.resources.queues().map(|queue| queue.waiting);
    assert_eq!(waiting, [0; 6]);
}

#[actix::test]
async fn values_of_many_accounts_are_fetched_concurrently() {
    let scene = Scene::of(&[honest]).await;
    // A part is resident already.
    for account in [0, 3] {
        let value = ask(&scene.worker.proofs, scene.read_storage(account, 1)).await;
        assert_eq!(value.unwrap(), stored(account, 1));
    }
    let wanted: Vec<(u64, Vec<u64>)> = (0..ACCOUNTS + 5).map(|at| (at, vec![1, 2])).collect();
    let expected: Vec<Vec<U256>> = wanted
        .iter()
        .map(|(account, slots)| slots.iter().map(|slot| stored(*account, *slot)).collect())
        .collect();
    for _ in 0..2 {
        let found = ask(&scene.worker.proofs, scene.read_values(&wanted)).await;
        assert_eq!(found.unwrap(), expected);
    }
    assert!((2..=ACCOUNTS_AT_ONCE).contains(&scene.upstreams[0].in_progress_max()));
    let calls = scene.upstreams[0].calls.lock().clone();
    assert!(calls.len() <= wanted.len() + 2);
    let of_first = calls
        .iter()
        .filter(|call| call.params[0] == format!("{:#x}", address(0)));
    let slots: Vec<_> = of_first
        .map(|call| call.params[1].as_array().unwrap().len())
        .collect();
    assert_eq!(slots, [1, 1], "resident slots are not fetched again");
    scene.wait_until_idle().await;
}

#[actix::test]
async fn an_account_without_slots_is_not_fetched() {
    let scene = Scene::of(&[honest]).await;
    let wanted = [(3, vec![1]), (6, Vec::new()), (9, Vec::new())];
    let found = ask(&scene.worker.proofs, scene.read_values(&wanted)).await;
    assert_eq!(found.unwrap(), [vec![stored(3, 1)], vec![], vec![]]);
    assert_eq!(scene.calls(0), 1);
}

#[actix::test]
async fn a_dropped_read_aborts_a_fetch_without_other_waiters() {
    let scene = Scene::of(&[|_| UpstreamReply::Silence]).await;
    let holders = Arc::strong_count(&scene.source.shared);
    let read = || actix::spawn(scene.worker.proofs.send(scene.read_storage(0, 1)));
    let single_flight = &scene.source.shared.single_flight;
    let (first, second) = (read(), read());
    until("both wait", || single_flight.waiting() == 2).await;
    scene.upstreams[0].arrived.notified().await;
    assert_eq!(
        (
            single_flight.len(),
            scene.resources.admission.remote.in_use()
        ),
        (1, 2)
    );
    first.abort();
    until("one is gone", || single_flight.waiting() == 1).await;
    assert_eq!(single_flight.len(), 1);
    second.abort();
    scene.wait_until_idle().await;
    until("the task is gone", || {
        Arc::strong_count(&scene.source.shared) == holders
    })
    .await;
    assert_eq!(scene.calls(0), 1);
    // A later read asks again.
    let third = read();
    until("it asks", || scene.calls(0) == 2).await;
    drop(third);
}

/// Every permit to wait for accounts, for tenants that come and take all that they may.
fn take_all(scene: &Scene) -> Vec<FairPermit> {
    let remote = &scene.resources.admission.remote;
    let mut all = Vec::new();
    while remote.available() > 0 {
        let share = CallBudget::default().share();
        all.extend(std::iter::from_fn(|| remote.take(share).ok()));
    }
    all
}

#[actix::test]
async fn a_miss_without_a_permit_is_refused() {
    let scene = Scene::of(&[honest]).await;
    let all = take_all(&scene);
    let refused = ask(&scene.worker.proofs, scene.read_storage(0, 1)).await;
    assert!(
        matches!(refused, Err(QueryError::Overloaded { .. })),
        "{refused:?}"
    );
    let refused = ask(&scene.worker.proofs, scene.prove(0, 100)).await;
    assert!(
        matches!(refused, Err(QueryError::Overloaded { .. })),
        "{refused:?}"
    );
    assert_eq!(scene.calls(0), 0);
    drop(all);
    let value = ask(&scene.worker.proofs, scene.read_storage(0, 1)).await;
    assert_eq!(value.unwrap(), stored(0, 1));
    // A hit needs none.
    let all = take_all(&scene);
    let value = ask(&scene.worker.proofs, scene.read_storage(0, 1)).await;
    assert_eq!(value.unwrap(), stored(0, 1));
    drop(all);
    scene.wait_until_idle().await;
}

/// Accounts that a tenant may wait for that is alone: a quarter is left for others.
const ALONE_MAX: usize = REMOTE_MAX - REMOTE_MAX / 4;

/// A tenant whose reads wait for an upstream that stalls leaves room for the reads of others.
#[actix::test]
async fn a_tenant_over_its_accounts_is_refused_and_others_are_not() {
    let mut scene = Scene::of(&[
        |call| match call.params[0] == format!("{:#x}", address(3)) {
            true => honest(call),
            false => UpstreamReply::Silence,
        },
    ])
    .await;
    let first = scene.budget.clone();
    let waiting: Vec<_> = (0..ALONE_MAX)
        .map(|_| actix::spawn(scene.worker.proofs.send(scene.read_storage(0, 0))))
        .collect();
    let remote = || scene.resources.admission.remote.in_use();
    until("they wait", || remote() == ALONE_MAX).await;
    for read in [scene.read_storage(3, 0), scene.read_storage(0, 0)] {
        let refused = ask(&scene.worker.proofs, read).await;
        assert!(
            matches!(refused, Err(QueryError::Overloaded { .. })),
            "{refused:?}"
        );
    }
    scene.budget = CallBudget::default();
    let value = ask(&scene.worker.proofs, scene.read_storage(3, 0)).await;
    assert_eq!(value.unwrap(), stored(3, 0));
    // What is held needs no budget.
    scene.budget = first;
    let value = ask(&scene.worker.proofs, scene.read_storage(3, 0)).await;
    assert_eq!(value.unwrap(), stored(3, 0));
    waiting.iter().for_each(|read| read.abort());
    scene.wait_until_idle().await;
}

#[actix::test]
async fn a_tenant_over_its_calls_a_second_is_refused_and_others_are_not() {
    let mut scene = Scene::of(&[honest]).await;
    // So few that the bucket does not refill during the test: code takes two.
    scene.budget = CallBudget::new(NonZeroU32::new(2), NonZeroU32::MIN);
    let found = ask(&scene.worker.proofs, scene.read_code(3)).await;
    assert_eq!(found.unwrap(), code(3));
    // Now it is in debt.
    scene.budget = CallBudget::new(NonZeroU32::new(1), NonZeroU32::MIN);
    let many: Vec<(u64, Vec<u64>)> = (0..ACCOUNTS).map(|at| (at, vec![1])).collect();
    assert!(
        ask(&scene.worker.proofs, scene.read_values(&many))
            .await
            .is_ok()
    );
    let calls = scene.calls(0);
    let refused = ask(&scene.worker.proofs, scene.read_storage(3, 2)).await;
    assert!(
        matches!(refused, Err(QueryError::Overloaded { .. })),
        "{refused:?}"
    );
    assert_eq!(scene.calls(0), calls);
    // What is held is read, and another tenant may ask.
    let value = ask(&scene.worker.proofs, scene.read_storage(3, 1)).await;
    assert_eq!(value.unwrap(), stored(3, 1));
    scene.budget = CallBudget::default();
    let value = ask(&scene.worker.proofs, scene.read_storage(3, 2)).await;
    assert_eq!(value.unwrap(), stored(3, 2));
    scene.wait_until_idle().await;
}

#[actix::test]
async fn evicted_state_is_fetched_again() {
    let store = NodeStore::bounded(40_000);
    let scene = Scene::over(&store, &[honest]).await;
    for round in 0..3 {
        for account in 0..ACCOUNTS {
            let value = ask(&scene.worker.proofs, scene.read_storage(account, round)).await;
            assert_eq!(value.unwrap(), stored(account, round));
        }
    }
    let ([hits, misses], [verified, refuted, failed]) = scene.counts();
    assert_eq!((hits + misses, refuted + failed), (180, 0));
    assert!(
        misses > ACCOUNTS && verified >= misses,
        "{misses} {verified}"
    );
}

#[actix::test]
async fn a_store_that_is_too_small_ends_the_read_after_three_calls() {
    let store = NodeStore::bounded(1);
    let scene = Scene::over(&store, &[honest]).await;
    let read = ask(&scene.worker.proofs, scene.read_storage(0, 1)).await;
    assert!(matches!(read, Err(QueryError::Unavailable)), "{read:?}");
    assert_eq!(scene.calls(0), 3);
}
