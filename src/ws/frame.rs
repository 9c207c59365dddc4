//! WebSocket frames (RFC 6455 §5.2): what is sent, and how those that come in are cut.

use bytes::{BufMut, Bytes, BytesMut};

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// A whole message in UTF-8.
    Text = 1,
    /// The sender's last frame.
    Close = 8,
    /// A question whether the other side is there.
    Ping = 9,
    /// The answer to it.
    Pong = 10,
}

/// Longest payload of a control frame (RFC 6455 §5.5).
pub const CONTROL_BYTES_MAX: usize = 125;

/// The header of a whole, unmasked frame with a payload of `len` bytes.
pub fn header(opcode: Opcode, len: usize) -> Bytes {
    let mut out = BytesMut::with_capacity(10);
    put_header(&mut out, opcode, len);
    out.freeze()
}

/// A whole, unmasked frame.
pub fn frame(opcode: Opcode, payload: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(10 + payload.len());
    put_header(&mut out, opcode, payload.len());
    out.put_slice(payload);
    out.freeze()
}

/// A close frame with its reason, cut to what fits.
pub fn close(code: u16, reason: &str) -> Bytes {
    let mut end = reason.len().min(CONTROL_BYTES_MAX - 2);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let payload = [&code.to_be_bytes(), &reason.as_bytes()[..end]].concat();
    frame(Opcode::Close, &payload)
}

fn put_header(out: &mut BytesMut, opcode: Opcode, len: usize) {
    out.put_u8(FIN | opcode as u8);
    put_len(out, 0, len as u64);
}

/// The length of a payload, in as few bytes as it takes, with the bit that says whether a mask
/// follows.
fn put_len(out: &mut BytesMut, masked: u8, len: u64) {
    match len {
        0..=125 => out.put_u8(masked | len as u8),
        126..=0xffff => {
            out.put_u8(masked | 126);
            out.put_u16(len as u16);
        }
        _ => {
            out.put_u8(masked | 127);
            out.put_u64(len);
        }
    }
}

/// Cuts a client's large frames into smaller ones, in a stream of bytes, however it is cut itself:
/// whoever decodes them holds a buffer as large as the largest frame, for as long as the connection
/// lives. The messages stay what they are. What is wrong with a frame is judged by whoever decodes
/// it.
#[derive(Debug)]
pub struct Reframer {
    /// Largest payload of a message's frame; a multiple of the mask, which begins anew with each.
    most: u64,
    /// The client's present frame.
    header: [u8; HEADER_BYTES_MAX],
    have: usize,
    at: At,
    /// Bytes of that frame's payload that are in none of our frames yet.
    left: u64,
    /// Bytes of our present frame's payload that did not come yet.
    piece_left: u64,
}

/// Where a [`Reframer`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Within a client's header.
    Header,
    /// Before the first of our frames that a client's frame is cut into.
    First,
    /// Before another one.
    Next,
    /// Within the payload of one.
    Payload,
}

const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
const MASK_BYTES: usize = 4;
const HEADER_BYTES_MAX: usize = 2 + 8 + MASK_BYTES;

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The bytes ended first.
    Nothing,
    /// The client announced a frame with a payload of so many bytes.
    Announced(Opening, u64),
    /// These bytes are a part of our frames.
    Bytes(Bytes),
    /// One of our frames ended.
    End(FrameKind),
}

/// What a client's frame is to its message, as its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Its beginning.
    Message,
    /// Another part.
    Continuation,
    /// No part of a message.
    Control,
}

/// What a frame that ended is to its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A part after which another follows.
    Part,
    /// The last part of a message, or all of it.
    Last,
    /// No part of a message.
    Control,
}

impl Reframer {
    /// One whose frames have at most `words` times four bytes of payload.
    pub const fn new(words: u32) -> Self {
        Self {
            most: words as u64 * MASK_BYTES as u64,
            header: [0; HEADER_BYTES_MAX],
            have: 0,
            at: At::Header,
            left: 0,
            piece_left: 0,
        }
    }

    /// Goes on in `input`, as far as to the next thing that is to be known.
    pub fn next(&mut self, input: &mut Bytes) -> Next {
        match self.at {
            At::Header => self.read_header(input),
            At::First => Next::Bytes(self.begin(true)),
            At::Next => Next::Bytes(self.begin(false)),
            At::Payload if self.piece_left == 0 => Next::End(self.end()),
            At::Payload if input.is_empty() => Next::Nothing,
            At::Payload => {
                let most = usize::try_from(self.piece_left).unwrap_or(usize::MAX);
                let bytes = input.split_to(most.min(input.len()));
                self.piece_left -= bytes.len() as u64;
                Next::Bytes(bytes)
            }
        }
    }

    fn read_header(&mut self, input: &mut Bytes) -> Next {
        while self.have < self.header_len() {
            if input.is_empty() {
                return Next::Nothing;
            }
            let bytes = input.split_to(input.len().min(self.header_len() - self.have));
            self.header[self.have..][..bytes.len()].copy_from_slice(&bytes);
            self.have += bytes.len();
        }
        self.left = match self.header[1] & 0x7f {
            126 => u64::from(u16::from_be_bytes([self.header[2], self.header[3]])),
            127 => {
                let mut wide = [0; 8];
                wide.copy_from_slice(&self.header[2..10]);
                u64::from_be_bytes(wide)
            }
            len => u64::from(len),
        };
        self.at = At::First;
        let opening = match self.header[0] & 0x0f {
            0 => Opening::Continuation,
            1..8 => Opening::Message,
            _ => Opening::Control,
        };
        Next::Announced(opening, self.left)
    }

