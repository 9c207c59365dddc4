//! The bounds of calls of contracts that no option sets.

/// Bytes of memory of all contracts that a call has called. In 1,024 of them, 50 million gas pay
/// for 140 MB, so that no call of the default limit meets this bound. What a call returns is a part
/// of one contract's memory, which costs more the larger it is: 50 million gas pay for 5 MB.
pub(crate) const MEMORY_BYTES_MAX: u64 = 192 << 20;

/// Bytes of what all calls of an eth_simulateV1 return and log: more of them fit into its gas.
pub(crate) const OUTPUT_BYTES_MAX: usize = 16 << 20;
