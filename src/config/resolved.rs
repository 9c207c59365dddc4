//! One configuration from the command line, the environment and the file, each value with its
//! origin.

use std::{env, ffi::OsString, fmt, path::PathBuf};

use clap::{ArgMatches, parser::ValueSource};
use nearhead_actors::data_folder::DataRoot;

use super::{
    Config, ConfigError, OPTIONS, OptionSpec,
    command_error::CommandError,
    config_file::ConfigFile,
    given::{Given, Origin},
    value::SourceKind,
};

/// Options that source dev would ignore, each with a source that uses it: giving one without
/// `--source` is a mistake.
const OF_OTHER_SOURCES: [(&str, &str); 10] = [
    ("genesis", "files"),
    ("chain", "files"),
    ("node", "node"),
    ("fleet", "node"),
    ("forward", "node"),
    ("quorum", "node"),
    ("network", "node"),
    ("chain-id", "node"),
    ("trusted-block", "node"),
    ("header-rules", "node"),
];

/// One line of `nearhead check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The option's name.
    pub(crate) name: &'static str,
    /// Its value, secrets hidden.
    pub(crate) value: String,
    /// Where it came from.
    pub(crate) origin: Origin,
}

/// The configuration and where each value came from, in the order of the table.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The values, checked together.
    pub config: Config,
    /// The configuration file, if one was named.
    pub file: Option<PathBuf>,
    /// Each value with its origin.
    pub(crate) settings: Vec<Setting>,
}

impl fmt::Display for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width =
            |column: fn(&Setting) -> usize| self.settings.iter().map(column).max().unwrap_or(0);
        let (names, values) = (width(|s| s.name.len()), width(|s| s.value.len()));
        for Setting {
            name,
            value,
            origin,
        } in &self.settings
        {
            writeln!(f, "{name:names$} = {value:values$}  # {origin}")?;
        }
        Ok(())
    }
}

impl Resolved {
    pub(super) fn new(
        matches: &ArgMatches,
        environment: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, CommandError> {
        let file = ConfigFile::named(matches, environment)?;
        let mut config = Config::default();
        let mut origins = Vec::with_capacity(OPTIONS.len());
        for option in OPTIONS {
            let given = given_by(option, matches, environment, file.as_ref())?;
            if let Some(given) = &given {
                given.set(option, &mut config)?;
            }
            origins.push(given.map_or(Origin::Default, |given| given.origin));
        }
        if let DataRoot::Auto(folder) = &mut config.data_dir {
            *folder = user_data(environment);
        }
        let origin = |name| {
            OPTIONS
                .iter()
                .position(|option| option.name == name)
                .map(|at| &origins[at])
        };
        for (given, wanted) in OF_OTHER_SOURCES {
            let ignored =
                config.source == SourceKind::Dev && origin("source") == Some(&Origin::Default);
            if ignored && origin(given) != Some(&Origin::Default) {
                return Err(ConfigError::Unused { given, wanted }.into());
            }
        }
        let config = config.complete()?;
        let setting = |(option, origin): (&OptionSpec, Origin)| Setting {
            name: option.name,
            value: (option.show)(&config),
            origin,
        };
        let settings = OPTIONS.iter().zip(origins).map(setting).collect();
        Ok(Self {
            config,
            file: file.map(|file| file.path),
            settings,
        })
    }
}

/// The folder for this program's data that systemd names, or that is in the user's data folder
/// (XDG); `None` if the environment names neither.
fn user_data(environment: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // The value of a variable that is not empty, up to a colon, which separates several folders.
    let folder = |name| {
        let folders = environment(name).filter(|folders| !folders.is_empty())?;
        env::split_paths(&folders).next()
    };
    let absolute = |name| folder(name).filter(|folder| folder.is_absolute());
    if let Some(folder) = folder("STATE_DIRECTORY") {
        return Some(folder);
    }
    let data = absolute("XDG_DATA_HOME");
    let data = data.or_else(|| Some(absolute("HOME")?.join(".local/share")));
    Some(data?.join("nearhead"))
}

/// The value that takes precedence: flag, else environment, else file.
pub(super) fn given_by(
    option: &OptionSpec,
    matches: &ArgMatches,
    environment: &dyn Fn(&str) -> Option<OsString>,
    file: Option<&ConfigFile>,
) -> Result<Option<Given>, CommandError> {
    if matches.value_source(option.name) == Some(ValueSource::CommandLine) {
        let texts = matches
            .get_many::<OsString>(option.name)
            .unwrap_or_default();
        return Ok(Some(Given {
            texts: texts
                .map(|text| text.to_string_lossy().into_owned())
                .collect(),
            name: format!("--{}", option.name),
            origin: Origin::Flag,
        }));
    }
    let name = option.environment();
    if let Some(text) = environment(&name) {
        return Ok(Some(Given {
            texts: vec![text.to_string_lossy().into_owned()],
            name: name.clone(),
            origin: Origin::Environment(name),
        }));
    }
    file.map_or(Ok(None), |file| file.given(option))
}
