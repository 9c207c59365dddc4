//! Positional parameters: a cursor that ends in [`Params::finish`], and a parser for each kind of
//! value.

use std::{borrow::Cow, fmt};

use alloy_primitives::{Address, B256, Bytes, FixedBytes, U256};
use nearhead_chain::{
    encode::ProofKey,
    window::{BlockId, BlockNumberOrTag, BlockTag},
};
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{
    envelope::string,
    error::{RpcError, echo},
};

/// The number of parameters that are kept: one more than any method has. Further ones are only
/// counted.
const ARGUMENTS_MAX: usize = 5;

/// Why a value cannot be read.
pub(crate) type ParamError = Cow<'static, str>;

/// The parameters of one request, read from the first to the last.
#[derive(Debug)]
pub struct Params<'a> {
    arguments: [Option<&'a RawValue>; ARGUMENTS_MAX],
    given: usize,
    next: usize,
}

impl<'a> Params<'a> {
    /// Parses the member `params`; absent and null count as an empty array.
    ///
    /// # Errors
    /// It is neither absent, null nor an array.
    pub fn new(params: Option<&'a RawValue>) -> Result<Self, RpcError> {
        let text = params.map_or("null", RawValue::get);
        match text.as_bytes().first() {
            Some(b'n') => Ok(Self {
                arguments: [None; ARGUMENTS_MAX],
                given: 0,
                next: 0,
            }),
            Some(b'[') => serde_json::Deserializer::from_str(text)
                .deserialize_seq(ArgumentsVisitor)
                .map_err(|_| RpcError::NonArrayArguments),
            _ => Err(RpcError::NonArrayArguments),
        }
    }

    /// The next parameter, which must be present; null counts as a value.
    ///
    /// # Errors
    /// It is missing, or `read` cannot read it.
    pub fn required<T>(
        &mut self,
        read: impl FnOnce(&'a RawValue) -> Result<T, ParamError>,
    ) -> Result<T, RpcError> {
        let index = self.next;
        match self.advance() {
            Some(raw) => read(raw).map_err(|reason| RpcError::InvalidArgument { index, reason }),
            None => Err(RpcError::MissingArgument { index }),
        }
    }

    /// The next parameter, or `default` if it is missing or null.
    ///
    /// # Errors
    /// `read` cannot read it.
    pub(crate) fn optional<T>(
        &mut self,
        default: T,
        read: impl FnOnce(&'a RawValue) -> Result<T, ParamError>,
    ) -> Result<T, RpcError> {
        let index = self.next;
        match self.advance().filter(|raw| !is_null(raw)) {
            Some(raw) => read(raw).map_err(|reason| RpcError::InvalidArgument { index, reason }),
            None => Ok(default),
        }
    }

    /// Ends the parameters.
    ///
    /// # Errors
    /// There are more parameters than were read.
    pub const fn finish(self) -> Result<(), RpcError> {
        if self.given > self.next {
            return Err(RpcError::TooManyArguments { most: self.next });
        }
        Ok(())
    }

    fn advance(&mut self) -> Option<&'a RawValue> {
        debug_assert!(self.next < ARGUMENTS_MAX, "a method has more parameters");
        let argument = self.arguments.get(self.next).copied().flatten();
        self.next += 1;
        argument
    }
}

struct ArgumentsVisitor;

impl<'de> Visitor<'de> for ArgumentsVisitor {
    type Value = Params<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of parameters")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Params<'de>, A::Error> {
        let mut arguments = [None; ARGUMENTS_MAX];
        let mut given = 0;
        while given < ARGUMENTS_MAX
            && let Some(raw) = seq.next_element()?
        {
            arguments[given] = Some(raw);
            given += 1;
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {
            given += 1;
        }
        Ok(Params {
            arguments,
            given,
            next: 0,
        })
    }
}

/// Whether the value is null.
pub(crate) fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// Any JSON string.
pub(crate) fn text(raw: &RawValue) -> Result<Cow<'_, str>, ParamError> {
    string(raw).ok_or(Cow::Borrowed("want a string"))
}

/// `true` or `false`.
pub fn boolean(raw: &RawValue) -> Result<bool, ParamError> {
    match raw.get() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Cow::Borrowed("want true or false")),
    }
}

/// A QUANTITY of up to 64 bits: `0x` or `0X`, digits of either case, no leading zeros.
pub fn quantity(raw: &RawValue) -> Result<u64, ParamError> {
    quantity_text(&text(raw)?)
}

