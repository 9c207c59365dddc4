//! nearhead and another server, which are sent the same calls.

use serde_json::{Value, json};

use super::{Connection, check, json as strict_json, request};

/// The most calls in a batch.
pub(crate) const BATCH_CALLS_MAX: usize = 100;

/// A connection to nearhead, and one to the server whose answers are compared with ours. Answers
/// are given in this order, too.
pub(crate) struct Pair {
    pub(crate) ours: Connection,
    pub(crate) theirs: Connection,
}

impl Pair {
    /// Both answers to a call.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> [Value; 2] {
        self.post(&request(1, method, params))
    }

    /// Both answers to each of these calls, which are sent in one batch.
    #[track_caller]
    pub(crate) fn batch<'a>(
        &mut self,
        calls: impl IntoIterator<Item = (&'a str, &'a Value)>,
    ) -> Vec<[Value; 2]> {
        let requests: Vec<Value> = calls
            .into_iter()
            .enumerate()
            .map(|(id, (method, params))| request(id, method, params))
            .collect();
        if requests.is_empty() {
            return Vec::new();
        }
        let count = requests.len();
        let [ours, theirs] = self.post(&requests.into()).map(|answers| match answers {
            Value::Array(answers) => answers,
            other => panic!("not a batch: {other}"),
        });
        check("answers", &[ours.len(), theirs.len()], &[count; 2]);
        let pairs = ours.into_iter().zip(theirs).enumerate();
        pairs
            .map(|(id, (ours, theirs))| {
                check(
                    "ids of answers",
                    &[&ours["id"], &theirs["id"]],
                    &[&json!(id); 2],
                );
                [ours, theirs]
            })
            .collect()
    }

    /// Posts the same JSON to both, which work on it at the same time.
    #[track_caller]
    fn post(&mut self, request: &Value) -> [Value; 2] {
        let body = request.to_string();
        let mut both = [&mut self.ours, &mut self.theirs];
        for connection in &mut both {
            connection.begin_post(body.as_bytes());
        }
        both.map(|connection| {
            let response = connection.receive();
            assert_eq!(response.status, 200, "{body}: {response:?}");
            strict_json(&response.body)
        })
    }
}
