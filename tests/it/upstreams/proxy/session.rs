//! A WebSocket session through a proxy: whole frames (RFC 6455) are passed on, and the upstream's
//! messages may be changed.

use std::{
    io::{self, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    sync::{
        Mutex,
        mpsc::{Receiver, sync_channel},
    },
    time::Instant,
};

use super::{
    loss::Link,
    state::{Call, OpenConnection, State},
};
use crate::upstreams::http::{self, Message};

const TEXT: u8 = 0x81;

/// Messages of an upstream that wait for their delay.
const MESSAGES_MAX: usize = 4_096;

/// Serves the session that this request opens, until it ends.
pub(super) fn serve(
    state: &State,
    connection: &OpenConnection<'_>,
    mut client: BufReader<TcpStream>,
    request: Message,
) -> io::Result<()> {
    let mut upstream = http::connect(state.next_upstream())?;
    let _open = state.keep(upstream.get_ref());
    // The proxy could not parse compressed frames.
    let request = request.without(&["sec-websocket-extensions"]);
    request.write(upstream.get_mut())?;
    let Some(answer) = Message::read(&mut upstream)? else {
        return Ok(());
    };
    answer.write(client.get_mut())?;
    let (mut to_client, mut to_upstream) = (
        client.get_ref().try_clone()?,
        upstream.get_ref().try_clone()?,
    );
    // All calls so far, answered or not.
    let calls = Mutex::new(Vec::new());
    let (arrived, messages) = sync_channel(MESSAGES_MAX);
    std::thread::scope(|scope| {
        // Apart from their delays, which do not add up.
        scope.spawn(move || {
            while let Ok(frame) = Frame::read(&mut upstream) {
                if arrived.send((Instant::now(), frame)).is_err() {
                    break;
                }
            }
        });
        scope.spawn(|| {
            let mut link = Link::new(state, &mut to_upstream);
            let _ = forward_calls(state, &mut client, &mut link, &calls);
            let _ = to_upstream.shutdown(Shutdown::Both);
        });
        let mut link = Link::new(state, &mut to_client);
        let result = forward_answers(state, connection, messages, &mut link, &calls);
        let _ = to_client.shutdown(Shutdown::Both);
        result
    })
}

/// Passes on the client's messages.
fn forward_calls(
    state: &State,
    client: &mut impl Read,
    upstream: &mut impl Write,
    calls: &Mutex<Vec<Call>>,
) -> io::Result<()> {
    loop {
        let frame = Frame::read(client)?;
        calls.lock().unwrap().extend(state.calls_of(&frame.payload));
        frame.write(upstream)?;
    }
}

/// Passes on the upstream's messages, with the current faults.
fn forward_answers(
    state: &State,
    connection: &OpenConnection<'_>,
    messages: Receiver<(Instant, Frame)>,
    client: &mut impl Write,
    calls: &Mutex<Vec<Call>>,
) -> io::Result<()> {
    for (arrived, mut frame) in messages {
        if state.swallows(connection) {
            continue;
        }
        if frame.first == TEXT {
            if !state.wait(arrived) {
                return Ok(());
            }
            let calls = calls.lock().unwrap();
            if state.withholds(&calls, &frame.payload) {
                continue;
            }
            let changed = state.falsify(&calls, &frame.payload);
            state.end_answered(&calls, &frame.payload);
            drop(calls);
            frame.payload = changed.unwrap_or(frame.payload);
            if state.cuts() {
                let bytes = frame.bytes();
                return client.write_all(&bytes[..bytes.len() / 2]);
            }
        }
        frame.write(client)?;
    }
    Ok(())
}

/// A frame with its mask removed.
struct Frame {
    first: u8,
    is_masked: bool,
    payload: Vec<u8>,
}

impl Frame {
    fn read(stream: &mut impl Read) -> io::Result<Self> {
        let [first, second] = bytes(stream)?;
        let length = match second & 0x7f {
            126 => u64::from(u16::from_be_bytes(bytes(stream)?)),
            127 => u64::from_be_bytes(bytes(stream)?),
            length => u64::from(length),
        };
        let is_masked = second & 0x80 != 0;
        let mask: [u8; 4] = match is_masked {
            true => bytes(stream)?,
            false => [0; 4],
        };
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut payload)?;
        let masked = payload.iter_mut().zip(mask.iter().cycle());
        masked.for_each(|(byte, mask)| *byte ^= mask);
        Ok(Self {
            first,
            is_masked,
            payload,
        })
    }

    fn bytes(&self) -> Vec<u8> {
        // A mask of zeros is valid and changes nothing.
        let mask_bit = u8::from(self.is_masked) << 7;
        let mut bytes = vec![self.first];
        match self.payload.len() {
            length @ 0..=125 => bytes.push(mask_bit | length as u8),
            length @ 126..=0xffff => {
                bytes.push(mask_bit | 126);
                bytes.extend((length as u16).to_be_bytes());
            }
            length => {
                bytes.push(mask_bit | 127);
                bytes.extend((length as u64).to_be_bytes());
            }
        }
        if self.is_masked {
            bytes.extend([0; 4]);
        }
        bytes.extend(&self.payload);
        bytes
    }

    fn write(&self, stream: &mut impl Write) -> io::Result<()> {
        stream.write_all(&self.bytes())
    }
}

fn bytes<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}
