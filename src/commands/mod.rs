//! What administrators do from a terminal: `nearhead key`, `nearhead tenant` and `nearhead admin`.
//!
//! A command is a few operations of [`nearhead_tenants::administration`]. A running service does
//! them, by its admin API, or this process does, on the data folder of a service that is stopped.
//!
//! | file | content |
//! |---|---|
//! | `command_line` | the commands as clap knows them |
//! | `run` | runs a command |
//! | `key_verbs`, `tenant_verbs`, `admin_verbs` | what each verb does |
//! | `connection` | what does the operations |
//! | `service_client`, `api_call` | a running service: the client of its API, and verb and path of each call |
//! | `service_tls` | TLS of that client |
//! | `key_text`, `time_text`, `table` | answers as people read them |
//! | `terminal` | questions to a person |
//! | `failure` | why a command failed |

mod admin_verbs;
mod api_call;
mod command_line;
mod connection;
mod failure;
mod key_text;
mod key_verbs;
mod run;
mod service_client;
mod service_tls;
mod table;
mod tenant_verbs;
mod terminal;
mod time_text;

pub use command_line::AdminCommand;
pub(crate) use command_line::commands as command_lines;
pub use failure::Failure;
pub use run::run;
