//! What one worker serves requests with.

use std::{rc::Rc, sync::Arc};

use nearhead_actors::admission::RequestTurns;

use super::{
    access_log::RequestIds, block_header::BlockHeader, large_bodies::LargeBodies, replies::Replies,
    server_state::ServerState,
};
use crate::{
    access::TokenCache,
    connections::{BodyBudget, Watch},
    rpc::Dispatcher,
    subscriptions::{FanoutActor, Hub},
    tenants::UsageMeter,
    ws::Sessions,
};

/// What one worker serves requests with.
pub(super) struct WorkerState {
    pub(super) server: ServerState,
    pub(super) dispatcher: Rc<Dispatcher>,
    pub(super) large_bodies: LargeBodies,
    pub(super) replies: Replies,
    pub(super) bodies: BodyBudget,
    pub(super) requests: RequestTurns,
    pub(super) ids: RequestIds,
    pub(super) block_header: BlockHeader,
    pub(super) watch: Rc<Watch>,
    pub(super) sessions: Sessions,
    pub(super) hub: Rc<Hub>,
    /// The tokens that this worker has verified.
    pub(super) tokens: TokenCache,
}

impl WorkerState {
    /// Starts the worker's actors on the current thread, whose connections `watch` watches.
    pub(super) fn start(server: &ServerState, watch: Rc<Watch>) -> Self {
        let usage = UsageMeter::start_for(server.tenants.as_ref());
        let dispatcher = server.dispatcher(usage.clone());
        let hub = Hub::new(server.metrics.clone());
        let waits = Rc::clone(&dispatcher.waits);
        FanoutActor::start(server.tracker.clone(), Some(Rc::clone(&hub)), waits);
        let watched = Rc::clone(&watch);
        let requests = dispatcher
            .worker
            .request_turns(move || watched.has_one_owner());
        watch.watch_requests(requests.waits());
        Self {
            server: server.clone(),
            sessions: Sessions::start(
                server.settings.session_bytes,
                server.settings.body_timeout,
                Arc::clone(&server.readiness.shutdown),
                server.access.clone(),
                server.metrics.clone(),
                usage,
            ),
            hub,
            dispatcher: Rc::new(dispatcher),
            large_bodies: LargeBodies::new(server),
            replies: Replies::new(watch.reply_turns(), &server.reads.replies),
            bodies: BodyBudget::default(),
            requests,
            ids: RequestIds::default(),
            block_header: BlockHeader::default(),
            tokens: TokenCache::default(),
            watch,
        }
    }
}
