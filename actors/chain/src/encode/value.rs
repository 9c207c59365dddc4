//! Small values that are made per request.

use alloy_consensus::Header;
use alloy_primitives::{B256, U256, hex};
use bytes::Bytes;

use super::{block, writer::JsonWriter};
use crate::json::{Json, LazyBytes, Truncated};

/// QUANTITY: `"0x…"` without leading zeros.
#[must_use]
pub fn quantity(value: U256) -> Json {
    let mut writer = JsonWriter::with_capacity(2 + 2 + 64);
    writer.quantity(value);
    Json::own(writer.finish())
}

/// QUANTITY of up to 64 bits.
#[must_use]
pub fn number(value: u64) -> Json {
    wide(value.into())
}

/// QUANTITY of up to 128 bits.
#[must_use]
pub fn wide(value: u128) -> Json {
    let mut writer = JsonWriter::with_capacity(2 + 2 + 32);
    writer.wide(value);
    Json::own(writer.finish())
}

/// DATA: a header in RLP.
#[must_use]
pub fn raw_header(header: &Header) -> Json {
    data(&alloy_rlp::encode(header))
}

/// DATA: `"0x…"`, two digits per byte.
#[must_use]
pub(crate) fn data(bytes: &[u8]) -> Json {
    let mut writer = JsonWriter::with_capacity(2 + 2 + 2 * bytes.len());
    writer.data(bytes);
    Json::own(writer.finish())
}

/// DATA of bytes that are held anyway; more than `built_max` digits are made as they are taken.
#[must_use]
pub fn shared_data(bytes: alloy_primitives::Bytes, built_max: usize) -> Json {
    digits(bytes.0, 0, built_max)
}

/// DATA of bytes that were made for this value; more than `built_max` digits are made as they are
/// taken.
#[must_use]
pub fn own_data(bytes: alloy_primitives::Bytes, built_max: usize) -> Json {
    let held = bytes.len();
    digits(bytes.0, held, built_max)
}

/// DATA of bytes, `held` of which no other value shares.
fn digits(bytes: Bytes, held: usize, built_max: usize) -> Json {
    if 2 * bytes.len() <= built_max {
        return data(&bytes);
    }
    Json::lazy(Digits {
        bytes,
        held,
        is_begun: false,
    })
}

/// Bytes as hex digits in quotes.
#[derive(Debug)]
struct Digits {
    /// The bytes not taken yet.
    bytes: Bytes,
    /// Bytes of memory that are held for them alone.
    held: usize,
    is_begun: bool,
}

/// Maximum number of digits that one call makes.
const DIGITS_MAX: usize = 32 << 10;

impl LazyBytes for Digits {
    fn len(&self) -> usize {
        match (self.is_begun, self.bytes.len()) {
            (true, 0) => 0,
            (true, bytes) => 2 * bytes + 1,
            (false, bytes) => 3 + 2 * bytes + 1,
        }
    }

    fn held(&self) -> usize {
        size_of::<Self>() + self.held
    }

    fn take(&mut self, max: usize) -> Result<Bytes, Truncated> {
        let begin: &[u8] = if self.is_begun { b"" } else { b"\"0x" };
        self.is_begun = true;
        let room = (max.min(DIGITS_MAX) - begin.len() - 1) / 2;
        let part = self.bytes.split_to(room.min(self.bytes.len()));
        let end: &[u8] = if self.bytes.is_empty() { b"\"" } else { b"" };
        Ok([begin, hex::encode(part).as_bytes(), end].concat().into())
    }
}

/// A header as newHeads sends it: a block without the members of its body.
#[must_use]
pub fn header(header: &Header, hash: &B256) -> Bytes {
    let mut writer = JsonWriter::with_capacity(block::SIZE_HINT);
    block::write_header(&mut writer, header, hash);
    writer.finish()
}

/// DATA of 32 bytes: a hash, or a storage value of eth_getStorageAt.
#[must_use]
pub fn hash(hash: &B256) -> Json {
    data(hash.as_slice())
}