/// A QUANTITY of up to 128 bits.
pub(crate) fn wide_quantity(raw: &RawValue) -> Result<u128, ParamError> {
    let text = text(raw)?;
    let number = u128::from_str_radix(quantity_digits(&text)?, 16);
    number.map_err(|_| "want a quantity of at most 128 bits".into())
}

/// A QUANTITY of up to 256 bits.
pub(crate) fn word(raw: &RawValue) -> Result<U256, ParamError> {
    let text = text(raw)?;
    let number = U256::from_str_radix(quantity_digits(&text)?, 16);
    number.map_err(|_| "want a quantity of at most 256 bits".into())
}

/// DATA of any length: `0x` and an even number of digits of either case.
pub(crate) fn data(raw: &RawValue) -> Result<Bytes, ParamError> {
    let text = text(raw)?;
    let digits = strip_prefix(&text).ok_or("want data: hex with 0x in front")?;
    // The decoder accepts a second prefix.
    match digits.starts_with("0x") {
        false => alloy_primitives::hex::decode(digits).ok(),
        true => None,
    }
    .map(Bytes::from)
    .ok_or_else(|| "want data: an even number of hex digits".into())
}

/// A block number as a QUANTITY: up to 2^63-1.
fn block_number(text: &str) -> Result<u64, ParamError> {
    let number = quantity_text(text)?;
    if number > i64::MAX as u64 {
        return Err(Cow::Borrowed("block number larger than 2^63-1"));
    }
    Ok(number)
}

fn quantity_text(text: &str) -> Result<u64, ParamError> {
    u64::from_str_radix(quantity_digits(text)?, 16)
        .map_err(|_| "want a quantity of at most 64 bits".into())
}

fn quantity_digits(text: &str) -> Result<&str, ParamError> {
    let digits = strip_prefix(text).ok_or("want a quantity: hex with 0x in front")?;
    if digits.is_empty() {
        return Err("want a quantity: no digits after 0x".into());
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return Err("want a quantity: leading zeros are not allowed".into());
    }
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err("want a quantity: a digit is not hex".into());
    }
    Ok(digits)
}

fn strip_prefix(text: &str) -> Option<&str> {
    text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))
}

/// DATA of exactly `N` bytes with its prefix, digits of either case.
fn fixed<const N: usize>(text: &str) -> Option<FixedBytes<N>> {
    let digits = strip_prefix(text)?;
    let mut bytes = FixedBytes::<N>::ZERO;
    alloy_primitives::hex::decode_to_slice(digits, bytes.as_mut_slice()).ok()?;
    // The decoder accepts a second prefix; the length rules it out.
    (digits.len() == 2 * N).then_some(bytes)
}

/// An address: 20 bytes, prefix required, any case, checksum not checked.
pub fn address(raw: &RawValue) -> Result<Address, ParamError> {
    address_text(&text(raw)?)
}

/// As [`address`], from the string itself.
pub(crate) fn address_text(text: &str) -> Result<Address, ParamError> {
    fixed(text)
        .map(Address)
        .ok_or(Cow::Borrowed("want an address: 0x and 40 hex digits"))
}

/// A hash: 32 bytes, prefix required, any case.
pub fn hash(raw: &RawValue) -> Result<B256, ParamError> {
    hash_text(&text(raw)?)
}

/// As [`hash`], from the string itself.
pub(crate) fn hash_text(text: &str) -> Result<B256, ParamError> {
    fixed(text).ok_or(Cow::Borrowed("want a hash: 0x and 64 hex digits"))
}

/// A block number or a block tag.
pub fn block_number_or_tag(raw: &RawValue) -> Result<BlockNumberOrTag, ParamError> {
    number_or_tag_text(&text(raw)?)
}

fn number_or_tag_text(text: &str) -> Result<BlockNumberOrTag, ParamError> {
    let tag = match text {
        "latest" => BlockTag::Latest,
        "pending" => BlockTag::Pending,
        "earliest" => BlockTag::Earliest,
        "safe" => BlockTag::Safe,
        "finalized" => BlockTag::Finalized,
        number if strip_prefix(number).is_some() => {
            return block_number(number).map(BlockNumberOrTag::Number);
        }
        _ => {
            return Err(
                "want a block number in hex, or latest, safe, finalized, earliest or pending"
                    .into(),
            );
        }
    };
    Ok(BlockNumberOrTag::Tag(tag))
}

/// The default block parameter of the state methods.
pub(crate) const LATEST: BlockId = BlockId::Number(BlockNumberOrTag::Tag(BlockTag::Latest));

