//! Resolves the command line, the environment and the file into one configuration, each value with
//! its origin.

use std::{
    env,
    ffi::OsString,
    fmt, fs,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgAction, ArgMatches, builder::ValueParser, parser::ValueSource};
use nearhead_actors::data_folder::DataRoot;
use nearhead_chain::dev::Profile;

use super::{
    Config, ConfigError, OPTIONS, OptionSpec, SourceKind,
    usage::{command_named, usage_message},
};
use crate::commands::{self, AdminCommand};

/// Environment variable that names the file.
const CONFIG_ENVIRONMENT: &str = "NEARHEAD_CONFIG";

/// Options that source dev would ignore, each with a source that uses it: giving one without
/// `--source` is a mistake.
const OF_OTHER_SOURCES: [(&str, &str); 8] = [
    ("genesis", "files"),
    ("chain", "files"),
    ("node", "node"),
    ("quorum", "node"),
    ("network", "node"),
    ("chain-id", "node"),
    ("trusted-block", "node"),
    ("header-rules", "node"),
];

/// The command that the command line gives.
#[derive(Debug)]
pub enum Command {
    /// Serve.
    Serve(Resolved),
    /// Print the resolved configuration and stop.
    Check(Resolved),
    /// Write the dev chain as files and stop.
    Export(Export),
    /// Do what an administrator asks for and stop.
    Administer(Box<AdminCommand>),
    /// Print this text (help, version) and stop.
    Print(String),
}

/// `nearhead export`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Path of genesis.json.
    pub(crate) genesis: PathBuf,
    /// Path of chain.rlp.
    pub(crate) chain: PathBuf,
    /// Number of blocks after the genesis.
    pub(crate) blocks: u64,
    /// Seed of the chain.
    pub(crate) seed: u64,
    /// Size of state and blocks.
    pub(crate) profile: Profile,
    /// Time between two blocks.
    pub(crate) block_time: std::time::Duration,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Not given.
    Default,
    /// The file.
    File(PathBuf),
    /// The environment.
    Environment(String),
    /// The command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag => f.write_str("command line"),
        }
    }
}

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

/// Why a command cannot be resolved. The message is one line and names the option in the form that
/// was used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// A value is invalid.
    #[error("{option} {value}: expected {accepts}")]
    Value {
        /// The option as it was given: `--workers`, `NEARHEAD_WORKERS`, or the key and the file.
        option: String,
        /// The value in quotes, or `(hidden)`.
        value: String,
        /// What is accepted.
        accepts: &'static str,
    },
    /// The file has a key that is not in the table.
    #[error(
        "unknown key {key:?} in {file}; the keys are the flags of nearhead --help without the dashes"
    )]
    UnknownKey {
        /// The key.
        key: String,
        /// The file.
        file: String,
    },
    /// The file cannot be read, or is not TOML.
    #[error("{option} {file}: {reason}")]
    File {
        /// The option that named the file.
        option: &'static str,
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The command line has an unknown argument, or lacks a required one.
    #[error("{message}; see {command} --help")]
    Usage {
        /// What is wrong.
        message: String,
        /// The command whose help says more, such as `nearhead key create`.
        command: String,
    },
    /// The values are not valid together.
    #[error(transparent)]
    Together(#[from] ConfigError),
}

impl Command {
    /// Reads this process's command line and environment.
    ///
    /// # Errors
    /// The command line, the environment or the file is invalid.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the environment"
    )]
    pub fn of_process() -> Result<Self, CommandError> {
        Self::resolve(env::args_os(), &|name| env::var_os(name))
    }

    /// Resolves the command line (the program's name first), with the environment given as a
    /// function.
    ///
    /// # Errors
    /// The command line, the environment or the file is invalid.
    pub(crate) fn resolve(
        arguments: impl IntoIterator<Item = OsString>,
        environment: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, CommandError> {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        let matches = match command_line().try_get_matches_from(&arguments) {
            Ok(matches) => matches,
            Err(help) if !help.use_stderr() => {
                return Ok(Self::Print(help.render().to_string()));
            }
            Err(error) => {
                let command = command_named(command_line(), &arguments);
                let message = usage_message(&error);
                return Err(CommandError::Usage { message, command });
            }
        };
        match matches.subcommand() {
            Some(("export", matches)) => export(matches).map(Self::Export),
            Some(("check", matches)) => Resolved::new(matches, environment).map(Self::Check),
            Some((name, matches)) => {
                let read = AdminCommand::read(name, matches, environment);
                let read = read.map_err(|message| CommandError::Usage {
                    message,
                    command: command_named(command_line(), &arguments),
                })?;
                Ok(Self::Administer(Box::new(read)))
            }
            None => Resolved::new(&matches, environment).map(Self::Serve),
        }
    }
}

