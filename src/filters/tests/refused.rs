//! Answers that are refused or given up lose nothing.

use std::task::{Context, Poll, Waker};

use serde_json::{Value, json};

use super::scene::{Scene, log, now, parsed, request, worker};
use crate::{
    limits::{FILTERS_PER_TENANT_MAX, LOGS_MAX},
    rpc::{Dispatcher, Via},
};

/// A log whose JSON has some 4.2 MB.
const LARGE: usize = 2_100_000;

async fn filter_of_all(scene: &Scene) -> Value {
    scene.result("eth_newFilter", json!([{}])).await
}

#[actix::test]
async fn a_reply_that_finds_no_memory_is_given_again() {
    let mut scene = Scene::start().await;
    let id = filter_of_all(&scene).await;
    scene.advance(0, vec![vec![log(1, &[], 50_000)]]).await;
    let enough = scene.dispatcher.clone();
    scene.dispatcher = Dispatcher {
        worker: worker(1),
        ..enough.clone()
    };
    for _ in 0..2 {
        let refused = scene.call("eth_getFilterChanges", json!([id])).await;
        assert_eq!(refused["error"]["code"], -32003, "{refused}");
        let ask = request("eth_getFilterChanges", &json!([id]));
        let refused = scene.answer(&json!([ask, ask])).await;
        assert_eq!(refused["error"]["code"], -32003, "{refused}");
    }
    scene.dispatcher = enough;
    assert_eq!(scene.changes(&id).await.len(), 1);
    assert_eq!(scene.changes(&id).await.len(), 0);
}

/// The answers of a batch have 25 MB: the first that has no room, and all after it, are refused.
#[actix::test]
async fn an_item_that_has_no_room_in_its_batch_is_given_again() {
    let mut scene = Scene::start().await;
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(filter_of_all(&scene).await);
    }
    scene.advance(0, vec![vec![log(1, &[], LARGE)]]).await;
    let batch: Vec<Value> = ids
        .iter()
        .map(|id| request("eth_getFilterChanges", &json!([id])))
        .collect();
    let answers = scene.answer(&json!(batch)).await;
    let mut refused = 0;
    for (id, answer) in ids.iter().zip(answers.as_array().unwrap()) {
        let is_refused = answer["error"]["code"] == -32003;
        refused += usize::from(is_refused);
        assert_eq!(scene.changes(id).await.len(), usize::from(is_refused));
    }
    assert!((2..8).contains(&refused), "{refused} are refused");
}

#[actix::test]
async fn the_items_of_a_batch_share_a_filter() {
    let mut scene = Scene::start().await;
    let id = filter_of_all(&scene).await;
    scene.advance(0, vec![vec![log(1, &[], 1)]]).await;
    let ask = request("eth_getFilterChanges", &json!([id]));
    let answers = scene.answer(&json!([ask, ask])).await;
    let counts = [0, 1].map(|at| answers[at]["result"].as_array().unwrap().len());
    assert_eq!(counts, [1, 0]);
    assert_eq!(scene.changes(&id).await.len(), 0);
}

/// A client that leaves while its answer is made gets it when it comes again, however far it was.
#[actix::test]
async fn an_answer_that_is_given_up_is_given_again() {
    let mut scene = Scene::start().await;
    let id = filter_of_all(&scene).await;
    scene.advance(0, vec![vec![log(1, &[], 1)]]).await;
    let body = request("eth_getFilterChanges", &json!([id])).to_string();
    let mut polls = 0;
    'ready: loop {
        let (dispatcher, key) = (scene.dispatcher.clone(), scene.keys[0].clone());
        let mut answer = Box::pin(dispatcher.answer(&key, body.as_bytes(), now(), Via::default()));
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..=polls {
            if let Poll::Ready(answer) = answer.as_mut().poll(&mut cx) {
                let found = parsed(answer);
                assert_eq!(found["result"].as_array().unwrap().len(), 1, "{found}");
                break 'ready;
            }
            tokio::task::yield_now().await;
        }
        // It is dropped.
        polls += 1;
    }
    assert!(polls > 0, "it was never given up");
    assert_eq!(scene.changes(&id).await.len(), 0);
}

/// Many logs come in several answers, of whole blocks.
#[actix::test]
async fn an_answer_has_some_logs_and_the_next_one_the_others() {
    let mut scene = Scene::start().await;
    let id = filter_of_all(&scene).await;
    let most = LOGS_MAX;
    let sizes = [most / 2, most / 2, 1, most + 5, 0, 7];
    let blocks = sizes.map(|logs| vec![log(1, &[], 0); logs]);
    scene.advance(0, blocks.to_vec()).await;
    let mut found = Vec::new();
    for expected in [most, 1, most + 5, 7, 0] {
        let logs = scene.changes(&id).await;
        assert_eq!(logs.len(), expected);
        found.extend(logs);
    }
    let all = scene.result("eth_getFilterLogs", json!([id])).await;
    // The head alone.
    assert_eq!(all.as_array().unwrap().len(), 7);
    let mut distinct: Vec<String> = found.iter().map(Value::to_string).collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), sizes.iter().sum::<usize>());
}

#[actix::test]
async fn a_tenant_has_so_many_filters_and_values() {
    let scene = Scene::start().await;
    let values: Vec<String> = (0..5_000).map(|at| format!("{at:#042x}")).collect();
    let large = json!([{"address": values}]);
    let too_many = |what: &str, most: &str| json!({"code": -32000, "message": format!("{what}, at most {most} a project ID")});
    let mut ids = Vec::new();
    let refused = loop {
        let mut answer = scene.call("eth_newFilter", large.clone()).await;
        match answer.get("error") {
            Some(error) => break error.clone(),
            None => ids.push(answer["result"].take()),
        }
    };
    let what = "too many addresses and topics in filters";
    assert_eq!((ids.len(), refused), (20, too_many(what, "100000")));
    // Without such values there is room.
    let ask = request("eth_newBlockFilter", &json!([]));
    for _ in ids.len() / 500..FILTERS_PER_TENANT_MAX / 500 {
        let answers = scene.answer(&json!(vec![&ask; 500])).await;
        let made = answers.as_array().unwrap().iter();
        ids.extend(made.filter_map(|answer| answer.get("result").cloned()));
    }
    assert_eq!(ids.len(), FILTERS_PER_TENANT_MAX);
    let refused = scene.call("eth_newBlockFilter", json!([])).await;
    assert_eq!(refused["error"], too_many("too many filters", "10000"));
    // Removed filters make room, and one that had many values.
    for id in &ids[..1] {
        let removed = scene.result("eth_uninstallFilter", json!([id])).await;
        assert_eq!(removed, true);
    }
    scene.result("eth_newFilter", large).await;
}