    /// Bytes of the header, as far as that can be told.
    const fn header_len(&self) -> usize {
        if self.have < 2 {
            return 2;
        }
        let length = match self.header[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        2 + length + self.mask_len()
    }

    const fn mask_len(&self) -> usize {
        if self.header[1] & MASKED != 0 {
            MASK_BYTES
        } else {
            0
        }
    }

    const fn is_control(&self) -> bool {
        self.header[0] & 0x08 != 0
    }

    /// The header of our next frame.
    fn begin(&mut self, is_first: bool) -> Bytes {
        self.at = At::Payload;
        self.piece_left = match self.is_control() {
            true => self.left,
            false => self.left.min(self.most),
        };
        self.left -= self.piece_left;
        let header = &self.header[..self.have];
        if is_first && self.left == 0 {
            return Bytes::copy_from_slice(header);
        }
        // The opcode and the reserved bits belong to the first frame of a message, the end of it to
        // the last one.
        let opening = if is_first { header[0] & !FIN } else { 0 };
        let end = if self.left == 0 { header[0] & FIN } else { 0 };
        let mask = &header[self.have - self.mask_len()..];
        let mut out = BytesMut::with_capacity(HEADER_BYTES_MAX);
        out.put_u8(opening | end);
        put_len(&mut out, header[1] & MASKED, self.piece_left);
        out.put_slice(mask);
        out.freeze()
    }

    fn end(&mut self) -> FrameKind {
        if self.left > 0 {
            self.at = At::Next;
            return FrameKind::Part;
        }
        (self.at, self.have) = (At::Header, 0);
        match (self.is_control(), self.header[0] & FIN != 0) {
            (true, _) => FrameKind::Control,
            (false, false) => FrameKind::Part,
            (false, true) => FrameKind::Last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client's frame.
    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = BytesMut::new();
        put_header(&mut out, Opcode::Text, payload.len());
        let mut out = out.to_vec();
        out[0] = first;
        out[1] |= 0x80;
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(payload);
        out
    }

    /// What comes of `bytes` that come in chunks of `cut`: the bytes, and what was told of them.
    fn reframed(bytes: &[u8], cut: usize, words: u32) -> (Vec<u8>, Vec<Next>) {
        let mut reframer = Reframer::new(words);
        let (mut out, mut told) = (Vec::new(), Vec::new());
        for chunk in bytes.chunks(cut) {
            let mut rest = Bytes::copy_from_slice(chunk);
            loop {
                match reframer.next(&mut rest) {
                    Next::Nothing => break,
                    Next::Bytes(bytes) => out.extend_from_slice(&bytes),
                    other => told.push(other),
                }
            }
            assert!(rest.is_empty());
        }
        (out, told)
    }

    #[test]
    fn small_frames_stay_as_they_are_however_they_are_cut() {
        use {FrameKind::*, Opening::*};
        let frames = [
            (masked(0x81, b"hello"), Message, 5, Last),
            (masked(0x01, &[7; 126]), Message, 126, Part),
            (masked(0x89, b""), Opening::Control, 0, FrameKind::Control),
            (masked(0x80, &[7; 70_000]), Continuation, 70_000, Last),
            (masked(0x82, b""), Message, 0, Last),
        ];
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.0.clone()).collect();
        let expected: Vec<Next> = frames
            .iter()
            .flat_map(|(_, opening, len, kind)| [Next::Announced(*opening, *len), Next::End(*kind)])
            .collect();
        for cut in [1, 2, 3, 7, 1_000, bytes.len()] {
            let (out, told) = reframed(&bytes, cut, 20_000);
            assert!(out == bytes, "cut at {cut}");
            assert_eq!(told, expected, "cut at {cut}");
        }
    }

    #[test]
    fn large_frames_become_small_ones() {
        let payload: Vec<u8> = (0..300_u32).map(|at| at as u8).collect();
        for (first, begins, ends) in [(0x81, 0x01, 0x80), (0x42, 0x42, 0x00), (0x80, 0x00, 0x80)] {
            let expected = [
                masked(begins, &payload[..128]),
                masked(0x00, &payload[128..256]),
                masked(ends, &payload[256..]),
            ];
            for cut in [1, 5, 131, 1_000] {
                let (out, told) = reframed(&masked(first, &payload), cut, 32);
                assert_eq!(out, expected.concat(), "{first:#x} cut at {cut}");
                let pieces = told.iter().filter(|told| matches!(told, Next::End(_)));
                assert_eq!(pieces.count(), 3);
            }
        }
        let control = masked(0x89, &payload);
        assert_eq!(reframed(&control, 9, 32).0, control, "none of a message");
        let mut unmasked = frame(Opcode::Text, &payload).to_vec();
        unmasked.truncate(4 + 127);
        let (out, _) = reframed(&unmasked, 9, 32);
        assert_eq!(out, [&b"\x01\x7e\0\x80"[..], &payload[..127]].concat());
    }

    #[test]
    fn frames_are_written_as_the_rfc_has_them() {
        assert_eq!(&frame(Opcode::Text, b"Hello")[..], b"\x81\x05Hello");
        assert_eq!(&frame(Opcode::Pong, b"Hello")[..], b"\x8a\x05Hello");
        assert_eq!(&header(Opcode::Text, 256)[..], b"\x81\x7e\x01\x00");
        assert_eq!(
            &header(Opcode::Text, 65_536)[..],
            b"\x81\x7f\0\0\0\0\0\x01\0\0"
        );
        assert_eq!(&close(1000, "ok")[..], b"\x88\x04\x03\xe8ok");
        let long = close(1013, &"ü".repeat(100));
        assert_eq!(long.len(), 2 + 2 + 122, "an even number of bytes fits");
    }
}
