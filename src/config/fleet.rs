//! The options of a fleet: several processes that serve one chain behind one address.

use std::time::Duration;

use super::{
    option_spec::{OptionRow, options},
    parse::duration,
    show::Show,
};
use crate::limits;

options! {
/// How processes behind one address serve one view of the chain.
pub struct FleetOptions {}
fn fleet_options;
"Fleet":
    /// How long a request waits for the block that its client has seen elsewhere, which it names in
    /// X-Nearhead-Min-Block or minBlock, before it is refused; 0 refuses it at once
    "min-block-wait" min_block_wait: Duration = limits::MIN_BLOCK_WAIT,
        "TIME", "a time from 0 to 10s, such as 500ms or 1s",
        |text| duration(text, Duration::ZERO, limits::MIN_BLOCK_WAIT_MAX);
}
