//! Why a call failed, as a store says it.

use nearhead_actors::fleet::store::StoreError as CallError;
use nearhead_fleet::record::RecordError;
use nearhead_tenants::store::StoreError;

pub(super) fn away(error: CallError) -> StoreError {
    StoreError::Away {
        reason: error.to_string(),
    }
}

pub(super) fn too_large(error: RecordError) -> StoreError {
    StoreError::Away {
        reason: format!("it cannot be written to the fleet's store: {error}"),
    }
}

pub(super) fn no_json(error: serde_json::Error) -> StoreError {
    StoreError::Away {
        reason: format!("it has no form in JSON: {error}"),
    }
}
