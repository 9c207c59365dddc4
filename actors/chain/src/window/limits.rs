//! How many blocks the window holds.

/// Blocks that are served: the head and 127 below it.
pub const WINDOW_BLOCKS: usize = 128;

/// The most replaced blocks that are held; the one replaced first is released first.
///
/// A source decides how many siblings a height has, so without a bound an upstream that flips
/// between forks would fill the memory. A typical block takes 1.2 MB of JSON and the nodes of its
/// state: 512 of them take about 0.6 GB, and a reorg of the whole window replaces a quarter as
/// many.
pub const REPLACED_BLOCKS_MAX: usize = 512;
