//! WebSocket frames (RFC 6455 §5.2): encoding those sent, splitting those received.

use bytes::{BufMut, Bytes, BytesMut};

/// The opcode of a frame (RFC 6455 §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Opcode {
    /// A whole message in UTF-8.
    Text = 1,
    /// The sender's last frame.
    Close = 8,
    /// A check whether the other side is alive.
    Ping = 9,
    /// The answer to a ping.
    Pong = 10,
}

/// Longest payload of a control frame (RFC 6455 §5.5).
pub(crate) const CONTROL_BYTES_MAX: usize = 125;

/// The header of a final, unmasked frame with a payload of `len` bytes.
pub(crate) fn header(opcode: Opcode, len: usize) -> Bytes {
    let mut out = BytesMut::with_capacity(10);
    put_header(&mut out, opcode, len);
    out.freeze()
}

/// A final, unmasked frame.
pub(crate) fn frame(opcode: Opcode, payload: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(10 + payload.len());
    put_header(&mut out, opcode, payload.len());
    out.put_slice(payload);
    out.freeze()
}

/// A close frame; a text that is too long is cut.
pub(crate) fn close(code: u16, text: &str) -> Bytes {
    let mut end = text.len().min(CONTROL_BYTES_MAX - 2);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let payload = [&code.to_be_bytes(), &text.as_bytes()[..end]].concat();
    frame(Opcode::Close, &payload)
}

fn put_header(out: &mut BytesMut, opcode: Opcode, len: usize) {
    out.put_u8(FIN | opcode as u8);
    put_len(out, 0, len as u64);
}

/// Appends a payload's length in its shortest encoding; `masked` is the mask bit or 0.
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

/// Splits a client's large frames into smaller ones, in a stream of bytes that arrives in arbitrary
/// pieces.
///
/// The decoder behind it keeps a buffer as large as the largest frame for as long as the connection
/// lives. The messages stay the same, and the decoder checks the frames.
#[derive(Debug)]
pub struct Reframer {
    /// Largest payload of an output frame: a multiple of the mask's length, because the mask starts
    /// again with each frame.
    payload_max: u64,
    /// The header of the current input frame, of which `header_read` bytes have arrived.
    header: [u8; HEADER_BYTES_MAX],
    header_read: usize,
    position: Position,
    /// Bytes of the input frame's payload that are not part of an output frame yet.
    input_left: u64,
    /// Bytes of the output frame's payload that have not arrived yet.
    output_left: u64,
}

/// Where in the stream a [`Reframer`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// Within the header of an input frame.
    Header,
    /// Before the first output frame of an input frame.
    First,
    /// Before another output frame of the same input frame.
    Next,
    /// Within the payload of an output frame.
    Payload,
}

const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
const MASK_BYTES: usize = 4;
const HEADER_BYTES_MAX: usize = 2 + 8 + MASK_BYTES;

/// What a [`Reframer`] found next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameEvent {
    /// All input was consumed; the next event needs more.
    NeedsInput,
    /// The header of an input frame, with the length of its payload.
    Announced(FrameStart, u64),
    /// Bytes of the output.
    Bytes(Bytes),
    /// An output frame ended.
    End(FrameKind),
}

/// The role of an input frame, from its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameStart {
    /// The first frame of a message.
    Message,
    /// Another frame of a message.
    Continuation,
    /// Not part of a message.
    Control,
}

/// The role of an output frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Part of a message; another follows.
    Part,
    /// The last part of a message, or the whole message.
    Last,
    /// Not part of a message.
    Control,
}

impl Reframer {
    /// A reframer whose output frames have at most `words` times four bytes of payload.
    pub const fn new(words: u32) -> Self {
        Self {
            payload_max: words as u64 * MASK_BYTES as u64,
            header: [0; HEADER_BYTES_MAX],
            header_read: 0,
            position: Position::Header,
            input_left: 0,
            output_left: 0,
        }
    }

    /// Consumes `input` up to the next event.
    pub fn next(&mut self, input: &mut Bytes) -> FrameEvent {
        match self.position {
            Position::Header => self.read_header(input),
            Position::First => FrameEvent::Bytes(self.begin(true)),
            Position::Next => FrameEvent::Bytes(self.begin(false)),
            Position::Payload if self.output_left == 0 => FrameEvent::End(self.end()),
            Position::Payload if input.is_empty() => FrameEvent::NeedsInput,
            Position::Payload => {
                let most = usize::try_from(self.output_left).unwrap_or(usize::MAX);
                let bytes = input.split_to(most.min(input.len()));
                self.output_left -= bytes.len() as u64;
                FrameEvent::Bytes(bytes)
            }
        }
    }

