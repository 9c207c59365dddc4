//! Members that an upstream may misstate without being detected, and why nothing false is served.

use serde_json::Value;

use crate::upstreams::proxy::{Change, Lie};

/// Each row: a member (the last part of its path), the changes, and why they are harmless.
///
/// Only the total difficulty is served as the upstream states it.
pub(super) const EXCEPTIONS: &[(&str, &[Change], &str)] = &[
    (
        "size",
        ABSENT,
        "some upstreams leave it out, and anvil states one byte less: it is computed",
    ),
    (
        "blockTimestamp",
        ABSENT,
        "few upstreams have it: it is taken from the block",
    ),
    ("v", ABSENT, "yParity has the same value"),
    ("yParity", ABSENT, "v has the same value"),
    (
        "chainId",
        ABSENT,
        "v contains it in a transaction of type 0",
    ),
    (
        "uncles",
        ABSENT,
        "an ommer has none, so the answer need not have the member",
    ),
    (
        "contractAddress",
        ABSENT,
        "some upstreams state none for a failed creation: it is derived",
    ),
];

const ABSENT: &[Change] = &[Change::Removed, Change::Null];

/// The row that covers a lie about this answer, if any.
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
