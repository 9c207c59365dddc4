//! What follows from a header by the chain's fee rules: what the next block asks for, and the price
//! of blob gas, the one value of a block's JSON that depends on the chain's parameters.

use alloy_consensus::Header;
use alloy_eips::eip7840::BlobParams;
use alloy_hardforks::{EthereumChainHardforks, EthereumHardforks};

use super::{ChainSpec, Network};
use crate::verify;

/// What follows from a header by the chain's rules. All fees are in wei per unit of gas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderFees {
    /// Whether the rules are the chain's own, and not only Ethereum's.
    pub are_known: bool,
    /// The base fee of the next block (EIP-1559); `None` if that is before London.
    pub next_base_fee: Option<u64>,
    /// The price of blob gas (EIP-4844); `None` before Cancun.
    pub blob_gas_price: Option<u128>,
    /// The price of blob gas in the next block, unless a fork changes the parameters there. `None`
    /// before Cancun.
    pub next_blob_gas_price: Option<u128>,
    /// Blob gas that a block may use; `None` before Cancun.
    pub blob_gas_max: Option<u64>,
}

impl HeaderFees {
    /// Whether what is said of blobs follows from the chain's own parameters.
    pub(crate) const fn are_blobs_known(&self) -> bool {
        self.are_known || self.blob_gas_price.is_none()
    }
}

/// The fee rules of a chain, whose genesis may be unknown.
///
/// A wrong guess of blob parameters leads to no false block: upstreams state the price, so the
/// first one with a blob is refused. What else is said of fees says whether it is a guess
/// ([`HeaderFees::are_known`]).
#[derive(Clone, Debug)]
pub struct FeeRules {
    source: RuleSource,
    /// Whether they are the chain's own.
    are_known: bool,
}

#[derive(Clone, Debug)]
enum RuleSource {
    Genesis(Box<ChainSpec>),
    Network(EthereumChainHardforks),
    Header,
}

impl FeeRules {
    /// The parameters of a genesis.
    #[must_use]
    pub fn of_genesis(spec: ChainSpec) -> Self {
        Self {
            source: RuleSource::Genesis(Box::new(spec)),
            are_known: true,
        }
    }

    /// The known parameters of mainnet, Sepolia, Holesky and Hoodi. For any other chain the header
    /// decides: Prague's parameters if it has a requests hash, else Cancun's.
    #[must_use]
    pub fn of_chain(chain_id: u64) -> Self {
        let source = match chain_id {
            1 => RuleSource::Network(EthereumChainHardforks::mainnet()),
            17_000 => RuleSource::Network(EthereumChainHardforks::holesky()),
            560_048 => RuleSource::Network(EthereumChainHardforks::hoodi()),
            11_155_111 => RuleSource::Network(EthereumChainHardforks::sepolia()),
            _ => RuleSource::Header,
        };
        Self {
            source,
            are_known: false,
        }
    }

    /// The rules of a network, of which the chain has the genesis.
    #[must_use]
    pub fn of_network(network: Network) -> Self {
        Self {
            are_known: true,
            ..Self::of_chain(network.chain_id())
        }
    }

    /// What follows from this header.
    pub(crate) fn fees(&self, header: &Header) -> HeaderFees {
        let blobs = header
            .excess_blob_gas
            .and_then(|_| self.blob_params(header));
        HeaderFees {
            are_known: self.are_known,
            next_base_fee: self.next_base_fee(header),
            blob_gas_price: blobs.and_then(|params| header.blob_fee(params)),
            next_blob_gas_price: blobs
                .map(|params| params.calc_blob_fee(verify::next_excess_blob_gas(params, header))),
            blob_gas_max: blobs.map(|params| params.max_blob_gas_per_block()),
        }
    }

    fn next_base_fee(&self, header: &Header) -> Option<u64> {
        match &self.source {
            RuleSource::Genesis(spec) => {
                let number = header.number.saturating_add(1);
                verify::base_fee(&spec.rules(number, header.timestamp, true), header)
            }
            RuleSource::Network(_) | RuleSource::Header => header
                .base_fee_per_gas
                .map(|_| verify::next_base_fee(header)),
        }
    }

    fn blob_params(&self, header: &Header) -> Option<BlobParams> {
        Some(match &self.source {
            RuleSource::Genesis(spec) => {
                // A genesis may have a difficulty, and blobs all the same.
                return spec
                    .rules(header.number, header.timestamp, true)
                    .blob_params();
            }
            // BPO1 and BPO2 have the same parameters on all four (EIP-7892).
            RuleSource::Network(forks) if forks.is_bpo2_active_at_timestamp(header.timestamp) => {
                BlobParams::bpo2()
            }
            RuleSource::Network(forks) if forks.is_bpo1_active_at_timestamp(header.timestamp) => {
                BlobParams::bpo1()
            }
            RuleSource::Network(forks) if forks.is_osaka_active_at_timestamp(header.timestamp) => {
                BlobParams::osaka()
            }
            RuleSource::Network(_) | RuleSource::Header if header.requests_hash.is_some() => {
                BlobParams::prague()
            }
            RuleSource::Network(_) | RuleSource::Header => BlobParams::cancun(),
        })
    }

