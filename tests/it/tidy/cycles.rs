//! Dependencies between the files of a package have no cycles.
//!
//! A file depends on the files that define what its code names. Re-exports are resolved to the
//! defining file, so a `mod.rs` that only re-exports is on no cycle. Tests do not count.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::{
    check_none,
    source::{Source, sources},
    tokens::{Statement, statements},
};

/// Dependencies that may close a cycle: from, to, and the sentence in `from` that says why.
const ALLOWED: &[(&str, &str, &str)] = &[];

/// The roots of the packages' module trees.
const ROOTS: [(&str, &str); 5] = [
    ("src/", "lib.rs"),
    ("actors/src/", "lib.rs"),
    ("actors/chain/src/", "lib.rs"),
    ("actors/fleet/src/", "lib.rs"),
    ("actors/tenants/src/", "lib.rs"),
];

/// Depth to which re-exports of re-exports are followed.
const DEPTH_MAX: usize = 16;

/// One file as a module.
struct Module {
    path: String,
    parent: usize,
    children: BTreeMap<String, usize>,
    /// Names that `use` imports, with their paths.
    imports: HashMap<String, Import>,
    /// Paths that the code names outside of `use`, with the line of the first of each.
    paths: Vec<(usize, Vec<String>)>,
    /// Identifiers that the code has outside of `use`.
    words: BTreeSet<String>,
}

struct Import {
    line: usize,
    path: Vec<String>,
    is_public: bool,
}

/// The files of one package.
struct Tree {
    modules: Vec<Module>,
    /// Exported macros, which every file names at the root.
    macros: HashMap<String, usize>,
}

impl Tree {
    /// A package's tree of these files, whose paths begin with `folder`.
    fn new(folder: &str, root: &str, sources: &[Source]) -> Self {
        let mut tree = Self {
            modules: Vec::new(),
            macros: HashMap::new(),
        };
        let mut by_path: BTreeMap<Vec<String>, usize> = BTreeMap::new();
        let mut files: Vec<(Vec<String>, &Source)> = Vec::new();
        for source in sources {
            let Some(inside) = source.path.strip_prefix(folder) else {
                continue;
            };
            let inside = if inside == root { "" } else { inside };
            let inside = inside.trim_end_matches(".rs");
            let inside = inside.strip_suffix("/mod").unwrap_or(inside);
            let names = inside.split('/').filter(|name| !name.is_empty());
            files.push((names.map(str::to_owned).collect(), source));
        }
        files.sort_by_key(|(names, _)| names.len());
        for (names, source) in files {
            let index = tree.modules.len();
            let parent = match names.split_last() {
                Some((_, above)) => by_path.get(above).copied().unwrap_or(0),
                None => 0,
            };
            if let (Some(name), true) = (names.last(), index > 0) {
                tree.modules[parent].children.insert(name.clone(), index);
            }
            for name in exported_macros(&source.text) {
                tree.macros.insert(name, index);
            }
            tree.modules.push(Module::read(source, parent));
            by_path.insert(names, index);
        }
        tree
    }

    /// The file that defines what a path names in `module`; `None` for what is not of this package.
    fn find(&self, module: usize, path: &[String], depth: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let own = &self.modules[module];
        match first.as_str() {
            "crate" => self.descend(0, rest, depth),
            "self" => self.descend(module, rest, depth),
            "super" => self.descend(own.parent, rest, depth),
            name if own.children.contains_key(name) => self.descend(module, path, depth),
            name => {
                let import = own.imports.get(name)?;
                if import.path.first().map(String::as_str) == Some(name) && import.path.len() == 1 {
                    return None;
                }
                if rest.is_empty() || depth > DEPTH_MAX {
                    return self.find(module, &import.path, depth + 1);
                }
                let path: Vec<String> = import.path.iter().chain(rest).cloned().collect();
                self.find(module, &path, depth + 1)
            }
        }
    }

    fn descend(&self, mut module: usize, path: &[String], depth: usize) -> Option<usize> {
        for (index, name) in path.iter().enumerate() {
            let own = &self.modules[module];
            match name.as_str() {
                "self" => {}
                "super" => module = own.parent,
                name => match own.children.get(name) {
                    Some(child) => module = *child,
                    // An item: defined here, or brought in from elsewhere.
                    None => return self.item(module, &path[index..], depth),
                },
            }
        }
        // The path ends at a module: the items taken from it are named where they are used.
        None
    }

