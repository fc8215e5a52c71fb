//! Reads all tracked text and holds it to the guide: width, words, length of files, names of types.
//!
//! The model is TigerBeetle's `src/tidy.zig`. Clippy refuses functions of more than 60 lines
//! (`clippy.toml`).

mod cycles;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Columns of a line, in characters.
const WIDTH: usize = 100;

/// Lines of a source file.
const LENGTH: usize = 700;

/// Words and phrases that readers stumble over, each with what is written instead.
const BANNED: &[(&str, &str)] = &[
    ("whoever", "any client, or the noun"),
    ("mend", "fix"),
    ("untold", "unknown, or not reported"),
    ("heed", "obey, or use"),
    ("nobody", "the noun: no client, no program"),
    ("gone on with", "resumed"),
    ("be had", "available"),
    ("lie apart", "differ"),
    ("stands beside", "stands next to"),
    ("beside whom", "together with which"),
    ("done again", "repeated"),
];

/// Characters of the name of a test.
const TEST_NAME: usize = 60;

/// Words with which no name of a test begins: the name is unit, condition, result.
const NOT_FIRST: &[&str] =
    &["a", "an", "the", "what", "who", "whoever", "whose", "which", "those", "of", "so"];

/// Kinds of files whose lines have a limit.
const NARROW: &[&str] = &[
    "rs", "md", "toml", "ts", "css", "sh", "py", "go", "c", "h", "java", "kt", "erl", "js", "cjs",
    "mjs",
];

/// Kinds of files that are read.
const READ: &[&str] = &[
    "rs", "md", "toml", "ts", "css", "sh", "py", "go", "c", "h", "java", "kt", "erl", "js", "cjs",
    "mjs", "json",
];

/// Scripts, which have no extension: they count as "sh".
const SCRIPTS: &[&str] = &["Makefile", "scripts/", "benches/", "backends/postgres/"];

/// Folders of data and of text that others wrote or that a program makes.
const SKIPPED: &[&str] = &[
    "tests/golden/",
    "contracts/",
    "crates/report/viewer/",
    // Their compiled programs hold a hash of the text.
    "crates/observer/bpf/",
    "docs/schema/",
    "web/package-lock.json",
    "web/src/schema.ts",
    "CHANGELOG.md",
    "crates/dyno/tests/tidy/",
];

/// Files that are exempt from a rule, each with its reason. At most twenty.
const EXCEPTIONS: &[(Rule, &str, &str)] = &[
    (Rule::Width, "crates/report/src/redact/tests.rs", "secrets in raw literals"),
    (Rule::Width, "crates/workload/src/import/curl/tests.rs", "curl commands, one per line"),
    (Rule::Width, "crates/workload/src/import/har.rs", "HAR entries, one per line"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Width,
    Words,
    Length,
    Types,
    Tests,
}

#[derive(Debug, PartialEq, Eq)]
struct Fault {
    rule: Rule,
    file: String,
    /// From 1.
    line: usize,
    message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// All faults of one file.
fn faults(file: &str, text: &str) -> Vec<Fault> {
    let mut all = Vec::new();
    let fault = |rule, line, message| Fault { rule, file: file.into(), line, message };
    let mut is_example = false;
    for (line, content) in (1..).zip(text.lines()) {
        let columns = content.chars().count();
        is_example ^= file.ends_with(".md") && content.trim_start().starts_with("```");
        if columns > WIDTH && has_width(file) && !is_example && !may_be_wide(file, content) {
            all.push(fault(Rule::Width, line, format!("{columns} columns, of at most {WIDTH}")));
        }
        for (word, instead) in BANNED.iter().filter(|(word, _)| has_word(content, word)) {
            all.push(fault(Rule::Words, line, format!("\"{word}\"; write {instead}")));
        }
    }
    let lines = text.lines().count();
    if file.ends_with(".rs") && lines > LENGTH {
        all.push(fault(Rule::Length, LENGTH + 1, format!("{lines} lines, of at most {LENGTH}")));
    }
    for (line, name) in tests_in(text).filter(|_| file.ends_with(".rs")) {
        let first = name.split('_').next().unwrap_or(name);
        if NOT_FIRST.contains(&first) {
            all.push(fault(Rule::Tests, line, format!("test `{name}` begins with `{first}`")));
        }
        if name.len() > TEST_NAME {
            let message =
                format!("test `{name}`: {} characters, of at most {TEST_NAME}", name.len());
            all.push(fault(Rule::Tests, line, message));
        }
    }
    all.retain(|fault| !is_exempt(fault));
    all
}

/// Names of the tests in a file of Rust, with their lines.
fn tests_in(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut follows_mark = false;
    (1..).zip(text.lines().map(str::trim)).filter_map(move |(line, content)| {
        let is_mark = content == "#[test]";
        let is_between = content.starts_with("#[") || content.starts_with("//");
        let is_named = follows_mark && !is_between;
        follows_mark = is_mark || follows_mark && is_between;
        let name = content.strip_prefix("fn ").filter(|_| is_named)?;
        Some((line, name.split(['(', '<']).next()?))
    })
}

/// Faults of public types that share their name with another one of the workspace. A private type
/// may share it: its name is read next to its definition.
fn shared_type_names(files: &[(&str, &str)]) -> Vec<Fault> {
    let mut first = BTreeMap::new();
    let mut all = Vec::new();
    for (file, text) in files.iter().filter(|(file, _)| has_types(file)) {
        for (line, name) in public_types(text) {
            match first.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(format!("{file}:{line}"));
                }
                Entry::Occupied(entry) => {
                    let message = format!("type `{name}` is also defined in {}", entry.get());
                    all.push(Fault { rule: Rule::Types, file: (*file).into(), line, message });
                }
            }
        }
    }
    all.retain(|fault| !is_exempt(fault));
    all
}

