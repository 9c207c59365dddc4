//! The client of a store, in this process.

use nearhead_actors::fleet::store::{FleetStore, StoreOptions};
use tokio::runtime::{Builder, Runtime};

/// What the keys of these stores begin with.
const PREFIX: &str = "store-client";

/// Opens clients of one store, and runs their calls.
pub(super) struct Access {
    url: String,
    runtime: Runtime,
}

impl Access {
    pub(super) fn to(url: &str) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        Self {
            url: url.to_owned(),
            runtime: runtime.unwrap(),
        }
    }

    /// A client with this owner.
    pub(super) fn open(&self, owner: &str) -> FleetStore {
        self.open_at(&self.url, owner)
    }

    /// A client of another store.
    pub(super) fn open_at(&self, url: &str, owner: &str) -> FleetStore {
        self.open_by(&[url], None, owner)
    }

    /// A client of the master of this name, which sentinels at these URLs know.
    pub(super) fn open_by(&self, urls: &[&str], sentinel: Option<&str>, owner: &str) -> FleetStore {
        let options = StoreOptions {
            urls: urls.iter().map(|url| url.parse().unwrap()).collect(),
            sentinel: sentinel.map(str::to_owned),
            prefix: PREFIX.to_owned(),
            owner: owner.to_owned(),
        };
        FleetStore::open(options).unwrap()
    }

    /// The name of a key.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{{{PREFIX}}}:{name}")
    }

    pub(super) fn run<T>(&self, call: impl Future<Output = T>) -> T {
        self.runtime.block_on(call)
    }
}
