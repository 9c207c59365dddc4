//! JSON-RPC: envelope, parameters, dispatch, methods. Knows no HTTP: bytes come in, [`Answer`]s go
//! out, over whatever connection they came.

mod answer;
mod cancel_on_drop;
mod context;
mod dispatcher;
pub mod envelope;
mod error;
pub mod log_query;
mod methods;
pub mod params;
mod registry;
mod subscriber;

pub use answer::{Answer, Refusal};
pub use dispatcher::Dispatcher;
pub use error::RpcError;
pub use registry::{METHODS, Method, method_names};
pub use subscriber::{Subscriber, SubscriptionKind};
