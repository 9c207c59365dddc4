//! The member `accessList` (EIP-2930).

use alloy_eips::eip2930::{AccessList, AccessListItem};

use crate::{
    encode::writer::JsonWriter,
    remote::{
        fault::MemberError,
        reader::{Reader, array, fixed},
    },
};

/// Reads the list of a transaction.
pub(super) fn read(tx: Reader<'_, '_>) -> Result<AccessList, MemberError> {
    let item = |value| {
        let item = Reader::new(value)?;
        Ok(AccessListItem {
            address: item.get("address", fixed)?,
            storage_keys: item.get("storageKeys", |keys| array(keys, fixed))?,
        })
    };
    tx.get("accessList", |list| array(list, item))
        .map(AccessList)
}

/// Writes the member, which is not the first of its object.
pub(crate) fn write(w: &mut JsonWriter, list: &AccessList) {
    w.raw(r#","accessList":"#).array(list.iter(), |w, item| {
        w.raw(r#"{"address":"#).data(item.address);
        w.raw(r#","storageKeys":"#)
            .array(&item.storage_keys, |w, key| {
                w.data(key);
            });
        w.raw("}");
    });
}

/// Upper bound on the items' length in bytes.
pub(crate) fn size_hint(list: &AccessList) -> usize {
    const ITEM: usize = 80;
    const KEY: usize = 69;
    list.iter()
        .map(|item| ITEM + KEY * item.storage_keys.len())
        .sum()
}
