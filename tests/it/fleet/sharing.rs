//! State that processes share, in a real store: items, turns and wants.

use std::time::Duration;

use alloy_primitives::{B256, Bytes, hex, keccak256};
use nearhead_actors::fleet::store::FleetStore;
use nearhead_fleet::bounds::{
    ITEM_BYTES_MAX, ITEMS_AT_ONCE, ITEMS_BYTES_MAX, STATE_WAIT_MAX, TURN, UNAVAILABLE_LIFETIME,
    WANTS_MAX,
};
use serde_json::json;
use tokio::time;

use super::{
    redis::Redis,
    stage::{Stage, leads, wait_heads},
    store_access::Access,
};
use crate::{
    harness::{check, wait_until},
    upstreams::proxy::{Change, Fault, Lie, Proxy},
};

/// Connections that a server has been asked for.
fn connections(redis: &Redis) -> u64 {
    let stats = redis.call(&[b"INFO", b"stats"]);
    let (_, rest) = stats.split_once("total_connections_received:").unwrap();
    rest.split('\r').next().unwrap().parse().unwrap()
}

/// Readers that go away while the store is slow cost the others nothing: neither their answer nor
/// the connection.
#[test]
fn readers_that_leave_cost_the_others_nothing() {
    let redis = Redis::start_with("fleet-sharing-leave", &[]);
    let access = Access::to(&redis.url());
    let store = access.open("a");
    let hash = [keccak256(b"item")];
    let item = [(hash[0], Bytes::from_static(b"item"))];
    check("put", &access.run(store.put_items(&item)), &Ok(1));
    let get = || access.run(store.get_items(&hash));
    let expected = Ok(vec![Some(item[0].1.clone())]);
    check("got", &get(), &expected);
    let before = connections(&redis);
    for round in 0..10 {
        redis.process().freeze();
        let call = async {
            let call = store.get_items(&hash);
            time::timeout(Duration::from_millis(10), call).await
        };
        assert!(access.run(call).is_err(), "answered by a server that hangs");
        redis.process().thaw();
        check(&format!("after {round}"), &get(), &expected);
    }
    check(
        "connections, besides that of the question",
        &connections(&redis),
        &(before + 1),
    );
}

/// False items, as large as items may be: the reply keeps its bound, and they can be dropped.
#[test]
fn large_false_items_leave_the_reply_its_bound() {
    let redis = Redis::start_with("fleet-sharing-large", &[]);
    let access = Access::to(&redis.url());
    let store = access.open("a");
    let hashes: Vec<B256> = (0..ITEMS_AT_ONCE as u64)
        .map(|at| keccak256(at.to_be_bytes()))
        .collect();
    let large = [0; ITEM_BYTES_MAX];
    let [older, newer] = ["items-0", "items-1"].map(|key| access.key(key));
    for (at, hash) in hashes.iter().enumerate() {
        let half = [&older, &newer][at % 2];
        redis.call(&[b"HSET", half.as_bytes(), hash.as_slice(), &large]);
    }
    let fits = ITEMS_BYTES_MAX / ITEM_BYTES_MAX;
    let found = access.run(store.get_items(&hashes)).unwrap();
    let is_there: Vec<bool> = found.iter().map(Option::is_some).collect();
    let first = (0..ITEMS_AT_ONCE).map(|at| at < fits).collect();
    check("what fits", &is_there, &first);
    let dropped = access.run(store.drop_items(&hashes[..fits]));
    check("dropped", &dropped, &Ok(fits as u64));
    let small = (hashes[0], Bytes::from_static(b"true"));
    check("put", &access.run(store.put_items(&[small])), &Ok(1));
    let found = access.run(store.get_items(&hashes)).unwrap();
    check("a small one", &found[0], &Some(Bytes::from_static(b"true")));
    let count = found.iter().flatten().count();
    // The small one leaves no room for one of the large ones.
    check("what fits now", &count, &fits);
}

