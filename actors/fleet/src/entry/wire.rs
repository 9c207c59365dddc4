//! How entries are written in RLP. Reading never panics, and reserves no memory for what a length
//! only claims.
//!
//! ```text
//! entry    = [epoch, sequence, previous, kind, content]
//! snapshot = [part, parts, head, blocks, settled, records]      kind 0
//! change   = [ancestor, reverted, blocks, settled, records]     kind 1
//! block    = [number, hash, parent, bytes]
//! head, ancestor = [number, hash]
//! settled  = [safe or [], finalized or []]                    each in a list of its own
//! ```

use alloy_primitives::{B256, Bytes};
use alloy_rlp::{Decodable, Encodable, Error, Header};

use super::content::{Content, HeadChange, Settled, SnapshotPart};
use crate::{
    block_id::{BlockId, EntryBlock},
    bounds::{ENTRY_BLOCKS_MAX, SNAPSHOT_PARTS_MAX},
    position::Position,
    rlp::list,
};

const SNAPSHOT: u8 = 0;
const CHANGE: u8 = 1;

/// Writes the entry without version and MAC.
pub(super) fn encode(position: Position, previous: B256, content: &Content, out: &mut Vec<u8>) {
    list(out, |out| {
        position.epoch.encode(out);
        position.sequence.encode(out);
        previous.encode(out);
        match content {
            Content::Snapshot(part) => {
                SNAPSHOT.encode(out);
                list(out, |out| encode_part(part, out));
            }
            Content::Change(change) => {
                CHANGE.encode(out);
                list(out, |out| encode_change(change, out));
            }
        }
    });
}

fn encode_part(part: &SnapshotPart, out: &mut Vec<u8>) {
    part.part.encode(out);
    part.parts.encode(out);
    encode_id(part.head, out);
    encode_blocks(&part.blocks, out);
    encode_settled(part.settled, out);
    part.records.encode(out);
}

fn encode_change(change: &HeadChange, out: &mut Vec<u8>) {
    encode_id(change.ancestor, out);
    list(out, |out| {
        change.reverted.iter().for_each(|hash| hash.encode(out))
    });
    encode_blocks(&change.blocks, out);
    encode_settled(change.settled, out);
    change.records.encode(out);
}

fn encode_id(id: BlockId, out: &mut Vec<u8>) {
    list(out, |out| {
        id.number.encode(out);
        id.hash.encode(out);
    });
}

fn encode_blocks(blocks: &[EntryBlock], out: &mut Vec<u8>) {
    list(out, |out| {
        for block in blocks {
            list(out, |out| {
                block.id.number.encode(out);
                block.id.hash.encode(out);
                block.parent.encode(out);
                block.bytes.encode(out);
            });
        }
    });
}

fn encode_settled(settled: Settled, out: &mut Vec<u8>) {
    list(out, |out| {
        for number in [settled.safe, settled.finalized] {
            list(out, |out| {
                number.iter().for_each(|number| number.encode(out))
            });
        }
    });
}

/// Reads the entry without version and MAC.
pub(super) fn decode(mut bytes: &[u8]) -> Result<(Position, B256, Content), Error> {
    let entry = within(&mut bytes, |rest| {
        let position = Position::new(u64::decode(rest)?, u64::decode(rest)?);
        let previous = B256::decode(rest)?;
        let content = match u8::decode(rest)? {
            SNAPSHOT => Content::Snapshot(within(rest, decode_part)?),
            CHANGE => Content::Change(within(rest, decode_change)?),
            _ => return Err(Error::Custom("unknown kind of entry")),
        };
        Ok((position, previous, content))
    })?;
    match bytes.is_empty() {
        true => Ok(entry),
        false => Err(Error::UnexpectedLength),
    }
}

/// Reads a list, which has nothing besides what `read` takes.
fn within<T>(
    bytes: &mut &[u8],
    read: impl FnOnce(&mut &[u8]) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut payload = Header::decode_bytes(bytes, true)?;
    let value = read(&mut payload)?;
    match payload.is_empty() {
        true => Ok(value),
        false => Err(Error::UnexpectedLength),
    }
}

/// Reads a list of at most `most` items.
fn items<T>(
    bytes: &mut &[u8],
    most: usize,
    read: impl Fn(&mut &[u8]) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let mut payload = Header::decode_bytes(bytes, true)?;
    let mut found = Vec::new();
    while !payload.is_empty() {
        if found.len() == most {
            return Err(Error::Custom("too many items"));
        }
        found.push(read(&mut payload)?);
    }
    Ok(found)
}

fn decode_part(bytes: &mut &[u8]) -> Result<SnapshotPart, Error> {
    let (part, parts) = (u32::decode(bytes)?, u32::decode(bytes)?);
    if part >= parts || parts > SNAPSHOT_PARTS_MAX {
        return Err(Error::Custom("no such part"));
    }
    Ok(SnapshotPart {
        part,
        parts,
        head: within(bytes, decode_id)?,
        blocks: items(bytes, ENTRY_BLOCKS_MAX, decode_block)?,
        settled: within(bytes, decode_settled)?,
        records: u64::decode(bytes)?,
    })
}

fn decode_change(bytes: &mut &[u8]) -> Result<HeadChange, Error> {
    Ok(HeadChange {
        ancestor: within(bytes, decode_id)?,
        reverted: items(bytes, ENTRY_BLOCKS_MAX, B256::decode)?,
        blocks: items(bytes, ENTRY_BLOCKS_MAX, decode_block)?,
        settled: within(bytes, decode_settled)?,
        records: u64::decode(bytes)?,
    })
}

fn decode_id(bytes: &mut &[u8]) -> Result<BlockId, Error> {
    Ok(BlockId {
        number: u64::decode(bytes)?,
        hash: B256::decode(bytes)?,
    })
}

fn decode_block(bytes: &mut &[u8]) -> Result<EntryBlock, Error> {
    within(bytes, |bytes| {
        Ok(EntryBlock {
            id: decode_id(bytes)?,
            parent: B256::decode(bytes)?,
            bytes: Bytes::decode(bytes)?,
        })
    })
}

fn decode_settled(bytes: &mut &[u8]) -> Result<Settled, Error> {
    let number = |bytes: &mut &[u8]| Ok(items(bytes, 1, u64::decode)?.pop());
    Ok(Settled {
        safe: number(bytes)?,
        finalized: number(bytes)?,
    })
}
