//! The sample contracts of the dev chain, and the calldata for them.
//!
//! Comments show the stack after the line, its top first.

use alloy_primitives::{Address, B256, Bytes, U256, address, keccak256};

use super::assembler::{AssembleError, assemble};

/// The first token; the others follow it ([`token`]).
pub(super) const TOKENS: Address = address!("de00000000000000000000000000000000010000");
/// The first pool; the others follow it ([`pool`]).
pub(super) const POOLS: Address = address!("de00000000000000000000000000000000020000");
/// Writes slots and a mapping. Set-code transactions delegate to it.
pub const STORE: Address = address!("de00000000000000000000000000000000000001");
/// Emits the requested number of logs without topics.
pub(super) const BURST: Address = address!("de00000000000000000000000000000000000002");
/// Writes a slot, emits a log and reverts both.
pub(super) const REVERTER: Address = address!("de00000000000000000000000000000000000003");
/// Creates contracts with CREATE2.
pub(super) const FACTORY: Address = address!("de00000000000000000000000000000000000004");
/// Records the block's environment as the EVM reports it.
pub(super) const RECORDER: Address = address!("de00000000000000000000000000000000000005");
/// The deposit contract of the chain's configuration (EIP-6110): emits its calldata as a
/// DepositEvent.
pub(super) const DEPOSIT: Address = address!("00000000219ab540356cbb839cbe05303d7705fa");

/// `transfer(address to, uint256 amount)` with any number of pairs, one `Transfer` each. Balances
/// are a `mapping(address => uint256)` at slot 0.
const TOKEN_SOURCE: &str = "
    CALLVALUE @fail JUMPI
    0 CALLDATALOAD 224 SHR selector:transfer(address,uint256) EQ ISZERO @fail JUMPI
    4
    next:                                   ; at
    CALLDATASIZE DUP2 LT ISZERO @done JUMPI
    DUP1 32 ADD CALLDATALOAD                ; amount at
    CALLER 0 MSTORE 64 0 KECCAK256          ; slot amount at
    DUP1 SLOAD                              ; held slot amount at
    DUP3 DUP2 LT @fail JUMPI
    DUP3 SWAP1 SUB SWAP1 SSTORE             ; amount at
    DUP2 CALLDATALOAD                       ; to amount at
    DUP1 0 MSTORE 64 0 KECCAK256            ; slot to amount at
    DUP1 SLOAD DUP4 ADD SWAP1 SSTORE        ; to amount at
    SWAP1 64 MSTORE                         ; to at
    CALLER event:Transfer(address,address,uint256) 32 64 LOG3
    64 ADD @next JUMP
    done: 1 0 MSTORE 32 0 RETURN
    fail: 0 0 REVERT";

/// Pairs of words (to, amount): each adds to the reserve at slot 0, stores the sum in the block's
/// slot, one of 8,192, and emits a `Swap` with six words of data.
const POOL_SOURCE: &str = "
    0
    next:                                   ; at
    CALLDATASIZE DUP2 LT ISZERO @done JUMPI
    DUP1 32 ADD CALLDATALOAD                ; amount at
    DUP2 CALLDATALOAD                       ; to amount at
    DUP2 0 MSTORE
    0 SLOAD DUP3 ADD                        ; reserve to amount at
    DUP1 32 MSTORE
    DUP1 0 SSTORE
    1 8192 NUMBER MOD ADD SSTORE            ; to amount at
    TIMESTAMP 64 MSTORE
    NUMBER 96 MSTORE
    BASEFEE 128 MSTORE
    DUP2 DUP3 MUL 160 MSTORE
    SWAP1 POP                               ; to at
    CALLER event:Swap(address,address,uint256,uint256,uint256,uint256,uint256,uint256) 192 0 LOG3
    64 ADD @next JUMP
    done: STOP";

/// Pairs of words (key, value): each writes the value to slot `key` and to the `mapping(uint256 =>
/// uint256)` at slot 1, and emits a `Stored`. A zero value clears them.
const STORE_SOURCE: &str = "
    0
    next:                                   ; at
    CALLDATASIZE DUP2 LT ISZERO @done JUMPI
    DUP1 32 ADD CALLDATALOAD                ; value at
    DUP2 CALLDATALOAD                       ; key value at
    DUP2 DUP2 SSTORE
    DUP1 0 MSTORE 1 32 MSTORE
    DUP2 64 0 KECCAK256 SSTORE              ; key value at
    SWAP1 64 MSTORE                         ; key at
    event:Stored(uint256,uint256) 32 64 LOG2
    64 ADD @next JUMP
    done: STOP";

