//! Bytes that a session's client sends.

use actix_http::ws::Parser;
use bytes::BytesMut;
use nearhead::{
    limits::MESSAGE_BYTES_MAX,
    sessions::frame::{Boundaries, Found},
};

/// Frames end where the decoder that takes them apart has them end, however the bytes are cut. The first byte of the input
/// says how they are.
pub fn frames(input: &[u8]) {
    let Some((cut, bytes)) = input.split_first() else {
        return;
    };
    let mut decoded = Vec::new();
    let mut rest = BytesMut::from(bytes);
    let is_refused = loop {
        match Parser::parse(&mut rest, true, MESSAGE_BYTES_MAX) {
            Ok(Some(_)) => decoded.push(bytes.len() - rest.len()),
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    let found = ends(bytes, usize::from(*cut).max(1));
    if is_refused {
        // What follows a frame that is refused is read no more.
        assert!(found.starts_with(&decoded), "{found:?} but {decoded:?}");
    } else {
        assert_eq!(found, decoded);
    }
}

fn ends(bytes: &[u8], cut: usize) -> Vec<usize> {
    let mut boundaries = Boundaries::default();
    let mut ends = Vec::new();
    let mut position = 0;
    for mut rest in bytes.chunks(cut) {
        loop {
            let (taken, found) = boundaries.next(rest);
            (position, rest) = (position + taken, &rest[taken..]);
            match found {
                Found::Begin { .. } => {}
                Found::End(_) => ends.push(position),
                Found::Nothing => break,
            }
        }
        assert!(rest.is_empty(), "{} bytes are left over", rest.len());
    }
    ends
}
