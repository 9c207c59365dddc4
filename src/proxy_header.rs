//! The header of the PROXY protocol, version 2, by which a proxy says for whom it connects
//! (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// How each header begins. No request of HTTP and no TLS handshake begins like this.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes before the addresses: the signature, version and command, family, length.
pub const FIXED_BYTES: usize = 16;

/// Longest header in bytes: the largest that a sender may rely on in one packet, which leaves room
/// for the addresses and some values besides.
pub const HEADER_BYTES_MAX: usize = 536;

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyHeaderError {
    /// It is of version 1, or no header at all.
    #[error("it does not begin with the signature of version 2")]
    Signature,
    /// Another version.
    #[error("its version is not 2")]
    Version,
    /// Neither LOCAL nor PROXY.
    #[error("its command is unknown")]
    Command,
    /// The proxied connection is none of TCP.
    #[error("its connection is not one of TCP")]
    Family,
    /// It is longer than [`HEADER_BYTES_MAX`].
    #[error("it is too long")]
    TooLong,
    /// It is shorter than its addresses.
    #[error("it is shorter than its addresses")]
    TooShort,
}

/// How many bytes follow the fixed ones.
///
/// # Errors
/// This is no header, or one that is too long.
pub fn length_after(fixed: &[u8; FIXED_BYTES]) -> Result<usize, ProxyHeaderError> {
    if fixed[..12] != SIGNATURE {
        return Err(ProxyHeaderError::Signature);
    }
    if fixed[12] >> 4 != 2 {
        return Err(ProxyHeaderError::Version);
    }
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    match FIXED_BYTES + length > HEADER_BYTES_MAX {
        true => Err(ProxyHeaderError::TooLong),
        false => Ok(length),
    }
}

