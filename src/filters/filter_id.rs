//! The id of a filter.

use std::fmt;

use nearhead_tenants::secret::{RandomFailed, random};

/// 16 random bytes, which nobody can guess. As in geth, it is written as a QUANTITY: clients that
/// read it as a number send it back without leading zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FilterId(u128);

impl FilterId {
    /// A new one.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(crate) fn generate() -> Result<Self, RandomFailed> {
        random().map(u128::from_be_bytes).map(Self)
    }

    /// Its bytes.
    pub(crate) const fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The id that a client sends; `None` if it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text
            .strip_prefix("0x")
            .or_else(|| text.strip_prefix("0X"))?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u128::from_str_radix(digits, 16);
        number.ok().filter(|_| is_hex).map(Self)
    }
}

impl fmt::Display for FilterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        for (text, expected) in [
            ("0x0", Some(0)),
            ("0x1f", Some(31)),
            ("0X1F", Some(31)),
            ("0x01f", Some(31)),
            ("0xffffffffffffffffffffffffffffffff", Some(u128::MAX)),
            ("0x0ffffffffffffffffffffffffffffffff", Some(u128::MAX)),
            ("0x1ffffffffffffffffffffffffffffffff", None),
            ("0x", None),
            ("0x+1", None),
            ("0x0x1", None),
            ("1f", None),
            ("", None),
            ("0x 1", None),
            ("0xé", None),
        ] {
            assert_eq!(FilterId::parse(text), expected.map(FilterId), "{text}");
        }
        let mut before = None;
        for _ in 0..100 {
            let id = FilterId::generate().unwrap();
            assert_eq!(FilterId::parse(&id.to_string()), Some(id));
            assert_ne!(before.replace(id), Some(id));
        }
        assert_eq!(FilterId(0).to_string(), "0x0");
        assert_eq!(FilterId(171).to_string(), "0xab");
    }
}
