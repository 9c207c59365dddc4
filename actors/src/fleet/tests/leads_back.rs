//! A new leader that is behind what another process has, and a reorg that no entry has room for.

use nearhead_fleet::leader::{Leader, LogLimits};

use super::*;

/// A process was ahead of a new leader, with a reorg that the leader does not have yet. It does not
/// lead clients back to what was replaced, and goes on once the leader has come as far.
#[actix::test]
async fn a_leader_that_is_behind_leads_nobody_back() {
    // One of the last steps replaces three blocks.
    let chain = Chain::of(9);
    let blocks: Vec<_> = chain.steps.iter().flat_map(|step| step.1.clone()).collect();
    let mut leads = chain.start().await;
    leads.advance(0, &blocks[..6]).await;
    let mut leader = leader(&leads, 2);
    let mut follows = Follows::new(&chain);
    let mut ahead = Held::of(&chain, &[Arc::clone(&chain.genesis)], None).await;
    ahead.advance(0, &blocks[..6]).await;
    for (reverted, applied) in &chain.steps[6..8] {
        ahead.advance(*reverted, applied).await;
    }
    let mut waits: Option<WindowUpdate> = None;
    let mut read = |entries: &[Append], held: &Held| {
        let mut leads_back = Vec::new();
        for Append { entry, .. } in entries {
            let reading = follows
                .replica
                .read(entry.position, &entry.bytes, &mut follows.verifier);
            let update = reading.update.unwrap();
            let update = WindowUpdate::new(follows.replica.chain().clone(), update);
            let update = match waits.take() {
                Some(earlier) => update.after(earlier),
                None => update,
            };
            leads_back.push(update.leads_back(held.head.load().as_deref()));
            waits = Some(update);
        }
        leads_back
    };
    assert_eq!(read(&append_all(&mut leader).await, &ahead), [true]);
    let mut has_reorg = false;
    for (at, (reverted, applied)) in chain.steps.iter().enumerate().skip(6) {
        leads.advance(*reverted, applied).await;
        has_reorg |= *reverted > 0;
        // From the reorg on, it is on the chain that the process has.
        let entries = append_all(&mut leader).await;
        assert_eq!(read(&entries, &ahead), [!has_reorg], "step {at}");
    }
    assert!(has_reorg);
    // What was not applied is applied with the rest.
    let update = waits.unwrap();
    assert!(update.apply(&mut ahead.window).await.is_ok());
    check_same(&leads, &ahead);
}

/// No replica goes back while a reorg is on its way, whose blocks are too large for one entry.
#[actix::test]
async fn a_reorg_in_several_entries_leads_nobody_back() {
    let chain = Chain::of(16);
    let mut leads = chain.start().await;
    let limits = LogLimits {
        // One block fills an entry.
        part_bytes: 1,
        ..LogLimits::default()
    };
    let mut leader = Publisher::of(
        Leader::new(key(), 1, limits),
        leads.head.clone(),
        EntryBytes::default(),
        FleetStatus::default(),
        NOW,
    );
    let mut follows = Follows::new(&chain);
    let (mut numbers, mut entries) = (Vec::new(), 0);
    for (reverted, applied) in &chain.steps {
        leads.advance(*reverted, applied).await;
        let appended = append_all(&mut leader).await;
        if *reverted > 0 {
            entries += appended.len();
        }
        for entry in appended {
            follows.read(&[entry]).await;
            let held = follows.held.head.load();
            numbers.extend(held.map(|held| held.head().number()));
        }
        check_same(&leads, &follows.held);
    }
    assert!(entries > 8, "reorgs took {entries} entries");
    assert!(numbers.is_sorted(), "heads went back: {numbers:?}");
}
