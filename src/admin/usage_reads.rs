//! Whose turn it is to read usage.

use std::sync::Arc;

use nearhead_tenants::audit::Author;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::api::ApiError;
use crate::limits::VISITOR_READS_MAX;

/// Usage is read on the thread that also revokes keys. So one visitor reads at a time, those of one
/// visitor wait for each other, and then take turns with those of others.
#[derive(Clone, Debug)]
pub(super) struct UsageReads {
    turn: Arc<Semaphore>,
    /// Visitors who read or wait; no more than the listener has connections.
    visitors: Arc<Mutex<Vec<Reader>>>,
}

/// Somebody who reads usage.
#[derive(Debug)]
struct Reader {
    author: Author,
    /// Held by the one of their reads that is in the line with those of others.
    turn: Arc<Semaphore>,
    /// How many read or wait.
    reads: usize,
}

/// The right to read usage now; dropping it gives the next one its turn.
#[derive(Debug)]
pub(super) struct ReadTurn {
    _turn: OwnedSemaphorePermit,
    _own_turn: OwnedSemaphorePermit,
    _place: Place,
}

/// A place in the line of a visitor.
#[derive(Debug)]
struct Place {
    reads: UsageReads,
    author: Author,
}

impl Default for UsageReads {
    fn default() -> Self {
        Self {
            turn: Arc::new(Semaphore::new(1)),
            visitors: Arc::default(),
        }
    }
}

impl UsageReads {
    /// Waits until it is somebody's turn.
    ///
    /// # Errors
    /// Too many of their own reads wait already.
    pub(super) async fn begin(&self, author: &Author) -> Result<ReadTurn, ApiError> {
        let (place, own) = self.enter(author).ok_or(ApiError::TOO_MANY_READS)?;
        let own = own.acquire_owned().await;
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        match (own, turn) {
            (Ok(own), Ok(turn)) => Ok(ReadTurn {
                _turn: turn,
                _own_turn: own,
                _place: place,
            }),
            // Nobody closes them.
            _ => Err(ApiError::INTERNAL),
        }
    }

    fn enter(&self, author: &Author) -> Option<(Place, Arc<Semaphore>)> {
        let mut visitors = self.visitors.lock();
        let found = visitors.iter().position(|reader| reader.author == *author);
        let index = found.unwrap_or_else(|| {
            visitors.push(Reader {
                author: author.clone(),
                turn: Arc::new(Semaphore::new(1)),
                reads: 0,
            });
            visitors.len() - 1
        });
        let reader = visitors.get_mut(index)?;
        if reader.reads >= VISITOR_READS_MAX {
            return None;
        }
        reader.reads += 1;
        let place = Place {
            reads: self.clone(),
            author: author.clone(),
        };
        Some((place, Arc::clone(&reader.turn)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut visitors = self.reads.visitors.lock();
        visitors.retain_mut(|reader| {
            reader.reads -= usize::from(reader.author == self.author);
            reader.reads > 0
        });
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{
        pin::Pin,
        task::{Context, Waker},
    };

    use super::*;

    fn author(name: &str) -> Author {
        Author::Account(name.parse().unwrap())
    }

    /// Whether it is their turn at once.
    fn is_ready(reads: &mut Pin<Box<impl Future<Output = Result<ReadTurn, ApiError>>>>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        reads.as_mut().poll(&mut context).is_ready()
    }

    #[actix::test]
    async fn visitors_take_turns() {
        let reads = UsageReads::default();
        let (ann, ben) = (author("ann"), author("ben"));
        let first = reads.begin(&ann).await.unwrap();
        let mut others: Vec<_> = (1..VISITOR_READS_MAX)
            .map(|_| Box::pin(reads.begin(&ann)))
            .collect();
        for other in &mut others {
            assert!(!is_ready(other));
        }
        let refused = reads.begin(&ann).await.unwrap_err();
        assert_eq!(refused, ApiError::TOO_MANY_READS);
        let mut of_ben = Box::pin(reads.begin(&ben));
        assert!(!is_ready(&mut of_ben));
        drop(first);
        // The next one of Ann lines up behind Ben.
        assert!(!is_ready(&mut others[0]));
        let turn = of_ben.await.unwrap();
        assert!(!is_ready(&mut others[0]));
        drop(turn);
        let turn = others.remove(0).await.unwrap();
        // Who goes away leaves the line.
        drop(others);
        drop(turn);
        assert!(reads.visitors.lock().is_empty());
        assert_eq!(reads.turn.available_permits(), 1);
    }
}
