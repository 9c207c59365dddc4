//! What transactions pay, and what clients are told of it. All fees are in wei per unit of gas.
//!
//! | file | what |
//! |---|---|
//! | `block_fees` | what the transactions of a block paid, worked out when it arrives |
//! | `next_block` | what the next block asks for |
//! | `suggestion` | the priority fee that is suggested |
//! | `history` | the fees of several blocks |

mod block_fees;
mod history;
mod next_block;
mod suggestion;

pub use self::{
    block_fees::{BlockFees, OtherFeeRules},
    history::{FeeHistory, PERCENTILES_MAX},
    next_block::next_base_fee,
};

pub(crate) use suggestion::{suggested_tip, suggested_tips};
