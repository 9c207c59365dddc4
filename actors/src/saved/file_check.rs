use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use alloy_primitives::{B256, Bytes, keccak256};
use nearhead_chain::remote::Verifier;
use rusqlite::{Connection, params};

use super::{
    FileError, SavedStatus,
    file::{Change, LAST_AGE, NAME, SavedFile},
    items::Reader,
    restored::Found,
};

/// Rows of a script that are read.
const ROWS_MAX: usize = 64;

/// Checks a file with these bytes, in an empty folder: it is opened or replaced, gives only blocks
/// and items that their hashes cover, and takes what is written.
pub fn check_file(folder: &Path, bytes: &[u8], verifier: &Verifier) {
    fs::write(folder.join(NAME), bytes).expect("the folder can be written");
    match Found::in_folder(folder) {
        Ok(found) => check_found(folder, found, verifier),
        // As for a disk that fails: nodes are asked instead.
        Err(FileError::Failed(reason)) => assert!(!reason.is_empty()),
        Err(FileError::Unusable(reason)) => panic!("it was not replaced: {reason}"),
    }
}

fn check_found(folder: &Path, mut found: Found, verifier: &Verifier) {
    for row in &found.rows {
        let content = found.file.reader().and_then(|file| file.block(&row.hash));
        if let Ok(Some(content)) = content
            && let Ok(block) = verifier.restore(row.hash, &content)
        {
            assert_eq!(block.hash, row.hash);
            assert_eq!(block.header.hash_slow(), row.hash);
        }
    }
    let items = found.file.oldest_items(ROWS_MAX as u32).unwrap_or_default();
    for hash in items {
        check_item(&found.file, &hash);
    }
    // A damaged file may refuse a change. The next start replaces it, or finds all of it.
    let change = change();
    if found.file.write(&change).is_err() {
        return;
    }
    drop(found);
    if let Ok(found) = Found::in_folder(folder)
        && let Ok(Some(content)) = found
            .file
            .reader()
            .and_then(|file| file.item(&change.items[0].0))
    {
        assert_eq!(change.items[0].1, content);
    }
}

/// Whatever is found under a hash has that hash.
fn check_item(file: &SavedFile, hash: &B256) -> Option<Bytes> {
    let reader = file.reader().ok()?;
    let item = Reader::new(reader, Arc::<SavedStatus>::default()).item(hash)?;
    assert_eq!(keccak256(&item), *hash);
    Some(item)
}

fn change() -> Change {
    let item = Bytes::from_static(b"an item");
    let block = Bytes::from_static(b"a block");
    Change {
        blocks: vec![(B256::repeat_byte(0xb1), 7, Some(block))],
        items: vec![(keccak256(&item), item)],
        merged: Some(vec![B256::repeat_byte(0xb1)]),
        ..Change::default()
    }
}

/// Checks a whole file with rows that a script names, in an empty folder. It is replaced if the
/// hash of a block is none, or if it can take no more rows.
/// If not, it has every block, every merged block, and every item under its own hash alone.
pub fn check_rows(folder: &Path, script: &[u8]) {
    drop(SavedFile::open(folder).expect("a file is made"));
    let rows = Rows::write(folder, script);
    let mut found = Found::in_folder(folder).expect("the disk is well");
    if rows.are_unusable {
        assert!(found.rows.is_empty() && found.merged.is_empty() && !found.has_items);
    } else {
        rows.check(&found);
    }
    let change = change();
    found
        .file
        .write(&change)
        .expect("a whole file takes a change");
    drop(found);
    let found = Found::in_folder(folder).expect("the disk is well");
    if rows.have_last_age && !rows.are_unusable {
        // The item of the change has the age after it, with which no file is used.
        return;
    }
    let (hash, number, content) = &change.blocks[0];
    let row = found.rows.iter().find(|row| row.hash == *hash);
    assert_eq!(row.map(|row| row.number), Some(*number));
    assert_eq!(block(&found.file, hash).map(Bytes::from), *content);
    assert_eq!(change.merged, Some(found.merged));
    for (hash, content) in &change.items {
        let is_hidden = !rows.are_unusable && rows.others.contains(hash);
        assert!(is_hidden || check_item(&found.file, hash).as_ref() == Some(content));
    }
}

fn block(file: &SavedFile, hash: &B256) -> Option<Vec<u8>> {
    let reader = file.reader().expect("the disk is well");
    reader.block(hash).expect("the disk is well")
}

