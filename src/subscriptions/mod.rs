//! Who is told what when the head changes.
//!
//! | file | what it is |
//! |---|---|
//! | [`Hub`] | everybody on one worker who is told at once, and the view that they know |
//! | [`SessionSubscriptions`] | one session's subscriptions; those that are behind catch up in turn, at their session's own pace |
//! | `catch_up` | one of these, on its way |
//! | `notification` | the JSON of a notification, in slices that all who get it share |
//!
//! A subscription begins as a cursor at a block and goes on step by step, as its session takes what
//! it is told, until it is at the hub's view; then the hub tells it with all others. When its
//! session has no room for what the hub has to tell, it goes on by a cursor again: what waits for a
//! session is bounded, and who reads, however slowly, misses nothing. All of it happens on the
//! worker's thread, so that between the two nothing is left out and nothing comes twice. The actor
//! that feeds the hub is `fanout_actor`.

mod catch_up;
mod fanout_actor;
mod hub;
mod notification;
mod session_subscriptions;
#[cfg(test)]
mod tests;

pub(crate) use fanout_actor::FanoutActor;
pub(crate) use hub::Hub;
pub(crate) use session_subscriptions::{Asking, SessionSubscriptions};