    fn item(&self, module: usize, path: &[String], depth: usize) -> Option<usize> {
        let own = &self.modules[module];
        let name = path.first()?;
        if module == 0
            && let Some(file) = self.macros.get(name)
        {
            return Some(*file);
        }
        match own.imports.get(name) {
            Some(import) if depth <= DEPTH_MAX => {
                let path: Vec<String> = import.path.iter().chain(&path[1..]).cloned().collect();
                self.find(module, &path, depth + 1)
            }
            _ => Some(module),
        }
    }

    /// The files that a file depends on, each with the line that shows it.
    fn dependencies(&self, module: usize) -> BTreeMap<usize, usize> {
        let own = &self.modules[module];
        let mut found = BTreeMap::new();
        let imports = own.imports.iter().filter(|(name, import)| {
            // A file does not depend on what it only re-exports.
            !import.is_public || own.words.contains(*name)
        });
        let imports = imports.map(|(_, import)| (import.line, &import.path));
        let paths = own.paths.iter().map(|(line, path)| (*line, path));
        for (line, path) in imports.chain(paths) {
            if let Some(file) = self.find(module, path, 0).filter(|file| *file != module) {
                let first = found.entry(file).or_insert(line);
                *first = line.min(*first);
            }
        }
        found
    }

    /// The shortest cycle through each file, each once; the edges of `allowed` are left out.
    fn cycles(&self, allowed: &[(&str, &str, &str)]) -> Vec<String> {
        let edges: Vec<BTreeMap<usize, usize>> = (0..self.modules.len())
            .map(|module| {
                let from = &self.modules[module].path;
                let mut edges = self.dependencies(module);
                edges.retain(|to, _| {
                    let to = &self.modules[*to].path;
                    !allowed
                        .iter()
                        .any(|(one, other, _)| one == from && other == to)
                });
                edges
            })
            .collect();
        let mut seen = BTreeSet::new();
        let mut cycles = Vec::new();
        for start in 0..edges.len() {
            let Some(cycle) = shortest_cycle(&edges, start) else {
                continue;
            };
            let mut members = cycle.clone();
            members.sort_unstable();
            if !seen.insert(members) {
                continue;
            }
            let next = cycle.iter().cycle().skip(1);
            let steps = cycle.iter().zip(next).map(|(from, to)| {
                let (line, path) = (edges[*from][to], &self.modules[*from].path);
                format!("{path}:{line} -> {}", self.modules[*to].path)
            });
            cycles.push(steps.collect::<Vec<_>>().join("\n    "));
        }
        cycles
    }
}

impl Module {
    fn read(source: &Source, parent: usize) -> Self {
        let mut module = Self {
            path: source.path.clone(),
            parent,
            children: BTreeMap::new(),
            imports: HashMap::new(),
            paths: Vec::new(),
            words: BTreeSet::new(),
        };
        for (line, statement) in statements(&source.text) {
            match statement {
                Statement::Use {
                    name,
                    path,
                    is_public,
                } => {
                    module.imports.insert(
                        name,
                        Import {
                            line,
                            path,
                            is_public,
                        },
                    );
                }
                Statement::Path(path) => {
                    module.words.extend(path.first().cloned());
                    if path.len() > 1 {
                        module.paths.push((line, path));
                    }
                }
            }
        }
        module
    }
}

/// Names of the macros that a file exports.
fn exported_macros(text: &str) -> impl Iterator<Item = String> {
    text.split("#[macro_export]").skip(1).filter_map(|after| {
        let (_, name) = after.split_once("macro_rules! ")?;
        Some(name.split(' ').next()?.to_owned())
    })
}

