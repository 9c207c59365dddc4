//! What the tenants' actor is asked for.

use std::net::IpAddr;

use actix::Message;
use nearhead_tenants::{
    audit::{Author, Detail},
    command::{Command, CommandError},
    store::StoreError,
    usage::TakenCounts,
};

use crate::access::ConfiguredKey;

/// Does something to tenants or keys. When it is answered, it is stored and in force.
#[derive(Message)]
#[rtype(result = "Result<(), RunError>")]
pub(crate) struct RunCommand {
    pub(crate) command: Command,
    pub(crate) author: Author,
    /// The address that it came from.
    pub(crate) from: Option<IpAddr>,
    pub(crate) detail: Detail,
}

/// Why a command was not run. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RunError {
    /// It was refused.
    #[error(transparent)]
    Refused(#[from] CommandError),
    /// It cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Replaces the keys that the configuration names.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ReplaceConfigured(pub(crate) Vec<ConfiguredKey>);

/// Adds what a worker has counted.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct AddUsage(pub(crate) TakenCounts);

/// Writes what is not written yet, and ends the actor.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct StopTenants;

/// STUB
pub(crate) struct Administer<O> {
    pub(crate) operation: O,
    pub(crate) by: nearhead_tenants::administration::Requester,
}
impl<O: nearhead_tenants::administration::Operation> Message for Administer<O>
where
    O::Answer: 'static,
{
    type Result = Result<O::Answer, nearhead_tenants::administration::AdminError>;
}
impl<O: nearhead_tenants::administration::Operation> actix::Handler<Administer<O>>
    for super::TenantsActor
where
    O::Answer: 'static,
{
    type Result = Result<O::Answer, nearhead_tenants::administration::AdminError>;
    fn handle(&mut self, _: Administer<O>, _: &mut Self::Context) -> Self::Result {
        Err(nearhead_tenants::administration::AdminError::NotLoggedIn)
    }
}
