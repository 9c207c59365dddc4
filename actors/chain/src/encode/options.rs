//! What can be chosen about a block's JSON.

/// How blocks are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Leave out `totalDifficulty` of blocks and uncles, as execution-apis has it.
    pub omit_total_difficulty: bool,
}
