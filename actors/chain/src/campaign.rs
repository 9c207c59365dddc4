//! How long simulations run.

/// Rounds of a simulation: `short`, or `full` if the environment has `NEARHEAD_CAMPAIGN=full`.
///
/// The short run is for every change, the full one for nightly tests.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "an option of the tests, not of the service"
)]
pub fn rounds(short: u64, full: u64) -> u64 {
    match std::env::var("NEARHEAD_CAMPAIGN") {
        Ok(campaign) if campaign == "full" => full,
        Ok(campaign) if !campaign.is_empty() => {
            panic!("NEARHEAD_CAMPAIGN is {campaign:?}: want full, or nothing")
        }
        _ => short,
    }
}
