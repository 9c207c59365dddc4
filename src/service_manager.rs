//! What is reported to the service manager that started the program, such as systemd
//! (`sd_notify(3)`). Without one, nothing happens.

use std::{future::pending, time::Duration};

use nearhead::{Service, config::Config};
use sd_notify::NotifyState;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Time that a shutdown may take besides its delay and its grace period.
const SHUTDOWN_REST: Duration = Duration::from_secs(10);

/// Reports a state.
pub(crate) fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be notified");
    }
}

/// The service stops, and how long that may take.
pub(crate) fn stopping(config: &Config) -> [NotifyState<'static>; 2] {
    let longest = config.shutdown_delay + config.shutdown_grace + SHUTDOWN_REST;
    let longest = u32::try_from(longest.as_micros()).unwrap_or(u32::MAX);
    [
        NotifyState::Stopping,
        NotifyState::ExtendTimeoutUsec(longest),
    ]
}

/// Reports that the program works, four times in the time in which the service manager wants to
/// hear of it, as long as no worker hangs: a program that does not report is restarted. Never
/// returns.
pub(crate) async fn report_liveness(service: &Service) {
    let Some(period) = sd_notify::watchdog_enabled() else {
        return pending().await;
    };
    let (mut looks, mut reports) = (every(Duration::from_secs(1)), every(period / 4));
    let mut liveness = service.liveness();
    loop {
        tokio::select! {
            _ = looks.tick() => liveness.look(),
            _ = reports.tick() => match liveness.all_live() {
                true => notify(&[NotifyState::Watchdog]),
                false => tracing::error!("a worker hangs"),
            }
        }
    }
}

fn every(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
