//! Each command in a code block of the pages is one that this version accepts.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

use super::Cli;

/// A command of a page.
struct DocumentedCommand {
    page: PathBuf,
    /// From 1.
    line: usize,
    text: String,
    /// The page shows the error that it ends with.
    is_refused: bool,
}

fn pages(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, all);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            all.push(path);
        }
    }
}

/// The commands in the code blocks of a page. A backslash joins two lines.
fn commands(page: &Path, text: &str) -> Vec<DocumentedCommand> {
    let mut all: Vec<DocumentedCommand> = Vec::new();
    let (mut is_block, mut is_open) = (false, false);
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if content.starts_with("```") {
            (is_block, is_open) = (!is_block, false);
            continue;
        }
        let words = content.strip_prefix("$ ").unwrap_or(content);
        let before = all.last_mut().filter(|_| is_block);
        if is_open && let Some(before) = before {
            before.text.push_str(words.trim_end_matches('\\'));
        } else if let Some(before) = before.filter(|_| words.starts_with("error: ")) {
            before.is_refused = true;
        } else if is_block && words.starts_with("dyno ") {
            let text = words.trim_end_matches('\\').into();
            all.push(DocumentedCommand { page: page.into(), line, text, is_refused: false });
        } else {
            continue;
        }
        is_open = words.ends_with('\\');
    }
    all
}

/// The words of a command, without the remark behind it and without what follows a pipe.
fn words(text: &str) -> Vec<String> {
    let remark = text.char_indices().skip(1).find(|(at, _)| text[*at..].starts_with("  "));
    let command = remark.map_or(text, |(at, _)| &text[..at]);
    let all = shlex::split(command).unwrap_or_else(|| panic!("quotes are open in {text}"));
    let ends = |word: &String| matches!(&**word, "|" | "||" | "&&" | "&" | ">" | "2>" | ";" | "#");
    all.into_iter().take_while(|word| !ends(word)).collect()
}

fn is_accepted(text: &str) -> Result<(), String> {
    let words: Vec<OsString> = words(text).into_iter().map(OsString::from).collect();
    match Cli::read(&words) {
        Err(error)
            if !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            Err(error.to_string())
        }
        _ => Ok(()),
    }
}

#[test]
fn commands_of_the_pages_are_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    pages(&root.join("docs"), &mut all);
    let read = |page: &PathBuf| commands(page, &std::fs::read_to_string(page).unwrap());
    let found: Vec<DocumentedCommand> = all.iter().flat_map(read).collect();
    assert!(found.len() >= 60, "{} commands", found.len());
    for command in found {
        let seen = is_accepted(&command.text);
        let place = format!("{}:{}: {}", command.page.display(), command.line, command.text);
        assert_eq!(
            seen.is_err(),
            command.is_refused,
            "{place}\n{}",
            seen.err().unwrap_or_default()
        );
    }
}

#[test]
fn commands_are_found_and_judged() {
    let text = "dyno load x\n```\n$ dyno load http://h/ -c 8 \\\n   -d 1s   a remark\nok\n\
                $ dyno load http://h/ -host a\nerror: no\n```\ndyno plan";
    let found = commands(Path::new("a.md"), text);
    let shown: Vec<(usize, bool)> = found.iter().map(|of| (of.line, of.is_refused)).collect();
    assert_eq!(shown, [(3, false), (6, true)]);
    assert_eq!(words(&found[0].text), ["dyno", "load", "http://h/", "-c", "8", "-d", "1s"]);
    assert!(is_accepted("dyno load http://h/ -d 1s | head").is_ok());
    assert!(is_accepted("dyno load http://h/ --no-such-option").is_err());
}
