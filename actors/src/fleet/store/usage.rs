//! Calls about what keys used, for the thread that blocks.

use alloy_primitives::Bytes;
use nearhead_fleet::{
    bounds::{
        COMMIT_TIME_MAX, READ_TIME_MAX, RECORD_NAME_BYTES_MAX, REPLY_BYTES_MAX, USAGE_BYTES_MAX,
        USAGE_PART_BYTES_MAX, USAGE_READ_BYTES, USAGE_READ_PARTS,
    },
    scripts,
    usage::{SealedPart, UsagePeriod},
};

use super::{
    StoreError,
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

/// Some parts.
#[derive(Clone, Debug, Default)]
pub struct UsagePage {
    /// Where the next page begins: a time, and how many parts of it are left out. `None` after the
    /// last one.
    pub next: Option<(u64, u64)>,
    /// Names and bytes.
    pub parts: Vec<(String, Bytes)>,
}

/// The index of a kind of periods.
const fn index(period: UsagePeriod) -> &'static str {
    match period {
        UsagePeriod::Minute => "usage-minutes",
        UsagePeriod::Hour => "usage-hours",
        UsagePeriod::Day => "usage-days",
        UsagePeriod::LastUse => "usage-last",
    }
}

impl FleetRecords {
    /// Writes parts, and removes some of what is no longer kept at `now`, in milliseconds since
    /// 1970. Says whether there is more to remove.
    ///
    /// # Errors
    /// The store did not answer as it should. It may have been written even so.
    pub fn put_usage(&self, parts: &[SealedPart], now: u64) -> Result<bool, StoreError> {
        let mut keys = vec![self.key("usage")];
        keys.extend(UsagePeriod::ALL.map(|period| self.key(index(period))));
        let number = |number: u64| number.to_string().into_bytes();
        let mut args = vec![
            number(USAGE_BYTES_MAX),
            number(now),
            number(USAGE_READ_PARTS),
            number(BESIDES),
        ];
        for period in UsagePeriod::ALL {
            args.extend([number(period.millis()), number(period.kept_millis())]);
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
        let put = reply::word_and_number(value).and_then(|(word, number)| {
            let put = scripts::parse_count("put", &word, number);
            put.map_err(|error| error.to_string().into())
        });
        put.map(|is_more| is_more == 1)
            .map_err(|text| nonsense(server, text))
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
        next: Option<(u64, u64)>,
    ) -> Result<UsagePage, StoreError> {
        let (from, skip) = next.unwrap_or((from, 0));
        let keys = vec![self.key("usage"), self.key(index(period))];
        let numbers = [
            from,
            to,
            skip,
            USAGE_READ_PARTS,
            USAGE_READ_BYTES as u64,
            USAGE_PART_BYTES_MAX as u64,
        ];
        let args = numbers.map(|number| number.to_string().into_bytes());
        let bounds = (PAGE_BYTES_MAX, READ_TIME_MAX);
        let (server, value) = self.call(&READ_USAGE, keys, args.into(), bounds)?;
        let mut found =
            reply::strings(value, usize::MAX).map_err(|text| nonsense(server.clone(), text))?;
        if found.len() < 3 {
            return Err(nonsense(server, "a page that is too short".into()));
        }
        let parts = pairs(found.split_off(3));
        let number = |bytes: &Bytes| std::str::from_utf8(bytes).ok()?.parse::<u64>().ok();
        let [Some(is_more), Some(from), Some(skip)] = [0, 1, 2].map(|at| number(&found[at])) else {
            return Err(nonsense(server, "a page without numbers".into()));
        };
        Ok(UsagePage {
            next: (is_more == 1).then_some((from, skip)),
            parts,
        })
    }
}
