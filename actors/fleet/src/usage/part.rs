use std::{collections::HashMap, sync::Arc};

use alloy_primitives::Bytes;
use alloy_rlp::{Decodable, Encodable, Error, Header};

use super::{USAGE_NUMBERS, UsageCell, UsageOwner, UsagePeriod};
use crate::{
    bounds::{USAGE_PART_BYTES_MAX, USAGE_PART_CELLS},
    fleet_key::{FleetKey, Purpose},
    record::RecordError,
    rlp::list,
    sealed::{self, OpenError},
};

/// Some sums of one process in one period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsagePart {
    /// What its cells are sums of.
    pub period: UsagePeriod,
    /// When that began.
    pub start: u64,
    /// The process, by a name that is another one at each start.
    pub process: String,
    /// Different for all parts of one process.
    pub number: u64,
    /// The sums.
    pub cells: Vec<UsageCell>,
}

/// A part as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedPart {
    /// What its cells are sums of.
    pub period: UsagePeriod,
    /// When that began.
    pub start: u64,
    /// The key under which the store has it.
    pub name: String,
    /// Its bytes, sealed.
    pub bytes: Bytes,
}

impl UsagePart {
    /// The key under which the store has it.
    #[must_use]
    pub fn name(&self) -> String {
        let (letter, start) = (self.period.letter(), self.start);
        format!("{letter}:{start}:{}:{}", self.process, self.number)
    }

    /// Writes it. A part has at most [`USAGE_PART_CELLS`] cells, so that it is never too long.
    #[must_use]
    pub fn seal(&self, key: &FleetKey) -> SealedPart {
        let name = self.name();
        let (bytes, _) = sealed::seal(key, Purpose::Usage, |out| {
            list(out, |out| {
                name.encode(out);
                self.encode_cells(out);
            });
        });
        SealedPart {
            period: self.period,
            start: self.start,
            name,
            bytes,
        }
    }

    /// The texts and the owners of keys are written once. Numbers are mostly small.
    fn encode_cells(&self, out: &mut Vec<u8>) {
        let (mut texts, mut keys) = (Numbered::default(), Numbered::default());
        let mut cells = Vec::new();
        for cell in &self.cells {
            list(&mut cells, |out| {
                keys.number((cell.key, cell.owner.map(|of| (of.tenant, of.chain))))
                    .encode(out);
                texts.number(Arc::clone(&cell.method)).encode(out);
                texts.number(Arc::clone(&cell.outcome)).encode(out);
                cell.last.saturating_sub(self.start).encode(out);
                cell.numbers.iter().for_each(|number| number.encode(out));
            });
        }
        list(out, |out| {
            texts.values.iter().for_each(|text| (**text).encode(out));
        });
        list(out, |out| {
            for (key, owner) in &keys.values {
                let (tenant, chain) = owner.unzip();
                let ids = [Some(*key), tenant, chain.flatten()];
                let ids: Vec<u8> = ids.into_iter().flatten().flatten().collect();
                ids.as_slice().encode(out);
            }
        });
        list(out, |out| out.extend_from_slice(&cells));
    }

    /// Reads the part of this name.
    ///
    /// # Errors
    /// The bytes are no part of this fleet, or not that of this name. That they are its newest
    /// value, nobody knows but the process that wrote it.
    pub fn open(name: &str, bytes: &[u8], key: &FleetKey) -> Result<Self, RecordError> {
        let opened = sealed::open(bytes, USAGE_PART_BYTES_MAX, key, Purpose::Usage, true);
        let (content, _) = opened?;
        let (sealed_name, part) = Self::decode(content).map_err(OpenError::Malformed)?;
        match sealed_name == name {
            true => Ok(part),
            false => Err(RecordError::Name),
        }
    }

    /// A later version may append something to the part or to a cell, which is not read here.
    fn decode(mut bytes: &[u8]) -> Result<(String, Self), Error> {
        let mut rest = Header::decode_bytes(&mut bytes, true)?;
        let name = String::decode(&mut rest)?;
        let mut part = Self::of_name(&name).ok_or(Error::Custom("a name that is none"))?;
        let mut texts = Vec::new();
        let mut list = Header::decode_bytes(&mut rest, true)?;
        while !list.is_empty() {
            texts.push(Arc::<str>::from(String::decode(&mut list)?));
        }
        let mut keys = Vec::new();
        let mut list = Header::decode_bytes(&mut rest, true)?;
        while !list.is_empty() {
            keys.push(decode_key(Header::decode_bytes(&mut list, false)?)?);
        }
        let mut list = Header::decode_bytes(&mut rest, true)?;
        while !list.is_empty() {
            if part.cells.len() >= USAGE_PART_CELLS {
                return Err(Error::UnexpectedLength);
            }
            let mut cell = Header::decode_bytes(&mut list, true)?;
            part.cells
                .push(decode_cell(&mut cell, &keys, &texts, part.start)?);
        }
        Ok((name, part))
    }

    /// The part of a name, without its cells.
    fn of_name(name: &str) -> Option<Self> {
        let mut words = name.split(':');
        let part = Self {
            period: UsagePeriod::of_letter(words.next()?)?,
            start: words.next()?.parse().ok()?,
            process: words.next()?.to_owned(),
            number: words.next()?.parse().ok()?,
            cells: Vec::new(),
        };
        words.next().is_none().then_some(part)
    }
}

type Key = ([u8; 8], Option<UsageOwner>);

/// A key, its tenant, and the first key of its chain: what is not known is missing.
fn decode_key(bytes: &[u8]) -> Result<Key, Error> {
    let (ids, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(Error::UnexpectedLength);
    }
    match *ids {
        [key] => Ok((key, None)),
        [key, tenant] => Ok((key, Some(owner(tenant, None)))),
        [key, tenant, chain] => Ok((key, Some(owner(tenant, Some(chain))))),
        _ => Err(Error::UnexpectedLength),
    }
}

const fn owner(tenant: [u8; 8], chain: Option<[u8; 8]>) -> UsageOwner {
    UsageOwner { tenant, chain }
}

fn decode_cell(
    cell: &mut &[u8],
    keys: &[Key],
    texts: &[Arc<str>],
    start: u64,
) -> Result<UsageCell, Error> {
    let unknown = Error::Custom("a number that stands for nothing");
    let (key, owner) = *keys.get(usize::decode(cell)?).ok_or(unknown)?;
    let text = |at: usize| texts.get(at).cloned().ok_or(unknown);
    let method = text(usize::decode(cell)?)?;
    let outcome = text(usize::decode(cell)?)?;
    let last = start.saturating_add(u64::decode(cell)?);
    let mut numbers = [0; USAGE_NUMBERS];
    for number in &mut numbers {
        *number = u64::decode(cell)?;
    }
    Ok(UsageCell {
        key,
        owner,
        method,
        outcome,
        last,
        numbers,
    })
}

/// Values that are written once, and stood for by their numbers.
struct Numbered<T> {
    values: Vec<T>,
    numbers: HashMap<T, usize>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            numbers: HashMap::new(),
        }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    fn number(&mut self, value: T) -> usize {
        let Self { values, numbers } = self;
        *numbers.entry(value).or_insert_with_key(|value| {
            values.push(value.clone());
            values.len() - 1
        })
    }
}