/// One word, the number of logs; each has 32 bytes of data and no topic.
const BURST_SOURCE: &str = "
    0 CALLDATALOAD
    next:                                   ; left
    DUP1 ISZERO @done JUMPI
    DUP1 0 MSTORE 32 0 LOG0
    1 SWAP1 SUB @next JUMP
    done: STOP";

/// Reverts with `Error("declined")`.
const REVERTER_SOURCE: &str = "
    NUMBER 0 SSTORE 0 0 LOG0
    0x08c379a0 224 SHL 0 MSTORE
    32 4 MSTORE 8 36 MSTORE 0x6465636c696e6564 192 SHL 68 MSTORE
    100 0 REVERT";

/// A word of salt, then init code. The child's address (zero if its creation failed) is stored at
/// slot 0.
const FACTORY_SOURCE: &str = "
    32 CALLDATASIZE SUB                     ; size
    DUP1 32 0 CALLDATACOPY
    0 CALLDATALOAD SWAP1 0 0 CREATE2        ; child
    DUP1 event:Created(address) 0 0 LOG2
    0 SSTORE STOP";

/// Slots 0 to 15 record what opcodes and system contracts of many forks return.
const RECORDER_SOURCE: &str = "
    1 NUMBER SUB BLOCKHASH 0 SSTORE
    DIFFICULTY 1 SSTORE                     ; PREVRANDAO since the merge
    TIMESTAMP 2 SSTORE
    BASEFEE 3 SSTORE
    BLOBBASEFEE 4 SSTORE
    0 BLOBHASH 5 SSTORE
    COINBASE 6 SSTORE
    GASLIMIT 7 SSTORE
    SELFBALANCE 8 SSTORE
    GASPRICE 9 SSTORE
    TIMESTAMP 0 MSTORE                      ; EIP-4788
    32 32 32 0 0x000f3df6d732807ef1319fb7b8bb8522d0beac02 GAS STATICCALL POP
    32 MLOAD 10 SSTORE
    1 NUMBER SUB 0 MSTORE                   ; EIP-2935
    32 32 32 0 0x0000f90827f1c53a10cb7a02335b175320002935 GAS STATICCALL POP
    32 MLOAD 11 SSTORE
    CALLER 0 TSTORE 0 TLOAD 12 SSTORE
    TIMESTAMP CLZ 13 SSTORE
    2 NUMBER SUB BLOCKHASH 14 SSTORE
    256 NUMBER SUB BLOCKHASH 15 SSTORE      ; zero below block 256
    STOP";

/// The calldata has the layout of the event ([`deposit`]).
const DEPOSIT_SOURCE: &str = "
    CALLDATASIZE 0 0 CALLDATACOPY
    event:DepositEvent(bytes,bytes,bytes,bytes,bytes) CALLDATASIZE 0 LOG1
    STOP";

/// Stores its creator at slot 0 and deploys the code after `runtime:`.
const CONSTRUCTOR_SOURCE: &str = "
    CALLER 0 SSTORE
    1 @runtime ADD                          ; start
    DUP1 CODESIZE SUB                       ; size start
    DUP1 SWAP2 0 CODECOPY                   ; size
    0 RETURN
    runtime:";

/// Assembled codes, by role.
#[derive(Clone, Debug)]
pub(super) struct Codes {
    pub(super) token: Bytes,
    pub(super) pool: Bytes,
    pub(super) store: Bytes,
    pub(super) burst: Bytes,
    pub(super) reverter: Bytes,
    pub(super) factory: Bytes,
    pub(super) recorder: Bytes,
    pub(super) deposit: Bytes,
    /// Init code that creates a [`STORE`].
    pub(super) create_store: Bytes,
    /// Init codes that fail: by revert, by an invalid first byte (EIP-3541), and by running out of
    /// gas.
    pub(super) create_nothing: [Bytes; 3],
    /// Init code that writes a slot and destroys itself: a creation that succeeds and leaves no
    /// account (EIP-6780).
    pub(super) create_and_destroy: Bytes,
}

