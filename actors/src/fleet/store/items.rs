//! Calls about state that processes share: items by hash, wants, and turns.

use std::time::Duration;

use alloy_primitives::{B256, Bytes};
use nearhead_fleet::{
    bounds::{
        CALL_TIME_MAX, ITEM_BYTES_MAX, ITEMS_AT_ONCE, ITEMS_BYTES_MAX, ITEMS_HALF_BYTES,
        REPLY_BYTES_MAX, STATE_WAIT_MAX, TURN, TURN_BYTES_MAX, UNAVAILABLE_LIFETIME,
        WANT_BYTES_MAX, WANTS_MAX,
    },
    scripts,
};
use redis::Value;

use super::{
    FleetStore, StoreError, StoreFault, millis, reply,
    script::{KnownScript, ScriptCall, ask, run},
};

static GET_ITEMS: KnownScript = KnownScript::new(scripts::GET_ITEMS);
static PUT_ITEMS: KnownScript = KnownScript::new(scripts::PUT_ITEMS);
static DROP_ITEMS: KnownScript = KnownScript::new(scripts::DROP_ITEMS);
static WANT: KnownScript = KnownScript::new(scripts::WANT);
static TAKE_TURN: KnownScript = KnownScript::new(scripts::TAKE_TURN);
static GIVE_BACK_TURN: KnownScript = KnownScript::new(scripts::GIVE_BACK_TURN);

/// Bytes of a reply with items besides the items themselves: a length and two ends for each.
const ITEMS_FRAME_BYTES: usize = 16 * (1 + ITEMS_AT_ONCE);

impl FleetStore {
    /// The items with these hashes, of which there are at most [`ITEMS_AT_ONCE`]; not all of them
    /// if they are large. Nothing is checked: they may have other hashes.
    ///
    /// # Errors
    /// The store did not answer as it should.
    pub async fn get_items(&self, hashes: &[B256]) -> Result<Vec<Option<Bytes>>, StoreError> {
        debug_assert!(hashes.len() <= ITEMS_AT_ONCE);
        let keys = &self.0.keys;
        let mut call = ScriptCall::new(&GET_ITEMS, &keys.items.each_ref())
            .number(ITEM_BYTES_MAX as u64)
            .number(ITEMS_BYTES_MAX as u64);
        for hash in hashes {
            call = call.bytes(hash.as_slice());
        }
        let bytes_max = ITEMS_BYTES_MAX + ITEMS_FRAME_BYTES;
        let asked = ask(&self.0.items, &call, bytes_max, CALL_TIME_MAX);
        let (server, answer) = asked.await?;
        let items = reply::items(answer, hashes.len());
        items.map_err(|text| StoreError::new(server, StoreFault::Nonsense(text)))
    }

    /// Puts items, of which there are at most [`ITEMS_AT_ONCE`]. Returns how many were not there.
    ///
    /// # Errors
    /// The store did not answer as it should. Some may have been put even so.
    pub async fn put_items(&self, items: &[(B256, Bytes)]) -> Result<u64, StoreError> {
        debug_assert!(items.len() <= ITEMS_AT_ONCE);
        let keys = &self.0.keys;
        let mut call = ScriptCall::new(&PUT_ITEMS, &keys.items.each_ref()).number(ITEMS_HALF_BYTES);
        for (hash, item) in items {
            call = call.bytes(hash.as_slice()).bytes(item);
        }
        let parse = |word: &str, number| scripts::parse_count("put", word, number);
        run(&self.0.puts, &call, CALL_TIME_MAX, parse).await
    }

    /// Drops items that have another hash than these, of which there are at most
    /// [`ITEMS_AT_ONCE`]. One that was put right meanwhile is dropped too.
    ///
    /// # Errors
    /// The store did not answer as it should.
    pub async fn drop_items(&self, hashes: &[B256]) -> Result<u64, StoreError> {
        debug_assert!(hashes.len() <= ITEMS_AT_ONCE);
        let [older, newer, _] = &self.0.keys.items;
        let mut call = ScriptCall::new(&DROP_ITEMS, &[older, newer]);
        for hash in hashes {
            call = call.bytes(hash.as_slice());
        }
        let parse = |word: &str, number| scripts::parse_count("dropped", word, number);
        run(&self.0.items, &call, CALL_TIME_MAX, parse).await
    }

