//! A header from an upstream's JSON, and its hash.

use alloy_consensus::Header;
use alloy_primitives::B256;

use super::{
    fault::{AnswerKind, UpstreamFault},
    reader::{Reader, fixed},
};
use crate::network;

/// Reads a header and checks the hash that the upstream states.
pub(super) fn read(
    answer: AnswerKind,
    block: Reader<'_, '_>,
) -> Result<(Header, B256), UpstreamFault> {
    let header = network::header::read(block).map_err(|error| error.of(answer))?;
    let stated = block.get("hash", fixed).map_err(|error| error.of(answer))?;
    let derived = header.hash_slow();
    if stated == derived {
        Ok((header, derived))
    } else {
        Err(UpstreamFault::BlockHash { stated, derived })
    }
}
