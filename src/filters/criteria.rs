//! What a filter is for, as the store of a fleet has it.

use std::sync::Arc;

use nearhead_chain::{
    log_search::LogFilter,
    window::{BlockNumberOrTag, BlockTag},
};
use nearhead_fleet::filter::{FilterBlocks, FilterBound, FilterCriteria};

use super::filter_kind::FilterKind;
use crate::rpc::log_query::LogBlocks;

/// The criteria of a filter of this kind.
pub(super) fn criteria_of(kind: &FilterKind) -> FilterCriteria {
    match kind {
        FilterKind::Blocks => FilterCriteria::Blocks,
        FilterKind::Logs { blocks, filter } => FilterCriteria::Logs {
            blocks: match *blocks {
                LogBlocks::Hash(hash) => FilterBlocks::Hash(hash),
                LogBlocks::Range { from, to } => FilterBlocks::Range(stored(from), stored(to)),
            },
            addresses: filter.addresses.clone(),
            topics: filter.topics.clone(),
        },
    }
}

/// The kind of a filter with these criteria.
pub(super) fn kind_of(criteria: FilterCriteria) -> FilterKind {
    match criteria {
        FilterCriteria::Blocks => FilterKind::Blocks,
        FilterCriteria::Logs {
            blocks,
            addresses,
            topics,
        } => FilterKind::Logs {
            blocks: match blocks {
                FilterBlocks::Hash(hash) => LogBlocks::Hash(hash),
                FilterBlocks::Range(from, to) => LogBlocks::Range {
                    from: read(from),
                    to: read(to),
                },
            },
            filter: Arc::new(LogFilter { addresses, topics }),
        },
    }
}

const fn stored(bound: BlockNumberOrTag) -> FilterBound {
    match bound {
        BlockNumberOrTag::Number(number) => FilterBound::Number(number),
        BlockNumberOrTag::Tag(BlockTag::Latest) => FilterBound::Latest,
        BlockNumberOrTag::Tag(BlockTag::Earliest) => FilterBound::Earliest,
        BlockNumberOrTag::Tag(BlockTag::Pending) => FilterBound::Pending,
        BlockNumberOrTag::Tag(BlockTag::Safe) => FilterBound::Safe,
        BlockNumberOrTag::Tag(BlockTag::Finalized) => FilterBound::Finalized,
    }
}

const fn read(bound: FilterBound) -> BlockNumberOrTag {
    match bound {
        FilterBound::Number(number) => BlockNumberOrTag::Number(number),
        FilterBound::Latest => BlockNumberOrTag::Tag(BlockTag::Latest),
        FilterBound::Earliest => BlockNumberOrTag::Tag(BlockTag::Earliest),
        FilterBound::Pending => BlockNumberOrTag::Tag(BlockTag::Pending),
        FilterBound::Safe => BlockNumberOrTag::Tag(BlockTag::Safe),
        FilterBound::Finalized => BlockNumberOrTag::Tag(BlockTag::Finalized),
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, B256};

    use super::*;

    #[test]
    fn kinds_are_read_as_they_were_stored() {
        let tags = [
            BlockTag::Latest,
            BlockTag::Earliest,
            BlockTag::Pending,
            BlockTag::Safe,
            BlockTag::Finalized,
        ];
        let bounds = tags.map(BlockNumberOrTag::Tag).into_iter();
        let bounds = bounds.chain([BlockNumberOrTag::Number(7)]);
        let ranges = bounds.map(|from| LogBlocks::Range {
            from,
            to: BlockNumberOrTag::Number(9),
        });
        for blocks in ranges.chain([LogBlocks::Hash(B256::repeat_byte(3))]) {
            let filter = LogFilter {
                addresses: vec![Address::repeat_byte(1)],
                topics: vec![vec![], vec![B256::repeat_byte(2)]],
            };
            let kind = FilterKind::Logs {
                blocks,
                filter: Arc::new(filter),
            };
            let read = kind_of(criteria_of(&kind));
            assert_eq!(format!("{read:?}"), format!("{kind:?}"));
        }
        let read = kind_of(criteria_of(&FilterKind::Blocks));
        assert!(matches!(read, FilterKind::Blocks));
    }
}
