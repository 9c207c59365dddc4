//! Usage as CSV (RFC 4180).

use std::fmt::Write as _;

use nearhead_tenants::administration::{UsageRowView, UsageView};

/// The names of the columns.
const HEAD: &str = "at,key,method,outcome,requests,errors,units,bytes_in,bytes_out,sessions,\
                    notifications,p50_millis,p95_millis,p99_millis\r\n";

/// A line for each row. What rows are not grouped by is empty. No field needs quotes: they are
/// numbers, ids, and names that this program gives.
pub(super) fn usage_csv(usage: &UsageView) -> String {
    let mut text = HEAD.to_owned();
    for row in &usage.rows {
        let UsageRowView {
            at,
            key,
            method,
            outcome,
            requests,
            errors,
            units,
            bytes_in,
            bytes_out,
            sessions,
            notifications,
            latency,
        } = row;
        let at = at.map(|at| at.0.to_string()).unwrap_or_default();
        let key = key.map(|key| key.to_string()).unwrap_or_default();
        let [method, outcome] = [method, outcome].map(|name| name.as_deref().unwrap_or_default());
        let bounds = [latency.p50, latency.p95, latency.p99];
        let [p50, p95, p99] =
            bounds.map(|bound| bound.map(|millis| millis.to_string()).unwrap_or_default());
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{at},{key},{method},{outcome},{requests},{errors},{units},{bytes_in},{bytes_out},\
             {sessions},{notifications},{p50},{p95},{p99}\r\n"
        );
    }
    text
}
