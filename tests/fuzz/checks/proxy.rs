//! What a proxy sends before a connection.

use std::net::{IpAddr, SocketAddr};

use nearhead::proxy_header::{FIXED_BYTES, HEADER_BYTES_MAX, client, length_after};

/// A header that is accepted is bounded, and the client that it names survives writing it.
pub fn proxy_header(input: &[u8]) {
    let Some((fixed, after)) = input.split_first_chunk::<FIXED_BYTES>() else {
        return;
    };
    let Ok(length) = length_after(fixed) else {
        // It is no header, whatever follows.
        assert!(client(fixed, after).is_err());
        return;
    };
    assert!(FIXED_BYTES + length <= HEADER_BYTES_MAX);
    let Some(rest) = after.get(..length) else {
        assert!(client(fixed, after).is_err(), "cut off");
        return;
    };
    if let Ok(Some(named)) = client(fixed, rest) {
        let (fixed, rest) = written(named);
        assert_eq!(client(&fixed, &rest), Ok(Some(named)));
    }
}

fn written(client: SocketAddr) -> ([u8; FIXED_BYTES], Vec<u8>) {
    let (family, source) = match client.ip() {
        IpAddr::V4(address) => (0x11, address.octets().to_vec()),
        IpAddr::V6(address) => (0x21, address.octets().to_vec()),
    };
    let ports = [client.port().to_be_bytes(), [0, 80]].concat();
    let rest = [&source[..], &source, &ports].concat();
    let mut fixed = *b"\r\n\r\n\0\r\nQUIT\n\x21\0\0\0";
    (fixed[13], fixed[15]) = (family, rest.len() as u8);
    (fixed, rest)
}
