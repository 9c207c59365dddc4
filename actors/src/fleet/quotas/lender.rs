//! The thread that asks the store for what quotas need.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use nearhead_fleet::bounds::QUOTAS_PER_CALL_MAX;
use tokio::{runtime::Builder, sync::oneshot, time};

use super::{bucket_account::Loan, loan_desk::LoanDesk, units_account::UnitsCount};
use crate::fleet::{
    FleetStatus,
    store::{CountCall, FleetStore, LoanCall, StoreError},
};

/// Time between two rounds of calls while quotas are used: a loan lasts ten times as long.
const ROUND: Duration = Duration::from_millis(10);

/// Time between two reports of units of a day.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// Longest wait for the last reports at the end.
const FINISH_MAX: Duration = Duration::from_millis(500);

/// A thread that asks.
pub(in crate::fleet) struct RunningLender {
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl RunningLender {
    /// Makes the last reports, and ends.
    pub(in crate::fleet) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the thread for quotas has panicked");
        }
    }
}

/// Asks the store for what is listed at a desk.
pub(in crate::fleet) struct Lender {
    store: FleetStore,
    desk: LoanDesk,
    status: FleetStatus,
}

impl Lender {
    /// Starts a thread that asks: that of the source verifies blocks, and has a lower priority than
    /// those that answer requests.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(in crate::fleet) fn start(
        store: FleetStore,
        desk: LoanDesk,
        status: FleetStatus,
    ) -> io::Result<RunningLender> {
        let lender = Self {
            store,
            desk,
            status,
        };
        let (stop, stopped) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            runtime.block_on(async {
                lender.run(stopped).await;
                lender.finish().await;
            });
        };
        let thread = thread::Builder::new()
            .name("quotas".to_owned())
            .spawn(run)?;
        Ok(RunningLender { stop, thread })
    }

    /// Asks until it is stopped. A call that is on its way is waited for: nobody would know whether
    /// the store has counted it.
    async fn run(&self, mut stopped: oneshot::Receiver<()>) {
        let mut count_at = Instant::now();
        loop {
            self.borrow().await;
            if Instant::now() >= count_at {
                self.count().await;
                count_at = Instant::now() + COUNT_EVERY;
            }
            let next_round = async {
                time::sleep(ROUND).await;
                if self.desk.is_empty() {
                    self.desk.listed().await;
                }
            };
            tokio::select! {
                _ = &mut stopped => return,
                () = next_round => {}
            }
        }
    }

    /// Reports what is not reported yet: after the last request.
    async fn finish(&self) {
        let report = async {
            self.borrow().await;
            self.count().await;
        };
        if time::timeout(FINISH_MAX, report).await.is_err() {
            tracing::debug!("the last units are not counted: the fleet's store does not answer");
        }
    }

    async fn borrow(&self) {
        let mut loans = self.desk.due_loans(Instant::now()).into_iter();
        loop {
            let some: Vec<Loan> = loans.by_ref().take(QUOTAS_PER_CALL_MAX).collect();
            if some.is_empty() {
                return;
            }
            let calls: Vec<LoanCall> = some.iter().map(|loan| loan.call.clone()).collect();
            let answer = self.store.lend(&calls).await;
            let now = Instant::now();
            match answer {
                Ok(lent) => {
                    for (loan, lent) in some.into_iter().zip(lent) {
                        self.desk.lent(loan, lent, now);
                    }
                }
                Err(error) => {
                    self.failed(&error);
                    // The others would wait as long, and learn the same.
                    let all = some.into_iter().chain(loans);
                    return all.for_each(|loan| self.desk.not_lent(loan, now));
                }
            }
        }
    }

    async fn count(&self) {
        let mut counts = self.desk.due_counts().into_iter();
        loop {
            let some: Vec<UnitsCount> = counts.by_ref().take(QUOTAS_PER_CALL_MAX).collect();
            if some.is_empty() {
                return;
            }
            let calls: Vec<CountCall> = some.iter().map(|count| count.call.clone()).collect();
            match self.store.count(&calls).await {
                Ok(sums) => {
                    for (count, sum) in some.into_iter().zip(sums) {
                        self.desk.counted(count, sum);
                    }
                }
                Err(error) => {
                    self.failed(&error);
                    let all = some.into_iter().chain(counts);
                    return all.for_each(|count| self.desk.not_counted(count));
                }
            }
        }
    }

    fn failed(&self, error: &StoreError) {
        tracing::debug!(%error, "quotas go on without the store");
        self.status.change(|facts| facts.store_failures += 1);
    }
}
