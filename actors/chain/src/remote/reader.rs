//! Members of an upstream's JSON, by name and kind.

use alloy_primitives::{Bytes, FixedBytes, U256, hex};

use super::{
    fault::{Flaw, MemberError},
    json::Value,
};

/// An object whose members are read by name; other members are ignored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'v, 'a>(&'v [(&'a str, Value<'a>)]);

impl<'v, 'a> Reader<'v, 'a> {
    pub(crate) fn new(value: &'v Value<'a>) -> Result<Self, MemberError> {
        match value {
            Value::Object(members) => Ok(Self(members)),
            _ => Err(MemberError::shape("an object")),
        }
    }

    /// A required member.
    pub(crate) fn get<T>(
        self,
        name: &str,
        read: impl FnOnce(&'v Value<'a>) -> Result<T, MemberError>,
    ) -> Result<T, MemberError> {
        let missing = || MemberError::new(Flaw::Missing).in_member(name);
        self.find(name, read)?.ok_or_else(missing)
    }

    /// A member that may be absent or null.
    pub(crate) fn find<T>(
        self,
        name: &str,
        read: impl FnOnce(&'v Value<'a>) -> Result<T, MemberError>,
    ) -> Result<Option<T>, MemberError> {
        let member = self.0.iter().find(|(found, _)| *found == name);
        match member {
            None | Some((_, Value::Null)) => Ok(None),
            Some((_, value)) => read(value).map(Some).map_err(|error| error.in_member(name)),
        }
    }
}

/// QUANTITY of up to 256 bits; leading zeros are accepted, since some clients pad.
pub(crate) fn u256(value: &Value<'_>) -> Result<U256, MemberError> {
    quantity(value, "a quantity of at most 256 bits").map(U256::from_be_bytes::<32>)
}

/// QUANTITY of up to 128 bits.
pub(crate) fn u128(value: &Value<'_>) -> Result<u128, MemberError> {
    quantity(value, "a quantity of at most 128 bits").map(u128::from_be_bytes)
}

/// QUANTITY of up to 64 bits.
pub(crate) fn u64(value: &Value<'_>) -> Result<u64, MemberError> {
    quantity(value, "a quantity of at most 64 bits").map(u64::from_be_bytes)
}

/// QUANTITY of up to 8 bits.
pub(crate) fn u8(value: &Value<'_>) -> Result<u8, MemberError> {
    quantity(value, "a quantity of at most 8 bits").map(u8::from_be_bytes)
}

/// QUANTITY that is 0 or 1.
pub(crate) fn bit(value: &Value<'_>) -> Result<bool, MemberError> {
    const EXPECTED: &str = "0x0 or 0x1";
    match quantity(value, EXPECTED)? {
        [0_u8] => Ok(false),
        [1] => Ok(true),
        _ => Err(MemberError::shape(EXPECTED)),
    }
}

/// A number's bytes, big-endian.
fn quantity<const N: usize>(
    value: &Value<'_>,
    expected: &'static str,
) -> Result<[u8; N], MemberError> {
    let digits = digits(value, expected)?.as_bytes();
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    let significant = &digits[zeros..];
    let mut padded = [[b'0'; 2]; N];
    let places = padded.as_flattened_mut();
    let bytes = places
        .len()
        .checked_sub(significant.len())
        .filter(|_| !digits.is_empty())
        .and_then(|at| {
            places[at..].copy_from_slice(significant);
            let mut bytes = [0; N];
            hex::decode_to_slice(places, &mut bytes).ok()?;
            Some(bytes)
        });
    bytes.ok_or(MemberError::shape(expected))
}

/// DATA of any length.
pub(crate) fn bytes(value: &Value<'_>) -> Result<Bytes, MemberError> {
    bytes_of_at_most(usize::MAX, value, "data")
}

/// DATA of at most `max` bytes; `expected` says so. Longer data is refused before it is decoded.
pub(crate) fn bytes_of_at_most(
    max: usize,
    value: &Value<'_>,
    expected: &'static str,
) -> Result<Bytes, MemberError> {
    let digits = digits(value, expected)?;
    let decoded = (digits.len() / 2 <= max).then(|| hex::decode(digits).ok());
    let decoded = decoded.flatten();
    decoded.map(Bytes::from).ok_or(MemberError::shape(expected))
}

