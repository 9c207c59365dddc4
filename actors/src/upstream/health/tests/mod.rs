mod classes;
mod policy;
mod tables;

use super::*;

/// The class of calls in which a fault is usually found.
const fn class_of(fault: Fault) -> CallClass {
    match fault {
        Fault::BadBlock | Fault::Missing | Fault::Unfit => CallClass::Blocks,
        Fault::BadProof => CallClass::State,
        _ => CallClass::Heads,
    }
}

/// The hash of the block of this number.
fn hash(number: u64) -> B256 {
    B256::left_padding_from(&number.to_be_bytes())
}

fn claim(number: u64) -> HeadClaim {
    HeadClaim {
        number,
        hash: hash(number),
        parent_hash: hash(number.saturating_sub(1)),
    }
}
