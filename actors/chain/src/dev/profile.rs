//! Size of the dev chain's blocks and state.

/// Size of the dev chain's blocks and state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// About 17 transactions per block, of every kind; a thousand accounts.
    #[default]
    Small,
    /// Typical blocks of Ethereum mainnet: 250 transactions, 650 logs, and in JSON 0.75 MB of
    /// receipts and 0.45 MB of full block; a million accounts.
    Mainnet,
    /// Large blocks of Ethereum mainnet: 700 transactions and 1,500 to 2,000 logs, with the state
    /// of [`Self::Mainnet`].
    P99,
    /// Small blocks; every 128th of them, starting with block 64, also has 155,000 logs without
    /// topics.
    Adversarial,
}

/// Numbers of a profile. Pairs are inclusive ranges that every block draws from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Gas limit of every block: more than twice the gas that blocks use without `ballast_gas`.
    pub(super) gas_limit: u64,
    /// Gas that a block burns while the base fee is below its initial value. It raises the total
    /// above half of the limit, so that the fee rises again (EIP-1559). Zero if no transaction
    /// could use enough gas (EIP-7825); the fee then sinks to its floor of 7 wei.
    pub(super) ballast_gas: u64,
    /// Number of accounts that have keys and send transactions.
    pub(super) senders: u64,
    /// Number of accounts without keys, some of them contracts with storage.
    pub(super) population: u64,
    /// Number of tokens. `holders` hold the first one, every sender holds all of them.
    pub(super) tokens: usize,
    /// Number of accounts of the population that hold the first token.
    pub(super) holders: u64,
    /// Withdrawals per block (EIP-4895: at most 16).
    pub(super) withdrawals: u64,
    /// Plain transfers of ether per block.
    pub(super) transfers: (u64, u64),
    /// One in this many transfers carries a memo, which is random calldata.
    pub(super) memo_once_in: u64,
    /// Bytes of a memo.
    pub(super) memo_bytes: (u64, u64),
    /// Transactions with one token transfer, per block.
    pub(super) token_transfers: (u64, u64),
    /// Transactions with many token transfers, per block.
    pub(super) token_batches: (u64, u64),
    /// Token transfers in one such transaction.
    pub(super) batch_transfers: (u64, u64),
    /// Number of pools.
    pub(super) pools: usize,
    /// Transactions with swaps, per block.
    pub(super) swaps: (u64, u64),
    /// Swaps in one such transaction.
    pub(super) batch_swaps: (u64, u64),
    /// Transactions that write to the store contract, per block.
    pub(super) stores: (u64, u64),
}

impl Profile {
    /// The sizes of this profile.
    pub(super) const fn sizes(self) -> Sizes {
        const SMALL: Sizes = Sizes {
            gas_limit: 3_000_000,
            ballast_gas: 800_000,
            senders: 32,
            population: 1_000,
            tokens: 2,
            holders: 200,
            withdrawals: 2,
            transfers: (4, 6),
            memo_once_in: 4,
            memo_bytes: (1, 100),
            token_transfers: (3, 4),
            token_batches: (1, 1),
            batch_transfers: (2, 4),
            pools: 1,
            swaps: (1, 1),
            batch_swaps: (1, 2),
            stores: (2, 3),
        };
        const MAINNET: Sizes = Sizes {
            gas_limit: 45_000_000,
            ballast_gas: 6_000_000,
            senders: 1_000,
            population: 1_000_000,
            tokens: 64,
            holders: 120_000,
            withdrawals: 16,
            transfers: (85, 105),
            memo_once_in: 2,
            memo_bytes: (100, 3_400),
            token_transfers: (70, 90),
            token_batches: (17, 23),
            batch_transfers: (4, 22),
            pools: 32,
            swaps: (32, 38),
            batch_swaps: (4, 12),
            stores: (10, 14),
        };
        match self {
            Self::Small => SMALL,
            Self::Mainnet => MAINNET,
            Self::P99 => Sizes {
                gas_limit: 140_000_000,
                ballast_gas: 16_000_000,
                memo_bytes: (100, 6_400),
                transfers: (240, 260),
                token_transfers: (270, 290),
                token_batches: (46, 54),
                swaps: (75, 85),
                stores: (34, 38),
                ..MAINNET
            },
            Self::Adversarial => Sizes {
                gas_limit: 200_000_000,
                ballast_gas: 0,
                ..SMALL
            },
        }
    }

    /// Number of logs without topics that block `number` has in addition to its other logs.
    ///
    /// One of any 128 consecutive blocks has them, so every full window has them exactly once.
    pub(super) const fn burst_logs(self, number: u64) -> u64 {
        match self {
            Self::Adversarial if number % 128 == 64 => 155_000,
            _ => 0,
        }
    }
}
