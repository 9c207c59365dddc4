#![expect(clippy::unwrap_used, reason = "tests")]

mod line;
mod resolver;
