//! Rules that the compiler does not check.
//!
//! | file | rule |
//! |---|---|
//! | `boundaries` | a module does not mention what the code map forbids |
//! | `cycles` | dependencies between files have no cycles |
//! | `calls` | some names are used in one place only, some calls are banned |
//! | `layout` | files are short, named for what they contain, and fit a screen |
//! | `manifest` | the release checks arithmetic |
//! | `unsafe_code` | SECURITY.md lists every file with `unsafe`, each with its reason |
//! | `documents` | the README is short, every relative link has a target, and every named file exists |

mod boundaries;
mod calls;
mod cycles;
mod documents;
mod layout;
mod manifest;
mod source;
mod tokens;
mod unsafe_code;

use std::path::Path;

/// The project's folder.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Fails with all lines that break a rule.
fn check_none(rule: &str, violations: &[String]) {
    assert!(violations.is_empty(), "{rule}:\n{}", violations.join("\n"));
}