/// The shortest path from a file back to itself.
fn shortest_cycle(edges: &[BTreeMap<usize, usize>], start: usize) -> Option<Vec<usize>> {
    let mut before: BTreeMap<usize, usize> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for next in edges[file].keys() {
            if *next == start {
                let mut cycle = vec![file];
                while let Some(previous) = before.get(&cycle[cycle.len() - 1]) {
                    cycle.push(*previous);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if !before.contains_key(next) {
                before.insert(*next, file);
                queue.push_back(*next);
            }
        }
    }
    None
}

/// The text of a file's comments, in one line.
fn prose(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    let comments = lines.filter(|line| line.starts_with("//"));
    let words: Vec<&str> = comments
        .flat_map(|line| line.trim_start_matches(['/', '!']).split_whitespace())
        .collect();
    words.join(" ")
}

#[test]
fn dependencies_between_files_have_no_cycles() {
    let mut violations = Vec::new();
    let mut all: Vec<Source> = sources(&["src", "actors"]);
    // The program and its allocator are a separate module tree of two files.
    all.retain(|source| {
        let is_program = ["src/main.rs", "src/allocator.rs"].contains(&source.path.as_str());
        !source.is_test && !is_program
    });
    let mut needed = Vec::new();
    for (folder, root) in ROOTS {
        let tree = Tree::new(folder, root, &all);
        violations.extend(tree.cycles(ALLOWED));
        for (index, module) in tree.modules.iter().enumerate() {
            for to in tree.dependencies(index).keys() {
                needed.push((module.path.clone(), tree.modules[*to].path.clone()));
            }
        }
    }
    for (from, to, sentence) in ALLOWED {
        let edge = ((*from).to_owned(), (*to).to_owned());
        if !needed.contains(&edge) {
            violations.push(format!("{from} -> {to} is allowed and does not exist"));
        }
        let text = all.iter().find(|source| source.path == *from);
        if !text.is_some_and(|source| prose(&source.text).contains(sentence)) {
            violations.push(format!("{from} does not say: {sentence}"));
        }
    }
    check_none("a cycle of dependencies", &violations);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source::new(path, text, false))
            .collect();
        Tree::new("src/", "lib.rs", &sources).cycles(&[])
    }

    #[test]
    fn a_cycle_is_found_through_re_exports() {
        let lib = ("src/lib.rs", "mod a;\nmod b;\n");
        let facade = (
            "src/b/mod.rs",
            "mod inner;\npub(crate) use inner::{Other as O, Thing};\n",
        );
        let inner = ("src/b/inner.rs", "use crate::a::Name;\npub struct Thing;\n");
        for a in [
            "use crate::{b::{Thing}, c};\npub struct Name;\n",
            "use super::b::O;\npub struct Name;\n",
            "use crate::b;\nfn f() -> b::Thing {}\n",
            "fn f() { crate::b::Thing::new() }\n",
        ] {
            let found = cycles(&[lib, ("src/a.rs", a), facade, inner]);
            assert_eq!(found.len(), 1, "{a}: {found:?}");
            assert!(
                found[0].contains("src/b/inner.rs:1 -> src/a.rs"),
                "{found:?}"
            );
        }
        for a in [
            "pub struct Name;\n// crate::b::Thing\nconst X: &str = \"crate::b::Thing\";\n",
            "pub struct Name;\n#[cfg(test)]\nmod tests {\n    use crate::b::Thing;\n}\n",
            "pub struct Name;\n#[cfg(test)]\nuse crate::b::Thing;\n",
        ] {
            let found = cycles(&[lib, ("src/a.rs", a), facade, inner]);
            assert!(found.is_empty(), "{a}: {found:?}");
        }
    }

    #[test]
    fn a_child_that_needs_its_parent_is_a_cycle() {
        let lib = ("src/lib.rs", "mod a;\n");
        let child = ("src/a/child.rs", "use super::Name;\npub struct Part;\n");
        let needs = "mod child;\nuse child::Part;\npub struct Name(Part);\n";
        assert_eq!(cycles(&[lib, ("src/a/mod.rs", needs), child]).len(), 1);
        let needs = "mod child;\npub use self::child::Part;\npub struct Name(Part);\n";
        assert_eq!(cycles(&[lib, ("src/a/mod.rs", needs), child]).len(), 1);
        let passes_on = "mod child;\npub use child::Part;\npub struct Name;\n";
        assert!(cycles(&[lib, ("src/a/mod.rs", passes_on), child]).is_empty());
    }
}
