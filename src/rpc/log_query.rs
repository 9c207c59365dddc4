//! The filter object of eth_getLogs and logs subscriptions: parsed first, then resolved, with the
//! checks in the order that clients rely on.

use std::borrow::Cow;

use alloy_primitives::{Address, B256};
use nearhead_actors::messages::LogRange;
use nearhead_chain::{
    block::Block,
    log_search::LogFilter,
    window::{BlockNumberOrTag, BlockTag, Snapshot},
};
use serde_json::value::RawValue;

use super::{
    error::{QuerySubject, RpcError},
    params::{self, ParamError},
};
use crate::limits::{FILTER_VALUES_MAX, TOPICS_MAX};

/// A parsed filter object; nothing in it has been looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogQuery {
    /// The blocks to search.
    pub blocks: LogBlocks,
    /// The logs to find.
    pub filter: LogFilter,
}

/// Which blocks a filter object names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogBlocks {
    /// One block, canonical or replaced (EIP-234).
    Hash(B256),
    /// All canonical blocks from one to the other; a missing bound is `latest`.
    Range {
        /// The first.
        from: BlockNumberOrTag,
        /// The last.
        to: BlockNumberOrTag,
    },
}

impl LogQuery {
    /// Parses a filter object. A null member counts as absent, an unknown one is ignored.
    ///
    /// # Errors
    /// The object is malformed; the text goes to the client.
    pub fn read(raw: &RawValue) -> Result<Self, ParamError> {
        let [hash, from, to, address, topics] = params::members(
            raw,
            ["blockHash", "fromBlock", "toBlock", "address", "topics"],
        )?;
        let hash = hash.map(params::hash).transpose()?;
        let from = from.map(params::block_number_or_tag).transpose()?;
        let to = to.map(params::block_number_or_tag).transpose()?;
        let latest = BlockNumberOrTag::Tag(BlockTag::Latest);
        let blocks = match (hash, from, to) {
            (Some(hash), None, None) => LogBlocks::Hash(hash),
            (Some(_), ..) => {
                return Err(
                    "cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other"
                        .into(),
                );
            }
            (None, from, to) => LogBlocks::Range {
                from: from.unwrap_or(latest),
                to: to.unwrap_or(latest),
            },
        };
        let filter = LogFilter {
            addresses: address.map(addresses).transpose()?.unwrap_or_default(),
            topics: topics.map(positions).transpose()?.unwrap_or_default(),
        };
        Ok(Self { blocks, filter })
    }
}

impl LogBlocks {
    /// Checks that a filter may ask again and again for the logs of these blocks, as geth does.
    pub(crate) fn check_filter(&self) -> Result<(), RpcError> {
        use BlockNumberOrTag::{Number, Tag};
        use BlockTag::{Earliest, Latest, Pending};
        match *self {
            Self::Hash(_) => Ok(()),
            Self::Range {
                from: Tag(Pending), ..
            }
            | Self::Range {
                to: Tag(Pending), ..
            } => Err(invalid("pending logs are not supported")),
            Self::Range {
                from: Number(from),
                to: Number(to),
            } if from > to => Err(invalid(BAD_RANGE)),
            Self::Range {
                from: Number(_) | Tag(Earliest),
                to: Number(_),
            }
            | Self::Range {
                to: Tag(Latest), ..
            } => Ok(()),
            Self::Range { .. } => Err(invalid(BAD_RANGE)),
        }
    }

    /// Whether the logs of a block that becomes canonical, or is reverted, are asked for. A tag is
    /// a bound in the past.
    pub(crate) fn has(&self, block: &Block) -> bool {
        match *self {
            Self::Hash(hash) => block.hash == hash,
            Self::Range { from, to } => {
                let number = block.number();
                let begins = !matches!(from, BlockNumberOrTag::Number(from) if number < from);
                begins && !matches!(to, BlockNumberOrTag::Number(to) if number > to)
            }
        }
    }

    /// The blocks in the snapshot, or `None` if no log can match: a pending block has none.
    pub(crate) fn resolve(&self, snapshot: &Snapshot) -> Result<Option<LogRange>, RpcError> {
        let (from, to) = match *self {
            Self::Hash(hash) => return Ok(Some(LogRange::Hash(hash))),
            Self::Range { from, to } => (from, to),
        };
        if let (BlockNumberOrTag::Number(from), BlockNumberOrTag::Number(to)) = (from, to)
            && from > to
        {
            return Err(invalid(BAD_RANGE));
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
                .map_err(|error| RpcError::from_query(error.into(), QuerySubject::Logs)),
        };
        let (from, to) = (number(from)?, number(to)?);
        if from > to {
            return Err(invalid(BAD_RANGE));
        }
        if to > snapshot.head().number() {
            return Err(invalid("block range extends beyond current head block"));
        }
        Ok(Some(LogRange::Numbers { from, to }))
    }
}

const BAD_RANGE: &str = "invalid block range params";

/// Refuses a filter of more than [`FILTER_VALUES_MAX`] addresses and topics.
pub(crate) fn check_value_count(filter: &LogFilter) -> Result<(), RpcError> {
    if filter.value_count() > FILTER_VALUES_MAX {
        return Err(invalid(format!(
            "query exceeds {FILTER_VALUES_MAX} parameters"
        )));
    }
    Ok(())
}

fn invalid(reason: impl Into<Cow<'static, str>>) -> RpcError {
    RpcError::InvalidParams(reason.into())
}

/// One address, or an array of them; an empty array matches any.
fn addresses(raw: &RawValue) -> Result<Vec<Address>, ParamError> {
    if raw.get().starts_with('[') {
        params::array(raw)?
            .into_iter()
            .map(params::address)
            .collect()
    } else {
        params::address(raw).map(|address| vec![address])
    }
}

/// The topics by position.
fn positions(raw: &RawValue) -> Result<Vec<Vec<B256>>, ParamError> {
    let positions = params::array(raw)?;
    if positions.len() > TOPICS_MAX {
        return Err(format!("too many topics (want at most {TOPICS_MAX})").into());
    }
    positions.into_iter().map(position).collect()
}

/// null, a topic, or an array of topics. An empty array and one with null in it match any topic.
fn position(raw: &RawValue) -> Result<Vec<B256>, ParamError> {
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

    /// Compares a filter in short form: blocks, number of addresses, number of values at each
    /// position.
    #[track_caller]
    fn check(json: &str, expected: &str) {
        let json = json.replace("HASH", HASH).replace("ADDRESS", ADDRESS);
        let found = match LogQuery::read(serde_json::from_str(&json).unwrap()) {
            Ok(LogQuery { blocks, filter }) => {
                let blocks = match blocks {
                    LogBlocks::Hash(_) => "hash".to_owned(),
                    LogBlocks::Range { from, to } => format!("{from:?}..{to:?}"),
                };
                let topics: Vec<_> = filter.topics.iter().map(Vec::len).collect();
                format!("{blocks} {} {topics:?}", filter.addresses.len())
            }
            Err(error) => format!("! {error}"),
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
