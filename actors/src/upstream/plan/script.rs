//! What arbitrary upstreams can do to the plan and to a window.

use std::{collections::HashMap, sync::Arc};

use alloy_primitives::B256;
use nearhead_chain::{
    block::Block,
    test_block::TestBlock,
    window::{Snapshot, WINDOW_BLOCKS, Window, WindowError},
};

use super::{
    backfill::{Backfill, BlockBelow},
    descent::{Ask, FetchedBlock},
    sync_path::{PathOutcome, SyncPath},
};
use crate::upstream::chain::Chain;

/// Calls in progress at the same time.
const WIDTH: usize = 8;

/// Blocks and steps of one script: enough to fill a window twice.
const BLOCKS_MAX: usize = 300;
const STEPS_MAX: usize = 64;

/// Runs a script: what upstreams state, and when. Blocks have any numbers and parents; heads are
/// claimed with any numbers. The plan and the window are used as the follower uses them.
///
/// # Panics
/// The plan asks for too much, what it found does not fit into the window, or an invariant of the
/// window does not hold.
pub fn run_script(script: &[u8]) {
    let mut run = ScriptRun {
        script: script.iter(),
        blocks: Vec::new(),
        by_hash: HashMap::new(),
        window: None,
    };
    for _ in 0..STEPS_MAX {
        if run.step().is_none() {
            break;
        }
        let checked = run.window.as_ref().map(Window::check_invariants);
        assert_eq!(checked.unwrap_or(Ok(())), Ok(()));
    }
}

struct ScriptRun<'a> {
    script: std::slice::Iter<'a, u8>,
    /// All blocks that upstreams have.
    blocks: Vec<Arc<Block>>,
    by_hash: HashMap<B256, Arc<Block>>,
    window: Option<Window>,
}

