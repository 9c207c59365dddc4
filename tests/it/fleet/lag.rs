//! By how many entries a process is behind the store.

use super::{
    link::Link,
    stage::{Stage, wait_heads},
};
use crate::{
    harness::{check, wait_until},
    node::head,
};

/// A process that receives no entries says how many there are in the store, as long as it reaches
/// that.
#[test]
fn a_process_that_receives_nothing_knows_how_far_it_is_behind() {
    let mut stage = Stage::new("fleet-lag", 73, [140, 4]);
    let first = stage.go_to(130);
    let leader = stage.join(Some(stage.geth.address()));
    let link = Link::to(stage.redis.address());
    let url = format!("redis://{}", link.address);
    let replica = stage.join_by(None, &["--fleet", &url]);
    wait_heads(&[&replica], first);
    let lag = || replica.metric("nearhead_fleet_lag_entries");
    wait_until("it has all entries", || lag() == 0.0);

    link.cut_reads();
    let (_, before, _) = stage.newest_entry();
    for number in 131..=134 {
        let (_, last, _) = stage.newest_entry();
        stage.go_to(number);
        wait_until("it is appended", || stage.newest_entry().1 > last);
    }
    wait_heads(&[&leader], stage.block(134));
    wait_until("it knows what it lacks", || {
        lag() == (stage.newest_entry().1 - before) as f64
    });
    check("its head", &head(&mut replica.connect()), &first);
    check(
        "of the leader",
        &leader.metric("nearhead_fleet_lag_entries"),
        &0.0,
    );

    link.heal();
    wait_heads(&[&replica], stage.block(134));
    wait_until("it has all entries", || lag() == 0.0);
}
