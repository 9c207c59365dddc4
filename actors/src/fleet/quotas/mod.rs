//! The quotas of tenants in a fleet: what requests take from memory, and the thread that borrows
//! it.
//!
//! | file | what it is |
//! |---|---|
//! | [`LoanDesk`] | the quotas that need the store, and how many processes share them |
//! | [`LentBucket`] | a token bucket whose tokens are borrowed |
//! | [`LentUnits`] | units of a day, counted over the fleet |
//! | `bucket_account`, `units_account` | the parts of these that requests and the lender share |
//! | `lender` | the thread that asks the store |

mod bucket_account;
mod lender;
mod lent_bucket;
mod lent_units;
mod loan_desk;
mod units_account;

pub(super) use self::lender::Lender;
pub use self::{
    bucket_account::Loan, lent_bucket::LentBucket, lent_units::LentUnits, loan_desk::LoanDesk,
    units_account::UnitsCount,
};
