//! Groups of modules of a crate that import each other, directly or through others.
//!
//! The text is read as it is, without the compiler: `use` declarations outside of tests, and paths
//! that begin with `crate::` or `super::`. A name that the root re-exports counts as an import of
//! the module that has it.

use std::collections::{BTreeMap, BTreeSet};

/// Modules of a crate by path (`load::place`; the root is empty), each with those that it imports.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

const TESTS_ONLY: &str = "#[cfg(test)]\n";

/// The module of a file below the `src` folder of its crate. `None`: no Rust file.
pub fn module_name(file: &str) -> Option<String> {
    let path = file.strip_suffix(".rs")?;
    let parts: Vec<&str> = path.split('/').filter(|part| *part != "mod").collect();
    match parts[..] {
        ["lib" | "main"] => Some(String::new()),
        _ => Some(parts.join("::")),
    }
}

/// The imports of the modules of a crate, without those that exist in tests only. `files`: module
/// and text.
pub fn imports(files: &BTreeMap<String, String>) -> Imports {
    let tests = test_modules(files);
    let is_test = |module: &str| {
        tests.iter().any(|test| {
            module.strip_prefix(test).is_some_and(|m| m.is_empty() || m.starts_with("::"))
        })
    };
    let files: BTreeMap<&String, &String> =
        files.iter().filter(|(module, _)| !is_test(module)).collect();
    let exported = files.get(&String::new()).map(|root| exports(root)).unwrap_or_default();
    let paths = |module: &str, text: &str| -> BTreeSet<String> {
        let all = paths(without_tests(text)).into_iter();
        let resolved = all.filter_map(|path| resolve(module, &path, &files, &exported));
        resolved.filter(|other| other != module && !other.is_empty()).collect()
    };
    let modules = files.iter().filter(|(module, _)| !module.is_empty());
    modules.map(|(module, text)| ((*module).clone(), paths(module, text))).collect()
}

/// The modules that are declared below `#[cfg(test)]` and have a file of their own.
fn test_modules(files: &BTreeMap<String, String>) -> Vec<String> {
    let declared = files.iter().flat_map(|(module, text)| {
        text.split(TESTS_ONLY).skip(1).filter_map(move |rest| {
            let (_, name) = rest.lines().next()?.split_once("mod ")?;
            let name = name.strip_suffix(';')?;
            Some(if module.is_empty() { name.to_string() } else { format!("{module}::{name}") })
        })
    });
    declared.collect()
}

/// The groups of more than one module of which each reaches each.
pub fn cycles(imports: &Imports) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|module| (module, reach(imports, module))).collect();
    let mut groups = BTreeSet::new();
    for (module, reached_modules) in &reached {
        let is_mutual = |other: &&&String| reached.get(**other).is_some_and(|r| r.contains(module));
        let group: BTreeSet<String> =
            reached_modules.iter().filter(is_mutual).map(|m| (*m).clone()).collect();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    groups.into_iter().collect()
}

/// The modules that are imported from here, directly or through others.
fn reach<'a>(imports: &'a Imports, from: &str) -> BTreeSet<&'a String> {
    let mut visited = BTreeSet::new();
    let mut open: Vec<&String> = imports[from].iter().collect();
    while let Some(module) = open.pop() {
        if visited.insert(module) {
            open.extend(imports.get(module).into_iter().flatten());
        }
    }
    visited
}

/// The text up to the tests at its end.
fn without_tests(text: &str) -> &str {
    text.find(&format!("{TESTS_ONLY}mod tests {{")).map_or(text, |at| &text[..at])
}

/// The last names of what a root re-exports, each with its path.
fn exports(root: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for declaration in root.split("pub use ").skip(1) {
        let end = declaration.find(';').unwrap_or(declaration.len());
        for path in expanded(&declaration[..end]) {
            let path = path.trim_start_matches("crate::").to_string();
            let name = path.rsplit("::").next().unwrap_or_default().to_string();
            all.insert(name, path);
        }
    }
    all
}

/// All paths of a text that begin in its crate.
fn paths(text: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '$')) {
                all.extend(expanded(path_at(&code[at..])));
            }
        }
    }
    all
}

