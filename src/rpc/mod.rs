//! JSON-RPC: envelope, parameters, dispatch, methods. Knows no HTTP: bytes come in, [`Answer`]s go out, over whatever
//! connection they came.

mod answer;
pub mod dispatch;
mod envelope;
mod error;
mod methods;
mod params;

pub use answer::{Answer, Refusal};
pub use dispatch::{Dispatcher, METHODS, Method, MethodSet};
pub use error::{Outcome, RpcError};
