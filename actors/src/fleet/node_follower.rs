//! The nodes of a process, which are followed while it leads and asked little otherwise.

use std::{mem, time::Duration};

use alloy_primitives::B256;
use nearhead_fleet::block_id::BlockId;
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
};

use crate::{
    source::{SourceError, SourceLink},
    upstream::{Following, TrackerWindow, UpstreamAnswer},
};

/// How long a process counts as able to follow its nodes after one has answered.
const FRESH: Duration = Duration::from_secs(15);

/// Time between two questions to nodes that are not followed.
const QUESTION_EVERY: Duration = Duration::from_secs(5);

/// What a node says of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadCheck {
    /// It has the block.
    Same,
    /// It has another block of this number.
    Other,
    /// It has no block of this number, or there is no head yet.
    Unknown,
}

impl HeadCheck {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Same, Self::Other, Self::Unknown];

    /// Its name in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Other => "other",
            Self::Unknown => "unknown",
        }
    }
}

/// The nodes of one process: none, idle or followed.
pub(super) struct NodeFollower {
    link: SourceLink,
    window: TrackerWindow,
    nodes: usize,
    chain_id: u64,
    state: State,
    /// Until when the nodes count as able to be followed.
    fresh_until: Duration,
    ask_at: Duration,
    /// The node that is asked next.
    next: usize,
}

enum State {
    Idle(Box<Following>),
    Followed(Followed),
    /// Following has panicked.
    Gone,
}

struct Followed {
    /// Dropping it ends following.
    stop: oneshot::Sender<()>,
    task: JoinHandle<(Box<Following>, Result<(), SourceError>)>,
    readable: watch::Receiver<std::time::Instant>,
}

impl NodeFollower {
    /// Nodes that are idle.
    pub(super) fn new(
        following: Following,
        link: SourceLink,
        window: TrackerWindow,
        chain_id: u64,
    ) -> Self {
        Self {
            link,
            window,
            nodes: following.nodes(),
            chain_id,
            state: State::Idle(Box::new(following)),
            fresh_until: Duration::ZERO,
            ask_at: Duration::ZERO,
            next: 0,
        }
    }

    /// Whether there are any.
    pub(super) const fn are_there(&self) -> bool {
        self.nodes > 0
    }

    /// Whether they are followed.
    pub(super) const fn are_followed(&self) -> bool {
        matches!(self.state, State::Followed(_))
    }

    /// Whether one has answered of late; while they are followed, whether a quorum agrees.
    pub(super) const fn are_fresh(&self, now: Duration) -> bool {
        self.are_there() && now.as_nanos() < self.fresh_until.as_nanos()
    }

    /// Notes that a node has answered.
    pub(super) fn answered(&mut self, now: Duration) {
        self.fresh_until = now + FRESH;
    }

    /// Follows the nodes, from what the window has. They have time until they count as silent.
    pub(super) fn begin(&mut self, now: Duration) {
        let idle = match mem::replace(&mut self.state, State::Gone) {
            State::Idle(following) => following,
            other => {
                self.state = other;
                return;
            }
        };
        self.answered(now);
        let (stop, ended) = oneshot::channel();
        let window = self.window.share();
        let readable = window.readable();
        let link = self.link.clone();
        let mut following = idle;
        let task = tokio::spawn(async move {
            let outcome = following.run(link, window, ended).await;
            (following, outcome)
        });
        self.state = State::Followed(Followed {
            stop,
            task,
            readable,
        });
    }

    /// Ends following: afterwards the window does not change.
    ///
    /// # Errors
    /// Following has failed.
    pub(super) async fn end(&mut self) -> Result<(), SourceError> {
        let followed = match mem::replace(&mut self.state, State::Gone) {
            State::Followed(followed) => followed,
            other => {
                self.state = other;
                return Ok(());
            }
        };
        drop(followed.stop);
        let Ok((following, outcome)) = followed.task.await else {
            return Err(SourceError::Upstream("following nodes panicked".to_owned()));
        };
        following.rest();
        self.state = State::Idle(following);
        outcome
    }

    /// Notes whether a quorum of the nodes that are followed agrees.
    ///
    /// # Errors
    /// Following has failed.
    pub(super) async fn look(&mut self, is_agreed: bool, now: Duration) -> Result<(), SourceError> {
        let State::Followed(followed) = &self.state else {
            return Ok(());
        };
        if followed.task.is_finished() {
            return self.end().await;
        }
        if is_agreed {
            self.answered(now);
        }
        Ok(())
    }

    /// Waits until following has made a head readable.
    pub(super) async fn readable(&mut self) {
        if let State::Followed(followed) = &mut self.state
            && followed.readable.changed().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }

    /// The question that is due: the hash that a node has at the head's number, or its chain id if
    /// there is no head. Each node is asked in its turn.
    pub(super) fn question(
        &mut self,
        head: Option<BlockId>,
        now: Duration,
    ) -> Option<impl Future<Output = Result<HeadCheck, String>> + Send + 'static> {
        let State::Idle(following) = &self.state else {
            return None;
        };
        if !self.are_there() || now < self.ask_at {
            return None;
        }
        self.ask_at = now + QUESTION_EVERY;
        let node = self.next;
        self.next = (node + 1) % self.nodes;
        let chain_id = self.chain_id;
        let answer = following.ask(node, head.map(|head| head.number))?;
        Some(async move {
            match answer.await? {
                UpstreamAnswer::ChainId(id) if id != chain_id => {
                    Err(format!("its chain id is {id}"))
                }
                UpstreamAnswer::ChainId(_) => Ok(HeadCheck::Unknown),
                UpstreamAnswer::Hash(hash) => Ok(checked(head, hash)),
            }
        })
    }
}

fn checked(head: Option<BlockId>, hash: Option<B256>) -> HeadCheck {
    match (head, hash) {
        (Some(head), Some(hash)) if head.hash == hash => HeadCheck::Same,
        (Some(_), Some(_)) => HeadCheck::Other,
        _ => HeadCheck::Unknown,
    }
}
