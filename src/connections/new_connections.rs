//! Connections on which no request has come yet.

use std::{cell::Cell, rc::Rc};

use tokio::sync::Notify;

/// Counts the connections of one worker on which no request has come yet.
#[derive(Debug, Default)]
pub(crate) struct NewConnections {
    count: Cell<usize>,
    none_left: Notify,
}

/// One of them. Dropping it says that its first request has come, or that it has ended.
#[derive(Debug)]
pub(super) struct NewConnection(Rc<NewConnections>);

impl NewConnections {
    /// One more.
    pub(super) fn add(self: &Rc<Self>) -> NewConnection {
        self.count.set(self.count.get() + 1);
        NewConnection(Rc::clone(self))
    }

    /// Waits until there is none.
    pub(crate) async fn none_left(&self) {
        while self.count.get() > 0 {
            self.none_left.notified().await;
        }
    }
}

impl Drop for NewConnection {
    fn drop(&mut self) {
        let count = self.0.count.get() - 1;
        self.0.count.set(count);
        if count == 0 {
            self.0.none_left.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn the_last_one_is_awaited() {
        let new_connections = Rc::<NewConnections>::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut none_left = Box::pin(new_connections.none_left());
        let mut is_over = || none_left.as_mut().poll(&mut cx).is_ready();
        let all = [(); 2].map(|()| new_connections.add());
        assert!(!is_over());
        let [first, second] = all;
        drop(first);
        assert!(!is_over());
        drop(second);
        assert!(is_over());
    }
}
