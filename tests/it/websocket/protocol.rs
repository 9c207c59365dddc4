//! RFC 6455 frame by frame: the cases of sections 1 to 7 and 9 of the Autobahn test suite.

use super::{
    GOOD,
    client::{BINARY, CLOSE, CONTINUATION, Client, PING, PONG, Received, TEXT, frame},
    open,
    session::GOOD_ANSWER,
};
use crate::harness::{Server, check};

const FIN: u8 = 0x80;
const PARSE_ERROR: &str =
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}"#;

/// One exchange on a new session.
struct Case {
    name: String,
    sent: Vec<u8>,
    expected: Expected,
}

enum Expected {
    /// These frames; the session stays open.
    Frames(Vec<(u8, Vec<u8>)>),
    /// A close frame with this code; the connection ends.
    Close(u16),
    /// An echo of the client's close frame; the connection ends.
    Echo(Vec<u8>),
}

fn run(server: &Server, case: &Case) {
    let mut session: Client = open(server);
    session.send_bytes(&case.sent);
    match &case.expected {
        Expected::Frames(frames) => {
            for (opcode, payload) in frames {
                let expected = Received::Frame(*opcode, payload.clone());
                check(&case.name, &session.receive(), &expected);
            }
            session.text(GOOD);
            let good = Received::Frame(TEXT, GOOD_ANSWER.into());
            check(&format!("after {}", case.name), &session.receive(), &good);
        }
        Expected::Close(code) => {
            let (closed, reason) = session.close_code();
            check(&format!("{}: {reason}", case.name), &closed, code);
            session.wait_end();
        }
        Expected::Echo(payload) => {
            let expected = Received::Frame(CLOSE, payload.clone());
            check(&case.name, &session.receive(), &expected);
            session.wait_end();
        }
    }
}

fn case(name: impl Into<String>, sent: Vec<u8>, expected: Expected) -> Case {
    Case {
        name: name.into(),
        sent,
        expected,
    }
}

fn answer() -> (u8, Vec<u8>) {
    (TEXT, GOOD_ANSWER.into())
}

fn parse_error() -> (u8, Vec<u8>) {
    (TEXT, PARSE_ERROR.into())
}

/// A request padded to this length.
fn padded(len: usize) -> Vec<u8> {
    let mut request = GOOD.as_bytes().to_vec();
    request.resize(len.max(request.len()), b' ');
    request
}

fn messages() -> Vec<Case> {
    let mut cases = Vec::new();
    for opcode in [TEXT, BINARY] {
        for len in [0, 125, 126, 127, 128, 65_535, 65_536, 65_537, 1 << 20] {
            let expected = Expected::Frames(vec![answer()]);
            let sent = frame(FIN | opcode, &padded(len));
            cases.push(case(
                format!("message {opcode} of {len} bytes"),
                sent,
                expected,
            ));
        }
        let empty = frame(FIN | opcode, b"");
        cases.push(case(
            "an empty message",
            empty,
            Expected::Frames(vec![parse_error()]),
        ));
        for pieces in [1, 2, 3, 7, 51] {
            let request = GOOD.as_bytes();
            let chunks: Vec<&[u8]> = request.chunks(request.len().div_ceil(pieces)).collect();
            for ping in [false, true] {
                let mut sent = Vec::new();
                let mut expected = Vec::new();
                for (at, chunk) in chunks.iter().enumerate() {
                    let opcode = if at == 0 { opcode } else { CONTINUATION };
                    let fin = if at + 1 == chunks.len() { FIN } else { 0 };
                    sent.extend(frame(fin | opcode, chunk));
                    if ping && at + 1 < chunks.len() {
                        sent.extend(frame(FIN | PING, &[at as u8]));
                        expected.push((PONG, vec![at as u8]));
                    }
                }
                expected.push(answer());
                let name = format!("message {opcode} in {pieces} pieces, pings between: {ping}");
                cases.push(case(name, sent, Expected::Frames(expected)));
            }
        }
    }
    let with_empty = [
        frame(TEXT, b""),
        frame(CONTINUATION, b""),
        frame(FIN, GOOD.as_bytes()),
    ];
    cases.push(case(
        "empty pieces",
        with_empty.concat(),
        Expected::Frames(vec![answer()]),
    ));
    let two = [
        frame(FIN | TEXT, GOOD.as_bytes()),
        frame(FIN | BINARY, GOOD.as_bytes()),
    ]
    .concat();
    cases.push(case(
        "two messages at once",
        two,
        Expected::Frames(vec![answer(), answer()]),
    ));
    let too_large = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"request body too large, send at most 5 MiB"}}"#;
    let sent = frame(FIN | TEXT, &padded((5 << 20) + 1));
    let expected = Expected::Frames(vec![(TEXT, too_large.into())]);
    cases.push(case("larger than a request may be", sent, expected));
    let header = [
        &[FIN | TEXT, 0xff][..],
        &((32_u64 << 20) + 1).to_be_bytes(),
        &[0; 4],
    ]
    .concat();
    cases.push(case(
        "larger than a message may be",
        header,
        Expected::Close(1009),
    ));
    let huge = [&[FIN | TEXT, 0xff][..], &u64::MAX.to_be_bytes(), &[0; 4]].concat();
    cases.push(case("larger than anything", huge, Expected::Close(1009)));
    let mut pieces = frame(TEXT, &[b' '; 1 << 20]);
    for _ in 0..32 {
        pieces.extend(frame(CONTINUATION, &[b' '; 1 << 20]));
    }
    cases.push(case("too large in pieces", pieces, Expected::Close(1009)));
    cases
}