    fn read_header(&mut self, input: &mut Bytes) -> FrameEvent {
        while self.header_read < self.header_len() {
            if input.is_empty() {
                return FrameEvent::NeedsInput;
            }
            let bytes = input.split_to(input.len().min(self.header_len() - self.header_read));
            self.header[self.header_read..][..bytes.len()].copy_from_slice(&bytes);
            self.header_read += bytes.len();
        }
        self.input_left = match self.header[1] & 0x7f {
            126 => u64::from(u16::from_be_bytes([self.header[2], self.header[3]])),
            127 => {
                let mut wide = [0; 8];
                wide.copy_from_slice(&self.header[2..10]);
                u64::from_be_bytes(wide)
            }
            len => u64::from(len),
        };
        self.position = Position::First;
        let start = match self.header[0] & 0x0f {
            0 => FrameStart::Continuation,
            1..8 => FrameStart::Message,
            _ => FrameStart::Control,
        };
        FrameEvent::Announced(start, self.input_left)
    }

    /// Length of the header; 2 until its first two bytes, which state the rest, are read.
    const fn header_len(&self) -> usize {
        if self.header_read < 2 {
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

    /// The header of the next output frame.
    fn begin(&mut self, is_first: bool) -> Bytes {
        self.position = Position::Payload;
        self.output_left = match self.is_control() {
            true => self.input_left,
            false => self.input_left.min(self.payload_max),
        };
        self.input_left -= self.output_left;
        let header = &self.header[..self.header_read];
        if is_first && self.input_left == 0 {
            return Bytes::copy_from_slice(header);
        }
        // The opcode and the reserved bits go to the first output frame, FIN to the last one.
        let start = if is_first { header[0] & !FIN } else { 0 };
        let end = if self.input_left == 0 {
            header[0] & FIN
        } else {
            0
        };
        let mask = &header[self.header_read - self.mask_len()..];
        let mut out = BytesMut::with_capacity(HEADER_BYTES_MAX);
        out.put_u8(start | end);
        put_len(&mut out, header[1] & MASKED, self.output_left);
        out.put_slice(mask);
        out.freeze()
    }

    fn end(&mut self) -> FrameKind {
        if self.input_left > 0 {
            self.position = Position::Next;
            return FrameKind::Part;
        }
        (self.position, self.header_read) = (Position::Header, 0);
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

    /// Reframes `bytes` in chunks of `cut` bytes. Returns the output, and the other events.
    fn reframed(bytes: &[u8], cut: usize, words: u32) -> (Vec<u8>, Vec<FrameEvent>) {
        let mut reframer = Reframer::new(words);
        let (mut out, mut events) = (Vec::new(), Vec::new());
        for chunk in bytes.chunks(cut) {
            let mut rest = Bytes::copy_from_slice(chunk);
            loop {
                match reframer.next(&mut rest) {
                    FrameEvent::NeedsInput => break,
                    FrameEvent::Bytes(bytes) => out.extend_from_slice(&bytes),
                    other => events.push(other),
                }
            }
            assert!(rest.is_empty());
        }
        (out, events)
    }

    #[test]
    fn small_frames_stay_the_same_however_the_stream_is_cut() {
        use {FrameKind::*, FrameStart::*};
        let frames = [
            (masked(0x81, b"hello"), Message, 5, Last),
            (masked(0x01, &[7; 126]), Message, 126, Part),
            (
                masked(0x89, b""),
                FrameStart::Control,
                0,
                FrameKind::Control,
            ),
            (masked(0x80, &[7; 70_000]), Continuation, 70_000, Last),
            (masked(0x82, b""), Message, 0, Last),
        ];
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.0.clone()).collect();
        let expected: Vec<FrameEvent> = frames
            .iter()
            .flat_map(|(_, start, len, kind)| {
                [FrameEvent::Announced(*start, *len), FrameEvent::End(*kind)]
            })
            .collect();
        for cut in [1, 2, 3, 7, 1_000, bytes.len()] {
            let (out, events) = reframed(&bytes, cut, 20_000);
            assert!(out == bytes, "cut at {cut}");
            assert_eq!(events, expected, "cut at {cut}");
        }
    }

    #[test]
    fn large_frames_are_split() {
        let payload: Vec<u8> = (0..300_u32).map(|index| index as u8).collect();
        for (first, start, end) in [(0x81, 0x01, 0x80), (0x42, 0x42, 0x00), (0x80, 0x00, 0x80)] {
            let expected = [
                masked(start, &payload[..128]),
                masked(0x00, &payload[128..256]),
                masked(end, &payload[256..]),
            ];
            for cut in [1, 5, 131, 1_000] {
                let (out, events) = reframed(&masked(first, &payload), cut, 32);
                assert_eq!(out, expected.concat(), "{first:#x} cut at {cut}");
                let frames = events
                    .iter()
                    .filter(|event| matches!(event, FrameEvent::End(_)));
                assert_eq!(frames.count(), 3);
            }
        }
        let control = masked(0x89, &payload);
        assert_eq!(
            reframed(&control, 9, 32).0,
            control,
            "a control frame is not split"
        );
        let mut unmasked = frame(Opcode::Text, &payload).to_vec();
        unmasked.truncate(4 + 127);
        let (out, _) = reframed(&unmasked, 9, 32);
        assert_eq!(out, [&b"\x01\x7e\0\x80"[..], &payload[..127]].concat());
    }

    #[test]
    fn frames_are_encoded_as_in_the_rfc() {
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
