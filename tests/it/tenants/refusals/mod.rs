//! Every refusal of docs/access.md, for each way to give a key: over HTTP, in the handshake of a
//! session and as a message of one.

mod calls;
mod refusal;
mod requests;
mod scene;
mod sessions;