/// Whether a file is source of a crate, and no module of tests.
fn has_types(file: &str) -> bool {
    let is_source = file.starts_with("crates/") && file.contains("/src/") && file.ends_with(".rs");
    is_source && !file.ends_with("/tests.rs") && !file.contains("/tests/")
}

/// Types of a file that other files can name, with their lines. Its tests are left out.
fn public_types(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let code = (1..).zip(text.lines()).take_while(|(_, line)| !line.starts_with("mod tests {"));
    code.filter_map(|(line, content)| Some((line, public_type(content)?)))
}

/// The name of the public type that a line declares, such as `pub(crate) struct Fault {`.
fn public_type(line: &str) -> Option<&str> {
    let item = line.trim_start().strip_prefix("pub")?;
    let item = match item.strip_prefix('(') {
        Some(scope) => scope.split_once(')')?.1,
        None => item,
    };
    let item = item.strip_prefix(' ')?;
    let (kind, name) = item.strip_prefix("unsafe ").unwrap_or(item).split_once(' ')?;
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    let name = name.split(|c| !is_letter(c)).next().filter(|name| !name.is_empty())?;
    ["struct", "enum", "trait", "type", "union"].contains(&kind).then_some(name)
}

/// The extension of a file, "sh" for a script without one, or `None` for other files without one.
fn kind(file: &str) -> Option<&str> {
    match Path::new(file).extension() {
        Some(extension) => extension.to_str(),
        None => SCRIPTS.iter().any(|script| file.starts_with(script)).then_some("sh"),
    }
}

fn has_width(file: &str) -> bool {
    kind(file).is_some_and(|kind| NARROW.contains(&kind))
}

/// Tables, addresses, raw literals and strings of TOML cannot be broken.
fn may_be_wide(file: &str, line: &str) -> bool {
    let text = line.trim();
    let is_table = text.trim_start_matches(['/', '!', ' ']).starts_with('|');
    let is_fixture = text.contains("r#\"") || text.contains(" → ");
    let is_string = file.ends_with(".toml") && is_one_string(text);
    is_table || is_fixture || is_string || line.contains("://") || !text.contains(' ')
}

/// Whether a line of TOML is one string, with or without a key. A line of two strings is not.
fn is_one_string(text: &str) -> bool {
    let text = text.trim_end_matches(',');
    let value = match text.split_once(" = ") {
        Some((key, value)) if !key.contains(['"', '\'']) => value,
        _ => text,
    };
    ["'''", "\"", "'"].into_iter().any(|quote| {
        let inner = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        inner.is_some_and(|inner| !inner.replace("\\\"", "").contains(quote))
    })
}

