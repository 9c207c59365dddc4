use super::{
    AdminError, Administration, GetUsage, Operation, Requester, StoreCall, UsageView,
    usage::{ROWS_READ_MAX, view_of},
};
use crate::{
    UnixMillis,
    usage::{UsageGroups, UsageQuery},
};

/// Begins to read usage part by part, so that others have their turn between two parts. The parts
/// are read by [`ReadUsagePart`].
#[derive(Clone, Debug)]
pub struct BeginUsage(pub GetUsage);

/// Reads the next part.
#[derive(Clone, Debug)]
pub struct ReadUsagePart {
    /// What was read so far.
    pub reading: UsageReading,
    /// How many periods are read.
    pub periods: u32,
}

/// Usage of which some was read.
#[derive(Clone, Debug)]
pub struct UsageReading {
    query: UsageQuery,
    /// Whether the answer is grouped by outcome.
    by_outcome: bool,
    /// Where the next part begins; `None` if all was read.
    next: Option<UnixMillis>,
    /// Nothing older is kept, so that it is no work to look for it.
    oldest: UnixMillis,
    /// The sums so far, the first ones if there are too many.
    groups: UsageGroups,
}

impl Operation for BeginUsage {
    type Answer = UsageReading;

    const READS_USAGE: bool = true;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<UsageReading, AdminError> {
        let (query, by_outcome) = self.0.query(administration, by)?;
        Ok(UsageReading {
            next: Some(query.from),
            oldest: query.resolution.oldest(by.now),
            query,
            by_outcome,
            groups: UsageGroups::new(ROWS_READ_MAX),
        })
    }
}

impl Operation for ReadUsagePart {
    type Answer = UsageReading;

    fn run(
        self,
        administration: &mut Administration,
        _: &Requester,
    ) -> Result<UsageReading, AdminError> {
        let Self {
            mut reading,
            periods,
        } = self;
        reading.read(administration, periods)?;
        Ok(reading)
    }
}

impl UsageReading {
    /// Whether all was read.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.next.is_none()
    }

    /// The answer. What was not read is not in it.
    #[must_use]
    pub fn into_view(self) -> UsageView {
        view_of(&self.query, self.groups.into_answer(), self.by_outcome)
    }

    fn read(
        &mut self,
        administration: &mut Administration,
        periods: u32,
    ) -> Result<(), AdminError> {
        let Some(from) = self.next else {
            return Ok(());
        };
        let resolution = self.query.resolution;
        let part = resolution.period().saturating_mul(periods.max(1));
        let end = resolution.start(from.max(self.oldest)).after(part);
        let to = end.min(self.query.to);
        let query = UsageQuery {
            from,
            to,
            ..self.query.clone()
        };
        let answer = administration.store(StoreCall::Read, |store| store.usage(&query))?;
        self.groups.extend(answer);
        // Later periods are behind all rows that there is room for.
        let is_full = self.groups.is_truncated() && self.query.by.time;
        self.next = (to < self.query.to && !is_full).then_some(to);
        Ok(())
    }
}
