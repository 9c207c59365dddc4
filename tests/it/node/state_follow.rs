//! State that stays current: once a block is merged, neither what it changed nor what was read
//! before is asked of a node again, and all of it equals geth's.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
};

use nearhead_chain::campaign;
use serde_json::{Value, json};

use super::{
    driven_geth::DrivenGeth,
    follow_with,
    held_state::{HeldState, REPORTS_MERGES},
    http, refuted, wait_head, ws,
};
use crate::{
    harness::{Server, check, request, wait_until},
    upstreams::{
        Keys, Payload, add_changed,
        proxy::{Change, Fault, Lie, Proxy, Refusal},
        steps,
    },
};

/// Steps of the chain; every tenth replaces three blocks.
const STEPS: u64 = 136;
const REORGS: (u64, u64) = (10, 3);

/// Idle accounts and slots: each is proven after each block, and some accounts are read by the
/// other methods too.
const IDLE: usize = 1_000;

/// A geth that follows the steps of a chain, and nearhead behind it.
struct Scene {
    geth: DrivenGeth,
    steps: std::vec::IntoIter<Vec<Payload>>,
    idle: Vec<(String, BTreeSet<String>)>,
    held: HeldState,
}

impl Scene {
    /// Nearhead follows the URL that `via` makes, and knows the first block.
    fn start(
        name: &str,
        seed: u64,
        count: u64,
        via: impl FnOnce(&DrivenGeth) -> String,
        more: &[&str],
    ) -> Self {
        let (genesis, mut steps) = steps(name, seed, count, REORGS);
        let text = std::fs::read_to_string(&genesis).unwrap();
        let alloc: Value = serde_json::from_str(&text).unwrap();
        let idle = idle_keys(alloc["alloc"].as_object().unwrap());
        let first = steps.remove(0);
        let mut geth = DrivenGeth::at(&format!("{name}-geth"), &genesis, &first);
        let wanted = geth.go_to(&first[0]);
        let url = via(&geth);
        let server = follow_with(&[url], &[&REPORTS_MERGES[..], more].concat());
        wait_head(&server, wanted);
        Self {
            steps: steps.into_iter(),
            idle,
            held: HeldState::of(server, geth.connect()),
            geth,
        }
    }

    /// The same over HTTP, with a proxy between.
    fn behind_proxy(name: &str, seed: u64, count: u64, more: &[&str]) -> (Proxy, Self) {
        let proxy = OnceCell::new();
        let via = |geth: &DrivenGeth| {
            let proxy = proxy.get_or_init(|| Proxy::to(&[geth.address()]));
            http(proxy.address)
        };
        let scene = Self::start(name, seed, count, via, more);
        (proxy.into_inner().unwrap(), scene)
    }

    /// The next step of the chain, once nearhead has merged it; returns what its blocks changed.
    fn step(&mut self) -> Option<Keys> {
        let payloads = self.steps.next()?;
        self.geth.send_blocks(&payloads);
        let last = payloads.last().unwrap();
        let wanted = self.geth.go_to(last);
        wait_head(&self.held.server, wanted);
        self.held.wait_merged(&last.hash.to_string());
        Some(self.changed_by(&payloads))
    }

    /// What these blocks changed.
    fn changed_by(&mut self, payloads: &[Payload]) -> Keys {
        let mut keys = Keys::new();
        for payload in payloads {
            add_changed(
                &mut self.held.pair.theirs,
                &payload.hash.to_string(),
                &mut keys,
            );
        }
        keys
    }

    /// Follows the next step while the node has this fault, and compares what its blocks changed.
    /// `unread` is an account that was never read.
    fn check_fault(
        &mut self,
        proxy: &Proxy,
        name: &str,
        fault: Fault,
        is_fault: bool,
        unread: usize,
    ) {
        let before = fault_count(&self.held.server);
        proxy.fail(vec![fault]);
        let payloads = self.steps.next().unwrap();
        self.geth.send_blocks(&payloads);
        let wanted = self.geth.go_to(payloads.last().unwrap());
        wait_head(&self.held.server, wanted);
        // A merge may need no proof, or be given up; an account that was never read needs one.
        let params = json!([self.idle[unread].0, "latest"]);
        let read = request(1, "eth_getBalance", &params).to_string();
        wait_until(name, || {
            self.held.pair.ours.post(&read);
            proxy.applied() > 0 && (!is_fault || fault_count(&self.held.server) > before)
        });
        proxy.heal();
        let keys = self.changed_by(&payloads);
        // After a refusal, reads that miss are refused for a moment.
        wait_until(name, || {
            let address = keys.keys().next().unwrap();
            let call = request(1, "eth_getBalance", &json!([address, "latest"]));
            self.held.pair.ours.post(call.to_string()).status == 200
        });
        self.held.compare(&keys);
    }

