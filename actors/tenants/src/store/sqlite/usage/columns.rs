//! What the columns of the tables hold.

use rusqlite::Row;

use crate::{
    UnixMillis,
    id::KeyId,
    usage::{KeyOwner, Resolution, Used},
};

/// The columns of the sums, in the order of [`Used::numbers`].
pub(super) const COLUMNS: [&str; Used::NUMBERS] = [
    "requests",
    "units",
    "bytes_in",
    "bytes_out",
    "sessions",
    "notifications",
    "latency_0",
    "latency_1",
    "latency_2",
    "latency_3",
    "latency_4",
    "latency_5",
    "latency_6",
    "latency_7",
];

pub(super) const fn table(resolution: Resolution) -> &'static str {
    match resolution {
        Resolution::Minute => "minute",
        Resolution::Hour => "hour",
        Resolution::Day => "day",
    }
}

/// A time as a number of periods.
pub(super) fn periods(resolution: Resolution, at: UnixMillis) -> i64 {
    let period = u64::try_from(resolution.period().as_millis()).unwrap_or(u64::MAX);
    stored(at.0 / period)
}

pub(super) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn key(row: &Row<'_>, column: usize) -> rusqlite::Result<KeyId> {
    Ok(row.get::<_, [u8; 8]>(column)?.into())
}

/// The owner of a key, whose tenant and chain are in this column and in the next one.
pub(super) fn owner_in(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<KeyOwner>> {
    let tenant: Option<[u8; 8]> = row.get(column)?;
    let chain: Option<[u8; 8]> = row.get(column + 1)?;
    Ok(tenant.map(|tenant| KeyOwner {
        tenant: tenant.into(),
        chain: chain.map(Into::into),
    }))
}

pub(super) fn millis(row: &Row<'_>, column: usize) -> rusqlite::Result<UnixMillis> {
    Ok(UnixMillis(row.get::<_, i64>(column)?.max(0).unsigned_abs()))
}
