//! What the options say of the chain: `--genesis`, `--chain` and `--forward`.

use std::{fmt::Display, time::Duration};

use nearhead_actors::{source::FilesSource, upstream::Pins};
use nearhead_chain::encode::EncodeOptions;
use tokio::{task::spawn_blocking, time::timeout};

use super::finding::Finding;
use crate::config::{Config, SourceKind};

/// The chain of a genesis file, which for source `files` is also that of the first block.
pub(super) type ReadChain = Result<Pins, String>;

/// Reads the files that the options name, for as long as `longest`; `None` if they name none. That
/// takes CPU time too: a genesis with many accounts is hashed.
pub(super) async fn read(config: &Config, longest: Duration) -> Option<ReadChain> {
    let (network, chain_id) = (config.network, config.chain_id);
    let read = match config.source {
        SourceKind::Dev => return None,
        SourceKind::Files => {
            let source = FilesSource {
                genesis: config.genesis.clone()?,
                chain: config.chain.clone()?,
                options: EncodeOptions {
                    omit_total_difficulty: config.omit_total_difficulty,
                },
            };
            spawn_blocking(move || {
                source.examine().map(|(chain_id, genesis)| Pins {
                    chain_id: Some(chain_id),
                    genesis: Some(genesis),
                })
            })
        }
        SourceKind::Node => {
            let genesis = config.genesis.clone()?;
            let trusted = config.trusted_blocks.clone();
            spawn_blocking(move || Pins::read(Some(&genesis), network, chain_id, &trusted))
        }
    };
    Some(match timeout(longest, read).await {
        Ok(Ok(read)) => read.map_err(|error| error.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("was not read within {} s", longest.as_secs())),
    })
}

/// What is pinned of the chain: by its genesis file, or by the other options alone.
pub(super) fn pins(config: &Config, read: Option<ReadChain>) -> Pins {
    let by_options = || {
        Pins::read(
            None,
            config.network,
            config.chain_id,
            &config.trusted_blocks,
        )
    };
    // Options without a file do not contradict each other: that was checked before.
    read.and_then(Result::ok)
        .unwrap_or_else(|| by_options().unwrap_or_default())
}

/// `is_chain` says that the options are those of source `files`.
pub(super) fn judge(read: &ReadChain, is_chain: bool) -> Finding {
    let subject = match is_chain {
        true => "--genesis, --chain",
        false => "--genesis",
    };
    match read {
        Ok(chain) => {
            let rest = match is_chain {
                true => "; of the blocks, only the first was checked",
                false => "",
            };
            Finding::good(subject, format!("{chain}{rest}"))
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
    use alloy_primitives::B256;

    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn what_was_not_checked_is_said() {
        let read = Ok(Pins {
            chain_id: Some(5),
            genesis: Some(B256::ZERO),
        });
        for (is_chain, expected) in [(false, false), (true, true)] {
            let found = judge(&read, is_chain);
            assert_eq!(found.verdict(), Verdict::Good);
            let text = found.to_string();
            assert!(text.contains("chain id 5 and genesis 0x00"), "{text}");
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
