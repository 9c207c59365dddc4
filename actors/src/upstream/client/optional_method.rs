//! What an upstream may lack and still be of use.

use std::time::Instant;

use super::NegativeCache;

/// A method, or a form of request, whose lack is no fault of an upstream. The lack of any other
/// method is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionalMethod {
    /// eth_getBlockReceipts.
    BlockReceipts,
    /// eth_getProof.
    Proof,
    /// eth_getCode.
    Code,
    /// eth_getBlockAccessList.
    AccessList,
    /// eth_createAccessList, with overrides of accounts.
    CallAccessList,
    /// debug_traceBlockByHash, with the prestate tracer.
    Trace,
    /// debug_executionWitness.
    Witness,
    /// Several calls in one request.
    Batch,
}

impl OptionalMethod {
    const ALL: [Self; 8] = [
        Self::BlockReceipts,
        Self::Proof,
        Self::Code,
        Self::AccessList,
        Self::CallAccessList,
        Self::Trace,
        Self::Witness,
        Self::Batch,
    ];

    /// The method's name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::BlockReceipts => "eth_getBlockReceipts",
            Self::Proof => "eth_getProof",
            Self::Code => "eth_getCode",
            Self::AccessList => "eth_getBlockAccessList",
            Self::CallAccessList => "eth_createAccessList",
            Self::Trace => "debug_traceBlockByHash",
            Self::Witness => "debug_executionWitness",
            Self::Batch => "batches",
        }
    }

    /// What happens without it, for a log line.
    pub(super) const fn consequence(self) -> &'static str {
        match self {
            Self::BlockReceipts => "receipts are fetched one by one",
            Self::Proof => "it is not asked for proofs",
            Self::Code => "it is not asked for code",
            Self::AccessList => "it is not asked for access lists",
            Self::CallAccessList => "what calls read is fetched as it is met",
            Self::Trace => "state is followed with more proofs",
            Self::Witness => "state is followed with more proofs",
            Self::Batch => "proofs and code are asked for one by one",
        }
    }
}

/// Which optional methods an upstream lacks, each remembered for five minutes.
#[derive(Debug, Default)]
pub(super) struct MissingMethods([NegativeCache; OptionalMethod::ALL.len()]);

impl MissingMethods {
    /// Whether the upstream is known to lack this method.
    pub(super) fn is_known(&self, method: OptionalMethod, now: Instant) -> bool {
        self.0[method as usize].is_known(now)
    }

    /// Records that the upstream lacks this method, and returns whether that is new.
    pub(super) fn record(&self, method: OptionalMethod, now: Instant) -> bool {
        self.0[method as usize].record(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_is_remembered_by_itself() {
        let now = Instant::now();
        for method in OptionalMethod::ALL {
            let missing = MissingMethods::default();
            assert!(missing.record(method, now) && !missing.record(method, now));
            let known = OptionalMethod::ALL.map(|other| missing.is_known(other, now));
            assert_eq!(known, OptionalMethod::ALL.map(|other| other == method));
        }
    }
}
