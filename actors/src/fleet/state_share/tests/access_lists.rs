//! Access lists that processes share.

use nearhead_chain::remote::UpstreamFault;

use super::*;

/// The RLP of a list with one account, which is only named, and its hash.
fn rlp() -> (bytes::Bytes, B256) {
    let json = format!(r#"[{{"address":"{ACCOUNT}"}}]"#);
    let hash = match AccessList::verify(json.as_bytes(), B256::ZERO) {
        Err(UpstreamFault::AccessListHash { found, .. }) => found,
        other => panic!("{other:?}"),
    };
    let verified = AccessList::verify(json.as_bytes(), hash).unwrap();
    (verified.rlp(), hash)
}

/// A store that has this item under every hash, with the calls that it got.
struct Items {
    server: FakeServer,
    calls: Arc<Mutex<Vec<Words>>>,
}

impl Items {
    async fn of(item: Option<bytes::Bytes>) -> Self {
        let calls = Arc::<Mutex<Vec<Words>>>::default();
        let noted = Arc::clone(&calls);
        let server = FakeServer::start(move |words: Words| {
            let item = item.as_ref().map_or(NIL.to_vec(), |item| string(item));
            let replies = [
                (scripts::GET_ITEMS, list(&[item])),
                (scripts::DROP_ITEMS, count("dropped")),
                (scripts::PUT_ITEMS, count("put")),
                (scripts::TAKE_TURN, NIL.to_vec()),
                (scripts::GIVE_BACK_TURN, count("given")),
                (scripts::WANT, count("wanted")),
            ];
            let mut replies = replies.into_iter();
            let reply = replies.find(|(script, _)| called(&words, script));
            noted.lock().push(words);
            async move { reply.unwrap().1 }
        });
        Self {
            server: server.await,
            calls,
        }
    }

    fn calls(&self, script: &str) -> usize {
        let calls = self.calls.lock();
        calls.iter().filter(|words| called(words, script)).count()
    }
}

/// A list that the store has is served. One that is false is dropped, and the list is asked of
/// nodes, by this process or by whoever takes its want.
#[tokio::test]
async fn a_list_of_the_store_is_verified() {
    let (rlp, hash) = rlp();
    let mut other = rlp.to_vec();
    other[3] ^= 1;
    let large = bytes::Bytes::from(vec![0; ITEM_BYTES_MAX]);
    for (item, is_true) in [
        (Some(rlp), true),
        (Some(other.into()), false),
        (Some(large), false),
        (None, false),
    ] {
        let refused = u64::from(item.is_some() && !is_true);
        let items = Items::of(item).await;
        let share = share(&items.server, true);
        let block = block(&NodeStore::new());
        let got = share.get_list(&block, hash).await;
        match is_true {
            true => {
                let Got::Held(json) = got else {
                    panic!("{got:?}");
                };
                assert!(AccessList::verify(&json, hash).is_ok());
                assert_eq!(items.calls(scripts::TAKE_TURN), 0);
            }
            false => assert_eq!(got, Got::AskNodes),
        }
        assert_eq!(items.calls(scripts::DROP_ITEMS) as u64, refused);
        let counts = &share.counts;
        assert_eq!(counts.loaded.get(), u64::from(is_true));
        assert_eq!(counts.refused.get(), refused);
        assert_eq!(counts.wanted.get(), 0);
    }
}

/// A process without nodes leaves a want for the list of the block.
#[tokio::test]
async fn a_list_is_wanted_of_others() {
    let (_, hash) = rlp();
    let items = Items::of(None).await;
    let share = share(&items.server, false);
    let block = block(&NodeStore::new());
    let got = share.get_list(&block, hash).await;
    assert_eq!(got, Got::Nothing);
    let wants: Vec<Want> = {
        let calls = items.calls.lock();
        let wants = calls.iter().filter(|words| called(words, scripts::WANT));
        wants
            .map(|words| Want::open(&words[4], &key()).unwrap())
            .collect()
    };
    assert!(!wants.is_empty());
    for want in wants {
        assert_eq!((want.block, want.list()), (block.hash, Some(hash)));
    }
}

/// A list is put for others. They ask their own nodes for one that is too large, and at once.
#[tokio::test]
async fn a_list_is_given_if_it_fits() {
    for (bytes, is_given) in [(ITEM_BYTES_MAX, true), (ITEM_BYTES_MAX + 1, false)] {
        let items = Items::of(None).await;
        let share = share(&items.server, true);
        let rlp = bytes::Bytes::from(vec![0; bytes]);
        share.give_list(keccak256(&rlp), rlp).await;
        let calls = [scripts::PUT_ITEMS, scripts::GIVE_BACK_TURN].map(|call| items.calls(call));
        assert_eq!(calls, [usize::from(is_given), usize::from(!is_given)]);
        assert_eq!(share.counts.given.get(), u64::from(is_given));
    }
}