fn control_frames() -> Vec<Case> {
    let mut cases = Vec::new();
    for len in [0, 1, 124, 125] {
        let payload = vec![b'p'; len];
        let expected = Expected::Frames(vec![(PONG, payload.clone())]);
        let sent = frame(FIN | PING, &payload);
        cases.push(case(format!("ping of {len} bytes"), sent, expected));
    }
    let pings: Vec<Vec<u8>> = (0..50_u8).map(|at| frame(FIN | PING, &[at])).collect();
    let pongs = (0..50_u8).map(|at| (PONG, vec![at])).collect();
    cases.push(case("50 pings", pings.concat(), Expected::Frames(pongs)));
    let unsolicited = frame(FIN | PONG, b"unsolicited");
    cases.push(case(
        "an unsolicited pong",
        unsolicited,
        Expected::Frames(Vec::new()),
    ));
    for opcode in [PING, PONG, CLOSE] {
        let long = frame(FIN | opcode, &[b'x'; 126]);
        cases.push(case(
            format!("control frame {opcode} of 126 bytes"),
            long,
            Expected::Close(1002),
        ));
        let cut = [frame(opcode, b"a"), frame(FIN, b"b")].concat();
        cases.push(case(
            format!("control frame {opcode} in pieces"),
            cut,
            Expected::Close(1002),
        ));
    }
    cases
}

fn violations() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut violation = |name: String, sent: Vec<u8>| {
        cases.push(case(name, sent, Expected::Close(1002)));
    };
    for opcode in [CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG] {
        for reserved in 1..8_u8 {
            let sent = frame(FIN | reserved << 4 | opcode, b"");
            violation(format!("reserved bits {reserved} of {opcode}"), sent);
        }
        let mut unmasked = vec![FIN | opcode, GOOD.len() as u8];
        unmasked.extend_from_slice(GOOD.as_bytes());
        violation(format!("unmasked {opcode}"), unmasked);
    }
    for opcode in (3..8).chain(11..16) {
        violation(format!("opcode {opcode}"), frame(FIN | opcode, b""));
        let within = [frame(TEXT, b"{"), frame(FIN | opcode, b"")].concat();
        violation(format!("opcode {opcode} within a message"), within);
    }
    violation(
        "a final frame without a first frame".into(),
        frame(FIN, b"x"),
    );
    violation(
        "a continuation without a first frame".into(),
        frame(CONTINUATION, b"x"),
    );
    for opcode in [TEXT, BINARY] {
        let twice = [frame(TEXT, b"{"), frame(FIN | opcode, b"}")].concat();
        violation(format!("a message {opcode} within a message"), twice);
        let again = [frame(TEXT, b"{"), frame(opcode, b"}")].concat();
        violation(
            format!("an unfinished message {opcode} within a message"),
            again,
        );
    }
    cases
}

