//! What a contract says when it reverts: Solidity's `Error(string)` and `Panic(uint256)`.

use alloy_primitives::U256;

/// First bytes of `Error(string)` and of `Panic(uint256)`.
const ERROR: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];
const PANIC: [u8; 4] = [0x4e, 0x48, 0x7b, 0x71];

/// The reason in the data of a revert; `None` if it is in neither form.
///
/// Source: Solidity's documentation, "Panic via assert and Error via require"; the words are those
/// of geth.
#[must_use]
pub fn revert_reason(data: &[u8]) -> Option<String> {
    let (kind, rest) = data.split_first_chunk::<4>()?;
    match *kind {
        ERROR => {
            let at = word(rest, 0)?;
            let length = word(rest, at)?;
            let text = rest.get(at.checked_add(32)?..)?.get(..length)?;
            Some(String::from_utf8_lossy(text).into_owned())
        }
        PANIC => {
            let code = U256::from_be_slice(rest.get(..32)?);
            let name = match u64::try_from(code).ok() {
                Some(0x00) => "generic panic",
                Some(0x01) => "assert(false)",
                Some(0x11) => "arithmetic underflow or overflow",
                Some(0x12) => "division or modulo by zero",
                Some(0x21) => "enum overflow",
                Some(0x22) => "invalid encoded storage byte array accessed",
                Some(0x31) => "out-of-bounds array access; popping on an empty array",
                Some(0x32) => "out-of-bounds access of an array or bytesN",
                Some(0x41) => "out of memory",
                Some(0x51) => "uninitialized function",
                _ => return Some(format!("unknown panic code: {code:#x}")),
            };
            Some(name.to_owned())
        }
        _ => None,
    }
}

/// The number in the 32 bytes from `at` on.
fn word(data: &[u8], at: usize) -> Option<usize> {
    let bytes = data.get(at..)?.get(..32)?;
    U256::from_be_slice(bytes).try_into().ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use alloy_primitives::hex;

    use super::*;

    #[test]
    fn reasons_are_read() {
        let word = |number: u64| format!("{number:064x}");
        let error = |offset: u64, length: u64, text: &str| {
            let text = hex::encode(text);
            format!("08c379a0{}{}{text}", word(offset), word(length))
        };
        let unaligned = format!("08c379a0{}{}{}41", word(64), word(7), word(1));
        for (data, expected) in [
            (error(32, 10, "user error"), Some("user error")),
            (error(32, 4, "user error"), Some("user")),
            (error(32, 0, ""), Some("")),
            (unaligned, Some("A")),
            (error(32, 11, "user error"), None),
            (error(33, 10, "user error"), None),
            (error(u64::MAX, 10, "user error"), None),
            (error(32, u64::MAX, "user error"), None),
            ("08c379a0".to_owned(), None),
            (format!("4e487b71{}", word(1)), Some("assert(false)")),
            (
                format!("4e487b71{}", word(0x99)),
                Some("unknown panic code: 0x99"),
            ),
            ("4e487b7101".to_owned(), None),
            ("08c379".to_owned(), None),
            (String::new(), None),
        ] {
            let found = revert_reason(&hex::decode(&data).unwrap());
            assert_eq!(found.as_deref(), expected, "{data}");
        }
    }
}
