//! Just enough of Rust's grammar to know which paths a file names.

/// What a file says about other files.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Statement {
    /// One name that a `use` imports; `*` for all names of a module.
    Use {
        name: String,
        path: Vec<String>,
        is_public: bool,
    },
    /// A path in the code; a single word is a path of one part.
    Path(Vec<String>),
}

/// All statements of a file's code, each with its line. Comments, string literals and tests have
/// none.
pub(super) fn statements(text: &str) -> Vec<(usize, Statement)> {
    let mut found = Vec::new();
    let tokens = tokens(text);
    let mut at = 0;
    let mut is_public = false;
    while at < tokens.len() {
        let (line, token) = (tokens[at].0, tokens[at].1.as_str());
        if let Some(attribute) = cfg_test(&tokens[at..]) {
            at = end_of_item(&tokens, at + attribute);
            continue;
        }
        match token {
            "pub" => {
                is_public = true;
                at += 1;
                // `pub(crate)`, `pub(super)`: no path of the code.
                if tokens.get(at).is_some_and(|(_, token)| token == "(") {
                    while tokens.get(at).is_some_and(|(_, token)| token != ")") {
                        at += 1;
                    }
                    at += 1;
                }
                continue;
            }
            "use" => {
                let mut tree = at + 1;
                let mut paths = Vec::new();
                expand(&tokens, &mut tree, &[], &mut paths);
                for (name, path) in paths {
                    found.push((
                        line,
                        Statement::Use {
                            name,
                            path,
                            is_public,
                        },
                    ));
                }
                at = tree;
            }
            word if is_word(word) => {
                let mut path = vec![word.to_owned()];
                while tokens.get(at + 1).is_some_and(|(_, token)| token == "::")
                    && tokens.get(at + 2).is_some_and(|(_, token)| is_word(token))
                {
                    path.push(tokens[at + 2].1.clone());
                    at += 2;
                }
                found.push((line, Statement::Path(path)));
            }
            _ => {}
        }
        is_public = false;
        at += 1;
    }
    found
}

/// The number of tokens of the attribute `cfg(test)` or `cfg(all(test, …))` that these begin with;
/// `None` if they begin with neither.
fn cfg_test(tokens: &[(usize, String)]) -> Option<usize> {
    let begins = |expected: &[&str]| {
        let words = tokens.iter().map(|(_, token)| token.as_str());
        words.take(expected.len()).eq(expected.iter().copied())
    };
    let is_test = begins(&["#", "[", "cfg", "(", "test", ")"])
        || begins(&["#", "[", "cfg", "(", "all", "(", "test", ","]);
    let length = tokens.iter().position(|(_, token)| token == "]")? + 1;
    is_test.then_some(length)
}

/// First and last lines of the items that are compiled for tests alone.
pub(super) fn test_items(text: &str) -> Vec<(usize, usize)> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let Some(attribute) = cfg_test(&tokens[at..]) else {
            at += 1;
            continue;
        };
        let first = tokens[at].0;
        at = end_of_item(&tokens, at + attribute);
        found.push((first, tokens[at - 1].0));
    }
    found
}

/// The place after the item that begins at `at`: after its `;`, or after its body.
fn end_of_item(tokens: &[(usize, String)], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some((_, token)) = tokens.get(at) {
        at += 1;
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                if depth == 0 && token == "}" {
                    return at;
                }
            }
            ";" if depth == 0 => return at,
            _ => {}
        }
    }
    at
}

/// Writes the paths of a use tree out: `a::{b, c::d as e}` is `b` for `a::b` and `e` for `a::c::d`.
fn expand(
    tokens: &[(usize, String)],
    at: &mut usize,
    prefix: &[String],
    paths: &mut Vec<(String, Vec<String>)>,
) {
    let mut path = prefix.to_vec();
    let mut name = None;
    while let Some((_, token)) = tokens.get(*at) {
        match token.as_str() {
            "{" => {
                *at += 1;
                while tokens
                    .get(*at)
                    .is_some_and(|(_, token)| token != "}" && token != ";")
                {
                    expand(tokens, at, &path, paths);
                    if tokens.get(*at).is_some_and(|(_, token)| token == ",") {
                        *at += 1;
                    }
                }
                *at += 1;
                return;
            }
            "as" => {
                *at += 1;
                name = tokens.get(*at).map(|(_, token)| token.clone());
            }
            "::" => {}
            "," | "}" | ";" => break,
            "self" if !path.is_empty() => {}
            word => path.push(word.to_owned()),
        }
        *at += 1;
    }
    if let Some(last) = path.last() {
        paths.push((name.unwrap_or_else(|| last.clone()), path));
    }
}

