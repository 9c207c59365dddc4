//! What a node may say otherwise without being found out, and why nothing false is served for it.

use serde_json::Value;

use crate::peers::proxy::{Change, Lie};

/// Members by the last part of their place, changes, and why.
///
/// The total difficulty alone is taken from the node.
pub(super) const EXCEPTIONS: &[(&str, &[Change], &str)] = &[
    (
        "size",
        ABSENT,
        "some leave it out: it is computed; so it is where it is a byte short, as anvil has it",
    ),
    (
        "blockTimestamp",
        ABSENT,
        "few have it: it is the block's own",
    ),
    ("v", ABSENT, "yParity says it"),
    ("yParity", ABSENT, "v says it"),
    ("chainId", ABSENT, "v says it, of a transaction of type 0"),
    (
        "uncles",
        ABSENT,
        "an ommer has none, so an answer need not say so",
    ),
    (
        "contractAddress",
        ABSENT,
        "some say that a creation that failed created nothing: it is derived",
    ),
];

const ABSENT: &[Change] = &[Change::Removed, Change::Null];

/// The row that a lie about this answer is in, if any.
pub(super) fn of(lie: &Lie, result: &Value) -> Option<&'static str> {
    let (parent, name) = lie.path.rsplit_once('/')?;
    let object = result.pointer(parent)?;
    let is_legacy = object["type"] == "0x0";
    let is_ommer = lie.methods[0].starts_with("eth_getUncle");
    let applies = match name {
        "v" | "yParity" => !is_legacy,
        "chainId" => is_legacy,
        "uncles" => is_ommer,
        "contractAddress" => object["status"] == "0x0",
        _ => true,
    };
    let row = EXCEPTIONS
        .iter()
        .find(|(member, changes, _)| *member == name && changes.contains(&lie.change));
    row.filter(|_| applies).map(|(member, ..)| *member)
}