impl ScriptRun<'_> {
    /// Runs the next step; `None` at the end of the script.
    fn step(&mut self) -> Option<()> {
        match self.byte()? % 6 {
            0 => {
                let (number, parent) = (self.number()?, self.byte()?);
                self.make(number, B256::with_last_byte(parent));
            }
            1 => {
                let mut parent = self.pick()?;
                for _ in 0..=self.byte()? % 160 {
                    let Some(number) = parent.number().checked_add(1) else {
                        break;
                    };
                    let Some(child) = self.make(number, parent.hash) else {
                        break;
                    };
                    parent = child;
                }
            }
            // A block whose number does not follow from its parent's.
            2 => {
                let (parent, number) = (self.pick()?, self.number()?);
                self.make(number, parent.hash);
            }
            3 => {
                let head = self.pick()?;
                let claimed = match self.byte()? % 4 {
                    0 => self.number()?,
                    _ => head.number(),
                };
                self.sync(&head, claimed);
            }
            4 => self.fill(),
            _ => {
                let (number, hash) = (self.number()?, self.pick()?.hash);
                if let Some(window) = &mut self.window {
                    // It refuses what is not canonical.
                    let _ = window.set_safe_at(number, hash);
                    let _ = window.set_finalized_at(number, hash);
                }
            }
        }
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        self.script.next().copied()
    }

    /// Any number, but often one at an end of the range, or near the head.
    fn number(&mut self) -> Option<u64> {
        let (kind, low) = (self.byte()?, u64::from(self.byte()?));
        Some(match kind % 4 {
            0 => low,
            1 => u64::MAX - low,
            2 => {
                let (head, _) = self
                    .held()
                    .map_or_else(Default::default, |held| Chain::head(&held));
                head.wrapping_add(low).wrapping_sub(128)
            }
            _ => {
                let mut number = low;
                for _ in 0..7 {
                    number = number << 8 | u64::from(self.byte()?);
                }
                number
            }
        })
    }

    /// One of the blocks.
    fn pick(&mut self) -> Option<Arc<Block>> {
        let at = usize::from(self.byte()?);
        // The newest blocks first, so that a byte reaches the ends of long chains.
        let place = self.blocks.len().checked_sub(1 + at);
        self.blocks
            .get(place.unwrap_or_default())
            .or(self.blocks.first())
            .cloned()
    }

    /// Makes a block, unless there are enough.
    fn make(&mut self, number: u64, parent: B256) -> Option<Arc<Block>> {
        if self.blocks.len() == BLOCKS_MAX {
            return None;
        }
        let recipe = TestBlock {
            salt: self.blocks.len() as u64,
            ..TestBlock::default()
        };
        let block = recipe.orphan(number, Arc::from([parent]));
        self.by_hash.insert(block.hash, Arc::clone(&block));
        self.blocks.push(Arc::clone(&block));
        Some(block)
    }

    fn held(&self) -> Option<Arc<Snapshot>> {
        self.window.as_ref().map(Window::snapshot)
    }

    /// The answer to a call, as far as the verifier accepts it.
    fn answer(&self, ask: Ask) -> Option<FetchedBlock<Arc<Block>>> {
        let block = match ask {
            Ask::Hash { number, hash } => {
                let block = self.by_hash.get(&hash);
                block.filter(|block| block.number() == number)
            }
            Ask::Number(number) => {
                let mut newest = self.blocks.iter().rev();
                newest.find(|block| block.number() == number)
            }
        };
        block.map(|block| FetchedBlock {
            number: block.number(),
            hash: block.hash,
            parent_hash: block.header.parent_hash,
            block: Arc::clone(block),
        })
    }

    /// Goes to a head that is claimed to have this number.
    fn sync(&mut self, head: &Arc<Block>, claimed: u64) {
        let Some(held) = self.held() else {
            return self.reset(head, claimed);
        };
        if held.has(claimed, head.hash) {
            return;
        }
        let mut path = SyncPath::to(claimed, head.hash, &held);
        loop {
            match path.outcome(&held) {
                None => {}
                Some(PathOutcome::Reset) => return self.reset(head, claimed),
                Some(PathOutcome::Advance { reverted, applied }) => {
                    let window = self.window.as_mut();
                    let advanced =
                        window.map(|window| window.advance(reverted, applied, None, None));
                    // Only agreement among upstreams knows what a path may revert.
                    let is_refused = matches!(advanced, Some(Err(WindowError::Finalized { .. })));
                    assert!(
                        is_refused || matches!(advanced, Some(Ok(_))),
                        "{advanced:?}"
                    );
                    return;
                }
            }
            let asks = path.ask(WIDTH, &held);
            assert!((1..=WIDTH).contains(&asks.len()), "{asks:?}");
            for ask in asks {
                match (self.answer(ask), ask) {
                    (Some(fetched), _) => _ = path.got(ask, fetched),
                    (None, Ask::Number(_)) => _ = path.failed(ask),
                    // The sync ends.
                    (None, Ask::Hash { .. }) => return,
                }
            }
        }
    }

    fn reset(&mut self, head: &Arc<Block>, claimed: u64) {
        if head.number() != claimed {
            return;
        }
        match &mut self.window {
            Some(window) => _ = window.reset(Arc::clone(head)),
            window => *window = Some(Window::new(1, Arc::clone(head))),
        }
    }

    /// Fills the window downwards.
    fn fill(&mut self) {
        let Some(held) = self.held() else {
            return;
        };
        let below = held.canonical()[0].header.parent_hash;
        let mut backfill = Backfill::below(held.oldest(), below, held.head().0, true);
        while backfill.remaining() > 0 {
            let remaining = backfill.remaining();
            assert!(remaining < WINDOW_BLOCKS as u64, "{remaining}");
            let asks = backfill.ask(WIDTH);
            assert!((1..=WIDTH).contains(&asks.len()), "{asks:?}");
            for ask in asks {
                match (self.answer(ask), ask) {
                    (Some(fetched), _) => backfill.got(ask, fetched),
                    (None, Ask::Number(_)) => backfill.failed(ask),
                    // No upstream has the block.
                    (None, Ask::Hash { .. }) => return,
                }
            }
            while let Some(BlockBelow { block, .. }) = backfill.take() {
                let window = self.window.as_mut();
                let extended = window.map(|window| window.extend_below(block));
                // The same holds for a window that began on another chain.
                if matches!(extended, Some(Err(WindowError::Finalized { .. }))) {
                    return;
                }
                assert_eq!(extended, Some(Ok(())));
            }
        }
    }
}
