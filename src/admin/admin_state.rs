//! What the worker of the admin listener serves with, besides the state of the server.

use std::{net::SocketAddr, sync::Arc};

use actix::{Addr, Handler};
use actix_web::{http::header::HeaderName, rt, web};
use nearhead_tenants::{
    administration::{Operation, Requester},
    audit::Author,
    secret::SecretDigest,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{api::ApiError, login_throttle::LoginThrottle, usage_reads::UsageReads};
use crate::{
    access::LocalOnly,
    connections::OwnConnections,
    limits::VERIFICATIONS_MAX,
    tenants::{Administer, NoAnswer, StoreState, TenantsActor},
    tls::OwnClient,
};

/// What administration needs; cloning shares it.
#[derive(Clone)]
pub struct AdminState {
    pub(super) tenants: Addr<TenantsActor>,
    store: StoreState,
    pub(super) local_only: LocalOnly,
    /// Where the public listener is.
    pub(super) public: SocketAddr,
    /// The connections to it.
    pub(crate) own: OwnConnections,
    /// Makes TLS connections to it, if it speaks TLS, as the admin listener then does too.
    pub(super) tls: Option<OwnClient>,
    /// The URL at which clients reach it, if that is another one.
    pub(super) public_url: Option<Arc<str>>,
    /// The URLs of the nodes that are followed, without secrets.
    pub(super) nodes: Arc<[String]>,
    /// The header in which trusted proxies name an account.
    pub(super) proxy_header: Option<HeaderName>,
    /// The token that makes the first account. It is gone once it is used.
    pub(super) first_account: Arc<Mutex<Option<SecretDigest>>>,
    pub(super) throttle: Arc<Mutex<LoginThrottle>>,
    usage_reads: UsageReads,
    /// Held while a password is verified or hashed.
    pub(super) verifications: Arc<Semaphore>,
}

/// What administration starts with.
pub(crate) struct AdminSetup {
    /// Does what administrators ask for.
    pub(crate) tenants: Addr<TenantsActor>,
    /// Whether it can.
    pub(crate) store: StoreState,
    /// Checks every request.
    pub(crate) local_only: LocalOnly,
    /// Where the public listener is to be.
    pub(crate) public: SocketAddr,
    /// The URL at which clients reach it, if that is another one.
    pub(crate) public_url: Option<Box<str>>,
    /// The URLs of the nodes that are followed, without secrets.
    pub(crate) nodes: Vec<String>,
    /// The header in which trusted proxies name an account.
    pub(crate) proxy_header: Option<Box<str>>,
    /// The token that makes the first account, while there is none.
    pub(crate) first_account: Option<SecretDigest>,
}

impl AdminState {
    /// The state of one service.
    pub(crate) fn new(setup: AdminSetup) -> Self {
        let header = setup.proxy_header.as_deref();
        // Every name that the configuration accepts is a header's.
        let proxy_header = header.and_then(|name| name.parse().ok());
        Self {
            tenants: setup.tenants,
            store: setup.store,
            local_only: setup.local_only,
            public: setup.public,
            own: OwnConnections::default(),
            tls: None,
            public_url: setup.public_url.map(Into::into),
            nodes: setup.nodes.into(),
            proxy_header,
            first_account: Arc::new(Mutex::new(setup.first_account)),
            throttle: Arc::default(),
            usage_reads: UsageReads::default(),
            verifications: Arc::new(Semaphore::new(VERIFICATIONS_MAX)),
        }
    }

    /// The same, with the address that the public listener has got, and with TLS if both
    /// listeners speak it.
    pub(crate) fn with_public(&self, public: SocketAddr, tls: Option<OwnClient>) -> Self {
        Self {
            public,
            tls,
            ..self.clone()
        }
    }

    /// Does something. What reads usage waits for its turn.
    ///
    /// # Errors
    /// It is refused, the store failed, or the service is stopping.
    pub(super) async fn run<O>(
        &self,
        operation: O,
        requester: Requester,
    ) -> Result<O::Answer, ApiError>
    where
        O: Operation + Send + 'static,
        O::Answer: Send + 'static,
        TenantsActor: Handler<Administer<O>>,
    {
        if !O::READS_USAGE {
            return self.ask(operation, requester).await;
        }
        let (state, author) = (self.clone(), requester.author.clone());
        let read = async move { state.ask(operation, requester).await };
        self.in_turn(&author, read).await
    }

    /// Reads usage when it is somebody's turn. It is read to its end even if the client goes away,
    /// so that the next read does not begin before.
    ///
    /// # Errors
    /// Those of `read`, or too many of theirs wait.
    pub(super) async fn in_turn<T: 'static>(
        &self,
        author: &Author,
        read: impl Future<Output = Result<T, ApiError>> + 'static,
    ) -> Result<T, ApiError> {
        let turn = self.usage_reads.begin(author).await?;
        let reading = rt::spawn(async move {
            let answer = read.await;
            drop(turn);
            answer
        });
        // This fails if it panicked.
        reading.await.unwrap_or(Err(ApiError::INTERNAL))
    }

    /// Does something at once.
    ///
    /// # Errors
    /// It is refused, the store failed, or the service is stopping.
    pub(super) async fn ask<O>(
        &self,
        operation: O,
        requester: Requester,
    ) -> Result<O::Answer, ApiError>
    where
        O: Operation + Send + 'static,
        O::Answer: Send + 'static,
        TenantsActor: Handler<Administer<O>>,
    {
        let administer = Administer {
            operation,
            by: requester,
        };
        let answer = self.store.ask(&self.tenants, administer).await;
        let answer = answer.map_err(|no_answer| match no_answer {
            NoAnswer::DiskHangs => ApiError::STORE_HANGS,
            NoAnswer::IsLate => ApiError::STORE_IS_LATE,
            NoAnswer::Stopping => ApiError::STOPPING,
        })?;
        answer.map_err(|error| ApiError::of_operation(&error))
    }

    /// Verifies or hashes a password, on a thread that may block. Others wait for it.
    ///
    /// # Errors
    /// The service is stopping.
    pub(super) async fn hash<T: Send + 'static>(
        &self,
        hash: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let Ok(_permit) = self.verifications.acquire().await else {
            return Err(ApiError::STOPPING);
        };
        web::block(hash).await.map_err(|_| ApiError::INTERNAL)
    }
}
