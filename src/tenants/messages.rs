//! What the tenants' actor is asked for.

use actix::Message;
use nearhead_tenants::{
    administration::{AdminError, Operation, Requester},
    usage::TakenCounts,
};

use crate::access::ConfiguredKey;

/// Runs an operation. When it is answered, what it changed is stored and in force.
#[derive(Clone, Debug)]
pub struct Administer<O> {
    /// What to do.
    pub operation: O,
    /// Who asks, from where, and when.
    pub by: Requester,
}

impl<O: Operation<Answer: 'static>> Message for Administer<O> {
    type Result = Result<O::Answer, AdminError>;
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
