//! The connection of a line, and callers that do not wait for it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use alloy_primitives::B256;
use futures_util::{FutureExt as _, future::join_all};
use tokio::{sync::Semaphore, task};

use crate::fleet::store::{
    FleetStore, StoreFault,
    fake_server::{FakeServer, NIL, list},
};

/// A server that has no item, and answers as often as it is allowed to.
struct Scene {
    server: FakeServer,
    store: FleetStore,
    allowed: Arc<Semaphore>,
    asked: Arc<AtomicUsize>,
}

impl Scene {
    async fn new() -> Self {
        let allowed = Arc::new(Semaphore::new(0));
        let asked = Arc::<AtomicUsize>::default();
        let (permits, count) = (Arc::clone(&allowed), Arc::clone(&asked));
        let server = FakeServer::start(move |_| {
            let permits = Arc::clone(&permits);
            count.fetch_add(1, Ordering::Relaxed);
            async move {
                permits.acquire().await.unwrap().forget();
                list(&[NIL.to_vec()])
            }
        });
        let server = server.await;
        Self {
            store: server.store(),
            server,
            allowed,
            asked,
        }
    }

    /// Waits until so many calls were sent.
    async fn sent(&self, count: usize) {
        while self.asked.load(Ordering::Relaxed) < count {
            task::yield_now().await;
        }
    }
}

/// Callers that go away in the middle of an exchange cost nobody the connection.
#[tokio::test]
async fn an_exchange_goes_on_without_its_caller() {
    let scene = Scene::new().await;
    let (store, key) = (&scene.store, [B256::ZERO]);
    for round in 0..20 {
        // It is sent, and not answered.
        tokio::select! {
            _ = store.get_items(&key) => panic!("answered"),
            () = scene.sent(2 * round + 1) => {}
        }
        scene.allowed.add_permits(2);
        assert_eq!(store.get_items(&key).await, Ok(vec![None]));
    }
    assert_eq!(scene.server.connections(), 1);
}

/// Callers that leave while they wait for their turn are not asked for.
#[tokio::test]
async fn who_waits_for_a_turn_and_leaves_is_forgotten() {
    let scene = Scene::new().await;
    let (store, key) = (&scene.store, [B256::ZERO]);
    let mut first = Box::pin(store.get_items(&key));
    assert_eq!(first.as_mut().now_or_never(), None);
    for _ in 0..1_000 {
        assert_eq!(store.get_items(&key).now_or_never(), None);
    }
    scene.allowed.add_permits(2);
    assert_eq!(first.await, Ok(vec![None]));
    assert_eq!(store.get_items(&key).await, Ok(vec![None]));
    assert_eq!(scene.asked.load(Ordering::Relaxed), 2);
    assert_eq!(scene.server.connections(), 1);
}

/// A call that does not get its turn says so: the store may be as fast as ever.
#[tokio::test]
async fn a_wait_for_other_calls_is_no_fault_of_the_store() {
    let none = |_| list(&[NIL.to_vec()]);
    let server = FakeServer::slow(Duration::from_millis(100), none).await;
    let store = server.store();
    // All together take longer than one may wait.
    let ends = join_all((0..12).map(|_| store.get_items(&[B256::ZERO]))).await;
    let faults = ends.iter().filter_map(|end| end.as_ref().err());
    let faults: Vec<&StoreFault> = faults.map(|error| error.fault()).collect();
    assert!(!faults.is_empty() && faults.len() < 12, "{faults:?}");
    let is_it = |fault: &&StoreFault| matches!(fault, StoreFault::NotAsked(_));
    assert!(faults.iter().all(is_it), "{faults:?}");
    assert_eq!(server.connections(), 1);
}