/// Whether a word, or a phrase, is used in a line: "recommend" holds no "mend", and between
/// quotation marks stands a name, such as that of the user `nobody`.
fn has_word(line: &str, word: &str) -> bool {
    let original = line;
    let line = line.to_ascii_lowercase();
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        // `NoBody` is two words.
        let is_camel = original[at + 1..at + word.len()].contains(char::is_uppercase);
        let is_word =
            !is_camel && !is_letter(before.chars().next_back()) && !is_letter(after.chars().next());
        let is_name = ['`', '"'].iter().any(|c| before.ends_with(*c) && after.starts_with(*c));
        is_word && !is_name
    })
}

fn is_exempt(fault: &Fault) -> bool {
    EXCEPTIONS.iter().any(|(rule, file, _)| *rule == fault.rule && *file == fault.file)
}

fn is_read(file: &str) -> bool {
    let is_known = kind(file).is_some_and(|kind| READ.contains(&kind));
    is_known && !SKIPPED.iter().any(|folder| file.starts_with(folder))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn tracked() -> Vec<String> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).unwrap();
    names.split_terminator('\0').map(String::from).collect()
}

#[test]
fn tracked_text_is_tidy() {
    let files = tracked();
    assert!(files.len() > 500, "{} files", files.len());
    let read = |file: &String| std::fs::read_to_string(root().join(file)).ok();
    let texts: Vec<(&str, String)> = files
        .iter()
        .filter(|file| is_read(file))
        .filter_map(|file| Some((file.as_str(), read(file)?)))
        .collect();
    let texts: Vec<(&str, &str)> =
        texts.iter().map(|(file, text)| (*file, text.as_str())).collect();
    let all: Vec<String> = texts
        .iter()
        .flat_map(|(file, text)| faults(file, text))
        .chain(shared_type_names(&texts))
        .map(|fault| fault.to_string())
        .collect();
    assert!(all.is_empty(), "{} faults:\n{}", all.len(), all.join("\n"));
}

#[test]
fn exceptions_are_few_and_needed() {
    assert!(EXCEPTIONS.len() <= 20);
    for (_, file, reason) in EXCEPTIONS {
        assert!(root().join(file).is_file() && reason.len() > 10, "{file}: {reason}");
    }
}

#[test]
fn each_rule_fires() {
    let rules = |file: &str, text: &str| {
        faults(file, text).into_iter().map(|fault| (fault.rule, fault.line)).collect::<Vec<_>>()
    };
    let wide = "word ".repeat(21);
    assert_eq!(rules("a.rs", &format!("ok\n{wide}x")), [(Rule::Width, 2)]);
    assert_eq!(rules("a.md", &format!("| {wide}")), []);
    assert_eq!(rules("a.md", &format!("https://a/ {wide}")), []);
    assert_eq!(rules("a.rs", "// How to Mend it."), [(Rule::Words, 1)]);
    assert_eq!(rules("a.rs", "// We recommend mending."), []);
    assert_eq!(rules("a.md", "It can be had here."), [(Rule::Words, 1)]);
    assert_eq!(rules("a.md", "The user `nobody` owns it."), []);
    assert_eq!(rules("a.rs", "Check::NoBody => Nobody"), [(Rule::Words, 1)]);
    assert_eq!(rules("a.rs", "Check::NoBody"), []);
    assert_eq!(rules("a.md", &format!("```\n{wide}x\n```\n{wide}x")), [(Rule::Width, 4)]);
    assert_eq!(rules("a.json", &format!("{wide}x")), []);
    for file in NARROW.iter().filter(|kind| **kind != "md").map(|kind| format!("a.{kind}")) {
        assert_eq!(rules(&file, &format!("{wide}x")), [(Rule::Width, 1)], "{file}");
    }
    for file in ["Makefile", "scripts/setup", "benches/soak", "backends/postgres/start"] {
        assert_eq!(rules(file, &format!("{wide}x")), [(Rule::Width, 1)], "{file}");
    }
    assert_eq!(rules("LICENSE", &format!("{wide}x")), []);
    for quote in ["\"", "'", "'''"] {
        let string = format!("{quote}{wide}{quote}");
        assert_eq!(rules("a.toml", &format!("key = {string}")), [], "{quote}");
        assert_eq!(rules("a.toml", &format!("  {string},")), [], "{quote}");
        let two = format!("  {string}, {string},");
        assert_eq!(rules("a.toml", &two), [(Rule::Width, 1)], "{quote}");
        assert_eq!(rules("a.py", &format!("key = {string}")), [(Rule::Width, 1)], "{quote}");
    }
    assert_eq!(rules("a.toml", &format!("key = \"\\\"{wide}\\\"\"")), []);
    assert_eq!(rules("a.toml", &format!("key = [\"{wide}\"]")), [(Rule::Width, 1)]);
    assert_eq!(rules("a.toml", &format!("# {wide}")), [(Rule::Width, 1)]);
    assert_eq!(rules("a.rs", &"\n".repeat(LENGTH + 1)), [(Rule::Length, LENGTH + 1)]);
    assert_eq!(rules("a.md", &"\n".repeat(LENGTH + 1)), []);
}