/// The block parameter of the state methods (EIP-1898): QUANTITY, tag, 32-byte hash, `{blockHash,
/// requireCanonical?}` or `{blockNumber}`.
pub fn block_id(raw: &RawValue) -> Result<BlockId, ParamError> {
    if raw.get().starts_with('{') {
        let [hash_member, number_member, canonical] =
            members(raw, ["blockHash", "blockNumber", "requireCanonical"])?;
        return match (hash_member, number_member) {
            (Some(raw), None) => Ok(BlockId::Hash {
                hash: hash(raw)?,
                require_canonical: canonical.map(boolean).transpose()?.unwrap_or(false),
            }),
            (None, Some(raw)) => block_number_or_tag(raw).map(BlockId::Number),
            (Some(_), Some(_)) => {
                Err("cannot specify both blockHash and blockNumber, choose one or the other".into())
            }
            (None, None) => Err("want blockHash or blockNumber".into()),
        };
    }
    let text = text(raw)?;
    if text.len() == 2 + 64 {
        return fixed(&text)
            .map(|hash| BlockId::Hash {
                hash,
                require_canonical: false,
            })
            .ok_or(Cow::Borrowed("want a hash: 0x and 64 hex digits"));
    }
    number_or_tag_text(&text).map(BlockId::Number)
}

/// Largest number of hex digits of a storage key.
const STORAGE_KEY_DIGITS: usize = 64;

/// A storage key or position: hex of up to 32 bytes, prefix optional, odd length allowed, padded on
/// the left; `""` and `"0x"` are zero. An input of 32 bytes is marked as such, because eth_getProof
/// echoes it in full.
///
/// # Errors
/// -32602 with geth's message, which the vectors of execution-apis contain.
pub fn storage_key(text: &str) -> Result<ProofKey, RpcError> {
    let digits = strip_prefix(text).unwrap_or(text);
    let invalid = |what: &str| RpcError::InvalidParams(format!("{what}: {:?}", echo(text)).into());
    if digits.len() > STORAGE_KEY_DIGITS {
        return Err(invalid("storage key too long (want at most 32 bytes)"));
    }
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(invalid("invalid hex in storage key"));
    }
    let mut padded = [b'0'; STORAGE_KEY_DIGITS];
    padded[STORAGE_KEY_DIGITS - digits.len()..].copy_from_slice(digits.as_bytes());
    let mut bytes = [0; STORAGE_KEY_DIGITS / 2];
    alloy_primitives::hex::decode_to_slice(padded, &mut bytes)
        .map_err(|_| invalid("invalid hex in storage key"))?;
    let slot = U256::from_be_bytes(bytes);
    // 63 digits are 32 bytes too, because geth pads an odd length.
    Ok(if digits.len() >= STORAGE_KEY_DIGITS - 1 {
        ProofKey::Full(slot)
    } else {
        ProofKey::Short(slot)
    })
}

/// The items of an array.
pub(crate) fn array(raw: &RawValue) -> Result<Vec<&RawValue>, ParamError> {
    if !raw.get().starts_with('[') {
        return Err("want an array".into());
    }
    serde_json::from_str(raw.get()).map_err(|_| Cow::Borrowed("want an array"))
}

/// The named members of an object, unparsed. null counts as absent, the last of several equal names
/// counts, and other members are ignored.
pub(crate) fn members<'a, const N: usize>(
    raw: &'a RawValue,
    names: [&'static str; N],
) -> Result<[Option<&'a RawValue>; N], ParamError> {
    let mut found = [None; N];
    each_member(raw, |name, value| {
        if let Some(position) = names.iter().position(|known| *known == name) {
            found[position] = Some(value).filter(|value| !is_null(value));
        }
    })?;
    Ok(found)
}

/// Calls `visit` with every member of an object, in order.
pub(crate) fn each_member<'a>(
    raw: &'a RawValue,
    visit: impl FnMut(&str, &'a RawValue),
) -> Result<(), ParamError> {
    if !raw.get().starts_with('{') {
        return Err("want an object".into());
    }
    serde_json::Deserializer::from_str(raw.get())
        .deserialize_map(EachMember(visit))
        .map_err(|_| Cow::Borrowed("want an object"))
}

struct EachMember<F>(F);

impl<'de, F: FnMut(&str, &'de RawValue)> Visitor<'de> for EachMember<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            // A name with a lone surrogate, which no Rust string can hold, matches none.
            if let Some(name) = string(name) {
                (self.0)(&name, value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
