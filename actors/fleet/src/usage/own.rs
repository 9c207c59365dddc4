use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use super::{SealedPart, UsageCell, UsagePart, UsagePeriod};
use crate::{
    bounds::{
        USAGE_CELLS_MAX, USAGE_COARSE_CELLS_SMALL, USAGE_COARSE_PARTS_KEPT, USAGE_PART_CELLS,
    },
    fleet_key::FleetKey,
};

/// What one process has counted, as far as it goes on or is not written yet.
#[derive(Debug)]
pub struct OwnUsage {
    process: String,
    buckets: BTreeMap<(UsagePeriod, u64), Bucket>,
    /// Cells of all buckets.
    cells: usize,
    /// The number of the next part.
    next: u64,
    /// The numbers of the parts that are held.
    held: BTreeSet<u64>,
}

/// A key, a method and an outcome.
type CellId = ([u8; 8], Arc<str>, Arc<str>);

/// The sums of one period.
#[derive(Debug, Default)]
struct Bucket {
    /// Where sums are: the part, and the place in it.
    places: HashMap<CellId, (usize, usize)>,
    parts: Vec<OwnPart>,
}

#[derive(Debug)]
struct OwnPart {
    number: u64,
    cells: Vec<UsageCell>,
    is_written: bool,
}

impl OwnUsage {
    /// Nothing yet, of a process with this name: another one at each start.
    #[must_use]
    pub const fn new(process: String) -> Self {
        Self {
            process,
            buckets: BTreeMap::new(),
            cells: 0,
            next: 0,
            held: BTreeSet::new(),
        }
    }

    /// Whether there is room for so many more cells.
    #[must_use]
    pub const fn has_room(&self, cells: usize) -> bool {
        let sums = cells.saturating_mul(UsagePeriod::ALL.len());
        self.cells.saturating_add(sums) <= USAGE_CELLS_MAX
    }

    /// Adds what was used in the minute that `minute` is in, to all periods.
    pub fn add(&mut self, minute: u64, cell: &UsageCell) {
        for period in UsagePeriod::ALL {
            match period {
                UsagePeriod::LastUse => self.add_to(period, minute, cell.last_use()),
                _ => self.add_to(period, minute, cell.clone()),
            }
        }
    }

    fn add_to(&mut self, period: UsagePeriod, at: u64, cell: UsageCell) {
        let bucket = self.buckets.entry((period, period.start(at)));
        let Bucket { places, parts } = bucket.or_default();
        let id = (
            cell.key,
            Arc::clone(&cell.method),
            Arc::clone(&cell.outcome),
        );
        let known = places.get(&id).copied();
        let known = known.and_then(|(part, at)| Some((parts.get_mut(part)?, at)));
        if let Some((part, at)) = known
            && let Some(sum) = part.cells.get_mut(at)
        {
            sum.add(&cell);
            part.is_written = false;
            return;
        }
        self.cells += 1;
        match parts.last_mut() {
            Some(part) if part.cells.len() < USAGE_PART_CELLS => {
                part.cells.push(cell);
                part.is_written = false;
            }
            _ => {
                self.held.insert(self.next);
                parts.push(OwnPart {
                    number: self.next,
                    cells: vec![cell],
                    is_written: false,
                });
                self.next += 1;
            }
        }
        let at = parts.last().map_or(0, |part| part.cells.len() - 1);
        places.insert(id, (parts.len() - 1, at));
    }

    /// What is not written yet: the parts of minutes, and all others if they are few or
    /// `with_coarse` says so. Those of hours and days are long, and change all the time.
    #[must_use]
    pub fn unwritten(&self, with_coarse: bool, key: &FleetKey) -> Vec<SealedPart> {
        let coarse: usize = self
            .waiting()
            .filter(|(period, ..)| *period != UsagePeriod::Minute)
            .map(|(.., part)| part.cells.len())
            .sum();
        let with_coarse = with_coarse || coarse <= USAGE_COARSE_CELLS_SMALL;
        let waiting = self
            .waiting()
            .filter(|(period, ..)| with_coarse || *period == UsagePeriod::Minute);
        let sealed = waiting.map(|(period, start, part)| {
            let part = UsagePart {
                period,
                start,
                process: self.process.clone(),
                number: part.number,
                cells: part.cells.clone(),
            };
            part.seal(key)
        });
        sealed.collect()
    }

