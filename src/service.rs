//! Starts and stops the service; the only module that knows all its parts.
//!
//! | file | content |
//! |---|---|
//! | `service.rs` | a service as its caller has it |
//! | `startup` | the service's own thread: starts all parts, and stops them |
//! | `tenant_parts` | the store of tenants, the keys in force, the first account |
//! | `start_error` | why a service could not start |

mod start_error;
mod startup;
mod tenant_parts;

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    sync::{Arc, mpsc},
    thread,
    time::SystemTime,
};

use actix::System;
use nearhead_actors::{head::Head, source::ProgressReport, upstream::FollowedChain};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

pub use self::start_error::StartError;
use self::{
    startup::{Failure, Started, Startup, Stop},
    tenant_parts::configured_keys,
};
use crate::{
    config::Config,
    connections::LivenessWatch,
    listeners::{InheritedSockets, Sockets},
    rpc::Forwarding,
    tenants::{NoAnswer, ReplaceConfigured},
    tls::{ServerTls, TlsError},
    traces::Traces,
};

/// A running service: source, head tracker, pool and HTTP server, each on its own threads.
///
/// It needs no runtime from its caller, and one process may run several. Dropping it stops it
/// without waiting; [`Service::stop`] lets requests in flight finish.
#[derive(Debug)]
pub struct Service {
    head: Head,
    /// `None` if the listeners speak plain HTTP.
    tls: Option<Arc<ServerTls>>,
    started: Started,
    failure: watch::Receiver<Option<String>>,
    stop: Mutex<Option<oneshot::Sender<Stop>>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Service {
    /// Starts a service, and passes the source's progress to `report`. It blocks until the head is
    /// readable and the port answers; a large file or profile takes longer.
    ///
    /// # Errors
    /// The configuration is not complete, the port is taken, or the source cannot be served.
    pub fn start(config: Config, report: ProgressReport) -> Result<Self, StartError> {
        let traces = Traces::default();
        Self::start_on(InheritedSockets::default(), config, traces, report)
    }

    /// The same on sockets that the process was started with, which have changed the addresses of
    /// the configuration, with traces of requests.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_on(
        inherited: InheritedSockets,
        config: Config,
        traces: Traces,
        report: ProgressReport,
    ) -> Result<Self, StartError> {
        let config = config.complete()?;
        let forwarding = Forwarding::new(&config.forward)?;
        let tls = config.tls_files().map(ServerTls::read).transpose()?;
        let tls = tls.map(Arc::new);
        // Bound at once, so that a port in use is an error before a long import. They refuse
        // connections until the head is readable.
        let sockets = Sockets::bind(&config, inherited)?;
        let (failed, failure) = watch::channel(None);
        let (stop, stopped) = oneshot::channel();
        let (started, outcome) = mpsc::sync_channel(1);
        let head = Head::default();
        let startup = Startup {
            config,
            forwarding,
            sockets,
            tls: tls.clone(),
            head: head.clone(),
            traces,
            report,
            failure: Failure::new(failed),
        };
        let run = move || {
            let system = System::new();
            system.block_on(startup.run(started, stopped));
            System::current().stop();
            // Ends every arbiter of this system.
            let _ = system.run();
        };
        let thread = thread::Builder::new()
            .name("service".to_owned())
            .spawn(run)
            .map_err(StartError::Thread)?;
        let started = outcome.recv().map_err(|_| StartError::Panicked)??;
        Ok(Self {
            head,
            tls,
            started,
            failure,
            stop: Mutex::new(Some(stop)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// `http://ADDRESS:PORT`, or https with TLS, as a client on this machine reaches it, without a
    /// key.
    #[must_use]
    pub fn url(&self) -> String {
        url_of(self.started.addresses.public, self.tls.is_some())
    }

    /// The same of the admin listener, if there is one.
    #[must_use]
    pub fn admin_url(&self) -> Option<String> {
        let address = self.started.addresses.admin?;
        Some(url_of(address, self.tls.is_some()))
    }

    /// The link that makes the first account, if there was none at the start. It is for the one who
    /// started the service, and for no log.
    #[must_use]
    pub fn first_account_url(&self) -> Option<String> {
        let token = self.started.first_account.as_ref()?;
        Some(format!("{}{}", self.admin_url()?, token.path()))
    }

    /// `http://ADDRESS:PORT` of the metrics listener, if there is one.
    #[must_use]
    pub fn metrics_url(&self) -> Option<String> {
        let address = self.started.addresses.metrics?;
        Some(url_of(address, false))
    }

    /// The pointer to the current snapshot.
    #[must_use]
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// The chain that the upstreams are to be on; `None` for sources without upstreams.
    #[must_use]
    pub const fn followed_chain(&self) -> Option<&FollowedChain> {
        self.started.chain.as_ref()
    }

    /// Watches whether all workers still run.
    #[must_use]
    pub fn liveness(&self) -> LivenessWatch {
        self.started.liveness.clone().watch()
    }

    /// The folder in which tenants and keys are kept; `None` if they are kept in memory.
    #[must_use]
    pub fn data(&self) -> Option<&Path> {
        self.started.data.as_deref()
    }

    /// Whether there is a key that lets clients in.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        self.started.access.has_keys(SystemTime::now().into())
    }

    /// Replaces the keys that the configuration names. Sessions with a key that stays go on; those
    /// with a key that goes are closed within a second.
    ///
    /// # Errors
    /// They are not replaced yet; if the store was asked, it may still replace them.
    pub async fn replace_keys(&self, config: &Config) -> Result<(), NoAnswer> {
        let mut config = config.clone();
        config.listens_on(self.started.addresses.public);
        let replace = ReplaceConfigured(configured_keys(&config));
        let Started { store, tenants, .. } = &self.started;
        store.ask(tenants, replace).await
    }

    /// Reads the certificate of the listeners and its key again. Connections go on; those that come
    /// later have what is new.
    ///
    /// # Errors
    /// The files cannot be used: then all stays as it is.
    pub fn reload_tls(&self) -> Result<(), TlsError> {
        let Some(tls) = &self.tls else {
            return Ok(());
        };
        let metrics = &self.started.metrics.tls;
        let read = tls.read_again();
        metrics.reloaded(read.is_ok());
        metrics.ends(tls.not_after());
        read
    }

    /// Waits until the service cannot go on, and returns the reason.
    pub async fn failed(&self) -> String {
        let mut failure = self.failure.clone();
        let reason = failure.wait_for(Option::is_some).await;
        reason
            .ok()
            .and_then(|reason| reason.clone())
            .unwrap_or_else(|| "the service stopped".to_owned())
    }

    /// Stops the service: it is not ready any more, and goes on for the configured delay. Then no
    /// new connections are accepted, requests in progress may finish within the grace period, and
    /// all threads end.
    pub async fn stop(&self) {
        if let Some(done) = self.send_stop(true) {
            // This fails if the service has already stopped.
            let _ = done.await;
        }
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A panic of the thread has been reported as a failure.
            let _ = thread.join();
        }
    }

    fn send_stop(&self, graceful: bool) -> Option<oneshot::Receiver<()>> {
        let (done, finished) = oneshot::channel();
        let stop = self.stop.lock().take()?;
        stop.send(Stop { graceful, done }).ok()?;
        Some(finished)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.send_stop(false);
    }
}

/// An address as it is reached on this machine.
fn url_of(mut address: SocketAddr, is_tls: bool) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let scheme = if is_tls { "https" } else { "http" };
    format!("{scheme}://{address}")
}

#[cfg(test)]
mod tests;
