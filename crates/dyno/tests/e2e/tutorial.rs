//! Tests the tutorial of docs/guides/your-server.md, block by block: writes its files, runs its
//! commands, and compares their output with the page.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::drive::{DYNO, Sandbox, not_run, repository};

/// A fenced block: the text after its fence, and its lines.
struct Block {
    info: String,
    lines: Vec<String>,
}

fn blocks() -> Vec<Block> {
    let text = fs::read_to_string(repository().join("docs/guides/your-server.md")).unwrap();
    let section = text.split("\n## ").find(|section| section.starts_with("Tutorial")).unwrap();
    let mut all = Vec::new();
    let mut open: Option<Block> = None;
    for line in section.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some(Block { info: info.into(), lines: Vec::new() }),
            (Some(_), Some(_)) => all.extend(open.take()),
            (None, Some(block)) => block.lines.push(line.into()),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    all
}

/// Returns whether a line matches a line of a page, where `…` stands for any text.
fn is_like(wanted: &str, line: &str) -> bool {
    let parts: Vec<&str> = wanted.split('…').collect();
    let [first, .., last] = parts.as_slice() else { return wanted == line };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for part in &parts[1..parts.len() - 1] {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Asserts that the output has the lines of a page, in their order. A line with only `…` stands for
/// any lines.
fn assert_output(wanted: &[String], printed: &str) {
    let mut lines = printed.lines();
    let mut may_skip = false;
    for wanted in wanted {
        if wanted.trim() == "…" {
            may_skip = true;
            continue;
        }
        let found = if may_skip {
            lines.find(|line| is_like(wanted, line))
        } else {
            lines.next().filter(|line| is_like(wanted, line))
        };
        assert!(found.is_some(), "{wanted:?} is missing in the output:\n{printed}");
        may_skip = false;
    }
    assert!(
        may_skip || lines.next().is_none(),
        "the output has more lines than the page:\n{printed}"
    );
}

fn assert_ellipsis_matches_any_text() {
    assert!(
        is_like("a…c", "abbc") && is_like("…", "x") && is_like("a", "a") && is_like("…b…", "abc")
    );
    assert!(!is_like("a…c", "abb") && !is_like("a", "ab") && !is_like("…d…", "abc"));
}

#[test]
#[ignore = "long: runs in make nightly"]
fn tutorial_commands_print_documented_output() {
    assert_ellipsis_matches_any_text();
    if Command::new("python3").arg("--version").output().is_err() {
        return not_run("the tutorial of docs/guides/your-server.md: no python3");
    }
    let sandbox = Sandbox::new();
    let bin = Path::new(DYNO).parent().unwrap().display().to_string();
    let (mut files, mut commands) = (0, 0);
    for Block { info, lines } in blocks() {
        if let Some((_, name)) = info.split_once(' ') {
            let path = sandbox.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, lines.join("\n") + "\n").unwrap();
            files += 1;
            continue;
        }
        assert_eq!(info, "console", "a block must be a file with its name, or commands");
        let typed = lines[0].strip_prefix("$ ").expect("a command first");
        let mut shell = sandbox.command(Path::new("sh"));
        let path = std::env::var("PATH").unwrap();
        let output =
            shell.args(["-c", typed]).env("PATH", format!("{bin}:{path}")).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let status = output.status.code();
        let stderr = String::from_utf8_lossy(&output.stderr);
        // On a busy machine a run may have invalid steps, which it reports.
        assert!(
            status == Some(0) || (typed.starts_with("dyno run") && status == Some(1)),
            "{typed}: {status:?}\n{printed}{stderr}"
        );
        assert_output(&lines[1..], &printed);
        commands += 1;
    }
    assert_eq!((files, commands), (4, 3));
}
