//! The URL at which clients reach the public listener.

use super::parse::single;

/// Longest `--public-url` in bytes.
const PUBLIC_URL_BYTES_MAX: usize = 256;

/// A URL without a query, and without a slash at its end.
#[expect(
    clippy::option_option,
    reason = "the outer `None` is an invalid text; the inner option is the value itself"
)]
pub(super) fn public_url(texts: &[String]) -> Option<Option<Box<str>>> {
    let text = single(texts)?.trim_end_matches('/');
    let (scheme, rest) = text.split_once("://")?;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/[]%".contains(&byte);
    let is_url = matches!(scheme, "http" | "https")
        && rest.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[')
        && text.len() <= PUBLIC_URL_BYTES_MAX
        && rest.bytes().all(is_part);
    is_url.then(|| Some(text.into()))
}