/// The client that a header names, given the fixed bytes and those that follow; `None` if the proxy
/// connects for itself (LOCAL), or does not know the address.
///
/// # Errors
/// The header is malformed, or of something other than a connection of TCP.
pub fn client(
    fixed: &[u8; FIXED_BYTES],
    rest: &[u8],
) -> Result<Option<SocketAddr>, ProxyHeaderError> {
    if length_after(fixed)? != rest.len() {
        return Err(ProxyHeaderError::TooShort);
    }
    match fixed[12] & 0x0f {
        // What follows is to be ignored.
        0 => return Ok(None),
        1 => {}
        _ => return Err(ProxyHeaderError::Command),
    }
    // Source and destination address, source and destination port, then other values.
    let (address, port_at): (IpAddr, usize) = match fixed[13] {
        // Unspecified: the proxy does not know.
        0x00 => return Ok(None),
        0x11 => {
            let source: [u8; 4] = array(rest, 0)?;
            (source.into(), 8)
        }
        0x21 => {
            let source: [u8; 16] = array(rest, 0)?;
            (Ipv6Addr::from(source).to_canonical(), 32)
        }
        _ => return Err(ProxyHeaderError::Family),
    };
    let port = u16::from_be_bytes(array(rest, port_at)?);
    // The destination's port is the last of the addresses.
    let _: [u8; 2] = array(rest, port_at + 2)?;
    Ok(Some(SocketAddr::new(address, port)))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], ProxyHeaderError> {
    let part = bytes.get(at..at + N).ok_or(ProxyHeaderError::TooShort)?;
    part.try_into().map_err(|_| ProxyHeaderError::TooShort)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    /// The fixed bytes of a header with so many bytes after them.
    fn fixed(command: u8, family: u8, length: usize) -> [u8; FIXED_BYTES] {
        let mut bytes = [0; FIXED_BYTES];
        bytes[..12].copy_from_slice(&SIGNATURE);
        (bytes[12], bytes[13]) = (command, family);
        let length = u16::try_from(length).unwrap_or(u16::MAX);
        bytes[14..].copy_from_slice(&length.to_be_bytes());
        bytes
    }

    /// Source, destination and their ports.
    fn addresses<const N: usize>(source: [u8; N], port: u16) -> Vec<u8> {
        [&source[..], &[9; N], &port.to_be_bytes(), &[0, 80]].concat()
    }

    #[test]
    fn headers_name_a_client_or_none() {
        use ProxyHeaderError::{Command, Family, TooShort, Version};
        let v4 = addresses([192, 0, 2, 7], 4_711);
        let v6 = addresses(
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7).octets(),
            4_712,
        );
        let mapped = addresses(Ipv4Addr::new(192, 0, 2, 7).to_ipv6_mapped().octets(), 4_713);
        let with_values = [&v4[..], &[0x04, 0, 1, 0]].concat();
        let at = |text: &str| Ok(text.parse().ok());
        for (command, family, rest, expected) in [
            (0x21, 0x11, &v4[..], at("192.0.2.7:4711")),
            (0x21, 0x21, &v6, at("[2001:db8::7]:4712")),
            (0x21, 0x21, &mapped, at("192.0.2.7:4713")),
            (0x21, 0x11, &with_values, at("192.0.2.7:4711")),
            // LOCAL, whatever follows.
            (0x20, 0x00, &[], Ok(None)),
            (0x20, 0x11, &v4, Ok(None)),
            (0x20, 0x99, &[1, 2, 3], Ok(None)),
            (0x21, 0x00, &[], Ok(None)),
            (0x21, 0x00, &v4, Ok(None)),
            (0x21, 0x11, &v4[..11], Err(TooShort)),
            (0x21, 0x11, &[], Err(TooShort)),
            (0x21, 0x21, &v6[..35], Err(TooShort)),
            // UDP, UNIX sockets, and what does not exist.
            (0x21, 0x12, &v4, Err(Family)),
            (0x21, 0x22, &v6, Err(Family)),
            (0x21, 0x31, &[0; 216], Err(Family)),
            (0x21, 0x10, &v4, Err(Family)),
            (0x22, 0x11, &v4, Err(Command)),
            (0x11, 0x11, &v4, Err(Version)),
            (0x31, 0x11, &v4, Err(Version)),
        ] {
            let found = client(&fixed(command, family, rest.len()), rest);
            assert_eq!(found, expected, "{command:#x} {family:#x} {rest:?}");
        }
    }

    #[test]
    fn what_is_no_header_is_found_by_its_first_bytes() {
        use ProxyHeaderError::{Signature, TooLong, TooShort};
        let most = HEADER_BYTES_MAX - FIXED_BYTES;
        for (bytes, expected) in [
            (fixed(0x21, 0x11, 12), Ok(12)),
            (fixed(0x21, 0x11, most), Ok(most)),
            (fixed(0x21, 0x11, most + 1), Err(TooLong)),
            (fixed(0x20, 0, usize::MAX), Err(TooLong)),
            (*b"PROXY TCP4 192.0", Err(Signature)),
            (*b"GET / HTTP/1.1\r\n", Err(Signature)),
            ([0; FIXED_BYTES], Err(Signature)),
        ] {
            assert_eq!(length_after(&bytes), expected, "{bytes:?}");
        }
        assert_eq!(client(&fixed(0x20, 0, 1), &[]), Err(TooShort));
    }

    proptest! {
        /// What a proxy writes is read, with whatever follows the addresses.
        #[test]
        fn addresses_are_read_as_written(
            v4: [u8; 4],
            v6: [u8; 16],
            port: u16,
            values in prop::collection::vec(any::<u8>(), 0..400),
        ) {
            let rest = [addresses(v4, port), values.clone()].concat();
            let found = client(&fixed(0x21, 0x11, rest.len()), &rest);
            prop_assert_eq!(found, Ok(Some(SocketAddr::from((v4, port)))));
            let rest = [addresses(v6, port), values].concat();
            let found = client(&fixed(0x21, 0x21, rest.len()), &rest);
            let address = Ipv6Addr::from(v6).to_canonical();
            prop_assert_eq!(found, Ok(Some(SocketAddr::new(address, port))));
        }
    }
}
