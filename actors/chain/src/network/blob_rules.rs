//! The price of blob gas: the one value of a block's JSON that depends on the chain's parameters.

use alloy_consensus::Header;
use alloy_eips::eip7840::BlobParams;
use alloy_hardforks::{EthereumChainHardforks, EthereumHardforks};

use super::ChainSpec;

/// The blob parameters of a chain, whose genesis may be unknown.
///
/// A wrong guess leads to no false answer: upstreams state the price, so the first block with a
/// blob is refused.
#[derive(Clone, Debug)]
pub struct BlobRules(BlobSource);

#[derive(Clone, Debug)]
enum BlobSource {
    Genesis(Box<ChainSpec>),
    Network(EthereumChainHardforks),
    Header,
}

impl BlobRules {
    /// The parameters of a genesis.
    #[must_use]
    pub fn of_genesis(spec: ChainSpec) -> Self {
        Self(BlobSource::Genesis(Box::new(spec)))
    }

    /// The known parameters of mainnet, Sepolia, Holesky and Hoodi. For any other chain the header
    /// decides: Prague's parameters if it has a requests hash, else Cancun's.
    #[must_use]
    pub fn of_chain(chain_id: u64) -> Self {
        Self(match chain_id {
            1 => BlobSource::Network(EthereumChainHardforks::mainnet()),
            17_000 => BlobSource::Network(EthereumChainHardforks::holesky()),
            560_048 => BlobSource::Network(EthereumChainHardforks::hoodi()),
            11_155_111 => BlobSource::Network(EthereumChainHardforks::sepolia()),
            _ => BlobSource::Header,
        })
    }

    /// Price of a unit of blob gas in wei (EIP-4844); `None` before Cancun.
    pub(crate) fn price(&self, header: &Header) -> Option<u128> {
        header.excess_blob_gas?;
        let params = match &self.0 {
            BlobSource::Genesis(spec) => {
                let merged = header.difficulty.is_zero();
                spec.rules(header.number, header.timestamp, merged)
                    .blob_params()?
            }
            // BPO1 and BPO2 have the same parameters on all four (EIP-7892); Osaka has Prague's.
            BlobSource::Network(forks) if forks.is_bpo2_active_at_timestamp(header.timestamp) => {
                BlobParams::bpo2()
            }
            BlobSource::Network(forks) if forks.is_bpo1_active_at_timestamp(header.timestamp) => {
                BlobParams::bpo1()
            }
            BlobSource::Network(_) | BlobSource::Header if header.requests_hash.is_some() => {
                BlobParams::prague()
            }
            BlobSource::Network(_) | BlobSource::Header => BlobParams::cancun(),
        };
        header.blob_fee(params)
    }

    /// Advice for the case that the upstream is right and these rules are not.
    pub(crate) const fn advice(&self) -> &'static str {
        match self.0 {
            BlobSource::Genesis(_) => {
                "if the node is right, the blobSchedule of the genesis is not"
            }
            BlobSource::Network(_) | BlobSource::Header => {
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
            let price = BlobRules::of_chain(chain_id).price(&header(timestamp, requests));
            assert_eq!(price, fee(params), "{chain_id} at {timestamp}");
        }
        assert_eq!(BlobRules::of_chain(1).price(&Header::default()), None);
    }

    #[cfg(feature = "all-tests")]
    #[test]
    fn a_genesis_has_its_own_schedule() {
        let excess = 100_000_000;
        let spec = ChainSpec::from_genesis(&fixture::genesis());
        let rules = spec.map(BlobRules::of_genesis).unwrap();
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
            let price = rules.price(&header);
            assert_eq!(price, Some(params.calc_blob_fee(excess)), "block {number}");
        }
        assert_eq!(rules.price(&blocks[40].header), None);
    }
}
