//! Lets requests and handshakes in, and bounds how often one network may be refused.

use actix_web::{HttpRequest, HttpResponse};

use super::{
    access_log::AccessEntry,
    credentials,
    refusal::{refuse_entry, refuse_guess},
    worker_state::WorkerState,
};
use crate::{
    access::{Admitted, Now, Refused},
    connections::Connection,
    rpc::RpcError,
};

/// The response to a request that is not let in.
pub(super) enum Denied {
    /// The rest of the request may still be read.
    Refused(Box<HttpResponse>),
    /// Too many were refused that came from the same network: the connection ends.
    Throttled(Box<HttpResponse>),
}

impl Denied {
    /// The response, whichever it is.
    pub(super) fn response(self) -> HttpResponse {
        match self {
            Self::Refused(response) | Self::Throttled(response) => *response,
        }
    }
}

impl WorkerState {
    /// Lets a request with this key in, which came on this connection.
    ///
    /// # Errors
    /// The response to a request that is not let in, which is counted.
    pub(super) fn admit(
        &self,
        request: &HttpRequest,
        connection: Option<&Connection>,
        key: &str,
        now: Now,
        access: &mut AccessEntry<'_>,
    ) -> Result<Admitted, Denied> {
        let presented = credentials::presented(request, connection, key);
        match credentials::admit(&self.server, &self.tokens, request, &presented, now) {
            Ok(admitted) => {
                if let Some(connection) = connection {
                    connection.accepted_key_of(admitted.key.tenant.id);
                }
                Ok(admitted)
            }
            Err(refused) => {
                if let Some(connection) = connection {
                    connection.refused();
                }
                Err(self.deny(request, refused, now, access))
            }
        }
    }

    fn deny(
        &self,
        request: &HttpRequest,
        refused: Refused,
        now: Now,
        access: &mut AccessEntry<'_>,
    ) -> Denied {
        // Tokens have a throttle of their own, before they are verified.
        let is_guess = matches!(refused, Refused::UnknownKey | Refused::WrongSecret);
        let client = || credentials::client_address(&self.server, request);
        if let Some(client) = is_guess.then(client).flatten()
            && let Err(retry_after_seconds) = self.server.guesses.count(client, now.instant)
        {
            self.server.metrics.guesses_throttled.inc();
            let error = RpcError::TooManyGuesses {
                retry_after_seconds,
            };
            self.count_refused(&error, access);
            return Denied::Throttled(Box::new(refuse_guess(retry_after_seconds)));
        }
        self.count_refused(&refused.into(), access);
        Denied::Refused(Box::new(refuse_entry(refused)))
    }
}
