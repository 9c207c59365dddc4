//! Checks the ommers of a block before the merge.

use std::sync::Arc;

use alloy_consensus::Header;
use alloy_primitives::B256;

use super::{
    VerifyError,
    header::{check_child, ensure_eq},
};
use crate::{
    block::{OMMER_ANCESTORS_MAX, OmmerAncestor},
    network::Rules,
};

/// Most ommers in a block (yellow paper, 11.1).
pub(crate) const OMMERS_MAX: usize = 2;

/// Checks the ommers of a block whose parent and earlier ancestors are `ancestors`, the parent
/// first.
///
/// A valid ommer branched off within [`OMMER_ANCESTORS_MAX`] generations, is not an ancestor, was
/// not included before, and has a valid header. Its seal (ethash) and its state are not checked.
///
/// # Errors
/// The first check that fails.
pub(crate) fn check_ommers(
    rules: &Rules<'_>,
    ancestors: &[Arc<OmmerAncestor>],
    ommers: &[Header],
) -> Result<(), VerifyError> {
    let max = if rules.merged() { 0 } else { OMMERS_MAX };
    if ommers.len() > max {
        return Err(VerifyError::OmmerCount {
            max,
            found: ommers.len(),
        });
    }
    let ancestors = &ancestors[..ancestors.len().min(OMMER_ANCESTORS_MAX)];
    let mut included: Vec<B256> = ancestors
        .iter()
        .flat_map(|block| block.ommers.iter().copied())
        .collect();
    for ommer in ommers {
        let hash = ommer.hash_slow();
        if included.contains(&hash) {
            return Err(VerifyError::OmmerIncluded { hash });
        }
        included.push(hash);
        if ancestors.iter().any(|block| block.hash == hash) {
            return Err(VerifyError::OmmerIsAncestor { hash });
        }
        // A child of the block's parent is a sibling of the block, so it cannot be its ommer.
        let Some(parent) = ancestors
            .iter()
            .skip(1)
            .find(|block| block.hash == ommer.parent_hash)
        else {
            return Err(VerifyError::OmmerParent {
                hash,
                parent: ommer.parent_hash,
            });
        };
        check_ommer(rules, &parent.header, ommer).map_err(|error| VerifyError::OmmerHeader {
            hash,
            error: Box::new(error),
        })?;
    }
    Ok(())
}

/// Checks an ommer like the header of a block before the merge. Its withdrawals root must be
/// absent: there is no body to check it against.
fn check_ommer(rules: &Rules<'_>, parent: &Header, ommer: &Header) -> Result<(), VerifyError> {
    // The ommer's own rules: a fork may lie between it and the block that includes it.
    let rules = rules.spec().rules(ommer.number, ommer.timestamp, false);
    check_child(&rules, parent, ommer)?;
    ensure_eq(None, ommer.withdrawals_root, |expected, found| {
        VerifyError::WithdrawalsRoot { expected, found }
    })
}
