//! Notifies sessions when the head changes.
//!
//! | file | content |
//! |---|---|
//! | [`hub`] | the subscriptions that are at the worker's current snapshot, and that snapshot |
//! | [`session_subscriptions`] | those of one session; they catch up in turns |
//! | `catch_up` | one subscription that catches up |
//! | `bookmark` | where in the chain a subscription continues |
//! | `notification` | the JSON of a notification, shared by all that receive it |
//! | [`sink`] | the trait that a session implements to be notified |
//! | `wake_queue` | sessions that have something to do, which are woken in turns |
//! | `subscription_number` | a subscription's number, and the id that its client sees |
//! | `fanout_actor` | feeds the hub from the head tracker |
//!
//! A new subscription starts with a bookmark in the chain and advances step by step, as its session
//! takes what is sent, until it is at the hub's snapshot; then the hub lists it. If its session has
//! no room for a notification, the subscription leaves the list with a bookmark and catches up
//! again. So what waits for a session is bounded, and a client that reads misses nothing, however
//! slowly it reads. All of this runs on the worker's thread: a change of the head cannot come
//! between the last step and the listing.

mod bookmark;
mod catch_up;
mod fanout_actor;
mod hub;
mod notification;
mod session_subscriptions;
mod sink;
mod subscription_number;
mod wake_queue;

pub(crate) use bookmark::Bookmark;
pub(crate) use fanout_actor::FanoutActor;
pub(crate) use hub::Hub;
pub(crate) use session_subscriptions::SessionSubscriptions;
pub(crate) use sink::NotificationSink;
pub(crate) use subscription_number::SubscriptionNumber;
#[cfg(test)]
pub(crate) use {fanout_actor::next_change, wake_queue::WOKEN_MAX};
