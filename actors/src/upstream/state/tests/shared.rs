//! State that other processes of a fleet hold too.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::sync::Notify;

use super::*;
use crate::{read::ask, saved::WantedState};

/// Other processes, of which it is known what they have.
#[derive(Debug)]
struct Others {
    got: Got,
    /// Whether they have it only once this process has got it for them.
    waits: bool,
    given: Notify,
    given_back: AtomicUsize,
}

impl Others {
    fn of(scene: &Scene, got: Got, waits: bool) -> Arc<Self> {
        let others = Arc::new(Self {
            got,
            waits,
            given: Notify::new(),
            given_back: AtomicUsize::new(0),
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
}

/// A read waits until this process itself serves its want: that asks the nodes, and does not wait
/// for the read.
#[actix::test]
async fn a_want_does_not_join_the_fetch_that_waits_for_it() {
    let scene = Scene::of(&[honest]).await;
    let _others = Others::of(&scene, Got::Held, true);
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
