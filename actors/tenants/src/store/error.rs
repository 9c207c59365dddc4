use std::path::PathBuf;

/// Why a store cannot be used. The message names the file, and says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another process holds it.
    #[error("{} is in use by another process: end that one", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Another program made it.
    #[error(
        "{} is a database of another program: give another --data-dir", path.display()
    )]
    OtherProgram {
        /// The file.
        path: PathBuf,
    },
    /// A newer version of this program made it.
    #[error(
        "{} has format {found}, and this nearhead knows formats up to {known}: use a newer one",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that is known.
        known: u32,
    },
    /// It is not what this program wrote.
    #[error(
        "{} is damaged ({reason}): restore it from a backup, or remove it to start without {content}",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What is lost if it is removed.
        content: &'static str,
    },
    /// It cannot be read or written.
    #[error(
        "{} cannot be read and written ({reason}): make it and its folder writable, or give another \
         --data-dir",
        path.display()
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: String,
    },
    /// There is no space for it.
    #[error("{} has no space to grow: free some on its disk", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// It does not answer, or not as it should.
    #[error("{reason}")]
    Away {
        /// What happened.
        reason: String,
    },
    /// What it has is not what this program's fleet wrote.
    #[error(
        "tenants, keys or administrators in the fleet's store are not the newest that the fleet \
         wrote ({reason}): a process that knows those puts them back within seconds; if none does, \
         see \"Tenants and keys\" in docs/fleet.md"
    )]
    Spoiled {
        /// What is wrong with it.
        reason: String,
    },
    /// A newer version of this program has written it, in the same fleet.
    #[error(
        "a newer version of this program has written tenants, keys or administrators into the fleet's \
         store: replace this process by that version"
    )]
    NewerRecords,
    /// Another process of the fleet has written meanwhile: what it wrote is to be read first.
    #[error("another process of the fleet has written at the same time: try again")]
    Conflict,
    /// Something else.
    #[error("{}: {reason}: this is an error of the program, please report it", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// What the database says.
        reason: String,
    },
}

impl StoreError {
    /// Whether the operator named a folder that this process may not use, although nothing is wrong
    /// with it.
    #[must_use]
    pub const fn is_misuse(&self) -> bool {
        matches!(self, Self::InUse { .. } | Self::OtherProgram { .. })
    }
}
