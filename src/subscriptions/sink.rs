//! Where notifications go.

use bytes::Bytes;

use super::{bookmark::Bookmark, subscription_id::SubscriptionId};

/// Takes the notifications of one session, and passes on to its
/// [`SessionSubscriptions`](super::SessionSubscriptions) what the hub has to say.
///
/// No method waits.
pub(crate) trait NotificationSink {
    /// Queues a message in two parts: the subscription's own, and the one that all subscribers
    /// share. Returns `false` if there is no room for it; a closed session accepts and discards.
    ///
    /// The messages of one notification all have one length, and come one after the other. The
    /// hub's lists are borrowed meanwhile, so this must not call the hub.
    fn notify(&self, message: [Bytes; 2]) -> bool;

    /// Whether a subscription that is behind may send more.
    fn has_room(&self) -> bool;

    /// Whether the session still exchanges messages.
    fn takes_messages(&self) -> bool;

    /// Schedules a call of [`catch_up`](super::SessionSubscriptions::catch_up).
    fn wake(&self);

    /// Closes the session, because a subscription fell behind the window.
    fn close_behind_window(&self);

    /// Passes on that the hub does not serve this subscription any more.
    fn fall_behind(&self, id: SubscriptionId, bookmark: Bookmark);

    /// Passes on that the head changed, for which a subscription was waiting.
    fn head_changed(&self);
}