    /// Adds a want, which waits for [`STATE_WAIT_MAX`]. Returns how many wait.
    ///
    /// # Errors
    /// The store did not answer as it should.
    pub async fn want(&self, want: &[u8]) -> Result<u64, StoreError> {
        let call = ScriptCall::new(&WANT, &[&self.0.keys.wants])
            .bytes(want)
            .number(WANTS_MAX)
            .number(millis(STATE_WAIT_MAX));
        let parse = |word: &str, number| scripts::parse_count("wanted", word, number);
        run(&self.0.items, &call, CALL_TIME_MAX, parse).await
    }

    /// Takes the newest want; waits up to `wait` for one. Others may have written it.
    ///
    /// # Errors
    /// The store did not answer as it should.
    pub async fn next_want(&self, wait: Duration) -> Result<Option<Bytes>, StoreError> {
        let mut command = redis::cmd("BZPOPMAX");
        command.arg(&self.0.keys.wants).arg(wait.as_secs_f64());
        let bytes_max = WANT_BYTES_MAX + REPLY_BYTES_MAX;
        let asked = self.0.wants.ask(command, bytes_max, wait + CALL_TIME_MAX);
        let (server, answer) = asked.await?;
        let want = reply::popped(answer);
        want.map_err(|text| StoreError::new(server, StoreFault::Nonsense(text)))
    }

    /// Takes the turn to ask nodes for what has this digest. Returns what is there if it is taken
    /// already: another process, or what [`Self::put_unavailable`] has put. It ends by itself after
    /// [`TURN`].
    ///
    /// # Errors
    /// The store did not answer as it should.
    pub async fn take_turn(&self, digest: &B256) -> Result<Option<Bytes>, StoreError> {
        let turn = self.turn(digest);
        let call = ScriptCall::new(&TAKE_TURN, &[&turn])
            .bytes(self.0.owner.as_bytes())
            .number(millis(TURN))
            .number(TURN_BYTES_MAX as u64);
        let asked = ask(&self.0.items, &call, REPLY_BYTES_MAX, CALL_TIME_MAX);
        match asked.await? {
            (_, Value::Nil) => Ok(None),
            (_, Value::BulkString(bytes)) => Ok(Some(bytes.into())),
            (server, _) => {
                let fault = StoreFault::Nonsense("something else than a turn".into());
                Err(StoreError::new(server, fault))
            }
        }
    }

    /// Gives a turn back, if it is still this process'.
    ///
    /// # Errors
    /// The store did not answer as it should. The turn ends by itself then.
    pub async fn give_back_turn(&self, digest: &B256) -> Result<(), StoreError> {
        let turn = self.turn(digest);
        let call = ScriptCall::new(&GIVE_BACK_TURN, &[&turn]).bytes(self.0.owner.as_bytes());
        let parse = |word: &str, number| scripts::parse_count("given", word, number);
        let given = run(&self.0.items, &call, CALL_TIME_MAX, parse).await;
        given.map(drop)
    }

    /// Puts a sealed report that state is unavailable in the place of a turn, for
    /// [`UNAVAILABLE_LIFETIME`].
    ///
    /// # Errors
    /// The store did not answer as it should.
    pub async fn put_unavailable(&self, digest: &B256, report: &[u8]) -> Result<(), StoreError> {
        let mut command = redis::cmd("SET");
        command.arg(self.turn(digest)).arg(report);
        command.arg("PX").arg(millis(UNAVAILABLE_LIFETIME));
        let put = self.0.items.ask(command, REPLY_BYTES_MAX, CALL_TIME_MAX);
        put.await.map(drop)
    }

    fn turn(&self, digest: &B256) -> String {
        format!("{}:{digest:x}", self.0.keys.turns)
    }
}