impl Resolved {
    fn new(
        matches: &ArgMatches,
        environment: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, CommandError> {
        let file = File::named(matches, environment)?;
        let mut config = Config::default();
        let mut origins = Vec::with_capacity(OPTIONS.len());
        for option in OPTIONS {
            let given = given_by(option, matches, environment, file.as_ref())?;
            if let Some(Given { texts, name, .. }) = &given {
                (option.set)(&mut config, texts).ok_or_else(|| CommandError::Value {
                    option: name.clone(),
                    value: shown(option, texts),
                    accepts: option.accepts,
                })?;
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

/// The given value of an option, and its origin.
struct Given {
    texts: Vec<String>,
    /// The option as it was given, for messages.
    name: String,
    origin: Origin,
}

/// The value that takes precedence: flag, else environment, else file.
fn given_by(
    option: &OptionSpec,
    matches: &ArgMatches,
    environment: &dyn Fn(&str) -> Option<OsString>,
    file: Option<&File>,
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

/// The values as a message shows them: in quotes, or hidden.
fn shown(option: &OptionSpec, texts: &[String]) -> String {
    match option.is_secret {
        true => "(hidden)".to_owned(),
        false => format!("{:?}", texts.join(", ")),
    }
}

/// The TOML file.
struct File {
    path: PathBuf,
    table: toml::Table,
}

impl File {
    /// Reads the file that the command line or the environment names, if either does.
    fn named(
        matches: &ArgMatches,
        environment: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Self>, CommandError> {
        let flag = matches
            .get_one::<OsString>("config")
            .map(|path| ("--config", path.clone()));
        let variable = || environment(CONFIG_ENVIRONMENT).map(|path| (CONFIG_ENVIRONMENT, path));
        flag.or_else(variable)
            .map(|(option, path)| Self::read(option, Path::new(&path)))
            .transpose()
    }

    fn read(option: &'static str, path: &Path) -> Result<Self, CommandError> {
        let file = path.display().to_string();
        let failed = |reason: String| CommandError::File {
            option,
            file: file.clone(),
            reason,
        };
        let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let table: toml::Table = text
            .parse()
            .map_err(|error| failed(toml_message(&text, &error)))?;
        match table
            .keys()
            .find(|key| OPTIONS.iter().all(|option| option.name != **key))
        {
            Some(key) => Err(CommandError::UnknownKey {
                key: key.clone(),
                file,
            }),
            None => Ok(Self {
                path: path.to_owned(),
                table,
            }),
        }
    }

    fn given(&self, option: &OptionSpec) -> Result<Option<Given>, CommandError> {
        let Some(value) = self.table.get(option.name) else {
            return Ok(None);
        };
        let name = format!("{} in {}", option.name, self.path.display());
        let scalar = |value: &toml::Value| match value {
            toml::Value::String(text) => Some(text.clone()),
            toml::Value::Integer(number) => Some(number.to_string()),
            toml::Value::Boolean(truth) => Some(truth.to_string()),
            _ => None,
        };
        let texts = match value {
            toml::Value::Array(items) if option.is_list() => items.iter().map(scalar).collect(),
            other => scalar(other).map(|text| vec![text]),
        };
        match texts {
            Some(texts) => Ok(Some(Given {
                texts,
                name,
                origin: Origin::File(self.path.clone()),
            })),
            None => Err(CommandError::Value {
                option: name,
                value: shown(option, &[value.type_str().to_owned()]),
                accepts: option.accepts,
            }),
        }
    }
}

/// The error of a TOML text as one line. It quotes nothing, because the text may hold secrets.
fn toml_message(text: &str, error: &toml::de::Error) -> String {
    let line = error
        .span()
        .and_then(|span| text.get(..span.start))
        .map(|before| before.matches('\n').count() + 1);
    let message = error.message().replace('\n', ", ");
    line.map_or_else(|| message.clone(), |line| format!("line {line}: {message}"))
}

/// The command line, made from the table.
fn command_line() -> clap::Command {
    let serve = with_options(clap::Command::new("nearhead"))
        .version(env!("CARGO_PKG_VERSION"))
        .about("JSON-RPC read service for the latest 128 blocks of one Ethereum-compatible chain")
        .override_usage("nearhead [OPTIONS]\n       nearhead check [OPTIONS]\n       nearhead export --genesis FILE --chain FILE [OPTIONS]\n       nearhead key|tenant|admin COMMAND [OPTIONS]")
        .after_help(
            "Every option can also be set as NEARHEAD_<NAME> in the environment, or as a key in the file that --config \
             names. The command line overrides the environment, and the environment overrides the file.",
        )
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true);
    let check = with_options(clap::Command::new("check"))
        .about("Validate the configuration and print each value with its origin; keys are hidden");
    serve
        .subcommand(check)
        .subcommand(export_command())
        .subcommands(commands::command_lines())
}

fn with_options(command: clap::Command) -> clap::Command {
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(ValueParser::os_string())
        .help("TOML file with options [environment: NEARHEAD_CONFIG]");
    command.arg(config).args(OPTIONS.iter().map(flag))
}

fn flag(option: &'static OptionSpec) -> Arg {
    let default = option.default();
    let help = match default.as_str() {
        "none" => option.help.to_owned(),
        default => format!("{} [default: {default}]", option.help),
    };
    let arg = Arg::new(option.name)
        .long(option.name)
        .value_name(option.unit)
        .value_parser(ValueParser::os_string())
        .allow_negative_numbers(true)
        .help_heading(option.group)
        .help(help);
    match (option.is_list(), option.is_switch()) {
        (true, _) => arg.action(ArgAction::Append),
        (_, true) => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        _ => arg,
    }
}

/// Names of the options that `nearhead export` takes.
const EXPORT_OPTIONS: [&str; 3] = ["seed", "profile", "block-time"];

fn export_command() -> clap::Command {
    let file = |name: &'static str, help: &'static str| {
        let parser = ValueParser::path_buf();
        Arg::new(name)
            .long(name)
            .value_name("FILE")
            .required(true)
            .value_parser(parser)
            .help(help)
    };
    let blocks = Arg::new("blocks")
        .long("blocks")
        .value_name("BLOCKS")
        .allow_negative_numbers(true)
        .help("Number of blocks after the genesis [default: 127]");
    clap::Command::new("export")
        .about("Write the dev chain of a seed, without reorgs, as files that `--source files` and geth import")
        .arg(file("genesis", "Where to write genesis.json"))
        .arg(file("chain", "Where to write chain.rlp"))
        .arg(blocks)
        .args(OPTIONS.iter().filter(|option| EXPORT_OPTIONS.contains(&option.name)).map(flag))
}

fn export(matches: &ArgMatches) -> Result<Export, CommandError> {
    const ACCEPTS: &str = "a whole number from 1 to 1000000";
    let mut config = Config::default();
    for option in OPTIONS
        .iter()
        .filter(|option| EXPORT_OPTIONS.contains(&option.name))
    {
        if let Some(given) = given_by(option, matches, &|_| None, None)? {
            (option.set)(&mut config, &given.texts).ok_or_else(|| CommandError::Value {
                option: given.name,
                value: shown(option, &given.texts),
                accepts: option.accepts,
            })?;
        }
    }
    let blocks = match matches.get_one::<String>("blocks") {
        None => 127,
        Some(text) => super::whole(std::slice::from_ref(text), 1, 1_000_000).ok_or_else(|| {
            CommandError::Value {
                option: "--blocks".to_owned(),
                value: format!("{text:?}"),
                accepts: ACCEPTS,
            }
        })?,
    };
    let path = |name: &str| {
        matches
            .get_one::<PathBuf>(name)
            .cloned()
            .unwrap_or_default()
    };
    Ok(Export {
        genesis: path("genesis"),
        chain: path("chain"),
        blocks,
        seed: config.seed,
        profile: config.profile,
        block_time: config.block_time,
    })
}
