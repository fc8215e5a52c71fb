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

/// The code blocks of a page, each with the number of its first line.
fn blocks(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut all: Vec<(usize, Vec<&str>)> = Vec::new();
    let mut is_block = false;
    for (line, content) in (1..).zip(text.lines().map(str::trim)) {
        if content.starts_with("```") {
            is_block = !is_block;
            all.extend(is_block.then(|| (line + 1, Vec::new())));
        } else if is_block && let Some((_, block)) = all.last_mut() {
            block.push(content);
        }
    }
    all
}

/// The commands in the code blocks of a page. A backslash joins two lines. Where lines begin with a
/// prompt, the others are output.
fn commands(page: &Path, text: &str) -> Vec<DocumentedCommand> {
    let mut all: Vec<DocumentedCommand> = Vec::new();
    for (first, block) in blocks(text) {
        let prompt = if block.iter().any(|line| line.starts_with("$ ")) { "$ " } else { "" };
        let mut is_open = false;
        for (line, content) in (first..).zip(block) {
            let words = content.strip_prefix(prompt).filter(|words| words.starts_with("dyno "));
            match (words, all.last_mut()) {
                (_, Some(before)) if is_open => {
                    before.text.push_str(content.trim_end_matches('\\'));
                }
                (Some(words), _) => {
                    let text = words.trim_end_matches('\\').into();
                    all.push(DocumentedCommand {
                        page: page.into(),
                        line,
                        text,
                        is_refused: false,
                    });
                }
                (None, Some(before)) if line > first && content.starts_with("error: ") => {
                    before.is_refused = true;
                }
                _ => {}
            }
            is_open = content.ends_with('\\') && (is_open || words.is_some());
        }
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
    let fault = |command: &DocumentedCommand| {
        let seen = is_accepted(&command.text);
        let DocumentedCommand { page, line, text, is_refused } = command;
        let message = seen.clone().err().unwrap_or_else(|| "it is accepted".into());
        (seen.is_err() != *is_refused).then(|| format!("{page:?}:{line}: {text}\n{message}"))
    };
    let faults: Vec<String> = found.iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
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
