//! An upstream's unverified claim about a block.

use alloy_primitives::{B256, U64};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::CallError;

/// A block as an upstream names it, unverified: enough to fetch the block, which is then verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadClaim {
    /// Its number.
    pub(crate) number: u64,
    /// Its hash.
    pub(crate) hash: B256,
    /// Its parent's hash.
    pub(crate) parent_hash: B256,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields {
    number: U64,
    hash: B256,
    parent_hash: B256,
}

impl HeadClaim {
    /// Reads a header's or a block's JSON.
    ///
    /// # Errors
    /// [`CallError::Malformed`]: a field is missing or invalid.
    pub(crate) fn parse(json: &RawValue) -> Result<Self, CallError> {
        let fields: Fields =
            serde_json::from_str(json.get()).map_err(|error| CallError::malformed(&error))?;
        Ok(Self {
            number: fields.number.to(),
            hash: fields.hash,
            parent_hash: fields.parent_hash,
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const FULL: &str = r#"{"number":"0x10","hash":"0x0101010101010101010101010101010101010101010101010101010101010101",
        "parentHash":"0x0202020202020202020202020202020202020202020202020202020202020202","timestamp":"0xffffffffffffffff",
        "other":[{}]}"#;

    fn parse(text: &str) -> Result<HeadClaim, CallError> {
        HeadClaim::parse(&RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn a_claim_is_read() {
        let claim = HeadClaim {
            number: 16,
            hash: B256::repeat_byte(1),
            parent_hash: B256::repeat_byte(2),
        };
        assert_eq!(parse(FULL), Ok(claim));
    }

    #[test]
    fn an_invalid_claim_is_malformed() {
        for (from, to) in [
            ("\"0x10\"", "null"),
            ("\"0x10\"", "\"0x10000000000000000\""),
            ("\"number\"", "\"numbers\""),
            ("0x0101", "0x01"),
            ("parentHash", "parent_hash"),
            (FULL, "[]"),
            (FULL, "7"),
        ] {
            let text = FULL.replace(from, to);
            let error = parse(&text).unwrap_err();
            assert!(matches!(error, CallError::Malformed(_)), "{text}: {error}");
        }
    }
}
