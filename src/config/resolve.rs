//! From command line, environment and file to one configuration, each value with where it came
//! from.

use std::{
    env,
    ffi::OsString,
    fmt, fs,
    path::{Path, PathBuf},
};

use clap::{
    Arg, ArgAction, ArgMatches, builder::ValueParser, error::ErrorKind, parser::ValueSource,
};
use nearhead_chain::dev::Profile;

use super::{Config, ConfigError, KNOBS, Knob, SourceKind};

/// Environment name of the file's path.
const CONFIG_ENVIRONMENT: &str = "NEARHEAD_CONFIG";

/// What the command line asks for.
#[derive(Debug)]
pub enum Command {
    /// Serve.
    Serve(Resolved),
    /// Print the resolved configuration and stop.
    Check(Resolved),
    /// Write the dev chain as files and stop.
    Export(Export),
    /// Print this text (help, version) and stop.
    Print(String),
}

/// `nearhead export`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Where genesis.json goes.
    pub genesis: PathBuf,
    /// Where chain.rlp goes.
    pub chain: PathBuf,
    /// Blocks to write, the genesis not counted.
    pub blocks: u64,
    /// Seed of the chain.
    pub seed: u64,
    /// Size of state and blocks.
    pub profile: Profile,
    /// Time between two blocks.
    pub block_time: std::time::Duration,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody gave one.
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
pub struct Setting {
    /// The knob's name.
    pub name: &'static str,
    /// Its value, secrets hidden.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

/// The configuration and where each value came from, in the order of the table.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The values, checked together.
    pub config: Config,
    /// Each value with its origin.
    pub settings: Vec<Setting>,
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

/// Why there is no configuration. The message is one line and names the option in the form that was
/// used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// A value is not acceptable.
    #[error("{option} {value}: expected {accepts}")]
    Value {
        /// The option as it was given: `--workers`, `NEARHEAD_WORKERS`, or the key and the file.
        option: String,
        /// The value in quotes, or that it is hidden.
        value: String,
        /// What is accepted.
        accepts: &'static str,
    },
    /// The file names a key that is not in the table.
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
    #[error("{option} {file}: {why}")]
    File {
        /// The option that named the file.
        option: &'static str,
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// The command line has something that there is not.
    #[error("{0}; see nearhead --help")]
    Usage(String),
    /// The values do not go together.
    #[error(transparent)]
    Together(#[from] ConfigError),
}

impl Command {
    /// Reads this process's command line and environment.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    #[expect(clippy::disallowed_methods, reason = "here, for the whole program")]
    pub fn of_process() -> Result<Self, CommandError> {
        Self::resolve(env::args_os(), &|name| env::var_os(name))
    }

    /// Reads the command line (the program's name first), with the environment given as a function.
    ///
    /// # Errors
    /// Something is not acceptable; nothing is started then.
    pub fn resolve(
        arguments: impl IntoIterator<Item = OsString>,
        environment: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, CommandError> {
        let matches = match command_line().try_get_matches_from(arguments) {
            Ok(matches) => matches,
            Err(asked) if !asked.use_stderr() => {
                return Ok(Self::Print(asked.render().to_string()));
            }
            Err(wrong) => return Err(CommandError::Usage(usage_message(&wrong))),
        };
        match matches.subcommand() {
            Some(("export", matches)) => export(matches).map(Self::Export),
            Some((_, matches)) => Resolved::new(matches, environment).map(Self::Check),
            None => Resolved::new(&matches, environment).map(Self::Serve),
        }
    }
}

/// What clap says, as one line.
fn usage_message(wrong: &clap::Error) -> String {
    let text = wrong.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ")
        .to_owned();
    match wrong.kind() {
        // Names of what is missing follow on lines of their own.
        ErrorKind::MissingRequiredArgument => {
            let missing: Vec<&str> = lines.take_while(|line| line.starts_with('-')).collect();
            format!("{first} {}", missing.join(", "))
        }
        _ => first,
    }
}

impl Resolved {
    fn new(
        matches: &ArgMatches,
        environment: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, CommandError> {
        let file = File::named(matches, environment)?;
        let mut config = Config::default();
        let mut origins = Vec::with_capacity(KNOBS.len());
        for knob in KNOBS {
            let given = given_by(knob, matches, environment, file.as_ref())?;
            if let Some(Given { texts, option, .. }) = &given {
                (knob.set)(&mut config, texts).ok_or_else(|| CommandError::Value {
                    option: option.clone(),
                    value: shown(knob, texts),
                    accepts: knob.accepts,
                })?;
            }
            origins.push(given.map_or(Origin::Default, |given| given.origin));
        }
        let origin = |name| {
            KNOBS
                .iter()
                .position(|knob| knob.name == name)
                .map(|at| &origins[at])
        };
        for (given, wanted) in [("genesis", "files"), ("chain", "files"), ("node", "node")] {
            let ignored =
                config.source == SourceKind::Dev && origin("source") == Some(&Origin::Default);
            if ignored && origin(given) != Some(&Origin::Default) {
                return Err(ConfigError::Unused { given, wanted }.into());
            }
        }
        let config = config.complete()?;
        let setting = |(knob, origin): (&Knob, Origin)| Setting {
            name: knob.name,
            value: (knob.show)(&config),
            origin,
        };
        let settings = KNOBS.iter().zip(origins).map(setting).collect();
        Ok(Self { config, settings })
    }
}

/// What was given for a knob, and how.
struct Given {
    texts: Vec<String>,
    option: String,
    origin: Origin,
}

/// The value that counts: flag, else environment, else file.
fn given_by(
    knob: &Knob,
    matches: &ArgMatches,
    environment: &dyn Fn(&str) -> Option<OsString>,
    file: Option<&File>,
) -> Result<Option<Given>, CommandError> {
    if matches.value_source(knob.name) == Some(ValueSource::CommandLine) {
        let texts = matches.get_many::<OsString>(knob.name).unwrap_or_default();
        return Ok(Some(Given {
            texts: texts
                .map(|text| text.to_string_lossy().into_owned())
                .collect(),
            option: format!("--{}", knob.name),
            origin: Origin::Flag,
        }));
    }
    let name = knob.environment();
    if let Some(text) = environment(&name) {
        return Ok(Some(Given {
            texts: vec![text.to_string_lossy().into_owned()],
            option: name.clone(),
            origin: Origin::Environment(name),
        }));
    }
    file.map_or(Ok(None), |file| file.given(knob))
}

/// The values for a message: in quotes, or hidden.
fn shown(knob: &Knob, texts: &[String]) -> String {
    match knob.is_list() {
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
        let fault = |why: String| CommandError::File {
            option,
            file: file.clone(),
            why,
        };
        let text = fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
        let table: toml::Table = text
            .parse()
            .map_err(|error| fault(toml_message(&text, &error)))?;
        match table
            .keys()
            .find(|key| KNOBS.iter().all(|knob| knob.name != **key))
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

    fn given(&self, knob: &Knob) -> Result<Option<Given>, CommandError> {
        let Some(value) = self.table.get(knob.name) else {
            return Ok(None);
        };
        let option = format!("{} in {}", knob.name, self.path.display());
        let scalar = |value: &toml::Value| match value {
            toml::Value::String(text) => Some(text.clone()),
            toml::Value::Integer(number) => Some(number.to_string()),
            toml::Value::Boolean(truth) => Some(truth.to_string()),
            _ => None,
        };
        let texts = match value {
            toml::Value::Array(items) if knob.is_list() => items.iter().map(scalar).collect(),
            other => scalar(other).map(|text| vec![text]),
        };
        match texts {
            Some(texts) => Ok(Some(Given {
                texts,
                option,
                origin: Origin::File(self.path.clone()),
            })),
            None => Err(CommandError::Value {
                option,
                value: shown(knob, &[value.type_str().to_owned()]),
                accepts: knob.accepts,
            }),
        }
    }
}

/// What is wrong with a TOML text, as one line that quotes nothing of it: it may hold keys.
fn toml_message(text: &str, error: &toml::de::Error) -> String {
    let line = error
        .span()
        .and_then(|span| text.get(..span.start))
        .map(|before| before.matches('\n').count() + 1);
    let what = error.message().replace('\n', ", ");
    line.map_or_else(|| what.clone(), |line| format!("line {line}: {what}"))
}

/// The command line, made from the table.
fn command_line() -> clap::Command {
    let serve = with_knobs(clap::Command::new("nearhead"))
        .version(env!("CARGO_PKG_VERSION"))
        .about("JSON-RPC read service for the latest 128 blocks of one Ethereum-compatible chain")
        .override_usage("nearhead [OPTIONS]\n       nearhead check [OPTIONS]\n       nearhead export --genesis FILE --chain FILE [OPTIONS]")
        .after_help(
            "Every option has a second form, NEARHEAD_<NAME> in the environment, and a third, a key in the file that \
             --config names. The command line goes before the environment, the environment before the file.",
        )
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true);
    let check = with_knobs(clap::Command::new("check"))
        .about("Validate the configuration and print it resolved, each value with where it came from; keys are hidden");
    serve.subcommand(check).subcommand(export_command())
}

fn with_knobs(command: clap::Command) -> clap::Command {
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(ValueParser::os_string())
        .help("TOML file with options [environment: NEARHEAD_CONFIG]");
    command.arg(config).args(KNOBS.iter().map(flag))
}

fn flag(knob: &'static Knob) -> Arg {
    let default = knob.default();
    let help = match default.as_str() {
        "none" => knob.help.to_owned(),
        default => format!("{} [default: {default}]", knob.help),
    };
    let arg = Arg::new(knob.name)
        .long(knob.name)
        .value_name(knob.unit)
        .value_parser(ValueParser::os_string())
        .allow_negative_numbers(true)
        .help_heading(knob.group)
        .help(help);
    match (knob.is_list(), knob.is_switch()) {
        (true, _) => arg.action(ArgAction::Append),
        (_, true) => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        _ => arg,
    }
}

/// Names of the dev chain's knobs that an export takes.
const EXPORT_KNOBS: [&str; 3] = ["seed", "profile", "block-time"];

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
        .help("How many blocks, the genesis not counted [default: 127]");
    clap::Command::new("export")
        .about("Write the dev chain of a seed, without its reorgs, in the form that source files and geth import")
        .arg(file("genesis", "Where genesis.json goes"))
        .arg(file("chain", "Where chain.rlp goes"))
        .arg(blocks)
        .args(KNOBS.iter().filter(|knob| EXPORT_KNOBS.contains(&knob.name)).map(flag))
}

fn export(matches: &ArgMatches) -> Result<Export, CommandError> {
    const ACCEPTS: &str = "a whole number from 1 to 1000000";
    let mut config = Config::default();
    for knob in KNOBS
        .iter()
        .filter(|knob| EXPORT_KNOBS.contains(&knob.name))
    {
        if let Some(given) = given_by(knob, matches, &|_| None, None)? {
            (knob.set)(&mut config, &given.texts).ok_or_else(|| CommandError::Value {
                option: given.option,
                value: shown(knob, &given.texts),
                accepts: knob.accepts,
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