    fn waiting(&self) -> impl Iterator<Item = (UsagePeriod, u64, &OwnPart)> {
        self.buckets.iter().flat_map(|((period, start), bucket)| {
            let waiting = bucket.parts.iter().filter(|part| !part.is_written);
            waiting.map(move |part| (*period, *start, part))
        })
    }

    /// Whether everything is written.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.waiting().next().is_none()
    }

    /// These parts are written as they are now.
    pub fn written(&mut self, parts: &[SealedPart]) {
        for sealed in parts {
            let bucket = self.buckets.get_mut(&(sealed.period, sealed.start));
            for part in bucket.into_iter().flat_map(|bucket| &mut bucket.parts) {
                part.is_written |= sealed.name.ends_with(&format!(":{}", part.number));
            }
        }
    }

    /// Forgets the periods that are written, and over at `now` or far later: those are of a clock
    /// that was ahead.
    pub fn forget_ended(&mut self, now: u64) {
        self.forget(|period, start| {
            let millis = period.millis();
            start.saturating_add(millis) <= now || start > now.saturating_add(millis)
        });
    }

    /// Forgets all minutes that are written, so that there is room: what follows in the same minute
    /// begins another part, which is soon over.
    pub fn forget_minutes(&mut self) {
        self.forget(|period, _| period == UsagePeriod::Minute);
    }

    /// Forgets the written parts of hours, days and last uses but the first
    /// [`USAGE_COARSE_PARTS_KEPT`] of each, so that there is room. Cells of the first ones stay
    /// where they are; only the others begin again in other parts.
    pub fn forget_excess(&mut self) {
        let Self {
            buckets,
            cells,
            held,
            ..
        } = self;
        for ((period, _), bucket) in buckets {
            let Bucket { places, parts } = bucket;
            let before = parts.len();
            while *period != UsagePeriod::Minute
                && parts.len() > USAGE_COARSE_PARTS_KEPT
                && let Some(part) = parts.pop_if(|part| part.is_written)
            {
                held.remove(&part.number);
                *cells -= part.cells.len();
            }
            if parts.len() < before {
                places.retain(|_, (part, _)| *part < parts.len());
            }
        }
    }

    fn forget(&mut self, is_asked: impl Fn(UsagePeriod, u64) -> bool) {
        let Self {
            buckets,
            cells,
            held,
            ..
        } = self;
        buckets.retain(|(period, start), bucket| {
            let is_written = bucket.parts.iter().all(|part| part.is_written);
            if !is_written || !is_asked(*period, *start) {
                return true;
            }
            for part in &bucket.parts {
                held.remove(&part.number);
                *cells -= part.cells.len();
            }
            false
        });
    }

    /// Whether this is a part of this process that is held: what the store has of it may be older.
    #[must_use]
    pub fn holds(&self, part: &UsagePart) -> bool {
        part.process == self.process && self.held.contains(&part.number)
    }

    /// The cells of the periods that begin in a range, with when they begin.
    pub fn cells(
        &self,
        period: UsagePeriod,
        from: u64,
        to: u64,
    ) -> impl Iterator<Item = (u64, &UsageCell)> {
        // A range that ends before it begins has nothing.
        let range = (period, from)..(period, to.max(from));
        self.buckets
            .range(range)
            .flat_map(|((_, start), bucket)| bucket.parts.iter().map(move |part| (*start, part)))
            .flat_map(|(start, part)| part.cells.iter().map(move |cell| (start, cell)))
    }
}
