#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Mutex;

use alloy_primitives::{Address, U256};
use futures_util::FutureExt as _;
use nearhead_chain::{
    block::Block,
    remote::UpstreamFault,
    test_block::TestBlock,
    trie::{AccountInfo, AccountUpdate, NodeStore, State, StateUpdate},
    window::Window,
};
use tokio::{runtime::Handle, sync::mpsc};

use super::*;
use crate::{
    fleet::store::fake_server::{FakeServer, Words, list, string},
    saved::Restored,
    upstream::Standing,
};

const HELD: Address = Address::repeat_byte(1);
const UNAVAILABLE: Address = Address::repeat_byte(2);

/// A process whose nodes have nothing, and which holds one account of its only block.
struct Scene {
    server: WantServer,
    block: Arc<Block>,
    /// What it puts into the store.
    put: Arc<Mutex<Vec<Words>>>,
}

impl Scene {
    async fn new() -> Self {
        let put = Arc::<Mutex<Vec<Words>>>::default();
        let record = Arc::clone(&put);
        let fake = FakeServer::start(move |words| {
            record.lock().unwrap().push(words);
            async { list(&[string(b"put"), b":1\r\n".to_vec()]) }
        });
        let store = fake.await.store();
        let key = FleetKey::new(&[7; 32], b"test").unwrap();
        let nodes = NodeStore::new();
        let (faults, _) = mpsc::channel(1);
        let source = StateSource::new(
            Vec::new(),
            Arc::clone(&nodes),
            Handle::current(),
            Arc::new(Standing::new(0, 1)),
            faults,
            &Restored::default(),
        );
        let counts = Arc::<StateShareCounts>::default();
        let share = StateShare::new(store.clone(), key.clone(), true, Arc::clone(&counts));
        let block = TestBlock::default().genesis();
        Self {
            server: WantServer {
                store,
                key,
                share: Arc::new(share),
                source,
                head: Head::default(),
                counts,
            },
            block: Arc::new(Block {
                state: Some(state(&nodes)),
                ..(*block).clone()
            }),
            put,
        }
    }

    /// A want of both accounts.
    fn want(&self) -> Want {
        let accounts = [UNAVAILABLE, HELD].map(|address| WantedItems {
            address,
            slots: Vec::new(),
            with_code: false,
        });
        Want {
            block: self.block.hash,
            turn: B256::ZERO,
            accounts: accounts.into(),
        }
    }

    fn show_block(&self) {
        let window = Window::new(1, Arc::clone(&self.block));
        self.server.head.store(window.snapshot());
    }
}

fn is_unavailable(served: &Reply<()>) -> bool {
    matches!(served, Err(QueryError::StateUnavailable))
}

/// A state with two accounts, of which the nodes of one are held.
fn state(nodes: &Arc<NodeStore>) -> Arc<State> {
    let account = |balance| AccountUpdate {
        info: Some(AccountInfo {
            nonce: 1,
            balance: U256::from(balance),
            code_hash: alloy_trie::KECCAK_EMPTY,
        }),
        ..AccountUpdate::default()
    };
    let update = StateUpdate {
        accounts: [(HELD, account(1)), (UNAVAILABLE, account(2))]
            .into_iter()
            .collect(),
        ..StateUpdate::default()
    };
    let empty = State::empty(&NodeStore::new());
    let full = empty.commit(empty.update(&update).unwrap());
    let state = State::hold(nodes, full.root());
    let items: Vec<Bytes> = full.prove(&HELD, &[]).unwrap().into_nodes().collect();
    let is_held = state.load(&HELD, &[], false, |hash| {
        items.iter().find(|item| keccak256(item) == *hash).cloned()
    });
    assert!(is_held && state.account(&UNAVAILABLE).is_err());
    state
}

/// An account that no node has leaves the others of its want, and the asker learns of it.
#[tokio::test]
async fn an_account_that_fails_leaves_the_others() {
    let scene = Scene::new().await;
    scene.show_block();
    let served = scene.server.serve(scene.want()).await;
    assert!(is_unavailable(&served), "{served:?}");
    let put = scene.put.lock().unwrap();
    let items = scene
        .block
        .state
        .as_ref()
        .unwrap()
        .prove(&HELD, &[])
        .unwrap();
    for item in items.into_nodes() {
        let is_put = put.iter().flatten().any(|word| **word == *item);
        assert!(is_put, "{item}");
    }
}

/// A want may come before its block.
#[tokio::test]
async fn a_want_waits_for_its_block() {
    let scene = Scene::new().await;
    let mut early = Box::pin(scene.server.serve(scene.want()));
    assert!(early.as_mut().now_or_never().is_none());
    scene.show_block();
    let served = early.await;
    assert!(is_unavailable(&served), "{served:?}");
    // Not for ever: it may never come.
    let unknown = Want {
        block: B256::ZERO,
        ..scene.want()
    };
    let served = scene.server.serve(unknown).await;
    assert!(matches!(served, Err(QueryError::Unavailable)), "{served:?}");
}

/// The access list of an account with this many bytes of code, as JSON, and its hash.
fn list_of(code_bytes: usize) -> (bytes::Bytes, B256) {
    let code = "00".repeat(code_bytes);
    let json =
        format!(r#"[{{"address":"{HELD}","codeChanges":[{{"index":"0x1","code":"0x{code}"}}]}}]"#);
    match AccessList::verify(json.as_bytes(), B256::ZERO) {
        Err(UpstreamFault::AccessListHash { found, .. }) => (json.into(), found),
        other => panic!("{other:?}"),
    }
}

/// A block's list is put into the store, unless it is too large: then the asker learns that it does
/// not get it, as if no node had it.
#[tokio::test]
async fn a_list_is_served_if_it_fits() {
    for (code_bytes, of_block, is_put) in [
        (3, true, true),
        (3, false, false),
        (ITEM_BYTES_MAX, true, false),
    ] {
        let mut scene = Scene::new().await;
        let (json, hash) = list_of(code_bytes);
        let mut block = (*scene.block).clone();
        block.header.block_access_list_hash = of_block.then_some(hash);
        scene.block = Arc::new(block);
        scene.show_block();
        let rlp = AccessList::verify(&json, hash).unwrap().rlp();
        scene.server.source.hold_access_list(hash, json);
        let want = Want::of_list(scene.block.hash, hash);
        let served = scene.server.serve(want).await;
        match is_put {
            true => assert!(served.is_ok(), "{served:?}"),
            false => assert!(is_unavailable(&served), "{served:?}"),
        }
        let put = scene.put.lock().unwrap();
        let has_put = put.iter().flatten().any(|word| **word == *rlp);
        assert_eq!(has_put, is_put);
    }
}
