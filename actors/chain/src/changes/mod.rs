//! What a block changed in the state, from what nodes report and from the block itself.
//!
//! An access list is checked against the block's header. Nothing else is trusted, and need not be:
//! [`crate::trie::Merge`] keeps only what leads to the block's state root.
//!
//! | file | what it is responsible for |
//! |---|---|
//! | [`AccessList`] | all changes of a block, to which its header commits |
//! | `tracer` | the changes of a block's transactions, as a node's tracer reports them |
//! | `operations` | what a block changes at its start and its end, without a transaction |
//! | `witness` | nodes of the state before a block, with which its changes can be computed |
//! | `touched` | accounts that the block names: keys without values |

mod access_list;
mod operations;
mod touched;
mod tracer;
mod witness;

#[cfg(test)]
mod tests;

pub use access_list::AccessList;
pub use operations::add_operations;
pub use touched::touched;
pub use tracer::{TRACER_OPTIONS, TraceError, traced};
pub use witness::witness_nodes;
