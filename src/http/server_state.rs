//! What all workers share, and the options of the server.

use std::{rc::Rc, time::Duration};

use actix::Addr;
use bytes::Bytes;
use nearhead_actors::{
    head_tracker::HeadTracker,
    read::{ReadResources, Worker},
    readiness::Readiness,
};

use super::{client_address::TrustedProxies, visitor_header::VisitorHeader};
use crate::{
    access::{Access, GuessThrottle, SessionCaps, WaitCaps},
    filters::Filters,
    limits::{self, CallLimits},
    metrics::Metrics,
    rpc::{BlockWaits, Dispatcher, Forwarding},
    tenants::{StoreState, TenantsActor, UsageMeter},
    traces::Traces,
};

/// Everything that the workers of one service share; cloning shares it.
#[derive(Clone)]
pub struct ServerState {
    /// Who may call, which methods, and how much.
    pub access: Access,
    /// How often keys may be guessed.
    pub guesses: GuessThrottle,
    /// Counts what keys use; `None` if nobody does.
    pub tenants: Option<Addr<TenantsActor>>,
    /// Whether the store of tenants works.
    pub tenant_store: StoreState,
    /// The permits, the pool and the source of state, shared by all workers.
    pub reads: ReadResources,
    /// The filters of all keys.
    pub filters: Filters,
    /// What is forwarded to nodes.
    pub forwarding: Forwarding,
    /// The OpenRPC document.
    pub openrpc: Bytes,
    /// All metrics.
    pub metrics: Metrics,
    /// Options.
    pub settings: ServerSettings,
    /// Reports changes of the head.
    pub tracker: Addr<HeadTracker>,
    /// How many sessions may be open.
    pub session_caps: SessionCaps,
    /// How many requests may wait for a block.
    pub wait_caps: WaitCaps,
    /// The pointer to the current snapshot, and what `/ready` answers.
    pub readiness: Readiness,
    /// The traces of requests.
    pub traces: Traces,
}

impl ServerState {
    /// A dispatcher for the current thread, on which its read actors start.
    pub(super) fn dispatcher(&self, usage: UsageMeter) -> Dispatcher {
        Dispatcher {
            readiness: self.readiness.clone(),
            worker: Worker::start(&self.reads),
            metrics: self.metrics.clone(),
            usage,
            logs_deadline: self.settings.logs_deadline,
            calls: self.settings.calls,
            filters: self.filters.clone(),
            waits: Rc::new(BlockWaits::new(
                self.wait_caps.clone(),
                self.settings.min_block_wait,
            )),
            forwarding: self.forwarding.clone(),
            openrpc: self.openrpc.clone(),
        }
    }
}

/// Options of the server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Longest time that one eth_getLogs may run, from admission.
    pub(crate) logs_deadline: Duration,
    /// The limits of one call of a contract.
    pub(crate) calls: CallLimits,
    /// Longest wait of a request for the block that its client has seen.
    pub(crate) min_block_wait: Duration,
    /// Longest wait for a request's whole body, and for a session's whole message.
    pub(crate) body_timeout: Duration,
    /// Bytes that may wait for one session's client.
    pub(crate) session_bytes: usize,
    /// Longest time from the end of one request until the headers of the next have arrived.
    pub(crate) idle_max: Duration,
    /// How long a page of metrics is given.
    pub(crate) metrics_age_max: Duration,
    /// Proxies that say who sent a request.
    pub trusted_proxies: TrustedProxies,
    /// Says for whom the dashboard calls the public listener.
    pub(crate) visitor_header: VisitorHeader,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            logs_deadline: limits::LOGS_DEADLINE,
            calls: CallLimits::default(),
            min_block_wait: limits::MIN_BLOCK_WAIT,
            body_timeout: limits::BODY_TIMEOUT,
            session_bytes: limits::SESSION_BYTES_MAX,
            idle_max: limits::KEEP_ALIVE + limits::HEADER_TIMEOUT,
            metrics_age_max: limits::METRICS_AGE_MAX,
            trusted_proxies: TrustedProxies::default(),
            visitor_header: VisitorHeader::default(),
        }
    }
}
