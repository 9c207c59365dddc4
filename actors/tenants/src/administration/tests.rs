#![expect(clippy::unwrap_used, reason = "tests")]

mod accounts;
mod audit;
mod keys;
mod lists;
mod logins;
mod model;
mod refusals;
mod rights;
mod scene;
mod secrecy;
mod usage;
