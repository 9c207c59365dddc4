use crate::{
    admin::{admin_state::AdminState, recent_traffic::RecentTraffic},
    http::ServerState,
};

/// What pages are made of.
#[derive(Clone, Copy)]
pub(in crate::admin) struct PageContext<'a> {
    pub(in crate::admin) server: &'a ServerState,
    pub(in crate::admin) admin: &'a AdminState,
    pub(in crate::admin) recent: &'a RecentTraffic,
}
