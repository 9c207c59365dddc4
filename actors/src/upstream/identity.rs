//! Which chain is followed: the one that the operator pins, else the one that a quorum states.
//!
//! No upstream chooses the chain alone, and none that lies or is silent prevents a start.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use alloy_primitives::B256;
use nearhead_chain::{
    import::genesis_hash,
    network::{ChainSpec, Network},
};
use tokio::{join, task::JoinSet, time};

use super::client::{CallError, UpstreamClient};
use crate::{
    data_folder::DataRoot,
    source::{SourceError, SourceLink, read_genesis_file},
};

/// Pause before an upstream that gave no answer is asked again.
const START_RETRY: Duration = Duration::from_secs(1);

/// How often an upstream has to answer the question for block 0 with an error before that means
/// that it does not have the block.
const GENESIS_TRIES: usize = 3;

/// How often the start looks for the stop signal while no answer arrives.
const STOP_CHECK: Duration = Duration::from_millis(100);

/// The chain that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChainIdentity {
    pub(super) chain_id: u64,
    /// Hash of block 0; `None` if no quorum states it, because nodes no longer have the block, and
    /// none is known that one of them states.
    pub(super) genesis: Option<B256>,
    /// The network with this chain id and this genesis.
    pub(super) network: Option<Network>,
}

impl ChainIdentity {
    fn new(chain_id: u64, genesis: Option<B256>) -> Self {
        Self {
            chain_id,
            genesis,
            network: genesis.and_then(|genesis| Network::of_chain(chain_id, genesis)),
        }
    }

    /// The network with the same chain id, if the genesis does not show that the chain is that one.
    pub(super) fn namesake(&self) -> Option<Network> {
        let mut all = Network::ALL.into_iter();
        all.find(|network| self.network.is_none() && network.chain_id() == self.chain_id)
    }
}

/// The operator's genesis file.
pub(super) struct GenesisFile {
    path: PathBuf,
    /// The chain's rules.
    pub(super) spec: ChainSpec,
    /// Hash of block 0.
    hash: B256,
}

impl GenesisFile {
    /// Reads the file, and computes the hash of its block.
    ///
    /// # Errors
    /// The file is not a genesis, or its rules are not supported.
    pub(super) fn read(path: &Path) -> Result<Self, SourceError> {
        let genesis = read_genesis_file(path)?;
        let path = path.to_owned();
        let spec = match ChainSpec::to_follow(&genesis) {
            Ok(spec) => spec,
            Err(error) => return Err(SourceError::Rules { path, error }),
        };
        match genesis_hash(&spec, &genesis) {
            Ok(hash) => Ok(Self { path, spec, hash }),
            Err(error) => Err(SourceError::GenesisState { path, error }),
        }
    }
}

/// What the operator pins of the chain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pins {
    /// The chain id.
    pub chain_id: Option<u64>,
    /// Hash of block 0.
    pub genesis: Option<B256>,
}

impl Pins {
    /// Reads the genesis file, if there is one, and returns what it and the options pin.
    ///
    /// # Errors
    /// The file is not a genesis, its rules are not supported, or it contradicts the other options.
    pub fn read(
        file: Option<&Path>,
        network: Option<Network>,
        chain_id: Option<u64>,
        trusted: &[(u64, B256)],
    ) -> Result<Self, SourceError> {
        let file = file.map(GenesisFile::read).transpose()?;
        Self::new(file.as_ref(), network, chain_id, trusted)
    }

