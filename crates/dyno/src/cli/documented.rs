//! Tests that this version accepts each command in a code block of the documentation.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

use super::Cli;

/// A command in a page of the documentation.
struct DocumentedCommand {
    page: PathBuf,
    /// Line number, from 1.
    line: usize,
    text: String,
    /// Whether the page shows an error for the command.
    is_refused: bool,
}

/// Adds the pages (`*.md`) of a folder and its subfolders to `pages`.
fn collect_pages(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_pages(&path, pages);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            pages.push(path);
        }
    }
}

/// Returns the code blocks of a page, each with the number of its first line.
fn blocks(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut blocks: Vec<(usize, Vec<&str>)> = Vec::new();
    let mut is_block = false;
    for (line, content) in (1..).zip(text.lines().map(str::trim)) {
        if content.starts_with("```") {
            is_block = !is_block;
            blocks.extend(is_block.then(|| (line + 1, Vec::new())));
        } else if is_block && let Some((_, block)) = blocks.last_mut() {
            block.push(content);
        }
    }
    blocks
}

/// Returns the commands in the code blocks of a page. A backslash joins two lines. In blocks with
/// prompts, lines without a prompt are output.
fn commands(page: &Path, text: &str) -> Vec<DocumentedCommand> {
    let mut commands: Vec<DocumentedCommand> = Vec::new();
    for (first, block) in blocks(text) {
        let prompt = if block.iter().any(|line| line.starts_with("$ ")) { "$ " } else { "" };
        let mut is_open = false;
        for (line, content) in (first..).zip(block) {
            let command = content.strip_prefix(prompt).filter(|text| text.starts_with("dyno "));
            match (command, commands.last_mut()) {
                (_, Some(previous)) if is_open => {
                    previous.text.push_str(content.trim_end_matches('\\'));
                }
                (Some(command), _) => {
                    let text = command.trim_end_matches('\\').into();
                    commands.push(DocumentedCommand {
                        page: page.into(),
                        line,
                        text,
                        is_refused: false,
                    });
                }
                // On the first line of a block, `previous` is a command of an earlier block, and
                // did not print this line.
                (None, Some(previous)) if line > first && content.starts_with("dyno: ") => {
                    previous.is_refused = true;
                }
                _ => {}
            }
            is_open = content.ends_with('\\') && (is_open || command.is_some());
        }
    }
    commands
}

/// Splits a command into words. Omits a remark (the text after two spaces), a pipe and a
/// redirection at the end.
fn words(text: &str) -> Vec<String> {
    let remark = text.char_indices().skip(1).find(|(at, _)| text[*at..].starts_with("  "));
    let command = remark.map_or(text, |(at, _)| &text[..at]);
    let words = shlex::split(command).unwrap_or_else(|| panic!("quotes are open in {text}"));
    let is_end =
        |word: &String| matches!(&**word, "|" | "||" | "&&" | "&" | ">" | "2>" | ";" | "#");
    words.into_iter().take_while(|word| !is_end(word)).collect()
}

/// Parses a documented command. `Err`: the message with which dyno refuses it.
fn check_command(text: &str) -> Result<(), String> {
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
fn documented_commands_are_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    collect_pages(&root.join("docs"), &mut pages);
    let read = |page: &PathBuf| commands(page, &std::fs::read_to_string(page).unwrap());
    let documented: Vec<DocumentedCommand> = pages.iter().flat_map(read).collect();
    assert!(documented.len() >= 60, "{} commands", documented.len());
    let fault = |command: &DocumentedCommand| {
        let result = check_command(&command.text);
        let DocumentedCommand { page, line, text, is_refused } = command;
        let message = result.clone().err().unwrap_or_else(|| "the command is accepted".into());
        (result.is_err() != *is_refused).then(|| format!("{page:?}:{line}: {text}\n{message}"))
    };
    let faults: Vec<String> = documented.iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn commands_finds_commands_and_errors() {
    let text = "dyno load x\n```\n$ dyno load http://h/ -c 8 \\\n   -d 1s   a remark\nok\n\
                $ dyno load http://h/ -host a\ndyno: no\n```\ndyno plan";
    let documented = commands(Path::new("a.md"), text);
    let lines: Vec<(usize, bool)> = documented.iter().map(|c| (c.line, c.is_refused)).collect();
    assert_eq!(lines, [(3, false), (6, true)]);
    assert_eq!(words(&documented[0].text), ["dyno", "load", "http://h/", "-c", "8", "-d", "1s"]);
    assert!(check_command("dyno load http://h/ -d 1s | head").is_ok());
    assert!(check_command("dyno load http://h/ --no-such-option").is_err());
}
