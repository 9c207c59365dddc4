//! Files are short and named for what they hold.

use std::path::Path;

use super::{check_none, source::sources};

/// Lines of code of one responsibility; tables of tests may be longer.
const CODE_LINES_MAX: usize = 550;
const TEST_LINES_MAX: usize = 900;

#[test]
fn files_are_short_and_named_for_what_they_hold() {
    let mut violations = Vec::new();
    for source in sources(&["src", "actors", "tests"]) {
        let last = source
            .code(source.is_test)
            .last()
            .map_or(0, |(number, _)| number);
        let most = if source.is_test {
            TEST_LINES_MAX
        } else {
            CODE_LINES_MAX
        };
        if last > most {
            violations.push(format!(
                "{}: {last} lines without its tests, at most {most}",
                source.path
            ));
        }
        let name = Path::new(&source.path)
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        if [
            "utils", "util", "common", "helpers", "helper", "manager", "misc",
        ]
        .contains(&name.as_str())
        {
            violations.push(format!("{}: says nothing of what it holds", source.path));
        }
    }
    check_none("long, or badly named", &violations);
}
