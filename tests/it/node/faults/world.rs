//! A node, a proxy before it, and nearhead behind both; what has to hold after each fault.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use alloy_primitives::B256;

use super::readers::{GivenState, Readers};
use crate::{
    harness::{Process, Server, scratch, serving, wait_until},
    node::{
        comparison::{Comparison, GETH},
        driven_geth::DrivenGeth,
        wait_head,
    },
    upstreams::{Payload, of_files, proxy::Proxy},
    window,
};

/// Within this time after the end of a fault, nearhead is ready and has the node's head:
/// docs/operations.md states it.
pub(super) const READY_WITHIN: Duration = Duration::from_secs(20);

/// Resident memory that a fault may leave behind, in KiB: what allocators keep.
const LEFT_BEHIND_KIB: u64 = 48 << 10;

/// Descriptors that come and go: scrapes, connections to the node, files that are read.
const DESCRIPTORS_BESIDES: usize = 8;

/// Threads that come and go: those for what may block, such as a disk.
const THREADS_BESIDES: usize = 8;

/// Blocks of the chain that are compared after each fault.
const COMPARED: u64 = 10;

pub(super) struct World {
    /// `None` while it is down.
    geth: Option<DrivenGeth>,
    /// The folder of the node's chain while it is down.
    geth_folder: Option<PathBuf>,
    pub(super) proxy: Proxy,
    pub(super) data: PathBuf,
    pub(super) genesis: PathBuf,
    payloads: Arc<Vec<Payload>>,
    /// How many of them the node has as its chain.
    height: usize,
    /// `None` while it is down.
    server: Option<Server>,
    readers: Option<Readers>,
    given: Arc<GivenState>,
}

/// How nearhead is started, from the command that follows the proxy.
pub(super) type Wrap<'a> = &'a dyn Fn(&World, Command) -> Command;

/// Starts it as it is.
pub(super) const PLAIN: Wrap<'static> = &|_, command| command;

impl World {
    /// A node with a chain of some blocks, and nearhead that has followed it.
    pub(super) fn of(name: &str, wrap: Wrap<'_>) -> Self {
        let mut world = Self::without_server(name);
        world.start(wrap);
        world
    }

    /// The same, before nearhead is started.
    pub(super) fn without_server(name: &str) -> Self {
        Self::with_blocks_every(name, "1s")
    }

    /// The same, with this time between two blocks.
    pub(super) fn with_blocks_every(name: &str, time: &str) -> Self {
        let chain = ["--blocks", "120", "--seed", "89", "--block-time", time];
        let (genesis, chain) = window::export(name, &chain);
        let (_, payloads) = of_files(&genesis, &chain);
        let mut geth = DrivenGeth::at(&format!("{name}-geth"), &genesis, &payloads);
        let height = 40;
        geth.go_to(&payloads[height - 1]);
        Self {
            proxy: Proxy::to(&[geth.address()]),
            geth: Some(geth),
            geth_folder: None,
            data: scratch(&format!("{name}-data")),
            genesis,
            payloads: Arc::new(payloads),
            height,
            server: None,
            readers: None,
            given: Arc::default(),
        }
    }

    /// Starts nearhead; returns when it is ready.
    pub(super) fn start(&mut self, wrap: Wrap<'_>) {
        let url = format!("http://{}", self.proxy.address);
        self.start_at(&url, wrap);
    }

    /// Starts nearhead, which knows the node by this URL.
    pub(super) fn start_at(&mut self, url: &str, wrap: Wrap<'_>) {
        let server = Server::of(&mut wrap(self, self.command_at(url)));
        let readers = Readers::start(server.address, &self.payloads, &self.given);
        self.readers = Some(readers);
        self.server = Some(server);
    }

    /// What starts nearhead behind the proxy.
    pub(super) fn command(&self) -> Command {
        self.command_at(&format!("http://{}", self.proxy.address))
    }

    fn command_at(&self, url: &str) -> Command {
        let data = self.data.to_str().unwrap();
        let genesis = self.genesis.to_str().unwrap();
        let arguments = ["--source", "node", "--head-age-max", "off", "--node", url];
        let more = [
            "--data-dir",
            data,
            "--genesis",
            genesis,
            "--node-timeout",
            "3s",
        ];
        serving(&[&arguments[..], &more].concat())
    }

    pub(super) fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub(super) fn geth(&mut self) -> &mut DrivenGeth {
        self.geth.as_mut().unwrap()
    }

    /// Kills nearhead.
    pub(super) fn kill(&mut self) {
        self.end_readers();
        self.server = None;
    }