    fn idle(&self, from: usize, count: usize) -> Keys {
        let idle = self.idle.iter().cycle().skip(from).take(count);
        idle.cloned().collect()
    }
}

/// Accounts of a genesis with slots of theirs, [`IDLE`] in all; half of them slots, if there are so
/// many.
fn idle_keys(alloc: &serde_json::Map<String, Value>) -> Vec<(String, BTreeSet<String>)> {
    let (mut left, mut slots_left) = (IDLE, IDLE / 2);
    let mut keys = Vec::new();
    for (address, account) in alloc {
        if left == 0 {
            break;
        }
        let storage = account["storage"].as_object().into_iter().flatten();
        let slots: BTreeSet<_> = storage
            .map(|(slot, _)| slot.clone())
            .take(slots_left.min(left - 1))
            .collect();
        left -= 1 + slots.len();
        slots_left -= slots.len();
        keys.push((format!("0x{}", address.trim_start_matches("0x")), slots));
    }
    assert_eq!(left, 0, "the genesis has too few accounts and slots");
    keys
}

/// Follows the whole chain with this value of `--state-follow`. What a block changed and what was
/// read before is held.
fn check_current(name: &str, mode: &str, steps: u64, via: fn(&DrivenGeth) -> String) {
    let mut scene = Scene::start(name, 11, steps, via, &["--state-follow", mode]);
    let all = scene.idle(0, scene.idle.len());
    scene.held.compare(&all);
    scene.held.compare_codes(&all);
    let before = scene.held.missed();
    let by_all_methods = usize::try_from(campaign::rounds(40, 1_000)).unwrap();
    let (mut blocks, mut codes_missed) = (0, 0);
    while let Some(changed) = scene.step() {
        assert!(changed.len() > 2, "{changed:?}");
        scene.held.compare(&changed);
        codes_missed += scene.held.compare_codes(&changed);
        scene.held.compare_proofs(&all);
        check("idle codes missed", &scene.held.compare_codes(&all), &0);
        let idle = scene.idle(blocks * by_all_methods, by_all_methods);
        scene.held.compare(&idle);
        blocks += 1;
    }
    assert!(
        blocks as u64 == steps - 1 && scene.held.reads > 3_000,
        "{}",
        scene.held.reads
    );
    let missed = scene.held.missed() - before - codes_missed;
    check("reads that missed", &missed, &0);
    let merges = |words: &[&str]| {
        scene
            .held
            .counted(&[&["nearhead_state_merges_total"], words].concat())
    };
    let source = if mode == "auto" { "tracer" } else { mode };
    let source = format!("source=\"{source}\"");
    let whole = merges(&[&source, "whole"]);
    check("merges", &merges(&[]), &whole);
    assert!(whole + 1 >= steps, "{whole}");
    check("faults", &refuted(&scene.held.server, 0), &BTreeMap::new());
    let counted = |words: &[&str]| scene.held.counted(words);
    let timed = counted(&["nearhead_state_merge_seconds_count"]);
    assert!((1..=whole).contains(&timed), "{timed} of {whole}");
    assert!(counted(&["nearhead_state_merge_bytes_total"]) > 1_000 * whole);
    for kind in ["values", "nodes", "bytes"] {
        let held = counted(&["nearhead_state_held", &format!("kind=\"{kind}\"")]);
        assert!(held > 1_000, "{held} {kind}");
    }
    let proven = counted(&["nearhead_state_merged_keys_total", "proven"]);
    let items = counted(&["nearhead_state_merge_keys_asked_total"]);
    assert!(items >= proven, "{items} asked, {proven} proven");
    check("evicted", &counted(&["nearhead_state_evicted_total"]), &0);
}

#[test]
fn what_blocks_change_and_what_was_read_stays_held() {
    check_current("state-follow-auto", "auto", STEPS, |geth| {
        http(geth.address())
    });
}

#[test]
fn a_witness_keeps_it_held_too() {
    check_current("state-follow-witness", "witness", 40, |geth| {
        ws(geth.address())
    });
}

/// Without a tracer, what a block names is held, and what was fetched lately.
#[test]
fn without_a_tracer_what_blocks_name_is_held() {
    let via = |geth: &DrivenGeth| http(geth.address());
    let mut scene = Scene::start(
        "state-follow-proofs",
        12,
        30,
        via,
        &["--state-follow", "proofs"],
    );
    let some = scene.idle(0, 20);
    scene.held.compare(&some);
    let before = scene.held.missed();
    while scene.step().is_some() {
        scene.held.compare(&some);
    }
    check("reads that missed", &(scene.held.missed() - before), &0);
    let merged = scene
        .held
        .counted(&["nearhead_state_merges_total", "source=\"keys\""]);
    assert!(merged >= 29, "{merged}");
}

