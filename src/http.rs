//! Routes: what answers which path, and what every answer carries.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use actix_web::web::ServiceConfig;
use nearhead_actors::{head::Head, wiring::Pools};

use crate::{
    access::{Keys, Quota},
    limits,
    metrics::Metrics,
    rpc::dispatch::MethodSet,
};

/// Everything that answers of one service need; cloning shares it.
#[derive(Clone)]
pub struct Edge {
    /// The pointer to the present view.
    pub head: Head,
    /// Who may ask.
    pub keys: Arc<Keys>,
    /// How much each may ask.
    pub quota: Arc<Quota>,
    /// Threads for heavy work, and its permits.
    pub pools: Pools,
    /// Where everything is counted.
    pub metrics: Metrics,
    /// Knobs.
    pub settings: EdgeSettings,
    /// Set when the service is going away: `/ready` says so, answers go on.
    pub draining: Arc<AtomicBool>,
}

/// Knobs of the edge.
#[derive(Clone, Debug)]
pub struct EdgeSettings {
    /// Which methods are answered.
    pub methods: MethodSet,
    /// Longest run of eth_getLogs, from admission.
    pub logs_deadline: Duration,
    /// Longest wait for a request's whole body.
    pub body_timeout: Duration,
    /// `/ready` fails when the head has not changed for longer than this; `None`: a head is always fresh.
    pub head_fresh_for: Option<Duration>,
}

impl Default for EdgeSettings {
    fn default() -> Self {
        Self {
            methods: MethodSet::default(),
            logs_deadline: limits::LOGS_DEADLINE,
            body_timeout: limits::BODY_TIMEOUT,
            head_fresh_for: None,
        }
    }
}

/// Adds all routes to one worker's application and starts that worker's actors; called once on each worker.
pub fn configure(edge: &Edge, config: &mut ServiceConfig) {
    let _ = (edge, config);
}
