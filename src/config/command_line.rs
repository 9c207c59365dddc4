//! The command line as clap knows it, made from the table of options.

use clap::{Arg, ArgAction, Command, builder::ValueParser};
use clap_complete::Shell;

use super::{OPTIONS, OptionSpec, export::EXPORT_OPTIONS, health};
use crate::commands;

/// The command line, made from the table.
pub(super) fn command_line() -> Command {
    let serve = with_options(Command::new("nearhead"))
        .version(env!("CARGO_PKG_VERSION"))
        .about("JSON-RPC read service for the latest 128 blocks of one Ethereum-compatible chain")
        .override_usage("nearhead [OPTIONS]\n       nearhead check [OPTIONS]\n       nearhead doctor [OPTIONS]\n       nearhead health [URL] [OPTIONS]\n       nearhead export --genesis FILE --chain FILE [OPTIONS]\n       nearhead init [FILE]\n       nearhead completions SHELL\n       nearhead man\n       nearhead key|tenant|admin COMMAND [OPTIONS]")
        .after_help(
            "Every option can also be set as NEARHEAD_<NAME> in the environment, or as a key in the file that --config \
             names. The command line overrides the environment, and the environment overrides the file.",
        )
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true);
    let check = with_options(Command::new("check"))
        .about("Validate the configuration and print each value with its origin; keys are hidden");
    let doctor = with_options(Command::new("doctor"))
        .about("Look at descriptors, addresses, the data folder, the clock and the nodes, and say what to change");
    let health = health::with_arguments(with_options(Command::new("health")))
        .override_usage("nearhead health [URL] [--timeout TIME] [OPTIONS]")
        .about("Ask a running service whether it is ready: exit code 0 if it is, 1 if not");
    serve
        .subcommand(check)
        .subcommand(doctor)
        .subcommand(health)
        .subcommand(export_command())
        .subcommands(commands_that_write())
        .subcommands(commands::command_lines())
}

fn with_options(command: Command) -> Command {
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

fn export_command() -> Command {
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
    Command::new("export")
        .about("Write the dev chain of a seed, without reorgs, as files that `--source files` and geth import")
        .arg(file("genesis", "Where to write genesis.json"))
        .arg(file("chain", "Where to write chain.rlp"))
        .arg(blocks)
        .args(OPTIONS.iter().filter(|option| EXPORT_OPTIONS.contains(&option.name)).map(flag))
}

/// The commands that write something.
fn commands_that_write() -> [Command; 3] {
    let file = Arg::new("file")
        .value_name("FILE")
        .value_parser(ValueParser::path_buf())
        .default_value("nearhead.toml")
        .help("Where to write it; a file that exists stays as it is");
    let shell = Arg::new("shell")
        .value_name("SHELL")
        .value_parser(clap::value_parser!(Shell))
        .required(true)
        .help("The shell to complete for");
    [
        Command::new("init")
            .about("Write a configuration file with every option, its default and what it is for")
            .arg(file),
        Command::new("completions")
            .about("Print completions of the command line for a shell")
            .arg(shell),
        Command::new("man").about("Print the man page, as roff"),
    ]
}
