//! Compares reports with the stored output of golden runs, and prints the first line that differs.

use std::fs;
use std::path::{Path, PathBuf};

use dyno_analysis::Report;
use dyno_report::Format;

/// Folder of a golden run.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

pub fn is_updating() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// Compares every form of a report with its stored output.
pub fn assert_matches_stored(name: &str, report: &Report) {
    for format in Format::ALL {
        // The viewer's bundle changes with its own version and has its own tests.
        let current = match format {
            Format::Html => dyno_report::html::page(report, "", ""),
            other => dyno_report::render(report, other),
        };
        let file = format!("report.{}", format.name());
        let path = folder(name).join(&file);
        if is_updating() {
            fs::write(&path, &current).unwrap();
        }
        let stored = fs::read_to_string(&path).unwrap();
        if let Some(difference) = first_difference(&stored, &current) {
            panic!(
                "{name}/{file}, {difference}\nIf that is meant, UPDATE_GOLDEN=1 writes it, for git \
                 diff to show."
            );
        }
    }
}

/// Returns the first line that differs, from a little before the first different letter, because
/// lines of pages are long.
fn first_difference(stored: &str, current: &str) -> Option<String> {
    if stored == current {
        return None;
    }
    let lines = stored.lines().count().max(current.lines().count());
    let line_at =
        |text: &str, n: usize| text.lines().nth(n).unwrap_or("(no such line)").to_string();
    let at = (0..lines).find(|n| line_at(stored, *n) != line_at(current, *n));
    let Some(n) = at else { return Some("the ends of lines differ".into()) };
    let (expected, current) = (line_at(stored, n), line_at(current, n));
    let same = expected.chars().zip(current.chars()).take_while(|(a, b)| a == b).count();
    let part =
        |line: &str| line.chars().skip(same.saturating_sub(60)).take(160).collect::<String>();
    Some(format!(
        "line {}, from letter {}:\n  stored: {}\n  current: {}",
        n + 1,
        same + 1,
        part(&expected),
        part(&current)
    ))
}

#[test]
fn first_difference_reports_its_line() {
    assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    let difference_text = first_difference("a\nb c\nd\n", "a\nb x\nd\n").unwrap();
    assert_eq!(difference_text, "line 2, from letter 3:\n  stored: b c\n  current: b x");
    assert!(first_difference("a\n", "a\nb\n").unwrap().contains("stored: (no such line)"));
    assert_eq!(first_difference("a\n", "a").unwrap(), "the ends of lines differ");
}