    /// The process of nearhead, which is going to end.
    pub(super) fn take_process(&mut self) -> Process {
        self.end_readers();
        self.server.take().unwrap().process
    }

    /// Stops nearhead, and returns how long that took, and its output. It has to end well, although
    /// some threads may hang until `mend`.
    pub(super) fn stop(&mut self, mend: impl FnOnce()) -> (Duration, String) {
        let (process, began) = (self.take_process(), Instant::now());
        process.terminate();
        wait_until("ended", || process.has_exited());
        let took = began.elapsed();
        mend();
        (took, process.check_end(0))
    }

    /// Gives the node its next block, and makes the one before it finalized.
    pub(super) fn settle(&mut self) -> (u64, B256) {
        self.go_on();
        let payloads = Arc::clone(&self.payloads);
        let [.., parent, head] = &payloads[..self.height] else {
            panic!("the chain has blocks");
        };
        self.geth().settle(head, parent.hash, parent.hash)
    }

    /// Gives the node its next block.
    pub(super) fn go_on(&mut self) -> (u64, B256) {
        self.height += 1;
        let (payloads, last) = (Arc::clone(&self.payloads), self.height - 1);
        self.geth().go_to(&payloads[last])
    }

    /// The node's head.
    pub(super) fn head(&self) -> (u64, B256) {
        let payload = &self.payloads[self.height - 1];
        (payload.number, payload.hash)
    }

    /// Kills the node.
    pub(super) fn kill_node(&mut self) {
        self.geth_folder = Some(self.geth.take().unwrap().end(true));
    }

    /// Starts the node again over what it has left.
    pub(super) fn restart_node(&mut self) {
        let mut geth = DrivenGeth::restart(&self.geth_folder.take().unwrap());
        self.proxy.forward_to(&[geth.address()]);
        // A geth that was killed has lost some blocks.
        geth.send_blocks(&self.payloads);
        geth.go_to(&self.payloads[self.height - 1]);
        self.geth = Some(geth);
    }

    /// Breaks something, waits until nearhead has noticed, and mends it. Then all has to be as it
    /// was.
    pub(super) fn survives(
        &mut self,
        what: &str,
        fail: impl FnOnce(&mut Self),
        mend: impl FnOnce(&mut Self),
    ) {
        // Until their keys are accepted, readers are strangers, who may be disconnected.
        self.readers.as_ref().unwrap().wait_for_answers();
        let (held, memory) = (self.held(), self.resident_kib());
        fail(self);
        mend(self);
        let began = Instant::now();
        let wanted = self.go_on();
        self.recovers(what, wanted, began);
        let most = [DESCRIPTORS_BESIDES, THREADS_BESIDES];
        wait_until("no descriptor and no thread is left", || {
            let now = self.held();
            (0..2).all(|at| now[at] <= held[at] + most[at])
        });
        let now = self.resident_kib();
        assert!(
            now <= memory + LEFT_BEHIND_KIB,
            "{what}: {memory} KiB before, {now} KiB after"
        );
    }

    /// Waits until nearhead is ready with the node's head, and checks that this took no longer than
    /// it may, that it serves the node's chain and state, and that no state that clients were given
    /// since the last time is false.
    pub(super) fn recovers(&self, what: &str, wanted: (u64, B256), began: Instant) {
        let server = self.server();
        wait_head(server, wanted);
        wait_until(&format!("ready after: {what}"), || self.is_ready());
        let took = began.elapsed();
        println!("{what}: ready after {took:?}");
        assert!(took <= READY_WITHIN, "{what}: ready after {took:?}");
        let upstream = self.geth.as_ref().unwrap().address();
        let mut comparison = Comparison::between(server, upstream);
        comparison.chain();
        comparison.blocks(wanted.0 - COMPARED..=wanted.0);
        comparison.finish(GETH);
        self.readers.as_ref().unwrap().wait_for_answers();
        let both = (server.address, upstream);
        self.given.compare(both, &self.payloads, wanted.0);
    }

    /// Open descriptors, and threads.
    fn held(&self) -> [usize; 2] {
        ["fd", "task"].map(|what| {
            let folder = format!("/proc/{}/{what}", self.server().process.id());
            fs::read_dir(folder).unwrap().count()
        })
    }

    fn resident_kib(&self) -> u64 {
        self.server().process.resident_kib()
    }

    /// Whether it says that it is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.server().get("/ready").status == 200
    }

    fn end_readers(&mut self) {
        if let Some(readers) = self.readers.take() {
            readers.end();
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.end_readers();
        }
    }
}
