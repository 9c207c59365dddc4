//! Options of the encoder.

/// Options of the JSON of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Leave out `totalDifficulty` of blocks and uncles, as execution-apis does.
    pub omit_total_difficulty: bool,
}
