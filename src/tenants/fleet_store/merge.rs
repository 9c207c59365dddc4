//! One set of records out of two that parted: the store lost changes that a process knows, and
//! other processes have written since.
//!
//! What was revoked or removed in one of them is revoked or gone afterwards. So what was made in
//! one of them is gone as well, unless its revision is newer than all that the other one knows:
//! nothing shows whether it was removed there.

use std::collections::BTreeMap;

use nearhead_tenants::record::KeyRecord;

/// Records by name: their revisions, and what they say as JSON.
pub(super) type Versions = BTreeMap<String, (u64, Vec<u8>)>;

/// What both have, by name. `known` is all that a process knows, at a revision, and `found` all
/// that the store has.
pub(super) fn merge(
    known: &Versions,
    known_revision: u64,
    found: &Versions,
) -> BTreeMap<String, Vec<u8>> {
    let merge = |(name, theirs): (&String, &(u64, Vec<u8>))| {
        let payload = match known.get(name) {
            Some(mine) => newer(name, mine, theirs),
            // It may have been removed.
            None if theirs.0 <= known_revision => return None,
            None => &theirs.1,
        };
        Some((name.clone(), payload.clone()))
    };
    found.iter().filter_map(merge).collect()
}

/// The newer one; of two keys, the one that is revoked.
fn newer<'a>(name: &str, mine: &'a (u64, Vec<u8>), theirs: &'a (u64, Vec<u8>)) -> &'a Vec<u8> {
    let is_revoked = |payload: &[u8]| {
        let key = name
            .starts_with("key:")
            .then(|| serde_json::from_slice::<KeyRecord>(payload));
        key.and_then(Result::ok)
            .is_some_and(|key| key.revoked.is_some())
    };
    let takes_mine = match (is_revoked(&mine.1), is_revoked(&theirs.1)) {
        (true, false) => true,
        (false, true) => false,
        _ => mine.0 >= theirs.0,
    };
    if takes_mine { &mine.1 } else { &theirs.1 }
}
