//! Rules that no compiler checks.
//!
//! | file | rule |
//! |---|---|
//! | `boundaries` | a room knows nothing that the code map forbids |
//! | `circles` | files do not depend on each other in a circle |
//! | `calls` | some names have one place, some calls are made nowhere |
//! | `layout` | files are short, named for what they hold, at most 100 columns wide |
//! | `documents` | the README is short, and every relative link leads somewhere |

mod boundaries;
mod calls;
mod circles;
mod documents;
mod layout;
mod source;
mod tokens;

use std::path::Path;

/// The project's folder.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Fails with all lines that break a rule.
fn check_none(rule: &str, violations: &[String]) {
    assert!(violations.is_empty(), "{rule}:\n{}", violations.join("\n"));
}
