//! Wants: state or an access list that a process asks for, and another one gets from its nodes.
//!
//! A want has the MAC of the fleet, so that who can write into the store cannot have nodes asked.
//! One that is replayed may cost calls to nodes as long as its block is in the window; how many are
//! served at once is bounded.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rlp::{Decodable as _, Encodable as _, RlpDecodable, RlpEncodable};

use crate::{
    bounds::{TURN_BYTES_MAX, WANT_BYTES_MAX, WANT_KEYS_MAX},
    fleet_key::{FleetKey, Purpose},
    sealed::{self, OpenError},
};

/// State of one block, or its access list.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Want {
    /// The block's hash.
    pub block: B256,
    /// The turn of the process that has left it, where others find that it is not served. That for
    /// an access list is the list's hash.
    pub turn: B256,
    /// Accounts with slots; none if the access list is wanted.
    pub accounts: Vec<WantedItems>,
}

/// An account and slots of it.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct WantedItems {
    /// The account.
    pub address: Address,
    /// The slots.
    pub slots: Vec<U256>,
    /// Whether its code is wanted too.
    pub with_code: bool,
}

impl Want {
    /// The want for a block's access list, which has this hash. A program that knows no such want
    /// serves it with nothing.
    #[must_use]
    pub const fn of_list(block: B256, hash: B256) -> Self {
        Self {
            block,
            turn: hash,
            accounts: Vec::new(),
        }
    }

    /// The hash of the access list that is wanted; `None` if state is.
    #[must_use]
    pub fn list(&self) -> Option<B256> {
        self.accounts.is_empty().then_some(self.turn)
    }

    /// Wants for these accounts, as few as their bounds allow.
    #[must_use]
    pub fn split(
        block: B256,
        turn: B256,
        accounts: impl IntoIterator<Item = WantedItems>,
    ) -> Vec<Self> {
        let mut wants: Vec<Self> = Vec::new();
        let mut keys = WANT_KEYS_MAX;
        for account in accounts {
            let WantedItems {
                address,
                slots,
                with_code,
            } = account;
            // An account without slots has one chunk, which is empty.
            let mut chunks = slots.chunks(WANT_KEYS_MAX - 1);
            let mut next = Some(chunks.next().unwrap_or_default());
            while let Some(slots) = next {
                if keys + 1 + slots.len() > WANT_KEYS_MAX {
                    keys = 0;
                    wants.push(Self {
                        block,
                        turn,
                        accounts: Vec::new(),
                    });
                }
                keys += 1 + slots.len();
                if let Some(want) = wants.last_mut() {
                    want.accounts.push(WantedItems {
                        address,
                        slots: slots.to_vec(),
                        with_code,
                    });
                }
                next = chunks.next();
            }
        }
        wants
    }

    /// Writes the want, with its MAC.
    #[must_use]
    pub fn seal(&self, key: &FleetKey) -> Bytes {
        sealed::seal(key, Purpose::Want, |out| self.encode(out)).0
    }

    /// Reads a want.
    ///
    /// # Errors
    /// The bytes are no want of this fleet, or have more keys than a want may have.
    pub fn open(bytes: &[u8], key: &FleetKey) -> Result<Self, OpenError> {
        let (mut content, _) = sealed::open(bytes, WANT_BYTES_MAX, key, Purpose::Want, true)?;
        let want = Self::decode(&mut content).map_err(OpenError::Malformed)?;
        let keys = want.accounts.iter().map(|account| 1 + account.slots.len());
        match content.is_empty() && keys.sum::<usize>() <= WANT_KEYS_MAX {
            true => Ok(want),
            false => Err(OpenError::Malformed(alloy_rlp::Error::UnexpectedLength)),
        }
    }
}

/// Writes that a process has asked its nodes in vain for the state of this turn.
#[must_use]
pub fn seal_unavailable(turn: &B256, key: &FleetKey) -> Bytes {
    sealed::seal(key, Purpose::Unavailable, |out| {
        out.extend_from_slice(turn.as_slice())
    })
    .0
}

/// Whether these bytes say so, and a process of the fleet has written them.
#[must_use]
pub fn reports_unavailable(bytes: &[u8], turn: &B256, key: &FleetKey) -> bool {
    let opened = sealed::open(bytes, TURN_BYTES_MAX, key, Purpose::Unavailable, true);
    opened.is_ok_and(|(content, _)| content == turn.as_slice())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn key(byte: u8) -> FleetKey {
        FleetKey::new(&[byte; 32], b"fleet").unwrap()
    }

    fn account(address: u8, slots: usize) -> WantedItems {
        WantedItems {
            address: Address::repeat_byte(address),
            slots: (0..slots).map(|_| U256::MAX).collect(),
            with_code: true,
        }
    }

    /// Each part is within the bounds, and together they have all.
    #[test]
    fn what_is_wanted_is_split() {
        for accounts in [
            vec![],
            vec![account(1, 0)],
            vec![account(1, 255)],
            vec![account(1, 256)],
            vec![account(1, 200), account(2, 100), account(3, 1_000)],
            vec![account(1, 0); 600],
        ] {
            let block = B256::repeat_byte(9);
            let wants = Want::split(block, B256::repeat_byte(8), accounts.clone());
            let slots = |accounts: &[WantedItems]| -> usize {
                accounts.iter().map(|account| account.slots.len()).sum()
            };
            let found: usize = wants.iter().map(|want| slots(&want.accounts)).sum();
            assert_eq!(found, slots(&accounts));
            for want in wants {
                let bytes = want.seal(&key(1));
                assert!(bytes.len() <= WANT_BYTES_MAX, "{} bytes", bytes.len());
                assert_eq!(Want::open(&bytes, &key(1)), Ok(want));
            }
        }
    }

    /// What one program writes, any other one reads.
    #[test]
    fn a_want_is_of_a_list_or_of_state() {
        let [block, hash] = [1, 2].map(B256::repeat_byte);
        let want = Want::of_list(block, hash);
        let read = Want::open(&want.seal(&key(1)), &key(1)).unwrap();
        assert_eq!((read.block, read.list()), (block, Some(hash)));
        for want in Want::split(block, hash, [account(1, 0), account(2, 300)]) {
            assert_eq!(want.list(), None);
        }
    }

    #[test]
    fn what_the_fleet_has_not_written_is_refused() {
        let want = Want {
            block: B256::ZERO,
            turn: B256::ZERO,
            accounts: vec![account(1, 3)],
        };
        let bytes = want.seal(&key(1));
        assert_eq!(Want::open(&bytes, &key(2)), Err(OpenError::Mac));
        let mut other = bytes.to_vec();
        other[5] ^= 1;
        assert_eq!(Want::open(&other, &key(1)), Err(OpenError::Mac));
        assert_eq!(Want::open(b"", &key(1)), Err(OpenError::Length(0)));
        let many = Want {
            accounts: vec![account(1, 200), account(1, 100)],
            ..want
        };
        let bytes = many.seal(&key(1));
        assert!(matches!(
            Want::open(&bytes, &key(1)),
            Err(OpenError::Malformed(_))
        ));
    }

    #[test]
    fn a_report_is_of_one_turn_of_one_fleet() {
        let [turn, other] = [1, 2].map(B256::repeat_byte);
        let bytes = seal_unavailable(&turn, &key(1));
        assert!(bytes.len() <= TURN_BYTES_MAX && reports_unavailable(&bytes, &turn, &key(1)));
        assert!(!reports_unavailable(&bytes, &other, &key(1)));
        assert!(!reports_unavailable(&bytes, &turn, &key(2)));
        assert!(!reports_unavailable(b"an owner", &turn, &key(1)));
    }
}
