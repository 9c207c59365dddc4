//! The integration tests of nearhead: one binary, so that it is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bad_input;
mod conformance;
mod dice;
mod geth;
mod harness;
mod proofs;
mod shutdown;