/// The rows of a file.
#[derive(Default)]
struct Rows {
    /// What blocks have, by hash.
    blocks: BTreeMap<B256, Vec<u8>>,
    /// The items that are under their own hash.
    items: Vec<(B256, Bytes)>,
    /// The hashes of those that are not.
    others: Vec<B256>,
    merged: Vec<B256>,
    are_unusable: bool,
    /// Whether an item has the largest age that a file is used with.
    have_last_age: bool,
}

impl Rows {
    /// Writes the rows of a script. Each begins with a byte that says what it is.
    fn write(folder: &Path, script: &[u8]) -> Self {
        let connection = Connection::open(folder.join(NAME)).expect("the file is whole");
        connection
            .execute_batch("BEGIN")
            .expect("the file is whole");
        let mut rows = Self::default();
        let mut rest = script;
        for _ in 0..ROWS_MAX {
            let Some((kind, after)) = rest.split_first() else {
                break;
            };
            rest = after;
            rows.add(&connection, *kind, &mut rest);
        }
        let age = "SELECT coalesce(max(age), 0) FROM items";
        let age: i64 = connection
            .query_row(age, [], |row| row.get(0))
            .expect("the file is whole");
        rows.are_unusable |= age > LAST_AGE;
        rows.have_last_age = age == LAST_AGE;
        connection
            .execute_batch("COMMIT")
            .expect("the file is whole");
        rows
    }

    fn add(&mut self, connection: &Connection, kind: u8, rest: &mut &[u8]) {
        let execute = |sql: &str, values: &[&dyn rusqlite::ToSql]| {
            connection.execute(sql, values).expect("the file is whole");
        };
        match kind % 6 {
            kind @ 0..=1 => {
                let hash = match kind {
                    0 => vec![number(rest) as u8; 32],
                    _ => text(rest).to_vec(),
                };
                let (number, content) = (number(rest), text(rest));
                execute(
                    "INSERT OR REPLACE INTO blocks VALUES (?1, ?2, ?3)",
                    params![hash, number, content],
                );
                match B256::try_from(&*hash) {
                    Ok(hash) => drop(self.blocks.insert(hash, content.to_vec())),
                    Err(_) => self.are_unusable = true,
                }
            }
            2 => {
                let item = Bytes::copy_from_slice(text(rest));
                let hash = keccak256(&item);
                let prefix = &hash.0[..8];
                let prefix = i64::from_be_bytes(prefix.try_into().expect("8 bytes"));
                execute(
                    "INSERT INTO items (prefix, hash, content) VALUES (?1, ?2, ?3)",
                    params![prefix, hash.as_slice(), item.as_ref()],
                );
                self.items.push((hash, item));
            }
            kind @ 3..=4 => {
                let age = (kind == 4).then(|| number(rest));
                let (prefix, hash, content) = (number(rest), text(rest), text(rest));
                execute(
                    "INSERT OR IGNORE INTO items VALUES (?1, ?2, ?3, ?4)",
                    params![age, prefix, hash, content],
                );
                self.others.extend(B256::try_from(hash));
            }
            _ => {
                let hash = text(rest);
                execute("INSERT INTO merged (hash) VALUES (?1)", params![hash]);
                match B256::try_from(hash) {
                    Ok(hash) => self.merged.push(hash),
                    Err(_) => self.are_unusable = true,
                }
            }
        }
    }

    fn check(&self, found: &Found) {
        let hashes: BTreeMap<_, _> = found
            .rows
            .iter()
            .map(|row| {
                (
                    row.hash,
                    block(&found.file, &row.hash).expect("it is there"),
                )
            })
            .collect();
        assert_eq!(hashes, self.blocks);
        assert_eq!(found.merged, self.merged);
        for (hash, item) in &self.items {
            let is_hidden = self.others.contains(hash);
            assert!(is_hidden || check_item(&found.file, hash).as_ref() == Some(item));
        }
        for hash in &self.others {
            check_item(&found.file, hash);
        }
    }
}

/// The next eight bytes, or as many as there are.
fn number(rest: &mut &[u8]) -> i64 {
    let (taken, after) = rest.split_at(rest.len().min(8));
    *rest = after;
    let mut bytes = [0; 8];
    bytes[8 - taken.len()..].copy_from_slice(taken);
    i64::from_be_bytes(bytes)
}

/// As many of the next bytes as the first one says, or as there are.
fn text<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let Some((length, after)) = rest.split_first() else {
        return &[];
    };
    let (taken, after) = after.split_at(after.len().min(usize::from(*length)));
    *rest = after;
    taken
}
