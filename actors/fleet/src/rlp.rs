//! What RLP of this package has in common.

use alloy_rlp::Header;

/// Appends a list of what `items` appends.
pub(crate) fn list(out: &mut Vec<u8>, items: impl FnOnce(&mut Vec<u8>)) {
    let mut payload = Vec::new();
    items(&mut payload);
    let header = Header {
        list: true,
        payload_length: payload.len(),
    };
    header.encode(out);
    out.extend_from_slice(&payload);
}