    /// What these options pin. A trusted block with the number 0 is a genesis. That `network`,
    /// `chain_id` and `trusted` agree was checked with the configuration.
    ///
    /// # Errors
    /// The genesis file contradicts the other options.
    pub(super) fn new(
        file: Option<&GenesisFile>,
        network: Option<Network>,
        chain_id: Option<u64>,
        trusted: &[(u64, B256)],
    ) -> Result<Self, SourceError> {
        let trusted = trusted.iter().find(|(number, _)| *number == 0);
        let trusted = trusted.map(|(_, hash)| *hash);
        let named = Self {
            chain_id: chain_id.or(network.map(Network::chain_id)),
            genesis: network.map(Network::genesis_hash).or(trusted),
        };
        let Some(file) = file else {
            return Ok(named);
        };
        let (chain_id, hash) = (file.spec.chain_id(), file.hash);
        let contradicts = |reason: String| SourceError::GenesisContradicts {
            path: file.path.clone(),
            reason,
        };
        if let Some(other) = named.chain_id.filter(|other| *other != chain_id) {
            return Err(contradicts(format!(
                "its chain id is {chain_id}, and --network or --chain-id names {other}"
            )));
        }
        if let Some(other) = named.genesis.filter(|other| *other != hash) {
            return Err(contradicts(format!(
                "its block has the hash {hash}, and --network or --trusted-block names {other}"
            )));
        }
        Ok(Self {
            chain_id: Some(chain_id),
            genesis: Some(hash),
        })
    }

    /// The chain, if it is pinned as a whole.
    pub(super) fn identity(&self) -> Option<ChainIdentity> {
        Some(ChainIdentity::new(self.chain_id?, Some(self.genesis?)))
    }

    /// Whether the chain id is pinned.
    pub(super) const fn has_chain_id(&self) -> bool {
        self.chain_id.is_some()
    }

    /// Whether an upstream that states this may be on the pinned chain.
    fn allow(&self, stated: &Statement) -> bool {
        let is_other_id = self.chain_id.is_some_and(|id| id != stated.chain_id);
        let genesis = self.genesis.zip(stated.genesis);
        !is_other_id && genesis.is_none_or(|(pinned, stated)| pinned == stated)
    }
}

impl fmt::Display for Pins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.chain_id, self.genesis) {
            (None, None) => f.write_str("the same chain"),
            (Some(chain_id), None) => write!(f, "the chain with chain id {chain_id}"),
            (None, Some(genesis)) => write!(f, "the chain with genesis {genesis}"),
            (Some(chain_id), Some(genesis)) => {
                write!(
                    f,
                    "the chain with chain id {chain_id} and genesis {genesis}"
                )
            }
        }
    }
}

/// What an upstream states about its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    chain_id: u64,
    /// Hash of block 0; `None` if it does not have that block.
    genesis: Option<B256>,
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chain id {}, ", self.chain_id)?;
        match self.genesis {
            Some(genesis) => write!(f, "genesis {genesis}"),
            None => f.write_str("no block 0"),
        }
    }
}

/// An upstream's answer to the question for its chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChainAnswer {
    /// It has not answered or failed yet.
    Pending,
    /// It gave no answer, and is asked again.
    Failed(CallError),
    /// It states this.
    Stated(Statement),
}

impl fmt::Display for ChainAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("no answer yet"),
            Self::Failed(error) => error.fmt(f),
            Self::Stated(statement) => statement.fmt(f),
        }
    }
}

/// Whether the upstreams agree on a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChainVote {
    /// A quorum agrees on this one, as far as it is not pinned.
    Agreed(ChainIdentity),
    /// A quorum may agree once more of them have answered.
    StillPossible,
    /// Whatever the others answer, no quorum agrees; or two quorums disagree.
    Impossible,
}

/// What a vote on one value gives so far.
enum Vote<T> {
    /// A quorum states this value, and no later answer gives another value a quorum.
    Won(T),
    /// No value has a quorum, and one may get it.
    Open,
    /// No value can get a quorum, or two have one.
    Lost,
}

/// The upstreams that have stated nothing.
#[derive(Clone, Copy)]
struct Absent {
    pending: usize,
    failed: usize,
}

