//! A block's JSON, made with the block or at the first use.

use std::{
    fmt,
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

use crate::encode::{BlockJson, JsonWithoutSenders};

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

/// What a block's JSON is made from.
pub(crate) trait JsonSource: Send + Sync {
    /// Recovers the senders, which is most of the work, and makes the JSON.
    fn whole(&self) -> Made;

    /// Makes the JSON for [`JsonWithoutSenders`].
    fn without_senders(&self) -> Made;
}

/// The JSON of a block that has none.
static NULL: LazyLock<BlockJson> = LazyLock::new(BlockJson::null);

/// A block's JSON, made at the first use if not before.
#[derive(Clone, Debug)]
pub struct LazyJson(Kind);

#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "the JSON of nearly every block was made with it"
)]
enum Kind {
    /// It was made with the block: no read of it looks further.
    Made(BlockJson),
    /// Clones share it.
    AtFirstUse(Arc<AtFirstUse>),
}

struct AtFirstUse {
    made: OnceLock<Made>,
    /// Set before the first attempt: one that panicked is not repeated.
    was_tried: AtomicBool,
    /// What it is made from, and the part without senders, until the whole is made.
    parts: Mutex<Parts>,
    /// Whether a reader needed the senders.
    is_read: AtomicBool,
    bytes: usize,
}

#[derive(Default)]
struct Parts {
    source: Option<Arc<dyn JsonSource>>,
    without_senders: Option<Result<Arc<BlockJson>, JsonError>>,
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
    /// What `source` makes at the first use. `bytes` bounds the memory that is held, before and
    /// after.
    pub(crate) fn at_first_use(bytes: usize, source: Arc<dyn JsonSource>) -> Self {
        Self(Kind::AtFirstUse(Arc::new(AtFirstUse {
            made: OnceLock::new(),
            was_tried: AtomicBool::new(false),
            parts: Mutex::new(Parts {
                source: Some(source),
                without_senders: None,
            }),
            is_read: AtomicBool::new(false),
            bytes,
        })))
    }

    /// The JSON for a reader, made now if it was not before; null if it cannot be made.
    pub(super) fn read(&self) -> &BlockJson {
        match &self.0 {
            Kind::Made(json) => json,
            Kind::AtFirstUse(lazy) => {
                // Most reads find it set, and do not write to the shared cache line.
                if !lazy.is_read.load(Ordering::Relaxed) {
                    lazy.is_read.store(true, Ordering::Relaxed);
                }
                lazy.make().unwrap_or(&NULL)
            }
        }
    }

    /// What needs no sender, made now if it was not before; null if it cannot be made.
    pub(super) fn without_senders(&self) -> JsonWithoutSenders<'_> {
        match &self.0 {
            Kind::Made(json) => JsonWithoutSenders::of(json),
            Kind::AtFirstUse(lazy) => lazy.make_without_senders(),
        }
    }

    /// The JSON, made now if it was not before; for no reader.
    pub(super) fn make(&self) -> Result<&BlockJson, &JsonError> {
        match &self.0 {
            Kind::Made(json) => Ok(json),
            Kind::AtFirstUse(lazy) => lazy.make(),
        }
    }

    /// Whether it was made.
    pub(super) fn is_made(&self) -> bool {
        match &self.0 {
            Kind::Made(_) => true,
            Kind::AtFirstUse(lazy) => lazy.made.get().is_some(),
        }
    }

    /// Whether what needs no sender was made. It waits for nobody who makes it.
    pub(super) fn is_made_without_senders(&self) -> bool {
        match &self.0 {
            Kind::Made(_) => true,
            Kind::AtFirstUse(lazy) => {
                let parts = || lazy.parts.try_lock();
                lazy.made.get().is_some()
                    || parts().is_some_and(|parts| parts.without_senders.is_some())
            }
        }
    }

    /// Whether a reader needed its senders; false for a block that was made with them.
    pub(super) fn is_read(&self) -> bool {
        match &self.0 {
            Kind::Made(_) => false,
            Kind::AtFirstUse(lazy) => lazy.is_read.load(Ordering::Relaxed),
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
    fn make(&self) -> Result<&BlockJson, &JsonError> {
        if let Some(made) = self.made.get() {
            return made.as_ref();
        }
        let made = self.made.get_or_init(|| {
            let source = self.parts.lock().source.clone();
            let source = source.filter(|_| !self.was_tried.swap(true, Ordering::Relaxed));
            source.map_or_else(|| Err(JsonError::new("a defect")), |source| source.whole())
        });
        // The part is what remains if a sender cannot be recovered: the block's hash covers it.
        if made.is_ok() {
            *self.parts.lock() = Parts::default();
        }
        made.as_ref()
    }

    fn make_without_senders(&self) -> JsonWithoutSenders<'_> {
        let mut parts = self.parts.lock();
        // Not before the lock: whoever makes the whole takes the source away after it.
        if let Some(Ok(made)) = self.made.get() {
            return JsonWithoutSenders::of(made);
        }
        let Parts {
            source,
            without_senders,
        } = &mut *parts;
        let made = without_senders.get_or_insert_with(|| match source {
            Some(source) => source.without_senders().map(Arc::new),
            None => Err(JsonError::new("a defect")),
        });
        match made {
            Ok(part) => JsonWithoutSenders::before_whole(Arc::clone(part)),
            Err(_) => JsonWithoutSenders::of(&NULL),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{
        sync::mpsc::{self, Receiver, SyncSender},
        thread,
    };

    use super::*;

    /// Says when it begins with a part, and makes it once it is told to.
    struct Stopped {
        begun: Mutex<SyncSender<()>>,
        go_on: Mutex<Receiver<()>>,
        whole: Made,
    }

    impl JsonSource for Stopped {
        fn whole(&self) -> Made {
            self.whole.clone()
        }

        fn without_senders(&self) -> Made {
            self.begun.lock().send(()).unwrap();
            self.go_on.lock().recv().unwrap();
            Ok(BlockJson::of_one_log())
        }
    }

    /// A reader of logs has them, whatever becomes of the senders while the part is made.
    fn check(whole: Made) {
        let ((begun, has_begun), (go_on, goes_on)) = (mpsc::sync_channel(1), mpsc::sync_channel(1));
        let is_whole = whole.is_ok();
        let source = Stopped {
            begun: Mutex::new(begun),
            go_on: Mutex::new(goes_on),
            whole,
        };
        let json = LazyJson::at_first_use(1, Arc::new(source));
        thread::scope(|scope| {
            let reader = scope.spawn(|| json.without_senders().log_range(0));
            has_begun.recv().unwrap();
            assert!(!json.is_made_without_senders(), "it is not there yet");
            let maker = scope.spawn(|| json.make().is_ok());
            go_on.send(()).unwrap();
            assert_eq!(reader.join().unwrap(), Some(0..1));
            assert_eq!(maker.join().unwrap(), is_whole);
        });
        assert_eq!(json.without_senders().log_range(0), Some(0..1));
        assert!(json.is_made_without_senders());
        assert!(!json.is_read());
        assert_eq!(json.read().log_range(0), is_whole.then_some(0..1));
        assert!(json.is_read());
    }

    #[test]
    fn logs_are_there_whatever_becomes_of_the_senders() {
        check(Ok(BlockJson::of_one_log()));
        check(Err(JsonError::new("no sender")));
    }
}