/// A turn is one process' until it gives it back, or says that its nodes have nothing.
#[test]
fn a_turn_is_of_one_process_until_it_gives_it_back() {
    let redis = Redis::start_with("fleet-sharing-turns", &[]);
    let access = Access::to(&redis.url());
    let [a, b] = ["a", "b"].map(|owner| access.open(owner));
    let digest = keccak256(b"some state");
    let take = |store: &FleetStore| access.run(store.take_turn(&digest)).unwrap();
    let give_back = |store: &FleetStore| access.run(store.give_back_turn(&digest)).unwrap();
    let of_a = Some(Bytes::from_static(b"a"));
    check("free", &take(&a), &None);
    check("taken", &take(&b), &of_a);
    give_back(&b);
    check("not b's to give", &take(&b), &of_a);
    give_back(&a);
    check("given back", &take(&b), &None);
    access.run(a.put_unavailable(&digest, b"nothing")).unwrap();
    check("absent", &take(&a), &Some(Bytes::from_static(b"nothing")));
    give_back(&b);
    check(
        "still absent",
        &take(&b),
        &Some(Bytes::from_static(b"nothing")),
    );
    let turn = format!("{}:{digest:x}", access.key("turn"));
    let left = || {
        redis.call(&[b"PTTL", turn.as_bytes()])[1..]
            .parse()
            .unwrap()
    };
    assert!((1..=UNAVAILABLE_LIFETIME.as_millis() as i64).contains(&left()));
    wait_until("the absence ends", || take(&a).is_none());
    assert!((1..=TURN.as_millis() as i64).contains(&left()));
    // Others may put anything there.
    for words in [
        &[&b"SADD"[..], turn.as_bytes(), b"x"][..],
        &[b"SET", turn.as_bytes(), &[b'x'; 100_000]],
    ] {
        redis.call(&[b"DEL", turn.as_bytes()]);
        redis.call(words);
        assert!(take(&a).is_some());
        give_back(&a);
    }
}

/// The newest want is served first, one that is left again is new again, and none waits for longer
/// than whoever has left it.
#[test]
fn wants_are_taken_while_somebody_waits_for_them() {
    let redis = Redis::start_with("fleet-sharing-wants", &[]);
    let access = Access::to(&redis.url());
    let store = access.open("a");
    let key = access.key("wants");
    let want = |text: &str| access.run(store.want(text.as_bytes())).unwrap();
    let next = || {
        let next = store.next_want(Duration::from_millis(1));
        let next = access.run(next).unwrap();
        next.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    };
    // Each at a time of its own.
    let millis = "local time = redis.call('TIME') \
                  return time[1] .. ' ' .. math.floor(time[2] / 1000)";
    let tick = || {
        let before = redis.eval(millis, &[], &[]);
        wait_until("another time", || redis.eval(millis, &[], &[]) != before);
    };
    for (text, count) in [("one", 1), ("two", 2), ("three", 3), ("one", 3)] {
        check(text, &want(text), &count);
        tick();
    }
    let taken: Vec<Option<String>> = (0..4).map(|_| next()).collect();
    let expected = [Some("one"), Some("three"), Some("two"), None];
    check(
        "taken",
        &taken,
        &expected.map(|one| one.map(str::to_owned)).to_vec(),
    );

    // An old one is dropped with the next one, and the last ones by themselves.
    redis.call(&[b"ZADD", key.as_bytes(), b"1", b"old"]);
    check("new", &want("new"), &1);
    let left: u128 = redis.call(&[b"PTTL", key.as_bytes()])[1..].parse().unwrap();
    assert!(left <= STATE_WAIT_MAX.as_millis(), "{left} ms");
    for at in 0..WANTS_MAX + 3 {
        want(&format!("{at}"));
    }
    let many = redis.call(&[b"ZCARD", key.as_bytes()]);
    check("kept", &many, &format!(":{WANTS_MAX}"));
    // Others may put anything there.
    redis.call(&[b"DEL", key.as_bytes()]);
    redis.call(&[b"SADD", key.as_bytes(), b"x"]);
    check("in the place of something else", &want("last"), &1);
    check("taken", &next(), &Some("last".to_owned()));
}

/// State that no node has: a replica without nodes says so, as a process with nodes does, and does
/// not ask to try again for ever.
#[test]
fn state_that_no_node_has_is_not_available_at_a_replica() {
    let mut stage = Stage::new("fleet-absent", 59, [150, 4]);
    let first = stage.go_to(130);
    let proxy: Proxy = stage.proxy();
    let leader = stage.join(Some(proxy.address));
    assert!(leads(&leader));
    let replica = stage.join(None);
    wait_heads(&[&leader, &replica], first);
    let forgotten = Lie::about(&["eth_getProof"], "", Change::Null);
    proxy.fail(vec![Fault::Lie(forgotten)]);
    let account = format!("0x{}", hex::encode([0xab; 20]));
    let params = json!([account, "latest"]);
    let expected =
        json!({"code": -32000, "message": "state not available from the configured nodes"});
    for server in [&leader, &replica] {
        let answer = server.connect().call("eth_getBalance", &params);
        check("error", &answer["error"], &expected);
    }
    // When a node has it, it is there at once.
    proxy.heal();
    let answer = replica.connect().call("eth_getBalance", &params);
    check("balance", &answer["result"], &json!("0x0"));
}
