//! Adds usage.

use std::collections::HashMap;

use rusqlite::{OptionalExtension as _, Row, Statement, Transaction, params};

use super::columns::{COLUMNS, owner_in, periods, stored, table};
use crate::{
    id::KeyId,
    store::sqlite::database::Fault,
    usage::{Label, Resolution, UsageCell},
};

/// Most labels: methods and outcomes of this and of earlier versions. Others share the last one.
const LABELS_MAX: usize = 4_096;

/// What stands for labels beyond the bound.
const UNNAMED: &str = "other";

/// Largest number that is added at once. The sums of 31 days of it fit.
const ADDED_MAX: u64 = 1 << 40;

/// Adds cells within one transaction.
pub(super) struct Adder<'t> {
    labels: &'t mut HashMap<Label, i64>,
    put_label: Statement<'t>,
    find_key: Statement<'t>,
    put_key: Statement<'t>,
    use_key: Statement<'t>,
    own_key: Statement<'t>,
    /// By resolution.
    add: Vec<(Resolution, Statement<'t>)>,
}

/// A cell, by the numbers of its key, method and outcome.
type Numbered<'c> = ([i64; 3], &'c UsageCell);

impl<'t> Adder<'t> {
    pub(super) fn new(
        transaction: &'t Transaction<'_>,
        labels: &'t mut HashMap<Label, i64>,
    ) -> Result<Self, Fault> {
        let names = COLUMNS.join(", ");
        let values: Vec<_> = (5..5 + COLUMNS.len()).map(|at| format!("?{at}")).collect();
        let values = values.join(", ");
        let sums: Vec<_> = COLUMNS
            .iter()
            .map(|column| format!("{column} = {column} + excluded.{column}"))
            .collect();
        let sums = sums.join(", ");
        let add = Resolution::ALL.map(|resolution| {
            let table = table(resolution);
            let add = transaction.prepare(&format!(
                "INSERT INTO {table} (at, key, method, outcome, {names})
                 VALUES (?1, ?2, ?3, ?4, {values}) ON CONFLICT DO UPDATE SET {sums}"
            ))?;
            Ok::<_, Fault>((resolution, add))
        });
        let put_label = "INSERT INTO label (text) VALUES (?1)
                         ON CONFLICT DO UPDATE SET text = text RETURNING number";
        let find_key = "SELECT number, tenant, chain FROM key WHERE id = ?1";
        let put_key = "INSERT INTO key (id, last_used, tenant, chain) VALUES (?1, ?2, ?3, ?4)
                       RETURNING number";
        let use_key = "UPDATE key SET last_used = max(?2, last_used) WHERE number = ?1";
        let own_key = "UPDATE key SET tenant = ?2, chain = ?3 WHERE number = ?1";
        Ok(Self {
            labels,
            put_label: transaction.prepare(put_label)?,
            find_key: transaction.prepare(find_key)?,
            put_key: transaction.prepare(put_key)?,
            use_key: transaction.prepare(use_key)?,
            own_key: transaction.prepare(own_key)?,
            add: add.into_iter().collect::<Result<_, _>>()?,
        })
    }

    /// Adds cells in the order of each table, so that a page of it is read and written once.
    pub(super) fn add(&mut self, cells: &[UsageCell]) -> Result<(), Fault> {
        let numbered = cells.iter().map(|cell| self.numbered(cell));
        let mut numbered: Vec<Numbered<'_>> = numbered.collect::<Result<_, _>>()?;
        numbered.sort_unstable_by_key(|(numbers, cell)| (cell.minute, *numbers));
        for ([key, ..], cell) in &numbered {
            self.use_key.execute(params![key, stored(cell.last.0)])?;
        }
        for (resolution, add) in &mut self.add {
            for ([key, method, outcome], cell) in &numbered {
                let at = periods(*resolution, cell.minute);
                let used = cell.used.numbers();
                let used = used.map(|number| stored(number.min(ADDED_MAX)));
                let values = [at, *key, *method, *outcome].into_iter().chain(used);
                add.execute(rusqlite::params_from_iter(values))?;
            }
        }
        Ok(())
    }

    fn numbered<'c>(&mut self, cell: &'c UsageCell) -> Result<Numbered<'c>, Fault> {
        let key = self.key(cell)?;
        let (method, outcome) = (self.label(&cell.method)?, self.label(&cell.outcome)?);
        Ok(([key, method, outcome], cell))
    }

    /// The number of a cell's key, which has the cell's owner then, if that is known.
    fn key(&mut self, cell: &UsageCell) -> Result<i64, Fault> {
        let (id, owner) = (cell.key.bytes(), cell.owner);
        let found = |row: &Row<'_>| Ok((row.get(0)?, owner_in(row, 1)?));
        let tenant = owner.map(|owner| owner.tenant.bytes());
        let chain = owner.and_then(|owner| owner.chain).map(KeyId::bytes);
        match self.find_key.query_row([id], found).optional()? {
            Some((number, known)) => {
                // Indexes follow, so that this is not done without need.
                if owner.is_some() && owner != known {
                    self.own_key.execute(params![number, tenant, chain])?;
                }
                Ok(number)
            }
            None => {
                let new = params![id, stored(cell.last.0), tenant, chain];
                Ok(self.put_key.query_row(new, |row| row.get(0))?)
            }
        }
    }

    fn label(&mut self, label: &Label) -> Result<i64, Fault> {
        if let Some(number) = self.labels.get(label) {
            return Ok(*number);
        }
        let label = match self.labels.len() >= LABELS_MAX {
            true => UNNAMED.into(),
            false => label.clone(),
        };
        let number = self.put_label.query_row([&*label], |row| row.get(0))?;
        self.labels.insert(label, number);
        Ok(number)
    }
}