fn is_word(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Words, `::` and single characters, each with its line from 1.
fn tokens(text: &str) -> Vec<(usize, String)> {
    let characters: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    while at < characters.len() {
        let character = characters[at];
        let next = characters.get(at + 1).copied().unwrap_or(' ');
        match character {
            '\n' => {
                line += 1;
                at += 1;
            }
            '/' if next == '/' => {
                while at < characters.len() && characters[at] != '\n' {
                    at += 1;
                }
            }
            '/' if next == '*' => {
                while at < characters.len()
                    && !(characters[at] == '*' && characters.get(at + 1) == Some(&'/'))
                {
                    line += usize::from(characters[at] == '\n');
                    at += 1;
                }
                at += 2;
            }
            '"' => {
                at += 1;
                while at < characters.len() && characters[at] != '"' {
                    line += usize::from(characters[at] == '\n');
                    if characters[at] == '\\' {
                        at += 1;
                        line += usize::from(characters.get(at) == Some(&'\n'));
                    }
                    at += 1;
                }
                at += 1;
            }
            'r' if next == '#' || next == '"' => {
                let hashes = characters[at + 1..]
                    .iter()
                    .take_while(|one| **one == '#')
                    .count();
                if characters.get(at + 1 + hashes) != Some(&'"') {
                    at += 1;
                    continue;
                }
                at += 2 + hashes;
                let is_end = |at: usize| {
                    let after = characters[at + 1..]
                        .iter()
                        .take_while(|one| **one == '#')
                        .count();
                    characters[at] == '"' && after >= hashes
                };
                while at < characters.len() && !is_end(at) {
                    line += usize::from(characters[at] == '\n');
                    at += 1;
                }
                at += 1 + hashes;
            }
            '\'' if next == '\\' => {
                at += 3;
                while at < characters.len() && characters[at] != '\'' {
                    at += 1;
                }
                at += 1;
            }
            '\'' if characters.get(at + 2) == Some(&'\'') => at += 3,
            ':' if next == ':' => {
                found.push((line, "::".to_owned()));
                at += 2;
            }
            _ if is_part(character) => {
                let start = at;
                while at < characters.len() && is_part(characters[at]) {
                    at += 1;
                }
                found.push((line, characters[start..at].iter().collect()));
            }
            _ if character.is_whitespace() => at += 1,
            _ => {
                found.push((line, character.to_string()));
                at += 1;
            }
        }
    }
    found
}

#[test]
fn a_file_says_what_it_uses() {
    let text = "pub(crate) use a::{self, b::{C as D}, e};\nfn f(x: &'static str) -> g::H<'_> {\n    \
                // i::J\n    \"k::L\"; 'm'; r#\"n::O\"#;\n}\n#[cfg(test)]\nuse p::Q;\n";
    let found = statements(text);
    let uses: Vec<String> = found
        .iter()
        .filter_map(|(line, statement)| match statement {
            Statement::Use {
                name,
                path,
                is_public: true,
            } => Some(format!("{line} {name} {}", path.join("::"))),
            _ => None,
        })
        .collect();
    assert_eq!(uses, ["1 a a", "1 D a::b::C", "1 e a::e"]);
    let paths = found
        .iter()
        .filter_map(|(line, statement)| match statement {
            Statement::Path(path) if path.len() > 1 => Some((*line, path.join("::"))),
            _ => None,
        });
    assert_eq!(paths.collect::<Vec<_>>(), [(2, "g::H".to_owned())]);
}