#[test]
fn nothing_is_merged_if_that_is_off() {
    let off = ["--state-follow", "off"];
    let (proxy, mut scene) = Scene::behind_proxy("state-follow-off", 13, 6, &off);
    let some = scene.idle(0, 5);
    for payloads in scene.steps.by_ref() {
        scene.geth.send_blocks(&payloads);
        let wanted = scene.geth.go_to(payloads.last().unwrap());
        wait_head(&scene.held.server, wanted);
        scene.held.compare(&some);
    }
    check("traces", &proxy.calls("debug_traceBlockByHash"), &0);
    assert!(
        proxy.calls("eth_getProof") >= 5,
        "{}",
        proxy.calls("eth_getProof")
    );
    check(
        "merges",
        &scene.held.counted(&["nearhead_state_merges_total"]),
        &0,
    );
}

/// The number of faults, without those of a busy machine.
fn fault_count(server: &Server) -> u64 {
    refuted(server, 0).into_values().sum()
}

/// A lie in what is asked for merges.
fn lies() -> Vec<(&'static str, Fault, bool)> {
    let lie = |method: &'static str, path: &str, change| {
        let methods: &'static [&'static str] = match method {
            "trace" => &["debug_traceBlockByHash"],
            "witness" => &["debug_executionWitness"],
            _ => &["eth_getProof"],
        };
        Fault::Lie(Lie::about(methods, path, change))
    };
    // With the fault that is counted, if it is one; these come after all that are none.
    vec![
        ("a trace of nothing", lie("trace", "", Change::Null), false),
        (
            "a transaction too few",
            lie("trace", "", Change::ItemDropped),
            false,
        ),
        (
            "accounts left out",
            lie("trace", "/0/result/post", Change::Becomes("{}")),
            false,
        ),
        ("no witness", lie("witness", "", Change::Null), false),
        (
            "a witness without nodes",
            lie("witness", "/state", Change::Null),
            false,
        ),
        (
            "nodes left out",
            lie("witness", "/state", Change::ItemDropped),
            false,
        ),
        (
            "no witness at all",
            Fault::Refuse(Some("debug_executionWitness"), Refusal::NoMethod),
            false,
        ),
        (
            "a proof cut short",
            lie("proof", "/accountProof", Change::ItemDropped),
            true,
        ),
        (
            "no proof",
            lie("proof", "/accountProof", Change::Removed),
            true,
        ),
        // Last, because then it is not asked for a while.
        (
            "limited",
            Fault::Refuse(Some("debug_traceBlockByHash"), Refusal::LimitExceeded),
            false,
        ),
    ]
}

/// Nodes that lie about what a block changed, or refuse it: every answer is true, the head goes on,
/// and a fault is counted where it is one.
#[test]
fn lies_about_changes_cost_fetches_and_no_answer() {
    let lies = lies();
    let count = 1 + lies.len() as u64;
    let witness = ["--state-follow", "witness"];
    let (proxy, mut scene) = Scene::behind_proxy("state-follow-liar", 14, count, &witness);
    // Nothing is merged until somebody reads state.
    let some = scene.idle(0, 3);
    scene.held.compare(&some);
    let mut is_honest = true;
    for (unread, (name, fault, is_fault)) in (10..).zip(lies) {
        is_honest &= !is_fault;
        scene.check_fault(&proxy, name, fault, is_fault, unread);
        if is_honest {
            check(name, &fault_count(&scene.held.server), &0);
        }
    }
    let whole = scene
        .held
        .counted(&["nearhead_state_merges_total", "whole"]);
    assert!(whole > 0, "no merge was whole");
}

/// A node that sends 300 MB in place of what a merge asks for: no more of it is read than a merge
/// may ask for.
#[test]
fn answers_of_300_megabytes_cost_no_memory_and_no_answer() {
    let witness = ["--state-follow", "witness"];
    let (proxy, mut scene) = Scene::behind_proxy("state-follow-flood", 16, 4, &witness);
    let some = scene.idle(0, 3);
    scene.held.compare(&some);
    let before = scene.held.server.process.peak_resident_kib();
    let floods = [
        ("debug_executionWitness", false),
        ("debug_traceBlockByHash", false),
        ("eth_getProof", true),
    ];
    for (unread, (method, is_fault)) in (10..).zip(floods) {
        let fault = Fault::Flood(method);
        scene.check_fault(&proxy, method, fault, is_fault, unread);
    }
    let grown = scene.held.server.process.peak_resident_kib() - before;
    println!("the process grew by {grown} KiB");
    assert!(grown < 150 << 10, "the process grew by {grown} KiB");
}