fn closes() -> Vec<Case> {
    let mut cases = vec![case(
        "close without a code",
        frame(FIN | CLOSE, b""),
        Expected::Echo(Vec::new()),
    )];
    for code in [
        1000_u16, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999,
    ] {
        let payload = [&code.to_be_bytes()[..], b"bye"].concat();
        let expected = Expected::Echo(code.to_be_bytes().to_vec());
        cases.push(case(
            format!("close {code}"),
            frame(FIN | CLOSE, &payload),
            expected,
        ));
    }
    for code in [
        0_u16, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535,
    ] {
        let sent = frame(FIN | CLOSE, &code.to_be_bytes());
        cases.push(case(format!("close {code}"), sent, Expected::Close(1002)));
    }
    let one = frame(FIN | CLOSE, b"x");
    cases.push(case("close with half a code", one, Expected::Close(1002)));
    let garbage = [&1000_u16.to_be_bytes()[..], b"\xce\xba\xe1\xff"].concat();
    // 1007 would be the better code; the library checks close frames itself and reports 1002.
    let sent = frame(FIN | CLOSE, &garbage);
    cases.push(case(
        "close with a reason that is not UTF-8",
        sent,
        Expected::Close(1002),
    ));
    cases
}

fn utf8() -> Vec<Case> {
    let mut cases = Vec::new();
    for valid in [
        "",
        "\u{0}",
        "\u{7f}",
        "\u{80}",
        "\u{7ff}",
        "\u{800}",
        "\u{d7ff}",
        "\u{e000}",
        "\u{fffd}",
        "\u{ffff}",
        "\u{10000}",
        "\u{10ffff}",
        "κόσμε",
    ] {
        let expected = Expected::Frames(vec![parse_error()]);
        let sent = frame(FIN | TEXT, valid.as_bytes());
        cases.push(case(format!("text {valid:?}"), sent, expected));
    }
    for invalid in [
        &b"\x80"[..],
        b"\xbf",
        b"\xc0\xaf",
        b"\xc1\xbf",
        b"\xc2",
        b"\xe0\x80\xaf",
        b"\xe0\x9f\xbf",
        b"\xe1\x80",
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xf0\x80\x80\xaf",
        b"\xf0\x8f\xbf\xbf",
        b"\xf0\x90\x80",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\xfe",
        b"\xff",
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80\x65",
    ] {
        let sent = frame(FIN | TEXT, invalid);
        cases.push(case(
            format!("text {invalid:x?}"),
            sent,
            Expected::Close(1007),
        ));
        let (head, tail) = invalid.split_at(invalid.len() / 2);
        let pieces = [frame(TEXT, head), frame(FIN, tail)].concat();
        cases.push(case(
            format!("pieces {invalid:x?}"),
            pieces,
            Expected::Close(1007),
        ));
        // A binary message need not be UTF-8; the JSON parser refuses it.
        let expected = Expected::Frames(vec![parse_error()]);
        cases.push(case(
            format!("bytes {invalid:x?}"),
            frame(FIN | BINARY, invalid),
            expected,
        ));
    }
    let (head, tail) = "κόσμε".as_bytes().split_at(3);
    let sent = [frame(TEXT, head), frame(FIN, tail)].concat();
    cases.push(case(
        "a character in two pieces",
        sent,
        Expected::Frames(vec![parse_error()]),
    ));
    cases
}

#[test]
fn the_server_follows_rfc_6455() {
    let server = Server::execution_apis(&[]);
    let cases: Vec<Case> = [messages(), control_frames(), violations(), closes(), utf8()]
        .into_iter()
        .flatten()
        .collect();
    assert!(cases.len() >= 200, "{} cases", cases.len());
    for case in &cases {
        run(&server, case);
    }
}

#[test]
fn frames_may_arrive_byte_by_byte() {
    let server = Server::execution_apis(&[]);
    let mut session = open(&server);
    let sent = [
        frame(TEXT, &GOOD.as_bytes()[..7]),
        frame(FIN | PING, b"ping"),
        frame(FIN, &GOOD.as_bytes()[7..]),
    ]
    .concat();
    for byte in sent {
        session.send_bytes(&[byte]);
    }
    check(
        "ping",
        &session.receive(),
        &Received::Frame(PONG, b"ping".to_vec()),
    );
    check(
        "answer",
        &session.receive(),
        &Received::Frame(TEXT, GOOD_ANSWER.into()),
    );
}
