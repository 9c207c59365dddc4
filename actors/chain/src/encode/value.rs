//! The values that are made when they are asked for.

use alloy_consensus::Header;
use alloy_primitives::{B256, U256};
use bytes::Bytes;

use super::{block, writer::JsonWriter};
use crate::json::Json;

// The fuzz targets' checks name it so.

/// QUANTITY: `"0x…"` without leading zeros.
#[must_use]
pub fn quantity(value: U256) -> Json {
    let mut writer = JsonWriter::with_capacity(2 + 2 + 64);
    writer.quantity(value);
    writer.finish().into()
}

/// QUANTITY of up to 64 bits.
#[must_use]
pub fn number(value: u64) -> Json {
    let mut writer = JsonWriter::with_capacity(2 + 2 + 16);
    writer.number(value);
    writer.finish().into()
}

/// DATA: `"0x…"`, two digits a byte.
#[must_use]
pub fn data(bytes: &[u8]) -> Json {
    let mut writer = JsonWriter::with_capacity(2 + 2 + 2 * bytes.len());
    writer.data(bytes);
    writer.finish().into()
}

/// A header as newHeads has it: a block's members without those that its body makes.
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