impl Codes {
    /// Assembles all contracts.
    pub(super) fn assemble() -> Result<Self, AssembleError> {
        let store = assemble(STORE_SOURCE)?;
        let constructor = assemble(CONSTRUCTOR_SOURCE)?;
        Ok(Self {
            token: assemble(TOKEN_SOURCE)?,
            pool: assemble(POOL_SOURCE)?,
            create_store: [constructor, store.clone()].concat().into(),
            store,
            burst: assemble(BURST_SOURCE)?,
            reverter: assemble(REVERTER_SOURCE)?,
            factory: assemble(FACTORY_SOURCE)?,
            recorder: assemble(RECORDER_SOURCE)?,
            deposit: assemble(DEPOSIT_SOURCE)?,
            create_nothing: [
                assemble("1 1 SSTORE 0 0 REVERT")?,
                assemble("0xef 0 MSTORE8 1 0 RETURN")?,
                assemble("loop: @loop JUMP")?,
            ],
            create_and_destroy: assemble("1 1 SSTORE CALLER SELFDESTRUCT")?,
        })
    }
}

/// The address of token `index`, which is below 65,536. The profile says how many tokens there are.
pub(super) fn token(index: usize) -> Address {
    numbered(TOKENS, index)
}

/// The address of pool `index`, which is below 65,536.
pub(super) fn pool(index: usize) -> Address {
    numbered(POOLS, index)
}

fn numbered(first: Address, index: usize) -> Address {
    let mut bytes = first.into_array();
    bytes[18..].copy_from_slice(&(index as u16).to_be_bytes());
    bytes.into()
}

/// The slot of a token that holds `owner`'s balance.
pub(super) fn balance_slot(owner: &Address) -> B256 {
    let mut preimage = [0; 64];
    preimage[12..32].copy_from_slice(owner.as_slice());
    keccak256(preimage)
}

/// Calldata of a token: transfers of (to, amount).
pub(super) fn transfers(pairs: &[(Address, u64)]) -> Bytes {
    let selector = &keccak256("transfer(address,uint256)")[..4];
    [selector, &swaps(pairs)].concat().into()
}

/// Calldata of a pool: swaps of (to, amount).
pub(super) fn swaps(pairs: &[(Address, u64)]) -> Bytes {
    pairs
        .iter()
        .flat_map(|(to, amount)| [to.into_word().0, U256::from(*amount).to_be_bytes()])
        .flatten()
        .collect()
}

/// Calldata of [`STORE`]: (key, value).
pub(super) fn stores(pairs: &[(u64, u64)]) -> Bytes {
    pairs
        .iter()
        .flat_map(|(key, value)| [key, value])
        .flat_map(|word| U256::from(*word).to_be_bytes::<32>())
        .collect()
}

/// Calldata of [`DEPOSIT`]: the ABI encoding of DepositEvent(pubkey, withdrawal credentials,
/// amount, signature, index), every member `bytes`, with the offsets that EIP-6110 prescribes. The
/// byte strings consist of `fill`.
pub(super) fn deposit(fill: u8, index: u64) -> Bytes {
    const AMOUNT_GWEI: u64 = 32_000_000_000;
    let amount = AMOUNT_GWEI.to_le_bytes();
    let index = index.to_le_bytes();
    let members: [&[u8]; 5] = [&[fill; 48], &[fill; 32], &amount, &[fill; 96], &index];
    let mut heads = Vec::new();
    let mut tails = Vec::new();
    for member in members {
        let offset = members.len() * 32 + tails.len();
        heads.extend_from_slice(&U256::from(offset).to_be_bytes::<32>());
        tails.extend_from_slice(&U256::from(member.len()).to_be_bytes::<32>());
        tails.extend_from_slice(member);
        tails.resize(tails.len().next_multiple_of(32), 0);
    }
    [heads, tails].concat().into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn deposits_have_the_length_that_eip_6110_prescribes() {
        assert_eq!(deposit(1, 7).len(), 576);
    }

    #[test]
    fn every_contract_assembles() {
        let codes = Codes::assemble().unwrap();
        assert!(codes.create_store.ends_with(&codes.store));
        assert_eq!(
            token(258),
            address!("de00000000000000000000000000000000010102")
        );
    }
}
