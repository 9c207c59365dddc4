//! Source `node` in a fleet: follows the leader's entries, or its nodes while it leads.

use std::{fmt, sync::Arc, time::Instant};

use nearhead_chain::network::ServedChain;
use nearhead_fleet::fleet_key::FleetKey;

use super::{
    entry_bytes::EntryBytes,
    json_maker::JsonMaker,
    member::{Member, Parts},
    node_follower::NodeFollower,
    presence::PresenceWriter,
    quotas::{Lender, LoanDesk},
    state_share::StateShare,
    status::FleetStatus,
    store::{FleetStore, StoreOptions},
    store_check::check_store,
    wants::WantServer,
};
use crate::{
    source::{Source, SourceError, SourceLink},
    upstream::{
        FollowedChain, Forwarder, Standing, StateSource, TrackerWindow, UpstreamConfig,
        UpstreamParts, UpstreamSource, stop_of,
    },
};

/// The configuration of a process of a fleet.
#[derive(Clone)]
pub struct FleetConfig {
    /// Its nodes, if it has any, and the chain.
    pub nodes: UpstreamConfig,
    /// The store.
    pub store: StoreOptions,
    /// The secret that all processes of the fleet have, and the store has not.
    pub secret: Box<[u8]>,
}

impl fmt::Debug for FleetConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetConfig")
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}

/// One process of a fleet.
pub struct FleetSource {
    nodes: UpstreamSource,
    store: FleetStore,
    options: StoreOptions,
    key: FleetKey,
    status: FleetStatus,
    share: Arc<StateShare>,
    desk: LoanDesk,
}

impl FleetSource {
    /// Prepares the process; nothing is asked yet, neither of the store nor of nodes.
    ///
    /// # Errors
    /// The chain is not pinned, the secret is too short, the store cannot be used, or as
    /// [`UpstreamSource::connect`].
    pub fn connect(config: FleetConfig, link: &SourceLink) -> Result<Self, SourceError> {
        let FleetConfig {
            nodes,
            store,
            secret,
        } = config;
        let nodes = UpstreamSource::pinned(nodes, link)?;
        let name = name(nodes.chain(), &store.prefix);
        let key = FleetKey::new(&secret, name.as_bytes())
            .map_err(|error| SourceError::FleetKey(error.to_string()))?;
        let options = store;
        let store = FleetStore::open(options.clone())
            .map_err(|error| SourceError::FleetStore(error.to_string()))?;
        let status = FleetStatus::default();
        let has_nodes = nodes.chain().nodes > 0;
        let counts = Arc::clone(status.shared());
        let share = StateShare::new(store.clone(), key.clone(), has_nodes, counts);
        let share = Arc::new(share);
        nodes.state().share_with(share.clone());
        Ok(Self {
            nodes,
            store,
            options,
            key,
            status,
            share,
            desk: LoanDesk::new(Instant::now()),
        })
    }

    /// The chain that is served.
    #[must_use]
    pub const fn chain(&self) -> &FollowedChain {
        self.nodes.chain()
    }

    /// The source of state that is not resident.
    #[must_use]
    pub const fn state(&self) -> &StateSource {
        self.nodes.state()
    }

    /// Passes calls of clients to the nodes, if that was asked for.
    #[must_use]
    pub const fn forwarder(&self) -> Option<&Forwarder> {
        self.nodes.forwarder()
    }

    /// The standing of the nodes.
    #[must_use]
    pub const fn standing(&self) -> &Arc<Standing> {
        self.nodes.standing()
    }

    /// The store that all processes of the fleet share, and the key of what they write there.
    #[must_use]
    pub fn shared_store(&self) -> SharedStore {
        SharedStore {
            options: self.options.clone(),
            key: self.key.clone(),
            status: self.status.clone(),
        }
    }

    /// What the process is, and what happens to it.
    #[must_use]
    pub const fn status(&self) -> &FleetStatus {
        &self.status
    }

    /// Where quotas wait for what the store lends.
    #[must_use]
    pub const fn desk(&self) -> &LoanDesk {
        &self.desk
    }
}

/// What a process needs to keep records in the store.
#[derive(Clone, Debug)]
pub struct SharedStore {
    /// The store.
    pub options: StoreOptions,
    /// What seals records.
    pub key: FleetKey,
    /// What a leader has stated of them.
    pub status: FleetStatus,
}

/// What the fleet of this prefix serves: what one of another chain has sealed is refused.
fn name(chain: &FollowedChain, prefix: &str) -> String {
    let genesis = chain.genesis.unwrap_or_default();
    format!("{} {genesis} {prefix}", chain.chain_id)
}

impl Source for FleetSource {
    /// Serves until the source is stopped. It fails as [`UpstreamSource`] does; a store that does
    /// not answer is no failure.
    fn run(self, link: SourceLink) -> Result<(), SourceError> {
        let Self {
            nodes,
            store,
            options: _,
            key,
            status,
            share,
            desk,
        } = self;
        let standing = Arc::clone(nodes.standing());
        let state = nodes.state().clone();
        let has_nodes = nodes.chain().nodes > 0;
        let genesis = nodes.chain().genesis;
        let UpstreamParts {
            runtime,
            following,
            served,
            rules,
            verifier,
            writer,
            kept,
            threads,
        } = nodes.into_parts();
        let ServedChain { id: chain_id, .. } = served;
        let ended = stop_of(&runtime, &link);
        let window = TrackerWindow::new(link.clone(), served, rules, threads.clone());
        let wants = WantServer {
            store: store.clone(),
            key: key.clone(),
            share,
            source: state,
            head: link.head.clone(),
            counts: Arc::clone(status.shared()),
        };
        let nodes = NodeFollower::new(following, link.clone(), window.share(), chain_id);
        let outcome = runtime.block_on(async {
            // It ends with the runtime.
            tokio::spawn(check_store(store.clone()));
            if has_nodes {
                tokio::spawn(wants.run());
            }
            let presence = PresenceWriter::new(
                store.clone(),
                key.clone(),
                status.clone(),
                link.head.clone(),
                desk.clone(),
            );
            let lender = Lender::start(store.clone(), desk, status.clone());
            let lender = lender.map_err(SourceError::Runtime)?;
            let json =
                JsonMaker::start(link.head.clone(), &threads).map_err(SourceError::Runtime)?;
            let parts = Parts {
                store,
                key,
                link,
                window,
                nodes,
                standing,
                status,
                verifier,
                bytes: EntryBytes::new(kept),
                json,
                genesis,
            };
            let member = Member::new(parts).run(ended);
            let outcome = tokio::select! {
                outcome = member => outcome,
                // It never ends.
                () = presence.run() => Ok(()),
            };
            presence.leave().await;
            lender.stop();
            outcome
        });
        // Writes what the window has now.
        drop(writer);
        // Do not wait for the thread that waits for the stop signal.
        runtime.shutdown_background();
        outcome
    }
}
