//! What upstreams state about blocks and heads.

use nearhead_actors::upstream;

/// The plan of a follower and its window stand any blocks and heads.
pub fn follow(input: &[u8]) {
    upstream::run_script(input);
}
