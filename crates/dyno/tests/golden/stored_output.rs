//! Stored output of golden runs, and the first line in which the current output differs.

use std::fs;
use std::path::{Path, PathBuf};

use dyno_analysis::Report;
use dyno_report::Format;

/// Folder of a golden run.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

pub fn updating() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// Holds a report in every form against what is kept of it.
pub fn hold_every_form(name: &str, report: &Report) {
    for format in Format::ALL {
        // The viewer's bundle changes with its own version and has its own tests.
        let now = match format {
            Format::Html => dyno_report::html::page(report, "", ""),
            other => dyno_report::render(report, other),
        };
        let file = format!("report.{}", format.name());
        let path = folder(name).join(&file);
        if updating() {
            fs::write(&path, &now).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap();
        if let Some(difference) = first_difference(&kept, &now) {
            panic!(
                "{name}/{file}, {difference}\nIf that is meant, UPDATE_GOLDEN=1 writes it, for git \
                 diff to show."
            );
        }
    }
}

/// The first line that is not as it was, from a little before the first letter that is not; lines
/// of pages are long.
fn first_difference(kept: &str, now: &str) -> Option<String> {
    if kept == now {
        return None;
    }
    let lines = kept.lines().count().max(now.lines().count());
    let of = |text: &str, n: usize| text.lines().nth(n).unwrap_or("(no such line)").to_string();
    let at = (0..lines).find(|n| of(kept, *n) != of(now, *n));
    let Some(n) = at else { return Some("the ends of lines differ".into()) };
    let (then, now) = (of(kept, n), of(now, n));
    let same = then.chars().zip(now.chars()).take_while(|(a, b)| a == b).count();
    let part =
        |line: &str| line.chars().skip(same.saturating_sub(60)).take(160).collect::<String>();
    Some(format!(
        "line {}, from letter {}:\n  kept: {}\n  now:  {}",
        n + 1,
        same + 1,
        part(&then),
        part(&now)
    ))
}

#[test]
fn first_difference_is_named_by_its_line() {
    assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    let said = first_difference("a\nb c\nd\n", "a\nb x\nd\n").unwrap();
    assert_eq!(said, "line 2, from letter 3:\n  kept: b c\n  now:  b x");
    assert!(first_difference("a\n", "a\nb\n").unwrap().contains("kept: (no such line)"));
    assert_eq!(first_difference("a\n", "a").unwrap(), "the ends of lines differ");
}