    /// Advice for the case that the upstream is right and these rules are not.
    pub(crate) const fn advice(&self) -> &'static str {
        match self.source {
            RuleSource::Genesis(_) => {
                "if the node is right, the blobSchedule of the genesis is not"
            }
            RuleSource::Network(_) | RuleSource::Header => {
                "if the node is right, name the chain's genesis with --genesis"
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    #[cfg(feature = "all-tests")]
    use crate::fixture;

    #[test]
    fn the_price_follows_the_parameters_at_the_timestamp() {
        let excess = 100_000_000;
        let fee = |params: BlobParams| Some(params.calc_blob_fee(excess));
        let header = |timestamp, requests: bool| Header {
            timestamp,
            excess_blob_gas: Some(excess),
            requests_hash: requests.then_some(Default::default()),
            ..Header::default()
        };
        // Timestamps of mainnet: Cancun, Prague, BPO1, BPO2.
        for (chain_id, timestamp, requests, params) in [
            (1, 1_710_338_135, false, BlobParams::cancun()),
            (1, 1_746_612_311, true, BlobParams::prague()),
            (1, 1_765_290_070, true, BlobParams::prague()),
            (1, 1_765_290_071, true, BlobParams::bpo1()),
            (1, 1_767_747_671, true, BlobParams::bpo2()),
            (17_000, 1_759_800_000, true, BlobParams::bpo1()),
            (560_048, 1_762_955_544, true, BlobParams::bpo2()),
            (11_155_111, 1_761_607_008, true, BlobParams::bpo2()),
            // Amsterdam changes no blob parameters.
            (11_155_111, 1_791_294_816, true, BlobParams::bpo2()),
            (31_337, 1_767_747_671, true, BlobParams::prague()),
            (31_337, 1_767_747_671, false, BlobParams::cancun()),
        ] {
            let price = FeeRules::of_chain(chain_id)
                .fees(&header(timestamp, requests))
                .blob_gas_price;
            assert_eq!(price, fee(params), "{chain_id} at {timestamp}");
        }
        assert_eq!(
            FeeRules::of_chain(1).fees(&Header::default()),
            HeaderFees::default()
        );
    }

    #[test]
    fn the_next_price_follows_the_blobs_and_the_base_fee() {
        let params = BlobParams::bpo2();
        for (used, base_fee) in [
            (0, 1),
            (params.max_blob_gas_per_block(), 1),
            // Blobs must not be cheaper than the gas that they save (EIP-7918).
            (params.max_blob_gas_per_block(), u64::from(u32::MAX)),
        ] {
            let header = Header {
                timestamp: 1_767_747_671,
                excess_blob_gas: Some(100_000_000),
                blob_gas_used: Some(used),
                base_fee_per_gas: Some(base_fee),
                requests_hash: Some(Default::default()),
                ..Header::default()
            };
            let fees = FeeRules::of_network(Network::Mainnet).fees(&header);
            let next = header.next_block_blob_fee(params);
            assert_eq!(fees.next_blob_gas_price, next, "{used} {base_fee}");
            assert_ne!(fees.blob_gas_price, next, "{used} {base_fee}");
            assert_eq!(fees.blob_gas_max, Some(params.max_blob_gas_per_block()));
            assert!(fees.are_known);
        }
    }

    #[cfg(feature = "all-tests")]
    #[test]
    fn a_genesis_has_its_own_schedule() {
        let excess = 100_000_000;
        let spec = ChainSpec::from_genesis(&fixture::genesis());
        let rules = spec.map(FeeRules::of_genesis).unwrap();
        let blocks = fixture::blocks();
        for (number, params) in [
            (42, BlobParams::cancun()),
            (45, BlobParams::prague()),
            (48, BlobParams::osaka()),
            (51, BlobParams::bpo1()),
            (54, BlobParams::bpo2()),
        ] {
            let mut header = blocks[number - 1].header.clone();
            header.excess_blob_gas = Some(excess);
            let price = rules.fees(&header).blob_gas_price;
            assert_eq!(price, Some(params.calc_blob_fee(excess)), "block {number}");
        }
        assert_eq!(rules.fees(&blocks[40].header).blob_gas_price, None);
    }
}
