//! eth_getLogs: what the filter says, checked in the order that clients rely on, and one message.

use std::{borrow::Cow, sync::Arc, time::Instant};

use alloy_primitives::{Address, B256};
use bytes::Bytes;
use nearhead_actors::{
    messages::{FindLogs, LogRange, Weighed},
    wiring::ask,
};
use nearhead_chain::{
    json::Json,
    log_search::{Cancellation, LogFilter},
    window::{BlockNumberOrTag, BlockTag, Snapshot},
};
use serde_json::value::RawValue;

use crate::{
    limits::{FILTER_VALUES_MAX, LOGS_MAX, TOPICS_MAX},
    rpc::{
        dispatch::View,
        error::RpcError,
        params::{self, Params, Why},
    },
};

pub(crate) async fn get_logs(view: &View<'_>, mut params: Params<'_>) -> Result<Weighed, RpcError> {
    let deadline = Instant::now() + view.logs_deadline;
    let Query { blocks, filter } = params.required(query)?;
    params.finish()?;
    let Some(range) = blocks.resolve(&view.snapshot)? else {
        return Ok(Json::from(Bytes::from_static(b"[]")).into());
    };
    let values = filter.addresses.len() + filter.topics.iter().map(Vec::len).sum::<usize>();
    if values > FILTER_VALUES_MAX {
        return Err(invalid(format!(
            "query exceeds {FILTER_VALUES_MAX} parameters"
        )));
    }
    let cancel = CancelOnDrop(Cancellation::default());
    let find = FindLogs {
        snapshot: Arc::clone(&view.snapshot),
        range,
        filter,
        limit: LOGS_MAX,
        deadline,
        cancel: cancel.0.clone(),
    };
    ask(&view.worker.logs, find)
        .await
        .map_err(RpcError::of_logs)
}

/// Cancels the query when the request is dropped because its client went away; after the answer it does nothing.
struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The filter object as it was written.
#[derive(Debug, PartialEq, Eq)]
struct Query {
    blocks: Blocks,
    filter: LogFilter,
}

/// Which blocks the filter object names.
#[derive(Debug, PartialEq, Eq)]
enum Blocks {
    Hash(B256),
    Range {
        from: BlockNumberOrTag,
        to: BlockNumberOrTag,
    },
}

impl Blocks {
    /// The blocks of the view, or `None` where there is nothing that could match: no log is pending.
    fn resolve(&self, snapshot: &Snapshot) -> Result<Option<LogRange>, RpcError> {
        let (from, to) = match *self {
            Self::Hash(hash) => return Ok(Some(LogRange::Hash(hash))),
            Self::Range { from, to } => (from, to),
        };
        if let (BlockNumberOrTag::Number(from), BlockNumberOrTag::Number(to)) = (from, to)
            && from > to
        {
            return Err(invalid("invalid block range params"));
        }
        if let BlockNumberOrTag::Number(from) = from
            && from < snapshot.oldest()
        {
            return Err(RpcError::PrunedHistory);
        }
        if from == BlockNumberOrTag::Tag(BlockTag::Pending) {
            return Ok(None);
        }
        let number = |at| match at {
            BlockNumberOrTag::Number(number) => Ok(number),
            tag => snapshot
                .resolve(tag)
                .map(|block| block.number())
                .map_err(|error| RpcError::of_logs(error.into())),
        };
        let (from, to) = (number(from)?, number(to)?);
        if from > to {
            return Err(invalid("invalid block range params"));
        }
        if to > snapshot.head().number() {
            return Err(invalid("block range extends beyond current head block"));
        }
        Ok(Some(LogRange::Numbers { from, to }))
    }
}

fn invalid(why: impl Into<Cow<'static, str>>) -> RpcError {
    RpcError::InvalidParams(why.into())
}

fn query(raw: &RawValue) -> Result<Query, Why> {
    let [hash, from, to, address, topics] = params::members(
        raw,
        ["blockHash", "fromBlock", "toBlock", "address", "topics"],
    )?;
    let hash = hash.map(params::hash).transpose()?;
    let from = from.map(params::block_number_or_tag).transpose()?;
    let to = to.map(params::block_number_or_tag).transpose()?;
    let latest = BlockNumberOrTag::Tag(BlockTag::Latest);
    let blocks = match (hash, from, to) {
        (Some(hash), None, None) => Blocks::Hash(hash),
        (Some(_), ..) => {
            return Err(
                "cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other"
                    .into(),
            );
        }
        (None, from, to) => Blocks::Range {
            from: from.unwrap_or(latest),
            to: to.unwrap_or(latest),
        },
    };
    let filter = LogFilter {
        addresses: address.map(addresses).transpose()?.unwrap_or_default(),
        topics: topics.map(positions).transpose()?.unwrap_or_default(),
    };
    Ok(Query { blocks, filter })
}

