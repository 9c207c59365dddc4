//! A block's JSON, made with the block or at the first use.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;

use crate::encode::BlockJson;

/// Why a block has no JSON, although its hash covers all of it: no sender follows from a
/// transaction, or the JSON is too large. No client accepts such a block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonError(String);

impl JsonError {
    /// For this reason.
    pub(crate) fn new(reason: impl fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

type Made = Result<BlockJson, JsonError>;

/// A block's JSON, made at the first use if not before.
#[derive(Clone, Debug)]
pub struct LazyJson(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// It was made with the block: no read of it looks further.
    Made(BlockJson),
    /// Clones share it.
    AtFirstUse(Arc<AtFirstUse>),
}

struct AtFirstUse {
    made: OnceLock<Made>,
    /// Makes it; `None` once it has begun.
    make: Mutex<Option<Box<dyn FnOnce() -> Made + Send>>>,
    bytes: usize,
}

impl fmt::Debug for AtFirstUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AtFirstUse").field(&self.made).finish()
    }
}

impl From<BlockJson> for LazyJson {
    fn from(json: BlockJson) -> Self {
        Self(Kind::Made(json))
    }
}

impl LazyJson {
    /// What `make` returns, which is called at the first use. `bytes` bounds the memory that is
    /// held, before and after.
    pub(crate) fn at_first_use(bytes: usize, make: impl FnOnce() -> Made + Send + 'static) -> Self {
        Self(Kind::AtFirstUse(Arc::new(AtFirstUse {
            made: OnceLock::new(),
            make: Mutex::new(Some(Box::new(make))),
            bytes,
        })))
    }

    /// The JSON, made now if it was not before.
    pub(super) fn get(&self) -> Result<&BlockJson, &JsonError> {
        match &self.0 {
            Kind::Made(json) => Ok(json),
            Kind::AtFirstUse(lazy) => lazy.get(),
        }
    }

    /// Whether it was made.
    pub(super) fn is_made(&self) -> bool {
        match &self.0 {
            Kind::Made(_) => true,
            Kind::AtFirstUse(lazy) => lazy.made.get().is_some(),
        }
    }

    /// Bytes of memory that it holds, or at most will hold. They do not change when it is made.
    pub(super) fn bytes(&self) -> usize {
        match &self.0 {
            Kind::Made(json) => json.bytes(),
            Kind::AtFirstUse(lazy) => lazy.bytes,
        }
    }
}

impl AtFirstUse {
    fn get(&self) -> Result<&BlockJson, &JsonError> {
        let made = self.made.get_or_init(|| {
            let make = self.make.lock().take();
            // Making it has panicked before.
            make.map_or_else(|| Err(JsonError::new("a defect")), |make| make())
        });
        made.as_ref()
    }
}
