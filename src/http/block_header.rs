//! The header that says from which head an answer was made.

use std::{cell::RefCell, sync::Arc};

use actix_web::http::header::{HeaderName, HeaderValue};
use nearhead_chain::window::HeadName;

/// The head of the snapshot that an answer was made from: `NUMBER, HASH`.
pub(super) const X_NEARHEAD_BLOCK: HeaderName = HeaderName::from_static("x-nearhead-block");

/// The value of [`X_NEARHEAD_BLOCK`] that a worker last sent. It is made once for each head, so
/// that a small answer costs no formatting and no allocation.
#[derive(Debug, Default)]
pub(super) struct BlockHeader(RefCell<Option<(Arc<HeadName>, HeaderValue)>>);

impl BlockHeader {
    /// The value for this head; `None` if it can be no header, which no head is.
    pub(super) fn of(&self, head: Arc<HeadName>) -> Option<HeaderValue> {
        let mut last = self.0.borrow_mut();
        if let Some((of, value)) = &*last
            && Arc::ptr_eq(of, &head)
        {
            return Some(value.clone());
        }
        let value = HeaderValue::from_str(head.as_str()).ok()?;
        *last = Some((head, value.clone()));
        Some(value)
    }
}
