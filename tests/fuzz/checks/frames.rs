//! Bytes that a client sends in a session.

use actix_http::ws::{OpCode, Parser};
use bytes::{Bytes, BytesMut};
use nearhead::{
    limits::MESSAGE_BYTES_MAX,
    ws::frame::{FrameEvent, Reframer},
};

/// The frame decoder finds the same messages before and after reframing, and no oversized frame.
///
/// The first byte of the input is the size of the arriving chunks. The second, plus one, is the
/// size of the new frames in words of four bytes.
pub fn frames(input: &[u8]) {
    let [chunk_len, words, bytes @ ..] = input else {
        return;
    };
    let words = u32::from(*words) + 1;
    let reframed = reframed(bytes, usize::from(*chunk_len).max(1), words);
    let (expected, is_refused) = messages(bytes, MESSAGE_BYTES_MAX);
    let control_bytes_max = 125;
    let (found, _) = messages(&reframed, control_bytes_max.max(words as usize * 4));
    if is_refused {
        // The decoder stops at a refused frame.
        assert!(
            found.starts_with(&expected),
            "{found:?} does not start with {expected:?}"
        );
    } else {
        assert_eq!(found, expected);
    }
}

fn reframed(bytes: &[u8], chunk_len: usize, words: u32) -> Vec<u8> {
    let mut reframer = Reframer::new(words);
    let mut out = Vec::new();
    for chunk in bytes.chunks(chunk_len) {
        let mut rest = Bytes::copy_from_slice(chunk);
        loop {
            match reframer.next(&mut rest) {
                FrameEvent::NeedsInput => break,
                FrameEvent::Bytes(bytes) => out.extend_from_slice(&bytes),
                FrameEvent::Announced(..) | FrameEvent::End(_) => {}
            }
        }
        assert!(rest.is_empty(), "{} bytes are left over", rest.len());
    }
    out
}

/// A control frame, or the consecutive frames of a message between two control frames.
#[derive(Debug, PartialEq)]
struct Run {
    opcode: OpCode,
    is_finished: bool,
    payload: Vec<u8>,
}

/// The decoded frames, and whether the decoder refused one. Unfinished messages at the end are
/// omitted: with smaller frames more of them would be decoded. There are several if one begins
/// within another, which this decoder leaves to the codec to refuse.
fn messages(bytes: &[u8], size_max: usize) -> (Vec<Run>, bool) {
    let mut runs: Vec<Run> = Vec::new();
    let mut rest = BytesMut::from(bytes);
    let is_refused = loop {
        let (is_finished, opcode, payload) = match Parser::parse(&mut rest, true, size_max) {
            Ok(Some(frame)) => frame,
            Ok(None) => break false,
            Err(_) => break true,
        };
        let payload = payload.unwrap_or_default();
        match runs.last_mut() {
            Some(run) if opcode == OpCode::Continue && is_unfinished(run) => {
                run.payload.extend_from_slice(&payload);
                run.is_finished = is_finished;
            }
            _ => runs.push(Run {
                opcode,
                is_finished,
                payload: payload.to_vec(),
            }),
        }
    };
    while runs.pop_if(|run| is_unfinished(run)).is_some() {}
    (runs, is_refused)
}

fn is_unfinished(run: &Run) -> bool {
    let is_control = matches!(run.opcode, OpCode::Close | OpCode::Ping | OpCode::Pong);
    !run.is_finished && !is_control
}