#[test]
fn test_name_of_another_form_is_a_fault() {
    let lines = |text: &str| -> Vec<usize> {
        let all = faults("a.rs", text);
        assert!(all.iter().all(|fault| fault.rule == Rule::Tests), "{all:?}");
        all.into_iter().map(|fault| fault.line).collect()
    };
    assert_eq!(lines("#[test]\nfn the_end_is_near() {"), [2]);
    assert_eq!(
        lines("    #[test]\n    // Why.\n    #[ignore]\n    fn what_ends(n in 1u8..) {"),
        [4]
    );
    assert_eq!(lines("#[test]\nfn answer_ends() {\nfn the_end() {"), []);
    assert_eq!(lines("fn the_end() {"), []);
    assert_eq!(lines(&format!("#[test]\nfn {}() {{", "x".repeat(TEST_NAME + 1))), [2]);
    assert_eq!(lines(&format!("#[test]\nfn {}() {{", "x".repeat(TEST_NAME))), []);
}

#[test]
fn shared_type_name_is_a_fault() {
    let faults = |files: &[(&str, &str)]| {
        let all = shared_type_names(files);
        all.into_iter().map(|fault| (fault.file, fault.line)).collect::<Vec<_>>()
    };
    let plain = ("crates/a/src/x.rs", "pub struct Seen {\n");
    let fault = |line| [("crates/b/src/y.rs".to_string(), line)];
    assert_eq!(faults(&[plain]), []);
    for text in
        ["enum Seen<'a> {", "trait Seen: Copy {", "type Seen = u32;", "unsafe trait Seen {}"]
    {
        for scope in ["pub", "pub(crate)", "    pub(in crate::a)"] {
            let text = format!("use x;\n{scope} {text}\n");
            assert_eq!(faults(&[plain, ("crates/b/src/y.rs", &text)]), fault(2), "{text}");
        }
    }
    for text in ["struct Seen {", "pub fn Seen() {", "// pub struct Seen", "pub struct Seen2;"] {
        assert_eq!(faults(&[plain, ("crates/b/src/y.rs", text)]), [], "{text}");
    }
    let in_tests = "#[cfg(test)]\nmod tests {\n    pub struct Seen;\n";
    assert_eq!(faults(&[plain, ("crates/b/src/y.rs", in_tests)]), []);
    for file in ["crates/b/tests/y.rs", "crates/b/src/y/tests.rs", "fuzz/src/y.rs"] {
        assert_eq!(faults(&[plain, (file, plain.1)]), [], "{file}");
    }
}

#[test]
fn fixtures_and_generated_files_are_skipped() {
    assert!(is_read("crates/wire/src/lib.rs") && is_read("docs/reference/load.md"));
    assert!(is_read("scripts/setup") && !is_read("LICENSE-MIT"));
    assert!(!is_read("tests/golden/hello/report.md") && !is_read("picture.png"));
}

#[test]
fn modules_import_each_other_in_no_cycle() {
    let mut crates: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for file in tracked() {
        let Some((name, path)) = file.strip_prefix("crates/").and_then(|f| f.split_once("/src/"))
        else {
            continue;
        };
        if let Some(module) = cycles::module_name(path)
            && let Ok(text) = std::fs::read_to_string(root().join(&file))
        {
            crates.entry(name.into()).or_default().insert(module, text);
        }
    }
    assert!(crates.len() > 10, "{} crates", crates.len());
    let found: Vec<String> = crates
        .iter()
        .flat_map(|(name, files)| {
            let groups = cycles::cycles(&cycles::imports(files));
            groups.into_iter().map(move |group| format!("{name}: {group:?}"))
        })
        .collect();
    assert!(found.is_empty(), "modules in import cycles\n{}", found.join("\n"));
}
