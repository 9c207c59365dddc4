//! Quotas: tokens that are borrowed, and units of a day that are summed up.

use nearhead_fleet::{
    bounds::{CALL_TIME_MAX, REPLY_BYTES_MAX},
    quota::{Lent, LoanRequest, UnitsReport},
    scripts,
};
use redis::Value;

use super::{
    FleetStore, StoreError, StoreFault, reply,
    script::{KnownScript, ScriptCall, ask},
};

static LEND: KnownScript = KnownScript::new(scripts::LEND);
static COUNT: KnownScript = KnownScript::new(scripts::COUNT);

/// Milliseconds for which the sum of a day is kept: that day, and one more for clocks that differ.
const SUM_KEPT_MS: u64 = 2 * 24 * 60 * 60 * 1_000;

/// A bucket in the store, and what is asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoanCall {
    /// Names the quota among all of the fleet.
    pub name: String,
    /// Tokens a second.
    pub rate: u32,
    /// Tokens that it holds when it is full.
    pub capacity: u64,
    /// What is asked for.
    pub request: LoanRequest,
}

/// A sum in the store, and what is added to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountCall {
    /// Names the quota among all of the fleet.
    pub name: String,
    /// What is reported.
    pub report: UnitsReport,
}

impl FleetStore {
    /// Asks for tokens of at most [`QUOTAS_PER_CALL_MAX`] quotas; the answers are in their order.
    ///
    /// [`QUOTAS_PER_CALL_MAX`]: nearhead_fleet::bounds::QUOTAS_PER_CALL_MAX
    ///
    /// # Errors
    /// The store did not answer as it should. The tokens may be gone even so.
    pub async fn lend(&self, calls: &[LoanCall]) -> Result<Vec<Lent>, StoreError> {
        let name = |call: &LoanCall| format!("{}:{}", self.0.keys.quotas, call.name);
        let names: Vec<String> = calls.iter().map(name).collect();
        let keys: Vec<&String> = names.iter().collect();
        let mut script = ScriptCall::new(&LEND, &keys);
        for LoanCall {
            rate,
            capacity,
            request,
            ..
        } in calls
        {
            script = script.number((*rate).into()).number(*capacity);
            script = script.number(request.debt).number(request.wanted.into());
        }
        let lent = |numbers: &[i64]| {
            let pairs = numbers.chunks_exact(2).map(|pair| Lent {
                thousandths: u64::try_from(pair[0]).unwrap_or(0),
                level: pair[1],
            });
            pairs.collect()
        };
        self.numbers(&script, calls.len() * 2, lent).await
    }

    /// Adds to the sums of at most [`QUOTAS_PER_CALL_MAX`] quotas; returns the sums in their order.
    ///
    /// [`QUOTAS_PER_CALL_MAX`]: nearhead_fleet::bounds::QUOTAS_PER_CALL_MAX
    ///
    /// # Errors
    /// The store did not answer as it should. Some may be counted even so.
    pub async fn count(&self, calls: &[CountCall]) -> Result<Vec<u64>, StoreError> {
        let name = |call: &CountCall| {
            let day = call.report.day;
            format!("{}:{}:{day}", self.0.keys.quotas, call.name)
        };
        let names: Vec<String> = calls.iter().map(name).collect();
        let keys: Vec<&String> = names.iter().collect();
        let mut script = ScriptCall::new(&COUNT, &keys).number(SUM_KEPT_MS);
        for CountCall { report, .. } in calls {
            script = script.number(report.known).signed(report.added);
        }
        let sums = |numbers: &[i64]| {
            let sums = numbers.iter().map(|sum| u64::try_from(*sum).unwrap_or(0));
            sums.collect()
        };
        self.numbers(&script, calls.len(), sums).await
    }

    /// Runs a script that answers so many numbers.
    async fn numbers<T>(
        &self,
        script: &ScriptCall<'_>,
        count: usize,
        read: impl FnOnce(&[i64]) -> T,
    ) -> Result<T, StoreError> {
        let line = &self.0.quotas;
        let (server, answer): (_, Value) =
            ask(line, script, REPLY_BYTES_MAX, CALL_TIME_MAX).await?;
        let numbers = reply::numbers(answer, count)
            .map_err(|text| StoreError::new(server, StoreFault::Nonsense(text)))?;
        Ok(read(&numbers))
    }
}
