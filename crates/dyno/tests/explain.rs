//! Tests `dyno explain`, and the reference page of exit statuses. `UPDATE_GOLDEN=1` rewrites the
//! page.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

/// Exit statuses, in the order of their numbers.
const STATUSES: [&str; 5] = ["0", "1", "2", "3", "141"];

fn explain(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyno"));
    command.arg("explain").args(arguments).output().unwrap()
}

fn output_text(arguments: &[&str]) -> String {
    let output = explain(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    assert!(output.stderr.is_empty(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn explanation(status: &str) -> String {
    std::fs::read_to_string(folder().join(format!("explain/exit/{status}.md"))).unwrap()
}

#[test]
fn explain_code_prints_text_without_colours() {
    let text = output_text(&["few_repeats"]);
    assert!(text.starts_with("few_repeats (caveat)\n\n"), "{text}");
    assert!(text.contains("\n\nObserved: ") && text.contains("\n\nAction: "), "{text}");
    assert!(!text.contains('\x1b') && !text.contains("**"), "{text}");
    assert_eq!(output_text(&["Few-Repeats"]), text);
    assert_eq!(output_text(&["few", "repeats"]), text);
    assert!(output_text(&["server-cpu"]).contains("\n\nRefutation: "));
}

#[test]
fn explain_without_code_lists_all() {
    let text = output_text(&[]);
    for line in ["Caveats: The generator", "Limiters", "Exit statuses"] {
        assert!(text.lines().any(|printed| printed == line), "{line}: {text}");
    }
    for name in ["still_warming", "server_cpu", "141"] {
        assert!(text.contains(&format!("\n  {name} ")), "{name}: {text}");
    }
    assert!(!text.contains('\x1b') && text.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn explain_unknown_code_is_usage_error() {
    let output = explain(&["still_warm"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(output.stdout.is_empty(), "{message}");
    assert!(message.starts_with("dyno: explain \"still_warm\": unknown code\nhint: "), "{message}");
    assert!(message.contains("still_warming"), "{message}");
}

#[test]
fn explain_exit_status_has_required_sections() {
    for status in STATUSES {
        let text = explanation(status);
        let words = text.split_whitespace().count();
        assert!((60..=150).contains(&words), "{status}: {words} words");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{status}");
        let heads: Vec<&str> = text.split("\n\n").skip(1).collect();
        assert_eq!(heads.len(), 3, "{status}");
        for (head, label) in heads.iter().zip(["Observed", "Consequence", "Action"]) {
            assert!(head.starts_with(&format!("**{label}**: ")), "{status}: {head}");
        }
        let plain = text.replace('*', "");
        assert_eq!(output_text(&[status]), format!("{status} (exit status)\n\n{plain}"));
    }
}

#[test]
fn exit_status_page_matches_explanations() {
    let mut page = String::from(
        "# Exit statuses\n\nScripts may rely on these statuses. `dyno explain STATUS` prints the \
         same texts. This page is\ngenerated.\n",
    );
    for status in STATUSES {
        let _ = write!(page, "\n## {status}\n\n{}", explanation(status));
    }
    let path = folder().join("../../docs/reference/exit-statuses.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page,
        "docs/reference/exit-statuses.md is stale: run `UPDATE_GOLDEN=1 cargo test -p dyno --test \
         explain`"
    );
}