/// DATA of N bytes: a hash, an address, a bloom.
pub(crate) fn fixed<const N: usize, T: From<FixedBytes<N>>>(
    value: &Value<'_>,
) -> Result<T, MemberError> {
    const EXPECTED: &str = "data of the right length";
    let mut bytes = [0; N];
    // Any other number of digits is an error.
    hex::decode_to_slice(digits(value, EXPECTED)?, &mut bytes)
        .map_err(|_| MemberError::shape(EXPECTED))?;
    Ok(FixedBytes(bytes).into())
}

/// An array whose items are all read by `read`.
pub(crate) fn array<'v, 'a, T>(
    value: &'v Value<'a>,
    mut read: impl FnMut(&'v Value<'a>) -> Result<T, MemberError>,
) -> Result<Vec<T>, MemberError> {
    let Value::Array(items) = value else {
        return Err(MemberError::shape("an array"));
    };
    let items = items.iter().enumerate();
    items
        .map(|(index, item)| read(item).map_err(|error| error.in_item(index)))
        .collect()
}

/// The digits after `0x`. A second `0x` is refused here: the hex decoder would strip it too.
fn digits<'a>(value: &Value<'a>, expected: &'static str) -> Result<&'a str, MemberError> {
    let Value::Text(text) = value else {
        return Err(MemberError::shape(expected));
    };
    let digits = text.strip_prefix("0x");
    let digits = digits.filter(|digits| !digits.starts_with("0x"));
    digits.ok_or(MemberError::shape(expected))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_by_value() {
        let max = format!("0x{}", "f".repeat(64));
        let padded = format!("0x{}1", "0".repeat(63));
        for (text, expected) in [
            ("0x0", Some(U256::ZERO)),
            ("0x00", Some(U256::ZERO)),
            ("0xaB", Some(U256::from(0xab))),
            (&max, Some(U256::MAX)),
            (&padded, Some(U256::from(1))),
            ("", None),
            ("0x", None),
            ("1", None),
            ("0X1", None),
            ("0x0x1", None),
            ("0x-1", None),
            ("0x+1", None),
            ("0x1_0", None),
            ("0x 1", None),
            ("0xé", None),
            (&format!("{max}f"), None),
        ] {
            assert_eq!(u256(&Value::Text(text)).ok(), expected, "{text}");
        }
        for value in [
            Value::Null,
            Value::Number,
            Value::Bool(true),
            Value::Escaped,
        ] {
            assert!(u256(&value).is_err());
        }
        for (text, bits) in [("0x1", 1), ("0xff", 8), ("0xffffffffffffffff", 64)] {
            let text = Value::Text(text);
            assert_eq!(
                [
                    bit(&text).is_ok(),
                    u8(&text).is_ok(),
                    u64(&text).is_ok(),
                    u128(&text).is_ok()
                ],
                [bits == 1, bits <= 8, true, true]
            );
        }
        assert!(u64(&Value::Text("0x10000000000000000")).is_err());
        assert!(u128(&Value::Text(&format!("0x1{}", "0".repeat(32)))).is_err());
    }

    #[test]
    fn data_has_its_length() {
        for (text, expected) in [
            ("0x", Some(&[][..])),
            ("0xaB01", Some(&[0xab, 1][..])),
            ("0xa", None),
            ("ab", None),
            ("0x0xab", None),
            ("0xag", None),
        ] {
            let found = bytes(&Value::Text(text)).ok().map(|bytes| bytes.to_vec());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
        for (text, is_accepted) in [("0x", true), ("0xabcd", true), ("0xabcdef", false)] {
            let found = bytes_of_at_most(2, &Value::Text(text), "data of at most 2 bytes");
            assert_eq!(found.is_ok(), is_accepted, "{text}");
        }
        let two = |text| fixed::<2, FixedBytes<2>>(&Value::Text(text)).is_ok();
        assert_eq!(
            ["0xabcd", "0xabc", "0xabcdef", "0x", "abcd", "0x0xabcd"].map(two),
            [true, false, false, false, false, false]
        );
    }

    #[test]
    fn a_wrong_member_is_named_by_its_path() {
        let items = Value::Array(vec![
            Value::Object(vec![("a", Value::Text("0x1"))]),
            Value::Object(vec![("a", Value::Null)]),
        ]);
        let answer = Value::Object(vec![("items", items)]);
        let read = |value| Reader::new(value)?.get("a", u64);
        let wrong = Reader::new(&answer)
            .unwrap()
            .get("items", |items| array(items, read))
            .unwrap_err();
        let fault = wrong.of(super::super::fault::AnswerKind::Block);
        assert_eq!(fault.to_string(), "block: items[1].a is missing");
    }
}