/// One address, or an array of them; an empty array is any.
fn addresses(raw: &RawValue) -> Result<Vec<Address>, Why> {
    if raw.get().starts_with('[') {
        params::array(raw)?
            .into_iter()
            .map(params::address)
            .collect()
    } else {
        params::address(raw).map(|address| vec![address])
    }
}

/// At most four positions.
fn positions(raw: &RawValue) -> Result<Vec<Vec<B256>>, Why> {
    let positions = params::array(raw)?;
    if positions.len() > TOPICS_MAX {
        return Err(format!("too many topics (want at most {TOPICS_MAX})").into());
    }
    positions.into_iter().map(position).collect()
}

/// null, a topic, or an array of topics; an empty one, and one that has null in it, is a wildcard.
fn position(raw: &RawValue) -> Result<Vec<B256>, Why> {
    if params::is_null(raw) {
        return Ok(Vec::new());
    }
    if !raw.get().starts_with('[') {
        return params::hash(raw).map(|topic| vec![topic]);
    }
    let items = params::array(raw)?;
    let topics = items
        .iter()
        .filter(|item| !params::is_null(item))
        .map(|item| params::hash(item));
    let topics: Vec<B256> = topics.collect::<Result<_, _>>()?;
    Ok(if topics.len() < items.len() {
        Vec::new()
    } else {
        topics
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const HASH: &str = "0x00000000000000000000000000000000000000000000000000000000deadbeef";
    const ADDRESS: &str = "0x00000000000000000000000000000000deadbeef";

    /// The filter in short: blocks, number of addresses, number of values at each position.
    #[track_caller]
    fn check(json: &str, expected: &str) {
        let json = json.replace("HASH", HASH).replace("ADDRESS", ADDRESS);
        let found = match query(serde_json::from_str(&json).unwrap()) {
            Ok(Query { blocks, filter }) => {
                let blocks = match blocks {
                    Blocks::Hash(_) => "hash".to_owned(),
                    Blocks::Range { from, to } => format!("{from:?}..{to:?}"),
                };
                let topics: Vec<_> = filter.topics.iter().map(Vec::len).collect();
                format!("{blocks} {} {topics:?}", filter.addresses.len())
            }
            Err(why) => format!("! {why}"),
        };
        assert_eq!(found, expected, "{json}");
    }

    #[test]
    fn filters() {
        let latest = "Tag(Latest)..Tag(Latest)";
        check("{}", &format!("{latest} 0 []"));
        check(
            r#"{"fromBlock":null,"toBlock":null,"blockHash":null,"address":null,"topics":null,"x":1}"#,
            &format!("{latest} 0 []"),
        );
        check(
            r#"{"fromBlock":"earliest","toBlock":"0x5"}"#,
            "Tag(Earliest)..Number(5) 0 []",
        );
        check(r#"{"blockHash":"HASH"}"#, "hash 0 []");
        check(r#"{"address":"ADDRESS"}"#, &format!("{latest} 1 []"));
        check(
            r#"{"address":["ADDRESS","ADDRESS"]}"#,
            &format!("{latest} 2 []"),
        );
        check(r#"{"address":[]}"#, &format!("{latest} 0 []"));
        check(r#"{"topics":[]}"#, &format!("{latest} 0 []"));
        check(
            r#"{"topics":[null,"HASH",["HASH","HASH"],[]]}"#,
            &format!("{latest} 0 [0, 1, 2, 0]"),
        );
        check(r#"{"topics":[["HASH",null]]}"#, &format!("{latest} 0 [0]"));
    }

    #[test]
    fn bad_filters() {
        let both = "! cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other";
        check(r#"{"blockHash":"HASH","fromBlock":"0x1"}"#, both);
        check(r#"{"blockHash":"HASH","toBlock":"latest"}"#, both);
        check("null", "! want an object");
        check("[]", "! want an object");
        check(r#""HASH""#, "! want an object");
        check(r#"{"fromBlock":1}"#, "! want a string");
        check(r#"{"address":[null]}"#, "! want a string");
        check(
            r#"{"address":"HASH"}"#,
            "! want an address: 0x and 40 hex digits",
        );
        check(r#"{"address":{}}"#, "! want a string");
        check(r#"{"topics":"HASH"}"#, "! want an array");
        check(
            r#"{"topics":["ADDRESS"]}"#,
            "! want a hash: 0x and 64 hex digits",
        );
        check(
            r#"{"topics":[[null,"0x1"]]}"#,
            "! want a hash: 0x and 64 hex digits",
        );
        check(r#"{"topics":[[["HASH"]]]}"#, "! want a string");
        check(
            r#"{"topics":[null,null,null,null,null]}"#,
            "! too many topics (want at most 4)",
        );
    }
}