/// Counts the upstreams that state each value. Those that failed may still make a quorum, but are
/// not waited for once there is one: silence is not consent, and no veto.
fn vote<T: PartialEq + Copy>(
    values: impl Iterator<Item = T>,
    quorum: usize,
    absent: Absent,
) -> Vote<T> {
    let mut counts: Vec<(T, usize)> = Vec::new();
    for value in values {
        match counts.iter_mut().find(|(known, _)| *known == value) {
            Some((_, count)) => *count += 1,
            None => counts.push((value, 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let count = |at: usize| counts.get(at).map_or(0, |(_, count)| *count);
    match counts.first() {
        // Two values have a quorum, which is possible if that is at most half of the nodes.
        Some(_) if count(1) >= quorum => Vote::Lost,
        Some((value, first)) if *first >= quorum => match count(1) + absent.pending >= quorum {
            true => Vote::Open,
            false => Vote::Won(*value),
        },
        _ if count(0) + absent.pending + absent.failed >= quorum => Vote::Open,
        _ => Vote::Lost,
    }
}

/// Which chain the upstreams agree on. An upstream of another chain than the pinned one does not
/// count: a quorum has to be on the pinned chain too. `is_known` says whether a chain with this id
/// and this genesis is known here.
pub(super) fn agree_on(
    pins: &Pins,
    quorum: usize,
    answers: &[ChainAnswer],
    is_known: impl Fn(u64, B256) -> bool,
) -> ChainVote {
    let count =
        |is_it: fn(&ChainAnswer) -> bool| answers.iter().filter(|answer| is_it(answer)).count();
    let absent = Absent {
        pending: count(|answer| matches!(answer, ChainAnswer::Pending)),
        failed: count(|answer| matches!(answer, ChainAnswer::Failed(_))),
    };
    let stated = answers.iter().filter_map(|answer| match answer {
        ChainAnswer::Stated(statement) => Some(*statement),
        ChainAnswer::Pending | ChainAnswer::Failed(_) => None,
    });
    let mut stated: Vec<Statement> = stated.filter(|statement| pins.allow(statement)).collect();
    let ids = stated.iter().map(|statement| statement.chain_id);
    let vote_on_id = match pins.chain_id {
        None => vote(ids, quorum, absent),
        Some(chain_id) if stated.len() >= quorum => Vote::Won(chain_id),
        Some(_) if stated.len() + absent.pending + absent.failed >= quorum => Vote::Open,
        Some(_) => Vote::Lost,
    };
    let chain_id = match vote_on_id {
        Vote::Won(chain_id) => chain_id,
        Vote::Open => return ChainVote::StillPossible,
        Vote::Lost => return ChainVote::Impossible,
    };
    if pins.genesis.is_some() {
        return ChainVote::Agreed(ChainIdentity::new(chain_id, pins.genesis));
    }
    stated.retain(|statement| statement.chain_id == chain_id);
    let is_known = |genesis| is_known(chain_id, genesis);
    agree_on_genesis(chain_id, quorum, &stated, absent, is_known)
}

/// Which genesis these upstreams of one chain id agree on. Those that do not have block 0 any more
/// contradict nobody: if a quorum needs them, the genesis is the only one of the others' that is
/// known here. Otherwise fewer liars than a quorum could switch off what depends on it.
fn agree_on_genesis(
    chain_id: u64,
    quorum: usize,
    stated: &[Statement],
    absent: Absent,
    is_known: impl Fn(B256) -> bool,
) -> ChainVote {
    let hashes = || stated.iter().filter_map(|statement| statement.genesis);
    let agreed = |genesis| ChainVote::Agreed(ChainIdentity::new(chain_id, genesis));
    if let Vote::Won(genesis) = vote(hashes(), quorum, absent) {
        return agreed(Some(genesis));
    }
    let count_of = |genesis: B256| hashes().filter(|hash| *hash == genesis).count();
    let most = hashes().map(count_of).max().unwrap_or(0);
    let agreeing = most + stated.len() - hashes().count();
    if absent.pending > 0 {
        ChainVote::StillPossible
    } else if most >= quorum {
        // Another genesis has a quorum too.
        ChainVote::Impossible
    } else if agreeing >= quorum {
        let mut known = hashes().filter(|genesis| is_known(*genesis));
        let first = known.next();
        agreed(first.filter(|first| known.all(|other| other == *first)))
    } else if agreeing + absent.failed >= quorum {
        ChainVote::StillPossible
    } else {
        ChainVote::Impossible
    }
}

/// Asks the upstreams which chain they are on, and those that fail again every second, until a
/// quorum agrees. `data` has the folders of chains that are known here.
///
/// # Errors
/// [`SourceError::NoAgreement`] once no quorum can agree, or [`SourceError::Stopped`].
pub(super) async fn agreed_chain(
    pins: &Pins,
    quorum: usize,
    clients: &[UpstreamClient],
    data: &DataRoot,
    link: &SourceLink,
) -> Result<ChainIdentity, SourceError> {
    let is_known = |chain_id, genesis| {
        Network::of_chain(chain_id, genesis).is_some() || data.has_chain(chain_id, genesis)
    };
    let mut answers = vec![ChainAnswer::Pending; clients.len()];
    let mut calls = JoinSet::new();
    for (id, client) in clients.iter().enumerate() {
        calls.spawn(ask(id, client.clone(), Duration::ZERO));
    }
    loop {
        match agree_on(pins, quorum, &answers, is_known) {
            ChainVote::Agreed(chain) => return Ok(chain),
            ChainVote::Impossible => return Err(no_agreement(pins, quorum, clients, &answers)),
            ChainVote::StillPossible => {}
        }
        if link.is_stopped() {
            return Err(SourceError::Stopped);
        }
        tokio::select! {
            Some(answered) = calls.join_next() => {
                let panicked = |_| SourceError::Upstream("a call to a node panicked".to_owned());
                let (id, answer) = answered.map_err(panicked)?;
                if let ChainAnswer::Failed(error) = &answer {
                    if answers[id] != answer {
                        let node = clients[id].endpoint();
                        tracing::warn!(%node, %error, "the node does not report its chain");
                    }
                    calls.spawn(ask(id, clients[id].clone(), pause_after(error)));
                }
                answers[id] = answer;
            }
            () = time::sleep(STOP_CHECK) => {}
        }
    }
}

/// Asks an upstream for its chain id and the hash of its block 0, after a pause.
async fn ask(id: usize, client: UpstreamClient, pause: Duration) -> (usize, ChainAnswer) {
    if !pause.is_zero() {
        time::sleep(pause).await;
    }
    let (chain_id, genesis) = join!(client.chain_id(), genesis_of(&client));
    let answer = match (chain_id, genesis) {
        (Ok(chain_id), Ok(genesis)) => ChainAnswer::Stated(Statement { chain_id, genesis }),
        (Err(error), _) | (Ok(_), Err(error)) => ChainAnswer::Failed(error),
    };
    (id, answer)
}

/// An upstream's hash of block 0; `None` if it has no such block to give.
async fn genesis_of(client: &UpstreamClient) -> Result<Option<B256>, CallError> {
    let mut tries = 1;
    loop {
        match client.hash_at(0).await {
            Err(error) if is_passing(&error) => return Err(error),
            // It may only be short of something.
            Err(_) if tries < GENESIS_TRIES => {
                tries += 1;
                time::sleep(START_RETRY).await;
            }
            Err(_) => return Ok(None),
            genesis => return genesis,
        }
    }
}

/// The pause after this error, before the upstream is asked again.
fn pause_after(error: &CallError) -> Duration {
    match error {
        CallError::RateLimited {
            retry_after: Some(wait),
        } => START_RETRY.max(*wait),
        _ => START_RETRY,
    }
}

/// Whether a call that failed like this may succeed a moment later.
const fn is_passing(error: &CallError) -> bool {
    match error {
        CallError::Busy
        | CallError::Timeout(_)
        | CallError::Connection(_)
        | CallError::RateLimited { .. }
        | CallError::Refused { .. } => true,
        CallError::UnsupportedMethod
        | CallError::NotFound
        | CallError::Malformed(_)
        | CallError::TooLarge { .. }
        | CallError::Rpc { .. } => false,
    }
}

/// The error that has a line for each upstream's answer.
fn no_agreement(
    pins: &Pins,
    quorum: usize,
    clients: &[UpstreamClient],
    answers: &[ChainAnswer],
) -> SourceError {
    let answers = clients.iter().zip(answers).enumerate();
    let lines = answers.map(|(id, (client, answer))| {
        let node = client.endpoint();
        format!("\n  node {id}, {node}: {answer}")
    });
    SourceError::NoAgreement {
        quorum,
        nodes: clients.len(),
        which: pins.to_string(),
        answers: lines.collect(),
    }
}

#[cfg(test)]
mod tests;
