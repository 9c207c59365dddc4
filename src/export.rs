//! `nearhead export`: the dev chain of a seed as genesis.json and chain.rlp.

use std::{
    fs::{File, Metadata},
    io::{self, BufWriter, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use nearhead_actors::source::{Progress, ProgressReport};
use nearhead_chain::{
    block::Block,
    chain_file::write_block,
    dev::{DevConfig, DevError, Producer},
    encode::EncodeOptions,
};

use crate::{config::Export, feed::timestamp_step};

/// Why a chain could not be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file cannot be written.
    #[error("{}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Both paths name the same file.
    #[error("--genesis {} and --chain {}: expected two files, found one", genesis.display(), chain.display())]
    OneFile {
        /// The path for genesis.json.
        genesis: PathBuf,
        /// The path for chain.rlp.
        chain: PathBuf,
    },
    /// The producer failed.
    #[error("{0}")]
    Dev(Box<DevError>),
}

impl From<DevError> for ExportError {
    fn from(error: DevError) -> Self {
        Self::Dev(Box::new(error))
    }
}

/// Writes the files block by block and returns the head. The chain is the one that source `dev`
/// makes from the same seed, profile and block time without reorgs.
///
/// # Errors
/// A file cannot be written, both paths name the same file, or the producer failed: a defect.
pub fn export(export: &Export, report: &mut ProgressReport) -> Result<Arc<Block>, ExportError> {
    let config = DevConfig {
        seed: export.seed,
        profile: export.profile,
        block_time_seconds: timestamp_step(export.block_time),
        reorg_every: None,
        reorg_depth: 1,
    };
    // Both are opened before the first block is made, so that a path that cannot be written fails
    // at once.
    let mut genesis = Output::open(&export.genesis)?;
    let mut chain = Output::open(&export.chain)?;
    if genesis.is_same_file(&chain)? {
        return Err(ExportError::OneFile {
            genesis: export.genesis.clone(),
            chain: export.chain.clone(),
        });
    }
    genesis.clear()?;
    chain.clear()?;
    let mut accounts = |done, total| report(Progress::Accounts { done, total });
    let mut producer = Producer::new(config, EncodeOptions::default(), &mut accounts)?;
    genesis.finish(|output| producer.genesis().write_json(output))?;
    for done in 1..=export.blocks {
        for (raw, _) in producer.step()?.applied {
            chain.write(|output| write_block(output, &raw))?;
        }
        report(Progress::Export {
            done,
            total: export.blocks,
        });
    }
    chain.finish(|_| Ok(()))?;
    Ok(Arc::clone(producer.head()))
}

/// An output file whose errors name its path.
struct Output<'a> {
    path: &'a Path,
    file: BufWriter<File>,
}

impl<'a> Output<'a> {
    /// Opens the file or creates it; its content stays until [`Self::clear`].
    fn open(path: &'a Path) -> Result<Self, ExportError> {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(error_of(path))?;
        Ok(Self {
            path,
            file: BufWriter::new(file),
        })
    }

    fn metadata(&self) -> Result<Metadata, ExportError> {
        self.file.get_ref().metadata().map_err(error_of(self.path))
    }

    /// Whether both are the same file on disk, by whatever path; a device may be given twice.
    fn is_same_file(&self, other: &Self) -> Result<bool, ExportError> {
        let (own, other) = (self.metadata()?, other.metadata()?);
        Ok(own.is_file() && (own.dev(), own.ino()) == (other.dev(), other.ino()))
    }

    /// Truncates the file; a pipe or a device has no content to drop.
    fn clear(&mut self) -> Result<(), ExportError> {
        if self.metadata()?.is_file() {
            self.file
                .get_ref()
                .set_len(0)
                .map_err(error_of(self.path))?;
        }
        Ok(())
    }

    fn write(
        &mut self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), ExportError> {
        write(&mut self.file).map_err(error_of(self.path))
    }

    /// Writes the last bytes, and reports a full disk.
    fn finish(
        mut self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), ExportError> {
        self.write(write)?;
        self.write(Write::flush)
    }
}

fn error_of(path: &Path) -> impl FnOnce(io::Error) -> ExportError {
    move |error| ExportError::Write {
        path: path.to_owned(),
        error,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{fs, time::Duration};

    use nearhead_chain::dev::Profile;

    use super::*;
    use crate::{
        Service,
        config::{ApiKey, Config, SourceKind},
    };

    /// A folder of this process, removed when the value is dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            let name = format!("nearhead-export-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn export_to(folder: &Path, blocks: u64) -> Export {
        Export {
            genesis: folder.join("genesis.json"),
            chain: folder.join("chain.rlp"),
            blocks,
            seed: 3,
            profile: Profile::Small,
            block_time: Duration::from_secs(1),
        }
    }

    fn config() -> Config {
        Config {
            listen: ([127, 0, 0, 1], 0).into(),
            block_time: Duration::ZERO,
            seed: 3,
            workers: 1,
            pool_threads: 1,
            api_keys: vec![ApiKey::new("a", "a")],
            ..Config::default()
        }
    }

    #[actix::test]
    async fn an_export_is_the_chain_that_dev_serves_and_files_import() {
        let folder = Folder::new();
        let wanted = export_to(&folder.0, 127);
        let mut reported = 0;
        let mut report: ProgressReport = Box::new(move |progress| {
            if let Progress::Export { done, total } = progress {
                reported += 1;
                assert_eq!((done, total), (reported, 127));
            }
        });
        let head = export(&wanted, &mut report).unwrap();
        assert_eq!(head.number(), 127);
        let files = Config {
            source: SourceKind::Files,
            genesis: Some(wanted.genesis),
            chain: Some(wanted.chain),
            ..config()
        };
        for config in [config(), files] {
            let service = Service::start(config, Box::new(|_| {})).unwrap();
            assert_eq!(service.head().load().unwrap().head().hash, head.hash);
            service.stop().await;
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let error = export(
            &export_to(Path::new("/no/such"), 1),
            &mut (Box::new(|_| {}) as ProgressReport),
        );
        let message = error.unwrap_err().to_string();
        assert!(message.starts_with("/no/such/genesis.json: "), "{message}");
    }

    /// Two paths of one file, linked by `link`, are refused, and the file keeps its content.
    fn check_refused(name: &str, link: impl FnOnce(&Path, &Path)) {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/target/tmp/export"))
            .join(format!("one-file-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let wanted = export_to(&folder, 1);
        fs::write(&wanted.genesis, "kept").unwrap();
        link(&wanted.genesis, &wanted.chain);
        let error = export(&wanted, &mut (Box::new(|_| {}) as ProgressReport)).unwrap_err();
        assert!(
            matches!(error, ExportError::OneFile { .. }),
            "{name}: {error}"
        );
        assert_eq!(
            fs::read_to_string(&wanted.genesis).unwrap(),
            "kept",
            "{name}"
        );
    }

    #[test]
    fn two_paths_of_one_file_are_refused() {
        check_refused("hard-link", |file, link| fs::hard_link(file, link).unwrap());
        check_refused("symbolic-link", |file, link| {
            std::os::unix::fs::symlink(file, link).unwrap();
        });
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/target/tmp"));
        let same = Export {
            genesis: folder.join("export-same"),
            chain: folder.join("../tmp/export-same"),
            ..export_to(folder, 1)
        };
        fs::create_dir_all(folder).unwrap();
        let error = export(&same, &mut (Box::new(|_| {}) as ProgressReport)).unwrap_err();
        assert!(matches!(error, ExportError::OneFile { .. }), "{error}");
    }
}
