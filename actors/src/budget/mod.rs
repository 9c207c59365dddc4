//! Budgets: what one tenant may use in a time. The time is passed in.

mod call_budget;
mod token_bucket;

pub use call_budget::{CallBudget, OverBudget};
pub use token_bucket::TokenBucket;
