//! The error object on the wire.

use std::fmt::Write as _;

use alloy_primitives::B256;
use nearhead_chain::call::CallError;
use nearhead_fleet::{block_id::BlockId, min_block::MinBlock};

use super::RpcError;
use crate::{
    access::{Exceeded, QuotaKind, TokenError},
    filters::FilterError,
};

impl RpcError {
    /// The error object: `{"code":…,"message":…}`, with `data` for the errors that have some.
    pub(crate) fn to_json(&self) -> String {
        let message = serde_json::Value::from(self.message());
        let mut text = format!(r#"{{"code":{},"message":{message}"#, self.code());
        let out = &mut text;
        match self {
            Self::TooManyLogs { from, to, limit } => {
                // Writing to a string cannot fail.
                let _ = write!(out, r#","data":{{"from":"{from:#x}","to":"#);
                let _ = match to {
                    Some(to) => write!(out, r#""{to:#x}""#),
                    None => out.write_str("null"),
                };
                let _ = write!(out, r#","limit":{limit}}}"#);
            }
            Self::QuotaExceeded(exceeded) => {
                let Exceeded {
                    quota,
                    allowed,
                    requests_in_last_second,
                    retry_after_seconds,
                } = exceeded;
                let _ = write!(out, r#","data":{{"backoff_seconds":{retry_after_seconds},"#);
                let _ = match quota {
                    QuotaKind::Requests => write!(
                        out,
                        r#""allowed_rps":{allowed},"current_rps":{requests_in_last_second}}}"#
                    ),
                    QuotaKind::Units => write!(out, r#""allowed_units_per_second":{allowed}}}"#),
                    QuotaKind::UnitsOfDay => write!(out, r#""allowed_units_per_day":{allowed}}}"#),
                };
            }
            Self::TooManyGuesses {
                retry_after_seconds,
            }
            | Self::Token(TokenError::TooMany {
                retry_after_seconds,
            })
            | Self::Overloaded {
                retry_after_seconds,
            } => {
                let _ = write!(
                    out,
                    r#","data":{{"backoff_seconds":{retry_after_seconds}}}"#
                );
            }
            Self::ResumeLost { number, hash } => {
                let oldest = block(*number, hash);
                let _ = write!(out, r#","data":{{"oldest":{oldest}}}"#);
            }
            Self::NotReached(reached) => {
                let (BlockId { number, hash }, wanted) = &**reached;
                let head = block(*number, hash);
                let wanted = match wanted {
                    MinBlock::Number(number) => format!(r#"{{"number":"{number:#x}"}}"#),
                    MinBlock::Hash(hash) => format!(r#"{{"hash":"{hash}"}}"#),
                    MinBlock::Block(BlockId { number, hash }) => block(*number, hash),
                };
                let _ = write!(out, r#","data":{{"head":{head},"wanted":{wanted}}}"#);
            }
            Self::Filter(FilterError::Behind { from, to }) => {
                let _ = write!(out, r#","data":{{"from":"{from:#x}","to":"{to:#x}"}}"#);
            }
            Self::Call(CallError::Reverted(data)) => {
                let _ = write!(out, r#","data":"{data}""#);
            }
            _ => {}
        }
        out.push('}');
        text
    }
}

/// A block by its number and its hash.
fn block(number: u64, hash: &B256) -> String {
    format!(r#"{{"number":"{number:#x}","hash":"{hash}"}}"#)
}
