//! Calls about what keys used, for the thread that blocks.

use alloy_primitives::Bytes;
use nearhead_fleet::{
    bounds::{
        COMMIT_TIME_MAX, READ_TIME_MAX, RECORD_NAME_BYTES_MAX, REPLY_BYTES_MAX, USAGE_AHEAD_MAX,
        USAGE_PART_BYTES_MAX, USAGE_READ_BYTES, USAGE_READ_PARTS,
    },
    scripts,
    usage::{SealedPart, UsagePeriod},
};

use super::{
    StoreError, millis,
    records::{FleetRecords, nonsense, pairs},
    reply,
    script::KnownScript,
};

static PUT_USAGE: KnownScript = KnownScript::new(scripts::PUT_USAGE);
static READ_USAGE: KnownScript = KnownScript::new(scripts::READ_USAGE);

/// Bytes that the store needs for a part besides its own: its name, twice, and tables.
const BESIDES: u64 = 300;

/// Bytes of a reply with parts: the last one may be the longest, and each has a name.
const PAGE_BYTES_MAX: usize = USAGE_READ_BYTES
    + USAGE_PART_BYTES_MAX
    + USAGE_READ_PARTS as usize * (RECORD_NAME_BYTES_MAX + 32)
    + REPLY_BYTES_MAX;

/// Where a page ends, as the store says it: when the period of its last part begins, and the name
/// of that part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsagePlace {
    start: Bytes,
    name: Bytes,
}

/// Some parts.
#[derive(Clone, Debug, Default)]
pub struct UsagePage {
    /// Where the next page begins; `None` after the last one.
    pub next: Option<UsagePlace>,
    /// Names and bytes.
    pub parts: Vec<(String, Bytes)>,
}

/// What a write of usage has removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsagePut {
    /// Whether there is more to remove that is no longer kept.
    pub is_more: bool,
    /// Kinds of periods of which parts had no room, and how many.
    pub without_room: Vec<(UsagePeriod, u64)>,
}

/// The key of the parts of a kind of periods.
const fn parts_key(period: UsagePeriod) -> &'static str {
    match period {
        UsagePeriod::Minute => "usage-minutes",
        UsagePeriod::Hour => "usage-hours",
        UsagePeriod::Day => "usage-days",
        UsagePeriod::LastUse => "usage-last",
    }
}

impl FleetRecords {
    /// The keys of the parts of a kind of periods, and of the index of their names.
    fn usage_keys(&self, period: UsagePeriod) -> [String; 2] {
        let parts = parts_key(period);
        [self.key(parts), self.key(&format!("{parts}-index"))]
    }

    /// Writes parts, and removes some of what is no longer kept at `now`, in milliseconds since
    /// 1970, and the oldest of what has no room.
    ///
    /// # Errors
    /// The store did not answer as it should. It may have been written even so.
    pub fn put_usage(&self, parts: &[SealedPart], now: u64) -> Result<UsagePut, StoreError> {
        let mut keys = vec![self.key("usage-bytes")];
        keys.extend(
            UsagePeriod::ALL
                .iter()
                .flat_map(|one| self.usage_keys(*one)),
        );
        let number = |number: u64| number.to_string().into_bytes();
        let ahead = millis(USAGE_AHEAD_MAX);
        let mut args = [now, USAGE_READ_PARTS, BESIDES, ahead].map(number).to_vec();
        for period in UsagePeriod::ALL {
            args.extend([
                number(period.millis()),
                number(period.kept_millis()),
                number(period.bytes_max()),
            ]);
        }
        for part in parts {
            args.extend([
                number(part.period as u64 + 1),
                number(part.start),
                part.name.clone().into_bytes(),
                part.bytes.to_vec(),
            ]);
        }
        let bounds = (REPLY_BYTES_MAX, COMMIT_TIME_MAX);
        let (server, value) = self.call(&PUT_USAGE, keys, args, bounds)?;
        let put = reply::numbers(value, 1 + UsagePeriod::ALL.len());
        let put = put.map_err(|text| nonsense(server, text))?;
        let removed = put.iter().skip(1).map(|removed| removed.unsigned_abs());
        let without_room = UsagePeriod::ALL.into_iter().zip(removed);
        Ok(UsagePut {
            is_more: put.first() == Some(&1),
            without_room: without_room.filter(|(_, removed)| *removed > 0).collect(),
        })
    }

    /// Some parts of the periods that begin in a range: those after the page before, if `next` is
    /// its end. Nothing is checked: others may have written them.
    ///
    /// # Errors
    /// The store did not answer as it should.
    pub fn read_usage(
        &self,
        period: UsagePeriod,
        (from, to): (u64, u64),
        next: Option<&UsagePlace>,
    ) -> Result<UsagePage, StoreError> {
        let keys = self.usage_keys(period).into();
        let number = |number: u64| number.to_string().into_bytes();
        let args = vec![
            next.map_or_else(|| number(from), |next| next.start.to_vec()),
            number(to),
            next.map_or_else(Vec::new, |next| next.name.to_vec()),
            number(USAGE_READ_PARTS),
            number(USAGE_READ_BYTES as u64),
            number(USAGE_PART_BYTES_MAX as u64),
        ];
        let bounds = (PAGE_BYTES_MAX, READ_TIME_MAX);
        let (server, value) = self.call(&READ_USAGE, keys, args, bounds)?;
        let mut found =
            reply::strings(value, usize::MAX).map_err(|text| nonsense(server.clone(), text))?;
        if found.len() < 3 {
            return Err(nonsense(server, "a page that is too short".into()));
        }
        let parts = pairs(found.split_off(3));
        let [is_more, start, name] = [0, 1, 2].map(|at| found[at].clone());
        Ok(UsagePage {
            next: (is_more[..] == *b"1").then_some(UsagePlace { start, name }),
            parts,
        })
    }
}
