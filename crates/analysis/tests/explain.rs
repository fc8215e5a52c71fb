//! Tests the explanations of caveats and limiters, and the reference pages that are generated from
//! them. `UPDATE_GOLDEN=1` rewrites the pages.
#![allow(clippy::disallowed_methods)] // A test may read files.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use dyno_analysis::Code;
use dyno_analysis::caveat::CaveatGroup;
use dyno_analysis::verdict::Resource;

/// Maximum length of a line, in characters.
const WIDTH: usize = 100;

/// Maximum length of a page, in bytes.
const PAGE_BYTES: usize = 19_000;

/// Checks the length, the lines and the labels of an explanation's sections.
fn check_shape(name: &str, text: &str, labels: &[&str]) {
    let words = text.split_whitespace().count();
    assert!((60..=150).contains(&words), "{name}: {words} words");
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{name}: a line is too long");
    assert!(
        text.ends_with(".\n") && !text.ends_with("\n\n"),
        "{name}: it must end with one full stop and newline"
    );
    let found_labels: Vec<&str> = text
        .split("\n\n")
        .filter_map(|paragraph| Some(paragraph.strip_prefix("**")?.split_once("**: ")?.0))
        .collect();
    assert_eq!(found_labels, labels, "{name}");
}

#[test]
fn each_caveat_explanation_has_its_sections() {
    for code in Code::all() {
        check_shape(code.name(), code.explanation(), &["Observed", "Consequence", "Action"]);
        assert!(code.explanation().starts_with("**Observed**"), "{code}");
    }
}

#[test]
fn each_limiter_explanation_has_sections_and_refutation() {
    for resource in Resource::ALL {
        let (name, text) = (resource.name(), resource.explanation());
        check_shape(name, text, &["Observed", "Consequence", "Action", "Refutation"]);
        let meaning = resource.meaning();
        assert!(meaning.ends_with('.') && text.starts_with(&format!("{meaning}\n\n")), "{name}");
        let refutation = resource.refutation().trim_start_matches("Refuted if ");
        assert!(text.replace('\n', " ").contains(refutation), "{name} lacks: {refutation}");
    }
}

#[test]
fn each_code_is_in_one_group() {
    let grouped: usize = CaveatGroup::ALL.iter().map(|group| group.codes().count()).sum();
    assert_eq!(grouped, Code::all().count());
}

#[test]
fn each_explanation_file_belongs_to_code() {
    let names = |folder: &str| -> BTreeSet<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("explain").join(folder);
        file_names(&path).iter().map(|name| name.trim_end_matches(".md").into()).collect()
    };
    let codes: BTreeSet<String> = Code::all().map(|code| code.name().into()).collect();
    assert_eq!(names("caveats"), codes);
    let limiters: BTreeSet<String> =
        Resource::ALL.iter().map(|resource| resource.name().into()).collect();
    assert_eq!(names("limiters"), limiters);
}

#[test]
fn caveat_pages_match_explanations() {
    let mut index = String::from(
        "# Caveats\n\nReports mark numbers with these caveats. `dyno explain CODE` prints the \
         same texts. A step\nwith a caveat of severity `invalid` is not valid. This page is \
         generated.\n",
    );
    for group in CaveatGroup::ALL {
        let (title, file) = (group.title(), page_name(*group));
        let _ = write!(index, "\n## {title}\n\n| caveat | meaning |\n|---|---|\n");
        let mut page = format!("# Caveats: {}\n\nThis page is generated.\n", title.to_lowercase());
        for code in group.codes() {
            let (name, meaning) = (code.name(), code.meaning());
            let _ = writeln!(index, "| [`{name}`](caveats/{file}#{name}) | {meaning} |");
            let meaning = wrap(meaning, "");
            let _ = write!(page, "\n## `{name}`\n\n{meaning}\n\n{}", code.explanation());
        }
        check_page(&format!("reference/caveats/{file}"), &page);
    }
    check_page("reference/caveats.md", &index);
    let expected: BTreeSet<String> =
        CaveatGroup::ALL.iter().map(|group| page_name(*group).into()).collect();
    assert_eq!(file_names(&docs_folder().join("reference/caveats")), expected);
}

#[test]
fn limiter_page_matches_explanations() {
    let mut page = String::from(
        "# Limiters\n\nA limiter is the resource that bound a step. Reports name the first rule \
         that holds. `dyno explain\nCODE` prints the same texts. This page is generated.\n",
    );
    for resource in Resource::ALL {
        let _ = write!(page, "\n## `{}`\n\n{}", resource.name(), resource.explanation());
    }
    check_page("reference/limiters.md", &page);
}

/// The list of caveats in the methodology, with links to its sections.
#[test]
fn methodology_page_matches_codes() {
    let mut page = String::from(
        "# Caveats\n\nThis page lists the caveats with which reports mark numbers, by their names \
         in JSON. [When a step is\nnot valid](validity.md#when-a-step-is-not-valid) has the rules \
         of the caveats that make a step\ninvalid. This page is generated.\n",
    );
    for group in CaveatGroup::ALL {
        let _ = write!(page, "\n## {}\n\n", group.title());
        for code in group.codes() {
            let more = code.more().map_or_else(String::new, |link| format!(" ([more]({link}))"));
            let item = format!("- `{code}`: {}{more}", code.meaning());
            let _ = writeln!(page, "{}", wrap(&item, "  "));
        }
    }
    check_page("methodology/caveats.md", &page);
}

fn page_name(group: CaveatGroup) -> &'static str {
    match group {
        CaveatGroup::Responses => "responses.md",
        CaveatGroup::Load => "load.md",
        CaveatGroup::Generator => "generator.md",
        CaveatGroup::Connections => "connections.md",
        CaveatGroup::Levels => "levels.md",
        CaveatGroup::Server => "server.md",
        CaveatGroup::Machine => "machine.md",
        CaveatGroup::Comparisons => "comparisons.md",
    }
}

/// Breaks a sentence into lines. `indent`: spaces before each line after the first.
fn wrap(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(format!("{indent}{word}"));
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.join("\n")
}

fn file_names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn docs_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Compares a page with its file, or writes the file with `UPDATE_GOLDEN=1`.
fn check_page(name: &str, text: &str) {
    assert!(text.len() <= PAGE_BYTES, "{name}: {} bytes, of at most {PAGE_BYTES}", text.len());
    let path = docs_folder().join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "docs/{name} is stale: run `UPDATE_GOLDEN=1 cargo test -p dyno-analysis --test \
         explain`"
    );
}
