//! The header that names a block that the client has seen.

use actix_web::{HttpRequest, http::header::HeaderName};
use nearhead_fleet::min_block::{InvalidMinBlock, MinBlock};

use crate::rpc::NamedBlock;

/// The block that an answer has to know: `NUMBER`, `HASH`, or `NUMBER, HASH` as answers name it.
const NAME: HeaderName = HeaderName::from_static("x-nearhead-min-block");

/// The block that a request names, if it names one. Several headers name none: one of them would
/// be ignored.
pub(super) fn min_block(request: &HttpRequest) -> NamedBlock {
    let mut values = request.headers().get_all(NAME);
    let value = values.next()?;
    if values.next().is_some() {
        return Some(Err(InvalidMinBlock));
    }
    let text = value.to_str().map_err(|_| InvalidMinBlock);
    Some(text.and_then(MinBlock::parse))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn one_header_names_one_block() {
        for (values, want) in [
            (&[][..], None),
            (&["7"], Some(Ok(MinBlock::Number(7)))),
            (&["0x7"], Some(Ok(MinBlock::Number(7)))),
            (&["7", "7"], Some(Err(InvalidMinBlock))),
            (&["seven"], Some(Err(InvalidMinBlock))),
            (&["\u{e9}"], Some(Err(InvalidMinBlock))),
        ] {
            let mut request = TestRequest::post();
            for value in values {
                request = request.append_header((NAME, *value));
            }
            let found = min_block(&request.to_http_request());
            assert_eq!(found, want, "{values:?}");
        }
    }
}
