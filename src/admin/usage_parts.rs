//! Reads usage in parts.

use std::time::{Duration, Instant};

use nearhead_tenants::administration::{BeginUsage, GetUsage, ReadUsagePart, Requester, UsageView};

use super::{admin_state::AdminState, api::ApiError};

/// Periods of the first part that is read: some thousand sums if there are many.
const FIRST_PERIODS: u32 = 4;

/// How long a part may take before the next one is smaller.
const PART: Duration = Duration::from_millis(40);

/// Reads usage when it is the visitor's turn, part by part, so that what others ask for is done
/// between two parts.
///
/// # Errors
/// It is refused, the store failed, or the service is stopping.
pub(super) async fn read_usage(
    state: &AdminState,
    usage: GetUsage,
    by: Requester,
) -> Result<UsageView, ApiError> {
    let author = by.author.clone();
    let read = read_parts(state.clone(), usage, by);
    state.in_turn(&author, read).await
}

async fn read_parts(
    state: AdminState,
    usage: GetUsage,
    by: Requester,
) -> Result<UsageView, ApiError> {
    let mut reading = state.ask(BeginUsage(usage), by.clone()).await?;
    let mut periods = FIRST_PERIODS;
    while !reading.is_done() {
        let began = Instant::now();
        let part = ReadUsagePart { reading, periods };
        reading = state.ask(part, by.clone()).await?;
        periods = next_periods(periods, began.elapsed());
    }
    Ok(reading.into_view())
}

/// How many periods the next part has, if one of `periods` took this long.
fn next_periods(periods: u32, took: Duration) -> u32 {
    if took > PART {
        (periods / 2).max(1)
    } else if took < PART / 4 {
        periods.saturating_mul(2)
    } else {
        periods
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_take_about_the_same_time() {
        for (periods, took, expected) in [
            (4, Duration::ZERO, 8),
            (4, PART / 2, 4),
            (4, PART * 2, 2),
            (1, PART * 2, 1),
            (u32::MAX, Duration::ZERO, u32::MAX),
        ] {
            assert_eq!(next_periods(periods, took), expected, "{periods} {took:?}");
        }
    }
}