/// The path at the beginning of a text, with its braces.
fn path_at(text: &str) -> &str {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' if text[..at].ends_with("::") || depth > 0 => depth += 1,
            '}' if depth == 1 => return &text[..=at],
            '}' if depth > 1 => depth -= 1,
            _ if depth > 0 || c.is_alphanumeric() || matches!(c, '_' | ':' | '*') => {}
            _ => return &text[..at],
        }
    }
    text
}

/// `a::{b, c::{d, e}}` as `a::b`, `a::c::d` and `a::c::e`.
fn expanded(path: &str) -> Vec<String> {
    let Some((head, rest)) = path.split_once('{') else {
        let name = path.split(" as ").next().unwrap_or_default().trim();
        return if name.is_empty() { Vec::new() } else { vec![name.to_string()] };
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut begin, mut parts) = (0, 0, Vec::new());
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[begin..]);
    let head = head.trim();
    let all = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    all.flat_map(expanded).map(|part| format!("{head}{part}")).collect()
}

/// The module that a path leads to: the longest one whose path begins it.
fn resolve(
    module: &str,
    path: &str,
    files: &BTreeMap<&String, &String>,
    exported: &BTreeMap<String, String>,
) -> Option<String> {
    let mut base: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
    let mut rest: Vec<&str> = path.split("::").collect();
    match rest.first()? {
        &"crate" => {
            base.clear();
            rest.remove(0);
        }
        _ => {
            while rest.first() == Some(&"super") {
                base.pop()?;
                rest.remove(0);
            }
        }
    }
    if base.is_empty()
        && let Some(other) = rest.first().and_then(|name| exported.get(*name))
    {
        rest = other.split("::").collect();
    }
    let whole: Vec<&str> = base.into_iter().chain(rest).filter(|part| *part != "self").collect();
    let lengths = (0..=whole.len()).rev();
    lengths.map(|n| whole[..n].join("::")).find(|name| files.contains_key(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_imports(files: &[(&str, &str)]) -> Imports {
        let files = files.iter().map(|(module, text)| ((*module).into(), (*text).into()));
        imports(&files.collect())
    }

    #[test]
    fn imports_are_found() {
        assert_eq!(module_name("load/mod.rs").as_deref(), Some("load"));
        assert_eq!(module_name("load/page.html"), None);
        let imports = crate_imports(&[
            ("", "pub use load::Load;"),
            ("load", "use super::place;\nfn f() { crate::words::say() }\n// crate::price"),
            ("place", "use crate::{words::{self, say}, Load};"),
            ("words", "#[cfg(test)]\nmod tests { use crate::load; }"),
            ("price", "use std::fmt;"),
        ]);
        let names = |module: &str| imports[module].iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(names("load"), ["place", "words"]);
        assert_eq!(names("place"), ["load", "words"]);
        assert_eq!((names("words").len(), names("price").len()), (0, 0));
        let group: BTreeSet<String> = ["load", "place"].map(String::from).into();
        assert_eq!(cycles(&imports), [group]);
    }

    #[test]
    fn modules_of_tests_alone_are_left_out() {
        let imports = crate_imports(&[
            ("", "#[cfg(test)]\npub(crate) mod fixture;\nmod load;"),
            ("fixture", "use crate::load;"),
            ("fixture::world", "use crate::load;"),
            ("fixtures", ""),
            ("load", "#[cfg(test)]\nmod cases;\nuse crate::{fixture, fixtures};"),
            ("load::cases", "use super::f;"),
        ]);
        assert_eq!(imports.keys().collect::<Vec<_>>(), ["fixtures", "load"]);
        assert_eq!(imports["load"].iter().collect::<Vec<_>>(), ["fixtures"]);
    }

    #[test]
    fn modules_that_import_in_one_direction_are_no_cycle() {
        let imports =
            crate_imports(&[("", ""), ("a", "use crate::b;"), ("b", "use crate::c;"), ("c", "")]);
        assert_eq!(cycles(&imports), []);
        let ring =
            [("", ""), ("a", "use crate::b;"), ("b", "use crate::c;"), ("c", "use crate::a;")];
        assert_eq!(cycles(&crate_imports(&ring))[0].len(), 3);
    }
}
