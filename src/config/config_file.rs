//! The configuration file.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use clap::ArgMatches;

use super::{
    OPTIONS, OptionSpec,
    command_error::CommandError,
    given::{Given, Origin, shown},
};

/// Environment variable that names the file.
const CONFIG_ENVIRONMENT: &str = "NEARHEAD_CONFIG";

/// The TOML file.
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    table: toml::Table,
}

impl ConfigFile {
    /// Reads the file that the command line or the environment names, if either does.
    pub(super) fn named(
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

    pub(super) fn given(&self, option: &OptionSpec) -> Result<Option<Given>, CommandError> {
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
