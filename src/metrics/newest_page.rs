//! The newest page of metrics, which is given for some time.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use parking_lot::Mutex;

/// The newest page, and when it was gathered. Held while the next one is gathered, so that scrapes
/// at once wait for the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct NewestPage(pub(super) Arc<Mutex<Option<(Instant, Bytes)>>>);
