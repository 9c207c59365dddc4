//! A session as a sink of notifications.

use bytes::Bytes;

use super::{close_reason::CloseReason, session::Session};
use crate::subscriptions::{Bookmark, NotificationSink, SubscriptionNumber};

impl NotificationSink for Session {
    fn notify(&self, [prefix, rest]: [Bytes; 2]) -> bool {
        let header = self.shared.text_header(prefix.len() + rest.len());
        self.queue_notification([header, prefix, rest])
    }

    fn has_room(&self) -> bool {
        self.has_room()
    }

    fn takes_messages(&self) -> bool {
        self.takes_messages()
    }

    fn queue_wake(&self) -> bool {
        !self.is_wake_queued.replace(true)
    }

    fn wake_queued(&self) {
        self.is_wake_queued.set(false);
        self.wake();
    }

    fn wake(&self) {
        self.wake();
    }

    fn close_behind_window(&self) {
        self.close(CloseReason::FELL_BEHIND);
    }

    fn fall_behind(&self, number: SubscriptionNumber, bookmark: Bookmark) {
        self.subscriptions.fall_behind(number, bookmark);
    }

    fn head_changed(&self) {
        self.subscriptions.head_changed();
    }
}
