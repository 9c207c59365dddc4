//! JSON-RPC: envelope, parameters, dispatch, methods. Knows no HTTP: bytes come in, [`Answer`]s go
//! out, over whatever connection they came.

mod answer;
mod cancel_on_drop;
pub mod dispatch;
pub mod envelope;
mod error;
pub mod log_query;
mod methods;
pub mod params;
mod subscriber;

pub use answer::{Answer, Refusal};
pub use dispatch::{Dispatcher, METHODS, Method};
pub use error::{Outcome, RpcError};
pub use subscriber::{Subscriber, SubscriptionKind};
