use std::time::SystemTime;

use nearhead_actors::data_folder::DataRoot;
use nearhead_tenants::{
    UnixMillis,
    administration::{AdminError, AdminErrorKind},
};

use super::{
    Failure, api_call::ApiCall, command_line::place::Place, service_client::ServiceClient,
};
use crate::tenants::{OfflineError, OfflineTenants};

/// What does the operations of a command.
pub(super) enum Connection {
    /// A running service, by its admin API.
    Service(ServiceClient),
    /// This process, on a data folder that it holds.
    Folder(Box<OfflineTenants>),
}

impl Connection {
    /// Opens the place where a command works.
    pub(super) fn open(place: &Place) -> Result<Self, Failure> {
        match place {
            Place::Service {
                url,
                token,
                certificates,
            } => {
                let client = ServiceClient::new(url.clone(), token.clone(), certificates);
                client.map(Self::Service)
            }
            Place::Folder { root, chain_id } => {
                let root = DataRoot::Given(root.clone());
                // Nobody knows which keys the configuration names when the service starts.
                let opened = OfflineTenants::open(&root, *chain_id, &[]);
                Ok(Self::Folder(Box::new(opened?)))
            }
        }
    }

    /// Does something.
    pub(super) fn run<C: ApiCall>(&mut self, call: C) -> Result<C::Answer, Failure> {
        match self {
            Self::Service(client) => client.run(&call),
            Self::Folder(tenants) => Ok(tenants.run(call)?),
        }
    }
}

impl From<OfflineError> for Failure {
    fn from(error: OfflineError) -> Self {
        match error.is_misuse() {
            true => Self::misuse(error),
            false => Self::new(error),
        }
    }
}

impl From<AdminError> for Failure {
    fn from(error: AdminError) -> Self {
        match &error {
            // There is no log that has the reason.
            AdminError::Store(reason) => Self::new(reason),
            error if error.kind() == AdminErrorKind::Invalid => Self::misuse(error),
            error => Self::new(error),
        }
    }
}

/// The present.
pub(super) fn now() -> UnixMillis {
    SystemTime::now().into()
}
