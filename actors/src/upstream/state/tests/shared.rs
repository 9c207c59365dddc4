//! State and access lists that other processes of a fleet hold too.

use std::sync::atomic::{AtomicUsize, Ordering};

use alloy_primitives::B256;
use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use nearhead_chain::changes::AccessList;
use serde_json::Value;
use tokio::sync::Notify;

use super::{
    access_lists::{hash_of, honest as listing, list, reading},
    *,
};
use crate::{read::ask, saved::WantedState};

/// Other processes, of which it is known what they have.
#[derive(Debug)]
struct Others {
    got: Got,
    /// Whether they have it only once this process has got it for them.
    waits: bool,
    given: Notify,
    given_back: AtomicUsize,
    lists_given: AtomicUsize,
}

impl Others {
    fn of(scene: &Scene, got: Got, waits: bool) -> Arc<Self> {
        let others = Arc::new(Self {
            got,
            waits,
            given: Notify::new(),
            given_back: AtomicUsize::new(0),
            lists_given: AtomicUsize::new(0),
        });
        scene.source.share_with(others.clone());
        others
    }
}

impl SharedState for Others {
    fn get<'a>(&'a self, _: &'a BlockRef, _: Vec<WantedState>) -> BoxFuture<'a, Got> {
        let get = async {
            if self.waits {
                self.given.notified().await;
            }
            self.got
        };
        get.boxed()
    }

    fn give_back<'a>(&'a self, _: &'a BlockRef, wanted: &'a [WantedState]) -> BoxFuture<'a, ()> {
        assert_eq!(wanted.len(), 1);
        self.given_back.fetch_add(1, Ordering::Relaxed);
        async {}.boxed()
    }

    fn give<'a>(&'a self, _: &'a NodeStore) -> BoxFuture<'a, ()> {
        self.given.notify_one();
        async {}.boxed()
    }

    fn get_list<'a>(&'a self, _: &'a BlockRef, hash: B256) -> BoxFuture<'a, Got<Bytes>> {
        assert_eq!(hash, hash_of(&list()));
        async { self.got.map(|()| list().to_string().into()) }.boxed()
    }

    fn give_back_list(&self, hash: B256) -> BoxFuture<'_, ()> {
        assert_eq!(hash, hash_of(&list()));
        self.given_back.fetch_add(1, Ordering::Relaxed);
        async {}.boxed()
    }

    fn give_list(&self, hash: B256, rlp: Bytes) -> BoxFuture<'_, ()> {
        assert!(AccessList::of_rlp(&rlp, hash).is_some());
        self.lists_given.fetch_add(1, Ordering::Relaxed);
        async {}.boxed()
    }
}

/// A read waits until this process itself serves its want: that asks the nodes, and does not wait
/// for the read.
#[actix::test]
async fn a_want_does_not_join_the_fetch_that_waits_for_it() {
    let scene = Scene::of(&[honest]).await;
    let _others = Others::of(&scene, Got::Held(()), true);
    let read = actix::spawn(scene.worker.proofs.send(scene.read_storage(3, 7)));
    let flights = &scene.source.shared.single_flight;
    until("the read waits", || flights.waiting() == 1).await;
    let block = BlockRef::of(&block(&scene.source.shared.store)).unwrap();
    let wanted = WantedState {
        address: address(3),
        slots: vec![U256::from(7)],
        with_code: false,
    };
    let fetch = scene.source.fetch_for_others(&block, wanted);
    let fetched = tokio::time::timeout(Duration::from_secs(60), fetch).await;
    assert!(matches!(fetched, Ok(Ok(()))), "{fetched:?}");
    assert_eq!(read.await.unwrap().unwrap().unwrap(), stored(3, 7));
    assert_eq!(scene.calls(0), 1);
    scene.wait_until_idle().await;
}

fn failing(_: &RecordedCall) -> UpstreamReply {
    UpstreamReply::http(500, "", "")
}

/// A turn is given back if the nodes fail, and kept until others have what they gave.
#[actix::test]
async fn a_turn_is_given_back_if_nodes_fail() {
    for (respond, expected) in [(honest as Respond, 0), (failing as Respond, 1)] {
        let scene = Scene::of(&[respond]).await;
        let others = Others::of(&scene, Got::AskNodes, false);
        let value = ask(&scene.worker.proofs, scene.read_storage(3, 7)).await;
        assert_eq!(value.is_err(), expected == 1, "{value:?}");
        assert_eq!(others.given_back.load(Ordering::Relaxed), expected);
    }
}

/// State that no node of any process has is absent here, as at a process with nodes.
#[actix::test]
async fn what_others_have_asked_nodes_for_in_vain_is_unavailable() {
    for (got, is_final) in [(Got::StateUnavailable, true), (Got::Nothing, false)] {
        let scene = Scene::of(&[]).await;
        let _others = Others::of(&scene, got, false);
        let value = ask(&scene.worker.proofs, scene.read_storage(3, 7)).await;
        let error = value.unwrap_err();
        match is_final {
            true => assert!(matches!(error, QueryError::StateUnavailable), "{error:?}"),
            false => assert!(matches!(error, QueryError::Unavailable), "{error:?}"),
        }
    }
}

/// A list that others have is asked of no node. One that nobody has is given to others, or the turn
/// is given back.
#[actix::test]
async fn a_list_is_asked_of_nodes_if_nobody_has_it() {
    for (got, respond, calls, given, given_back) in [
        (Got::Held(()), listing as Respond, 0, 0, 0),
        (Got::AskNodes, listing, 1, 1, 0),
        (Got::AskNodes, failing, 1, 0, 1),
    ] {
        let scene = reading(&[respond], Some(hash_of(&list()))).await;
        let others = Others::of(&scene, got, false);
        // What was found is held.
        for _ in 0..2 {
            let found = scene.find_access_list().await;
            assert_eq!(found.is_err(), given_back > 0);
            if let Ok(json) = found {
                let json = json.unwrap().into_bytes();
                assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), list());
            } else {
                break;
            }
        }
        assert_eq!(scene.calls(0), calls);
        let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        until("given", || count(&others.lists_given) == given).await;
        assert_eq!(count(&others.given_back), given_back);
    }
}

/// One that another process wants is given as soon as a node has sent it, and only then: who serves
/// the want gives one that is held.
#[actix::test]
async fn a_list_for_others_is_shared_once() {
    let scene = reading(&[listing], Some(hash_of(&list()))).await;
    let others = Others::of(&scene, Got::AskNodes, false);
    let head = scene.snapshot.head();
    let (block, wanted) = (BlockRef::of(head).unwrap(), ListRef::of(head).unwrap());
    for is_shared in [true, false] {
        let fetched = scene.source.fetch_list_for_others(&block, wanted).await;
        assert_eq!(fetched.unwrap().is_shared, is_shared);
    }
    let count = || others.lists_given.load(Ordering::Relaxed);
    until("given", || count() == 1).await;
    assert_eq!(scene.calls(0), 1);
}

/// A list that no node of any process has is absent here too.
#[actix::test]
async fn a_list_that_nobody_gets_is_absent() {
    for (got, is_final) in [(Got::StateUnavailable, true), (Got::Nothing, false)] {
        let scene = reading(&[], Some(hash_of(&list()))).await;
        let _others = Others::of(&scene, got, false);
        let error = scene.find_access_list().await.unwrap_err();
        assert_eq!(
            matches!(error, QueryError::StateUnavailable),
            is_final,
            "{error:?}"
        );
        assert_eq!(
            matches!(error, QueryError::Unavailable),
            !is_final,
            "{error:?}"
        );
    }
}
