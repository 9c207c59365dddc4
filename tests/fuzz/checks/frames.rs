//! Bytes that a session's client sends.

use actix_http::ws::{OpCode, Parser};
use bytes::{Bytes, BytesMut};
use nearhead::{
    limits::MESSAGE_BYTES_MAX,
    ws::frame::{FrameEvent, Reframer},
};

/// The decoder that takes frames apart finds the same messages in those that were cut smaller as in
/// those that came, and none that is too large. The first byte of the input says how the bytes
/// come, the second how small.
pub fn frames(input: &[u8]) {
    let [cut, words, bytes @ ..] = input else {
        return;
    };
    let words = u32::from(*words) + 1;
    let reframed = reframed(bytes, usize::from(*cut).max(1), words);
    let (expected, is_refused) = messages(bytes, MESSAGE_BYTES_MAX);
    let control_bytes_max = 125;
    let (found, _) = messages(&reframed, control_bytes_max.max(words as usize * 4));
    if is_refused {
        // What follows a frame that is refused is read no more.
        assert!(found.starts_with(&expected), "{found:?} but {expected:?}");
    } else {
        assert_eq!(found, expected);
    }
}

fn reframed(bytes: &[u8], cut: usize, words: u32) -> Vec<u8> {
    let mut reframer = Reframer::new(words);
    let mut out = Vec::new();
    for chunk in bytes.chunks(cut) {
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

/// A control frame, or the parts of a message up to the next one.
#[derive(Debug, PartialEq)]
struct Run {
    opcode: OpCode,
    is_finished: bool,
    payload: Vec<u8>,
}

/// What is decoded, and whether something was refused. A last part of a message that goes on is
/// left out: it is there as soon as its frame is, and a smaller one is there sooner.
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
            Some(run) if opcode == OpCode::Continue && goes_on(run) => {
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
    runs.pop_if(|run| goes_on(run));
    (runs, is_refused)
}

fn goes_on(run: &Run) -> bool {
    let is_control = matches!(run.opcode, OpCode::Close | OpCode::Ping | OpCode::Pong);
    !run.is_finished && !is_control
}
