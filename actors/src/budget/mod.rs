//! Budgets: what one tenant may use in a time, and how often something may be tried. The time is
//! passed in.

mod attempts;
mod call_budget;
mod token_bucket;

pub use attempts::Attempts;
pub use call_budget::{CallBudget, OverBudget};
pub use token_bucket::TokenBucket;
