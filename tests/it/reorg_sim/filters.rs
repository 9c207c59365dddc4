//! Filters that are made, asked and removed during the walk.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::{Walk, hex, tree::Facts};
use crate::harness::check;

/// Filters of each kind that are open at the same time.
const OPEN_MAX: usize = 3;

/// An open filter: its id, what it is for, and the canonical blocks when it was asked last.
struct Open<'a> {
    id: Value,
    kind: Kind,
    knows: Vec<&'a Facts>,
}

/// What a filter is for.
#[derive(Clone)]
enum Kind {
    Blocks,
    /// The logs of this emitter, from a block on.
    Logs(Value, u64),
}

/// All open filters, the oldest first.
#[derive(Default)]
pub(super) struct OpenFilters<'a>(VecDeque<Open<'a>>);

impl Kind {
    fn finds(&self, log: &Value, block: &Facts) -> bool {
        match self {
            Self::Blocks => false,
            Self::Logs(address, from) => log["address"] == *address && block.number >= *from,
        }
    }

    /// What has to be answered when the canonical blocks change: a plain comparison of two lists.
    fn changes(&self, before: &[&Facts], after: &[&Facts]) -> Vec<Value> {
        let has = |blocks: &[&Facts], block: &Facts| blocks.iter().any(|it| it.hash == block.hash);
        let oldest = after[0].number;
        let reverted = before.iter().rev();
        let reverted = reverted.filter(|block| block.number >= oldest && !has(after, block));
        let applied = after.iter().filter(|block| !has(before, block));
        if let Self::Blocks = self {
            return applied.map(|block| json!(block.hash)).collect();
        }
        let mut changes = Vec::new();
        for block in reverted {
            let logs: Vec<&Value> = block.logs().collect();
            for log in logs.into_iter().rev().filter(|log| self.finds(log, block)) {
                let mut log = log.clone();
                log["removed"] = true.into();
                changes.push(log);
            }
        }
        for block in applied {
            changes.extend(block.logs().filter(|log| self.finds(log, block)).cloned());
        }
        changes
    }
}

impl<'a> Walk<'a> {
    /// Asks the open filters, and replaces the oldest ones.
    pub(super) async fn compare_filters(&mut self) {
        for at in 0..self.filters.0.len() {
            if self.rng.one_in(2) {
                self.compare_changes(at).await;
            }
        }
        let canonical = self.model.canonical().to_vec();
        let head = self.model.head();
        let emitters: Vec<&Value> = canonical.iter().flat_map(|block| block.logs()).collect();
        let emitter = self.rng.pick(&emitters)["address"].clone();
        let from = self
            .rng
            .between(head.number.saturating_sub(20), head.number);
        let filter = json!([{"address": emitter, "fromBlock": hex(from)}]);
        for (method, params, kind) in [
            ("eth_newBlockFilter", json!([]), Kind::Blocks),
            ("eth_newFilter", filter, Kind::Logs(emitter, from)),
        ] {
            let id = self.call(method, &params).await["result"].take();
            assert!(id.is_string(), "{method} {params}: {id}");
            if let Kind::Logs(..) = kind {
                let wanted = |log: &Value| log["address"] == params[0]["address"];
                let expected = self.model.logs(from, head.number, wanted);
                self.compare_answer("eth_getFilterLogs", json!([id]), expected)
                    .await;
            }
            let knows = canonical.clone();
            self.filters.0.push_back(Open { id, kind, knows });
        }
        while self.filters.0.len() > 2 * OPEN_MAX {
            self.compare_changes(0).await;
            let Some(Open { id, .. }) = self.filters.0.pop_front() else {
                return;
            };
            for was_there in [true, false] {
                self.compare_answer("eth_uninstallFilter", json!([id]), Ok(was_there.into()))
                    .await;
            }
        }
    }

    /// Asks a filter until it has answered everything.
    async fn compare_changes(&mut self, at: usize) {
        let canonical = self.model.canonical().to_vec();
        let open = &mut self.filters.0[at];
        let before = std::mem::replace(&mut open.knows, canonical);
        let expected = open.kind.changes(&before, &open.knows);
        let params = json!([open.id]);
        let mut found = Vec::new();
        loop {
            let mut answer = self.call("eth_getFilterChanges", &params).await;
            let Value::Array(some) = answer["result"].take() else {
                panic!("{answer}");
            };
            if some.is_empty() {
                break;
            }
            found.extend(some);
        }
        check("eth_getFilterChanges", &found, &expected);
    }
}
