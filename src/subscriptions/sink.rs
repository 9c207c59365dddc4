//! Where notifications go.

use bytes::Bytes;

use super::{bookmark::Bookmark, subscription_number::SubscriptionNumber};

/// Takes the notifications of one session, and passes the hub's messages to its
/// [`SessionSubscriptions`](super::SessionSubscriptions).
///
/// No method waits.
pub(crate) trait NotificationSink {
    /// Queues a message in two parts: the subscription's own, and one that all subscribers share.
    /// It is sent when the session is woken. Returns `false` if there is no room for it; a closed
    /// session accepts and discards.
    ///
    /// All messages of one notification have the same length, and come one after the other. The
    /// hub's lists are borrowed meanwhile, so this must not call the hub.
    fn notify(&self, message: [Bytes; 2]) -> bool;

    /// Whether a subscription that is behind may send more.
    fn has_room(&self) -> bool;

    /// Whether the session still exchanges messages.
    fn takes_messages(&self) -> bool;

    /// Marks the session as queued to be woken. Whether it was not queued yet.
    fn queue_wake(&self) -> bool;

    /// Wakes the session, which is no longer queued.
    fn wake_queued(&self);

    /// Schedules a call of [`catch_up`](super::SessionSubscriptions::catch_up), and the sending of
    /// what is queued.
    fn wake(&self);

    /// Closes the session, because a subscription fell behind the window.
    fn close_behind_window(&self);

    /// Reports that the hub no longer lists this subscription, which catches up from `bookmark`
    /// when the session is woken.
    fn fall_behind(&self, number: SubscriptionNumber, bookmark: Bookmark);

    /// Reports that the head changed, which a subscription was waiting for. It catches up when the
    /// session is woken.
    fn head_changed(&self);
}
