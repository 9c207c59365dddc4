//! JSON-RPC: a body comes in as bytes, an [`Answer`] goes out. It does not know HTTP.
//!
//! | file | what it is |
//! |---|---|
//! | `dispatcher` | parses, admits, runs, writes |
//! | `registry` | [`METHODS`], one line for each method |
//! | `context` | what a handler gets, and what it returns |
//! | `cancel_on_drop` | cancels a query when its request is dropped |
//! | `contracts` | how a key's list of contracts is applied |
//! | `methods` | the handlers |
//! | `envelope`, `params`, `log_query`, `call_params` | parsing: requests, parameters, the filter object, calls |
//! | `leading_id` | the id of a body that is refused before it is parsed |
//! | `forwarding` | the methods that are passed to nodes |
//! | `openrpc` | the OpenRPC document, made from the registry |
//! | `price` | what a call costs, in units |
//! | `reply_charge` | what a reply is charged for until its client has taken it |
//! | `answer`, `error` | writing: responses, and every error with its code |
//! | `via` | over what a body came, and what was said beside it |
//! | `block_waits` | requests that wait for a block that their clients have seen |
//! | `seen` | what a snapshot says about blocks that a client has seen elsewhere |
//! | `request_session` | the session of a request, as methods and the dispatcher see it |

mod answer;
mod block_waits;
mod call_params;
mod cancel_on_drop;
mod context;
mod contracts;
mod dispatcher;
pub mod envelope;
mod error;
mod forwarding;
mod leading_id;
pub mod log_query;
mod methods;
mod openrpc;
pub mod params;
mod price;
mod registry;
mod reply_charge;
mod request_session;
mod seen;
mod via;

pub use answer::Answer;
pub(crate) use answer::{AnswerPermits, Refusal};
pub use block_waits::BlockWaits;
pub use contracts::ContractRule;
pub use dispatcher::Dispatcher;
pub use error::RpcError;
pub(crate) use forwarding::may_be_served;
pub use forwarding::{Forwarding, ForwardingError, listed_names};
pub use openrpc::document;
pub use price::{MINIMUM_UNITS, NOTIFICATION_UNITS};
pub use registry::{METHODS, Method, SEND_RAW_TRANSACTION, method_names};
pub use request_session::{RequestSession, SubscriptionKind};
pub use via::{NamedBlock, Via};
