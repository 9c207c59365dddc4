//! What keys of a store may do: a real program over a real store, which is prepared before the
//! program starts.

mod administrator;
mod contracts;
mod filters;
#[path = "../../../src/access/issuer.rs"]
mod issuer;
mod killed;
mod open_sessions;
pub(crate) mod prepared_store;
mod refusals;
mod spoiled;
mod weights;
