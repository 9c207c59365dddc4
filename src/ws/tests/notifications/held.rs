//! The data that a client keeps for one subscription, and how notifications change it.

use std::{collections::HashMap, sync::Arc};

use alloy_primitives::B256;
use nearhead_chain::{
    block::Block,
    log_search::{BlockSearch, Cancellation, LogFilter, search},
    window::{BlockNumberOrTag, Snapshot},
};
use serde_json::Value;

use super::tree::TREE;
use crate::rpc::SubscriptionKind;

/// Number and hash of a block.
pub(super) type BlockId = (u64, B256);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// The canonical chain.
    Heads(Vec<BlockId>),
    /// Matching logs of the canonical chain.
    Logs(LogFilter, Vec<LogId>),
    /// Blocks named in reorgs, and whether they are canonical.
    Reorgs(HashMap<B256, (u64, bool)>),
}

pub(super) fn id(block: &Block) -> BlockId {
    (block.number(), block.hash)
}

fn number(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

fn hash(value: &Value) -> B256 {
    value.as_str().unwrap().parse().unwrap()
}

/// Number and hash of a block in a notification.
pub(super) fn id_of(value: &Value) -> BlockId {
    (number(&value["number"]), hash(&value["hash"]))
}

/// Number and hash of a log's block, and the log's index in it.
type LogId = (u64, B256, u64);

fn log_id(log: &Value) -> LogId {
    let (block, hash) = (number(&log["blockNumber"]), hash(&log["blockHash"]));
    (block, hash, number(&log["logIndex"]))
}

impl Held {
    /// What a client reads before it subscribes, by eth_getBlockByNumber and eth_getLogs.
    pub(super) fn read(kind: &SubscriptionKind, snapshot: &Snapshot) -> Self {
        match kind {
            SubscriptionKind::Logs(filter) => {
                let search = BlockSearch::new(filter);
                let of_block = |block: &Arc<Block>| {
                    let (number, hash) = id(block);
                    let positions = search.positions(&block.postings).into_iter();
                    positions.map(move |position| (number, hash, u64::from(position)))
                };
                let logs = snapshot.canonical().iter().flat_map(of_block);
                Self::Logs((**filter).clone(), logs.collect())
            }
            SubscriptionKind::NewHeads => {
                Self::Heads(snapshot.canonical().iter().map(|block| id(block)).collect())
            }
            SubscriptionKind::Reorgs => Self::Reorgs(HashMap::new()),
        }
    }

    /// Applies a notification.
    ///
    /// # Errors
    /// The notification does not follow from what is held.
    pub(super) fn apply(&mut self, result: &Value) -> Result<(), String> {
        match self {
            Self::Heads(chain) => {
                let head = id_of(result);
                if chain.last() == Some(&head) {
                    return Err(format!("head {head:?} twice"));
                }
                chain.retain(|(number, _)| *number < head.0);
                let parent = hash(&result["parentHash"]);
                if chain
                    .last()
                    .is_some_and(|last| *last != (head.0 - 1, parent))
                {
                    return Err(format!("head {head:?} does not follow {:?}", chain.last()));
                }
                chain.push(head);
            }
            Self::Logs(filter, logs) => {
                let mut log = result.clone();
                let is_removed = log["removed"] == true;
                log["removed"] = false.into();
                let id = log_id(&log);
                if TREE.logs[&id.1].get(id.2 as usize) != Some(&log) {
                    return Err(format!("there is no such log: {log}"));
                }
                if !matches(filter, &log) {
                    return Err(format!("it does not match: {log}"));
                }
                let order = |(number, _, index): &LogId| (*number, *index);
                if is_removed {
                    if logs.pop() != Some(id) {
                        return Err(format!("removed what is not the last: {log}"));
                    }
                } else if logs.last().is_some_and(|last| order(last) >= order(&id)) {
                    return Err(format!("{log} after a later one"));
                } else {
                    logs.push(id);
                }
            }
            Self::Reorgs(blocks) => {
                let ids = |name: &str| result[name].as_array().unwrap().iter().map(id_of);
                let ancestor = id_of(&result["commonAncestor"]);
                let mut last = None;
                for (number, hash) in ids("reverted") {
                    let block = TREE.block(&hash).ok_or("no such block")?;
                    if last.is_some_and(|last| last != id(block)) || number != block.number() {
                        return Err(format!("{number} is not what is reverted next"));
                    }
                    blocks.insert(hash, (number, false));
                    last = Some((number - 1, block.header.parent_hash));
                }
                if last != Some(ancestor) {
                    return Err(format!("{ancestor:?} is not the common ancestor"));
                }
                let mut last = ancestor;
                for (number, hash) in ids("applied") {
                    let block = TREE.block(&hash).ok_or("no such block")?;
                    if (number - 1, block.header.parent_hash) != last {
                        return Err(format!("{number} is not what is applied next"));
                    }
                    blocks.insert(hash, (number, true));
                    last = (number, hash);
                }
            }
        }
        Ok(())
    }

    /// Checks that it equals what the snapshot holds.
    pub(super) fn check(&self, kind: &SubscriptionKind, snapshot: &Snapshot) -> Result<(), String> {
        let oldest = snapshot.oldest();
        let differs = |held: String, expected: String| Err(format!("holds {held}, not {expected}"));
        match (self, Self::read(kind, snapshot)) {
            (Self::Heads(held), Self::Heads(expected)) => {
                let held: Vec<BlockId> = held
                    .iter()
                    .filter(|(number, _)| *number >= oldest)
                    .copied()
                    .collect();
                if held != expected {
                    return differs(format!("{held:?}"), format!("{expected:?}"));
                }
            }
            (Self::Logs(_, held), Self::Logs(_, expected)) => {
                let held = held.iter().filter(|(number, ..)| *number >= oldest);
                let held: Vec<LogId> = held.copied().collect();
                if held != expected {
                    return differs(format!("{held:?}"), format!("{expected:?}"));
                }
            }
            (Self::Reorgs(blocks), _) => {
                // A replaced block may have become canonical again by extending the chain, which is
                // no reorg.
                for (hash, (number, _)) in
                    blocks.iter().filter(|(_, (_, is_canonical))| *is_canonical)
                {
                    let block = TREE.block(hash).ok_or("no such block")?;
                    if *number >= oldest && !snapshot.is_canonical(block) {
                        return differs(format!("{number} {hash}"), "canonical".to_owned());
                    }
                }
            }
            (held, expected) => return differs(format!("{held:?}"), format!("{expected:?}")),
        }
        Ok(())
    }

    /// Checks that it equals what eth_getLogs and eth_getBlockByNumber answer from the snapshot.
    pub(super) fn check_answers(&self, snapshot: &Snapshot) -> Result<(), String> {
        let oldest = snapshot.oldest();
        let is_same = match self {
            Self::Heads(chain) => chain.iter().all(|(number, hash)| {
                let at = BlockNumberOrTag::Number(*number);
                *number < oldest
                    || snapshot
                        .resolve_block(at)
                        .is_ok_and(|block| block.hash == *hash)
            }),
            Self::Logs(filter, logs) => {
                let never = Cancellation::default();
                let found = search(snapshot.canonical(), filter, usize::MAX, &never);
                let json = found.unwrap().into_json().into_bytes();
                let answer: Vec<Value> = serde_json::from_slice(&json).unwrap();
                let held = logs.iter().filter(|(number, ..)| *number >= oldest);
                answer.iter().map(log_id).eq(held.copied())
            }
            Self::Reorgs(_) => true,
        };
        is_same
            .then_some(())
            .ok_or_else(|| "it differs from the answers".to_owned())
    }

    /// Removes everything after this block.
    pub(super) fn truncate(&mut self, number: u64) {
        match self {
            Self::Heads(chain) => chain.retain(|(other, _)| *other <= number),
            Self::Logs(_, logs) => logs.retain(|(other, ..)| *other <= number),
            Self::Reorgs(blocks) => blocks.clear(),
        }
    }
}

/// The block of a notification, and whether everything up to it has been sent.
pub(super) fn block_of(kind: &SubscriptionKind, result: &Value) -> Option<(Arc<Block>, bool)> {
    let (hash, is_whole) = match kind {
        SubscriptionKind::NewHeads => (hash(&result["hash"]), true),
        // There may be more logs of the block.
        SubscriptionKind::Logs(_) => (log_id(result).1, false),
        SubscriptionKind::Reorgs => {
            let last = result["applied"].as_array()?.last();
            (id_of(last.unwrap_or(&result["commonAncestor"])).1, true)
        }
    };
    Some((Arc::clone(TREE.block(&hash)?), is_whole))
}

fn matches(filter: &LogFilter, log: &Value) -> bool {
    let is = |value: &Value, wanted: String| value.as_str() == Some(&wanted);
    let addresses = &filter.addresses;
    let topics = log["topics"].as_array().unwrap();
    let mut wanted = addresses.iter().map(|address| format!("{address:#x}"));
    (addresses.is_empty() || wanted.any(|address| is(&log["address"], address)))
        && topics.len() >= filter.topics.len()
        && filter.topics.iter().zip(topics).all(|(values, topic)| {
            values.is_empty() || values.iter().any(|value| is(topic, value.to_string()))
        })
}
