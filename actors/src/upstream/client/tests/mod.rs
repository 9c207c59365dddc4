#![expect(clippy::unwrap_used, reason = "tests")]

mod answers;
mod http;
pub(in crate::upstream) mod server;
mod turns;
mod websocket;

use alloy_primitives::{Address, U256};

use super::*;

const HASH: B256 = B256::repeat_byte(1);

fn limits() -> CallLimits {
    CallLimits {
        concurrency: 4,
        timeout: Duration::from_secs(10),
        answer_bytes_max: 4_096,
    }
}

fn client(url: &str, limits: CallLimits) -> UpstreamClient {
    UpstreamClient::new(url.parse().unwrap(), limits).unwrap()
}

#[test]
fn every_kind_of_error_has_a_label() {
    let kinds = [
        CallError::Busy,
        CallError::Timeout(Duration::from_secs(1)),
        CallError::Connection("x".into()),
        CallError::RateLimited { retry_after: None },
        CallError::Refused { status: 403 },
        CallError::UnsupportedMethod,
        CallError::NotFound,
        CallError::Malformed("x".into()),
        CallError::TooLarge { limit: 1 },
        CallError::Rpc {
            code: 3,
            message: "x".into(),
        },
    ];
    assert_eq!(kinds.map(|kind| kind.label()), CallError::LABELS);
}

impl UpstreamClient {
    /// The head's number: the simplest call, for tests of behavior that all calls share.
    async fn block_number(&self) -> Result<u64, CallError> {
        let number: U64 = self.read("eth_blockNumber", ()).await?;
        Ok(number.to())
    }
}
