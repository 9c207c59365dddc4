//! How many blocks the window holds, and how many bytes of them.

/// Blocks that are served: the head and 127 below it.
pub const WINDOW_BLOCKS: usize = 128;

/// The most replaced blocks that are held; the one replaced first is released first.
///
/// A source decides how many siblings a height has, so without a bound an upstream that flips
/// between forks would fill the memory. A typical block takes 1.2 MB of JSON and the nodes of its
/// state: 512 of them take about 0.6 GB, and a reorg of the whole window replaces a quarter as
/// many.
pub const REPLACED_BLOCKS_MAX: usize = 512;

/// Canonical blocks that are held however large they are, so that a reorg of up to 15 blocks is
/// followed without a reset.
pub(crate) const CANONICAL_BLOCKS_MIN: usize = 16;

/// Most bytes of all blocks, canonical and replaced; `CANONICAL_BLOCKS_MIN` canonical blocks are
/// held even if they are larger. A source decides how large its blocks are. 128 blocks that spend
/// 60 million gas on log data alone, 15 MB of JSON each, take half of it.
pub const WINDOW_BYTES_MAX: usize = 4 << 30;

/// Most bytes of replaced blocks, for the same reason: room for 440 typical ones.
pub const REPLACED_BYTES_MAX: usize = 512 << 20;

/// How many bytes of blocks the window holds ([`crate::block::Block::bytes`]), beside the counts
/// above.
///
/// Over a budget, the block that was replaced first is released first; once no replaced block is
/// left, the oldest canonical one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLimits {
    /// Most bytes of all blocks.
    pub bytes: usize,
    /// Most bytes of replaced blocks.
    pub replaced_bytes: usize,
}

impl Default for WindowLimits {
    fn default() -> Self {
        Self {
            bytes: WINDOW_BYTES_MAX,
            replaced_bytes: REPLACED_BYTES_MAX,
        }
    }
}
