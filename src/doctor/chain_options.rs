//! What the options say of the chain: `--genesis`, `--chain` and `--forward`.

use std::fmt::Display;

use alloy_primitives::B256;

use super::finding::Finding;

/// What was read of a genesis file, and for source `files` of the chain's file too.
pub(super) type ReadChain = Result<(u64, B256), String>;

/// `is_chain` says that the options are those of source `files`.
pub(super) fn judge(read: &ReadChain, is_chain: bool) -> Finding {
    let subject = match is_chain {
        true => "--genesis, --chain",
        false => "--genesis",
    };
    match read {
        Ok((chain_id, genesis)) => {
            let rest = match is_chain {
                true => "; of the blocks, only the first was checked",
                false => "",
            };
            let found = format!("chain {chain_id} with genesis {genesis}{rest}");
            Finding::good(subject, found)
        }
        Err(error) => Finding::bad(subject, error.clone(), "correct the file, or the options"),
    }
}

/// Methods that are to be forwarded, this many, or why they cannot be.
pub(super) fn forward(methods: Result<usize, impl Display>) -> Option<Finding> {
    let subject = "--forward";
    match methods {
        Ok(0) => None,
        // A call to find out might change something.
        Ok(count) => Some(Finding::good(
            subject,
            format!("methods: {count}; whether the nodes have them was not checked"),
        )),
        Err(error) => Some(Finding::bad(subject, error.to_string(), "correct it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn what_was_not_checked_is_said() {
        let read = Ok((5, B256::ZERO));
        for (is_chain, expected) in [(false, false), (true, true)] {
            let found = judge(&read, is_chain);
            assert_eq!(found.verdict(), Verdict::Good);
            let text = found.to_string();
            assert!(text.contains("chain 5 with genesis 0x00"), "{text}");
            assert_eq!(text.contains("only the first was checked"), expected);
        }
        let bad = judge(&Err("it is no JSON".to_owned()), true);
        assert_eq!(bad.verdict(), Verdict::Bad);
        assert!(bad.to_string().contains("it is no JSON"), "{bad}");
        assert_eq!(forward(Ok::<_, &str>(0)), None);
        let found = forward(Ok::<_, &str>(2)).map(|found| found.to_string());
        assert!(found.is_some_and(|text| text.contains("not checked")));
        let bad = forward(Err("it is answered here")).map(|bad| bad.verdict());
        assert_eq!(bad, Some(Verdict::Bad));
    }
}
