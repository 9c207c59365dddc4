//! Hex and punctuation, appended to one buffer.

use alloy_primitives::{U256, hex};
use bytes::Bytes;

/// Appends JSON to a buffer. Nothing is checked: that the JSON is well formed is up to the caller.
///
/// Methods chain, so that the code that writes an object reads like the object.
#[derive(Debug)]
pub(crate) struct JsonWriter<O = Vec<u8>> {
    out: O,
}

/// What JSON is appended to.
pub(crate) trait Output {
    /// Number of bytes appended so far.
    fn len(&self) -> usize;

    /// Appends these bytes.
    fn append(&mut self, bytes: &[u8]);

    /// Appends two digits per byte.
    fn append_hex(&mut self, bytes: &[u8]);
}

/// The length of JSON that nobody needs yet.
#[derive(Debug)]
pub(crate) struct Length(usize);

impl Output for Vec<u8> {
    fn len(&self) -> usize {
        self.len()
    }

    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn append_hex(&mut self, bytes: &[u8]) {
        let start = self.len();
        self.resize(start + 2 * bytes.len(), b'"');
        // It fails only if the lengths differ, and the line above made them equal.
        let encoded = hex::encode_to_slice(bytes, &mut self[start..]);
        debug_assert_eq!(encoded, Ok(()));
    }
}

impl Output for Length {
    fn len(&self) -> usize {
        self.0
    }

    fn append(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn append_hex(&mut self, bytes: &[u8]) {
        self.0 += 2 * bytes.len();
    }
}

impl JsonWriter<Length> {
    /// A writer that only counts.
    pub(crate) const fn counting() -> Self {
        Self { out: Length(0) }
    }
}

impl JsonWriter {
    /// A writer with room for `capacity` bytes; the buffer grows if needed, and [`Self::finish`]
    /// shrinks it.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            out: Vec::with_capacity(capacity),
        }
    }

    /// The bytes written so far.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.out
    }

    /// The bytes written, in a buffer of exact size.
    pub(crate) fn finish(mut self) -> Bytes {
        self.out.shrink_to_fit();
        self.out.into()
    }

    /// Begins a member of an object: a comma unless it is the first, and its name.
    pub(crate) fn member(&mut self, name: &str) -> &mut Self {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.raw("\"").raw(name).raw("\":")
    }
}

impl<O: Output> JsonWriter<O> {
    /// Number of bytes written so far: the start of the next value.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    /// Appends JSON as it is.
    pub(crate) fn raw(&mut self, json: impl AsRef<[u8]>) -> &mut Self {
        self.out.append(json.as_ref());
        self
    }

    /// DATA: `"0x"` and two digits per byte.
    pub(crate) fn data(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.raw("\"0x").digits(bytes).raw("\"")
    }

    /// Two digits per byte.
    pub(crate) fn digits(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.out.append_hex(bytes.as_ref());
        self
    }

    /// QUANTITY of up to 64 bits: `"0x"` and no leading zeros.
    pub(crate) fn number(&mut self, value: u64) -> &mut Self {
        self.wide(u128::from(value))
    }

    /// QUANTITY of up to 128 bits.
    pub(crate) fn wide(&mut self, value: u128) -> &mut Self {
        self.quantity_digits(&value.to_be_bytes())
    }

    /// QUANTITY of up to 256 bits.
    pub(crate) fn quantity(&mut self, value: U256) -> &mut Self {
        self.quantity_digits(&value.to_be_bytes::<32>())
    }

    /// QUANTITY of a big-endian integer of at most 32 bytes.
    fn quantity_digits(&mut self, big_endian: &[u8]) -> &mut Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let first = big_endian.iter().position(|&byte| byte != 0);
        let bytes = &big_endian[first.unwrap_or(big_endian.len())..];
        let Some((&high, rest)) = bytes.split_first() else {
            return self.raw(r#""0x0""#);
        };
        self.raw("\"0x");
        if high >= 16 {
            self.raw([DIGITS[usize::from(high >> 4)]]);
        }
        self.raw([DIGITS[usize::from(high & 15)]]);
        for &byte in rest {
            self.raw([
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]);
        }
        self.raw("\"")
    }

    /// The value as `write` writes it, or `null`.
    pub(crate) fn or_null<T>(
        &mut self,
        value: Option<T>,
        write: impl FnOnce(&mut Self, T) -> &mut Self,
    ) -> &mut Self {
        match value {
            Some(value) => write(self, value),
            None => self.raw("null"),
        }
    }

    /// An array, with exactly one comma between two items.
    pub(crate) fn array<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        self.raw("[");
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.raw(",");
            }
            write(self, item);
        }
        self.raw("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(write: impl FnOnce(&mut JsonWriter) -> &mut JsonWriter, expected: &str) {
        let mut writer = JsonWriter::with_capacity(0);
        write(&mut writer);
        assert_eq!(String::from_utf8_lossy(&writer.finish()), expected);
    }

    #[test]
    fn quantities_have_no_leading_zeros() {
        let table: [(U256, &str); 9] = [
            (U256::ZERO, "0x0"),
            (U256::from(1), "0x1"),
            (U256::from(15), "0xf"),
            (U256::from(16), "0x10"),
            (U256::from(0x100), "0x100"),
            (U256::from(0xabc), "0xabc"),
            (U256::from(u64::MAX), "0xffffffffffffffff"),
            (U256::from(u128::MAX), "0xffffffffffffffffffffffffffffffff"),
            (
                U256::MAX,
                "0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
            ),
        ];
        for (value, expected) in table {
            let expected = format!("\"{expected}\"");
            check(|w| w.quantity(value), &expected);
            if let Ok(value) = u128::try_from(value) {
                check(|w| w.wide(value), &expected);
            }
            if let Ok(value) = u64::try_from(value) {
                check(|w| w.number(value), &expected);
            }
        }
    }

    #[test]
    fn data_keeps_every_byte() {
        for length in 0..100_u8 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(37)).collect();
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            check(|w| w.data(&bytes), &format!("\"0x{digits}\""));
        }
    }

    #[test]
    fn members_have_one_comma_between_them() {
        check(
            |w| w.raw("{").member("a").number(1).member("b").raw("{"),
            r#"{"a":"0x1","b":{"#,
        );
    }

    #[test]
    fn arrays_have_one_comma_between_items() {
        for (items, expected) in [(0, "[]"), (1, r#"["0x0"]"#), (3, r#"["0x0","0x1","0x2"]"#)] {
            let item = |w: &mut JsonWriter, item| {
                w.number(item);
            };
            check(|w| w.array(0..items, item), expected);
        }
    }
}
