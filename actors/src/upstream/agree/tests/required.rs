//! What a chain has to contain, and a minority that does not say so.

use super::*;

/// What a liar says of the blocks that the chain has to contain. Otherwise it says what the honest
/// node does that is ahead.
#[derive(Clone, Copy, Debug)]
enum Lie {
    Nothing,
    NoBlock,
    OtherBlock,
}

#[derive(Debug)]
struct Case {
    /// Blocks by which each honest node is behind the first one.
    lags: &'static [u64],
    liars: usize,
    /// Whether the liars are the first nodes.
    is_first: bool,
    lie: Lie,
    /// How far the heads are above the served one, or above the finalized block if there is none.
    above: u64,
    is_started: bool,
    trusted: u64,
}

impl Case {
    /// The branch that a node says it has at a number.
    fn branch(&self, is_liar: bool, number: u64) -> Option<char> {
        let is_required = number == 90 || (50..50 + self.trusted).contains(&number);
        match self.lie {
            Lie::NoBlock if is_liar && is_required => None,
            Lie::OtherBlock if is_liar && is_required => Some('z'),
            _ => Some('a'),
        }
    }

    /// How long it takes to adopt a block.
    fn run(&self) -> Option<Duration> {
        let count = self.lags.len() + self.liars;
        let is_liar = |node: usize| match self.is_first {
            true => node < self.liars,
            false => node >= self.lags.len(),
        };
        let lag = |node: usize| match is_liar(node) {
            true => 0,
            false => {
                self.lags[if self.is_first {
                    node - self.liars
                } else {
                    node
                }]
            }
        };
        let trusted = (50..50 + self.trusted).map(|number| block(&format!("a{number}")));
        let policy = Policy::new(Policy::majority(count), count);
        let mut quorum = Quorum::new(policy, count, None, trusted.collect());
        let finalized = SettledBlocks {
            safe: None,
            finalized: Some(block("a90")),
        };
        quorum.set_settled(finalized);
        let held = self.is_started.then_some(ServedBranch {
            branch: 'a',
            oldest: 91,
            head: 200,
        });
        let start = if self.is_started { 200 } else { 90 } + self.above;
        let nodes = vec![
            NodeAccess {
                may_fetch: true,
                delays: 0,
                strikes: 0,
            };
            count
        ];
        let links = Links::default();
        // Each answer takes a step.
        let mut asked: Vec<Option<u64>> = vec![None; count];
        for step in 0..1_200 {
            let now = NOW + Duration::from_millis(step * 10);
            for (node, asked) in asked.iter_mut().enumerate() {
                if let Some(number) = asked.take() {
                    let branch = self.branch(is_liar(node), number);
                    let hash = branch.map(|branch| block(&format!("{branch}{number}")).1);
                    quorum.heard(now, node, Said::HashAt { number, hash });
                }
                if step % 20 == 0 {
                    let head = start + step / 400 - lag(node);
                    quorum.heard(now, node, Said::Head(claim(&format!("a{head}"))));
                }
            }
            let decision = quorum.decide(&Situation {
                now,
                block_time: BLOCK_TIME,
                held: held.as_ref(),
                head_since: Duration::ZERO,
                links: &links,
                syncing: None,
                nodes: &nodes,
            });
            if decision.adopt.is_some() {
                return Some(now - NOW);
            }
            for ask in &decision.asks {
                asked[ask.node] = Some(ask.number);
            }
        }
        None
    }
}

/// An honest quorum is adopted within a quarter of a block time, whatever the others say or do not
/// say of the blocks that the chain has to contain, and although honest nodes are not at the same
/// block.
#[test]
fn a_minority_cannot_hide_that_the_chain_contains_what_it_has_to() {
    let lags: [&[u64]; 6] = [
        &[0, 0],
        &[0, 1],
        &[0, 2],
        &[0, 40],
        &[0, 1, 2],
        &[0, 30, 60],
    ];
    for (index, lags) in lags.iter().enumerate() {
        for (lie, is_first) in [Lie::Nothing, Lie::NoBlock, Lie::OtherBlock]
            .into_iter()
            .flat_map(|lie| [(lie, true), (lie, false)])
        {
            for (is_started, above) in [(false, 900), (true, 300)] {
                let case = Case {
                    lags,
                    liars: lags.len() - 1,
                    is_first,
                    lie,
                    above,
                    is_started,
                    trusted: index as u64 % 3,
                };
                let took = case.run();
                let is_soon = took.is_some_and(|took| took <= BLOCK_TIME / 4);
                assert!(is_soon, "{case:?}: {took:?}");
            }
        }
    }
}
