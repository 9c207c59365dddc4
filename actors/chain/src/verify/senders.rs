//! The senders of a block's transactions.

use std::{
    num::NonZero,
    panic::resume_unwind,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, available_parallelism},
};

use alloy_primitives::Address;

use super::VerifyError;
use crate::{
    block::Transaction,
    network::{Rules, transaction},
};

/// Fewest signatures for which a thread pays off: each takes about 35 µs.
const SIGNATURES_PER_THREAD_MIN: usize = 32;

/// Signatures that a thread takes at a time.
const SHARE: usize = 8;

static CORES: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, NonZero::get));

/// Recovers the sender of each transaction.
///
/// # Errors
/// A signature is invalid, malleable (EIP-2, from Homestead on), or for another chain (EIP-155).
pub(crate) fn recover_senders(
    rules: &Rules<'_>,
    transactions: &[Transaction],
) -> Result<Vec<Address>, VerifyError> {
    on_all_cores(transactions, |index, transaction| {
        transaction::sender_by_rules(rules, index, transaction)
    })
}

/// Recovers the sender of each transaction of a block whose rules are not known. Any signature that
/// recovers is accepted: the block's hash proves that its chain accepted it.
///
/// # Errors
/// A signature is invalid, or for another chain (EIP-155).
pub fn recover_senders_of(
    chain_id: u64,
    transactions: &[Transaction],
) -> Result<Vec<Address>, VerifyError> {
    on_all_cores(transactions, |index, transaction| {
        transaction::sender(chain_id, index, transaction)
    })
}

/// Checks that each transaction is for this chain, or for any.
///
/// # Errors
/// One is for another chain (EIP-155).
pub(crate) fn check_chain_ids(
    chain_id: u64,
    transactions: &[Transaction],
) -> Result<(), VerifyError> {
    let mut each = transactions.iter().enumerate();
    each.try_for_each(|(index, one)| transaction::check_chain_id(chain_id, index, one))
}

/// Applies `recover` to each transaction on all cores; the results are in order. Signatures are
/// most of the work of checking a block, and each is independent.
fn on_all_cores(
    transactions: &[Transaction],
    recover: impl Fn(usize, &Transaction) -> Result<Address, VerifyError> + Sync,
) -> Result<Vec<Address>, VerifyError> {
    let threads = (transactions.len() / SIGNATURES_PER_THREAD_MIN).clamp(1, *CORES);
    let shares: Vec<_> = transactions.chunks(SHARE).collect();
    let next = AtomicUsize::new(0);
    // A thread that is done with a share takes the next, so a busy core takes fewer.
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(share) = shares.get(at) else {
                return done;
            };
            let indexed = (at * SHARE..).zip(*share);
            let recovered = indexed.map(|(index, transaction)| recover(index, transaction));
            done.push((at, recovered.collect::<Result<Vec<_>, _>>()));
        }
    };
    let mut done = thread::scope(|scope| {
        // If no thread can be spawned, the others do all the work.
        let others: Vec<_> = (1..threads)
            .filter_map(|_| thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let mut done = work();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    let mut senders = Vec::with_capacity(transactions.len());
    for (_, recovered) in done {
        senders.extend(recovered?);
    }
    Ok(senders)
}
