//! What a client says of its own trace, in the header `traceparent` (W3C Trace Context, level 2).

/// The caller's span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The id of the trace.
    pub(super) trace: [u8; 16],
    /// The id of the caller's span.
    pub(super) span: [u8; 8],
    /// Whether the caller records its span.
    pub(super) is_sampled: bool,
}

/// `00-<32 digits>-<16 digits>-<2 digits>`.
const BYTES: usize = 55;

impl TraceParent {
    /// The caller's span; `None` if the header is not valid, as the specification demands. A later
    /// version may have more after the flags.
    #[must_use]
    pub fn parse(header: &[u8]) -> Option<Self> {
        let (head, rest) = header.split_at_checked(BYTES)?;
        let [version] = hex(&head[..2])?;
        let is_end = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.first().is_none_or(|byte| *byte == b'-'),
        };
        let are_dashes = [2, 35, 52].iter().all(|at| head[*at] == b'-');
        let (trace, span): ([u8; 16], [u8; 8]) = (hex(&head[3..35])?, hex(&head[36..52])?);
        let [flags] = hex(&head[53..])?;
        let is_valid = is_end && are_dashes && trace != [0; 16] && span != [0; 8];
        is_valid.then_some(Self {
            trace,
            span,
            is_sampled: flags & 1 == 1,
        })
    }
}

/// Bytes from twice as many lower-case digits.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn headers_are_read_as_the_specification_demands() {
        let zeros = ["0".repeat(32), "0".repeat(16)];
        let upper = TRACE.to_uppercase();
        for (header, sampled) in [
            (format!("00-{TRACE}-{SPAN}-01"), Some(true)),
            (format!("00-{TRACE}-{SPAN}-00"), Some(false)),
            (format!("00-{TRACE}-{SPAN}-03"), Some(true)),
            (format!("00-{TRACE}-{SPAN}-01-more"), None),
            (format!("01-{TRACE}-{SPAN}-01-more"), Some(true)),
            (format!("01-{TRACE}-{SPAN}-01.more"), None),
            (format!("ff-{TRACE}-{SPAN}-01"), None),
            (format!("00-{}-{SPAN}-01", zeros[0]), None),
            (format!("00-{TRACE}-{}-01", zeros[1]), None),
            (format!("00-{upper}-{SPAN}-01"), None),
            (format!("00_{TRACE}-{SPAN}-01"), None),
            (format!("00-{TRACE}-{SPAN}-0"), None),
            (format!("00-{TRACE}-{SPAN}-xx"), None),
            (String::new(), None),
        ] {
            let parent = TraceParent::parse(header.as_bytes());
            assert_eq!(parent.map(|parent| parent.is_sampled), sampled, "{header}");
        }
        let parent = TraceParent::parse(format!("00-{TRACE}-{SPAN}-01").as_bytes());
        let expected = TraceParent {
            trace: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes(),
            span: 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes(),
            is_sampled: true,
        };
        assert_eq!(parent, Some(expected));
    }
}
