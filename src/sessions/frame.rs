//! WebSocket frames (RFC 6455 §5.2): what is sent, and where those that come in begin and end.

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
    const FIN: u8 = 0x80;
    out.put_u8(FIN | opcode as u8);
    match len {
        0..=125 => out.put_u8(len as u8),
        126..=0xffff => {
            out.put_u8(126);
            out.put_u16(len as u16);
        }
        _ => {
            out.put_u8(127);
            out.put_u64(len as u64);
        }
    }
}

/// Finds where a client's frames begin and end in a stream of bytes, however it is cut. What is wrong with a frame is
/// judged by whoever decodes it.
#[derive(Debug, Default)]
pub struct Boundaries {
    header: [u8; 14],
    have: usize,
    /// Bytes of the payload that did not come yet; `None` inside the header.
    left: Option<u64>,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The bytes ended first.
    Nothing,
    /// A header ended: a frame with a payload of so many bytes, of a message or a control frame.
    Begin {
        /// Bytes of the payload.
        len: u64,
        /// Whether it is a part of a message.
        is_data: bool,
    },
    /// A frame ended.
    End(FrameKind),
}

/// What a frame is to its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A part after which another follows.
    Part,
    /// The last part of a message, or all of it.
    Last,
    /// No part of a message.
    Control,
}

impl Boundaries {
    /// Goes on to the next boundary in `bytes`: how many of them come before it, and what it is.
    pub fn next(&mut self, bytes: &[u8]) -> (usize, Found) {
        let Some(left) = &mut self.left else {
            return self.next_in_header(bytes);
        };
        let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
        *left -= taken as u64;
        if *left > 0 {
            return (taken, Found::Nothing);
        }
        const FIN: u8 = 0x80;
        let kind = match (self.is_data(), self.header[0] & FIN != 0) {
            (false, _) => FrameKind::Control,
            (true, false) => FrameKind::Part,
            (true, true) => FrameKind::Last,
        };
        (self.left, self.have) = (None, 0);
        (taken, Found::End(kind))
    }

    fn next_in_header(&mut self, bytes: &[u8]) -> (usize, Found) {
        let mut taken = 0;
        while self.have < self.header_len() {
            let Some(byte) = bytes.get(taken) else {
                return (taken, Found::Nothing);
            };
            self.header[self.have] = *byte;
            self.have += 1;
            taken += 1;
        }
        let len = match self.header[1] & 0x7f {
            126 => u64::from(u16::from_be_bytes([self.header[2], self.header[3]])),
            127 => {
                let mut wide = [0; 8];
                wide.copy_from_slice(&self.header[2..10]);
                u64::from_be_bytes(wide)
            }
            len => u64::from(len),
        };
        self.left = Some(len);
        let is_data = self.is_data();
        (taken, Found::Begin { len, is_data })
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
        let mask = if self.header[1] & 0x80 != 0 { 4 } else { 0 };
        2 + length + mask
    }

    /// Whether the present frame, or the one that ended, is a part of a message.
    pub const fn is_data(&self) -> bool {
        self.header[0] & 0x08 == 0
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

    #[test]
    fn boundaries_are_the_same_however_the_bytes_are_cut() {
        let frames = [
            (masked(0x81, b"hello"), 5, FrameKind::Last),
            (masked(0x01, &[7; 126]), 126, FrameKind::Part),
            (masked(0x89, b""), 0, FrameKind::Control),
            (masked(0x80, &[7; 70_000]), 70_000, FrameKind::Last),
            (masked(0x82, b""), 0, FrameKind::Last),
        ];
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.0.clone()).collect();
        let mut ends = 0;
        let expected: Vec<(usize, Found)> = frames
            .iter()
            .flat_map(|(frame, len, kind)| {
                let start = ends;
                ends += frame.len();
                let (len, is_data) = (*len as u64, *kind != FrameKind::Control);
                let begin = start + frame.len() - len as usize;
                [
                    (begin, Found::Begin { len, is_data }),
                    (ends, Found::End(*kind)),
                ]
            })
            .collect();
        for cut in [1, 2, 3, 7, 1_000, bytes.len()] {
            let mut boundaries = Boundaries::default();
            let mut found = Vec::new();
            let mut at = 0;
            for chunk in bytes.chunks(cut) {
                let mut rest = chunk;
                loop {
                    let (taken, what) = boundaries.next(rest);
                    (at, rest) = (at + taken, &rest[taken..]);
                    match what {
                        Found::Nothing => break,
                        what => found.push((at, what)),
                    }
                }
                assert!(rest.is_empty());
            }
            assert_eq!(found, expected, "cut at {cut}");
        }
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
