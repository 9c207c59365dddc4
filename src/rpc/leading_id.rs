//! The id of a request that is refused before it is parsed.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::envelope::{Member, MemberName, NULL_ID};

/// The bytes that are read for it: most clients write the id before the parameters.
const LEADING_BYTES: usize = 512;

/// The id in the first [`LEADING_BYTES`] of a body, if it comes before any member that does not end
/// there; else null, as for a batch.
pub(super) fn leading_id(body: &[u8]) -> &str {
    let leading = &body[..body.len().min(LEADING_BYTES)];
    let mut id = None;
    // An error where the bytes end says nothing about the body.
    let _ = serde_json::Deserializer::from_slice(leading).deserialize_map(IdVisitor(&mut id));
    id.unwrap_or(NULL_ID)
}

struct IdVisitor<'a, 'de>(&'a mut Option<&'de str>);

impl<'de> Visitor<'de> for IdVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut last = None;
        // A number may go on where the bytes end, so an id counts once something follows.
        while let Some(Member(name)) = map.next_key()? {
            *self.0 = last;
            let value = map.next_value::<&RawValue>()?.get();
            if matches!(name, MemberName::Id) {
                last = (!value.starts_with(['{', '[', 't', 'f'])).then_some(value);
            }
        }
        *self.0 = last;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: &str) {
        assert_eq!(leading_id(body.as_bytes()), expected, "{body}");
    }

    #[test]
    fn an_id_is_found_before_what_is_long() {
        let long = "1,".repeat(10_000);
        check(
            &format!(r#"{{"id":"a","method":"m","params":[{long}"#),
            r#""a""#,
        );
        check(
            &format!(r#" {{"method":"m", "id" : 17 , "params":[{long}"#),
            "17",
        );
        check(
            &format!(r#"{{"method":"m","params":[1],"id":1.5,"x":[{long}"#),
            "1.5",
        );
        check(&format!(r#"{{"params":[{long}1],"id":7}}"#), "null");
        check(&format!(r#"[{{"id":7}},{long}"#), "null");
        check(&format!(r#"{{"id":[7],"params":[{long}"#), "null");
        check(&format!(r#"{{"id":7,"id":true,"params":[{long}"#), "null");
        check(r#"{"id":7}"#, "7");
        check("", "null");
        check("{\"id\":7,\"\u{e9}\":", "7");
        // What is cut off is no id.
        let digits = "7".repeat(1_000);
        check(&format!(r#"{{"id":{digits}}}"#), "null");
        check(&format!(r#"{{"id":"{digits}"}}"#), "null");
        check("{\"id\":7", "null");
        assert_eq!(leading_id(b"{\"id\":\"\xff\",\"a\":1}"), "null");
    }
}
