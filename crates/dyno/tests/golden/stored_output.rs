//! Compares reports with the stored output of golden runs, and prints the first line that differs.
//!
//! One run is stored in every form, and each other run as a summary. A new metric therefore changes
//! one run's files.

use std::fs;
use std::path::{Path, PathBuf};

use dyno_analysis::Report;
use dyno_report::Format;

use crate::summary::summarize;

/// The run whose report is stored in every form. Of all golden runs it has the most values: five
/// repeats with intervals, and comparisons with a baseline. The tests of `dyno-report` change the
/// report of `hello`, whose caveats, failures and texts of servers they check.
const STORED_IN_EVERY_FORM: &str = "clean";

/// Folder of a golden run.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

/// Folder of the untracked reports of a golden run, in every form. The viewer's unit tests read
/// them, and so can a person who looks for the reason of a changed summary.
fn untracked_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("golden").join(name)
}

pub fn is_updating() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// Renders a report in every form, and compares the stored forms with their stored output.
pub fn assert_matches_stored(name: &str, report: &Report) {
    let forms: Vec<(String, String)> = Format::ALL
        .iter()
        .map(|format| (format!("report.{}", format.name), render(report, format)))
        .collect();
    let untracked = untracked_folder(name);
    fs::create_dir_all(&untracked).unwrap();
    forms.iter().for_each(|(file, current)| fs::write(untracked.join(file), current).unwrap());
    if name == STORED_IN_EVERY_FORM {
        forms.iter().for_each(|(file, current)| assert_file_matches_stored(name, file, current));
    } else {
        assert_file_matches_stored(name, "report.summary", &summarize(report));
    }
}

/// Renders a report without the viewer's bundle, which changes with its own version and has its own
/// tests.
fn render(report: &Report, format: &Format) -> String {
    match format.name {
        "html" => dyno_report::html::page(report, "", ""),
        _ => format.render(report),
    }
}

fn assert_file_matches_stored(name: &str, file: &str, current: &str) {
    let path = folder(name).join(file);
    if is_updating() {
        fs::write(&path, current).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap();
    let (stored, current) = (round_fractions(&stored), round_fractions(current));
    if let Some(difference) = first_difference(&stored, &current) {
        panic!(
            "{name}/{file}, {difference}\nThe whole report is in {}.\nIf that is meant, \
             UPDATE_GOLDEN=1 writes it, for git diff to show.",
            untracked_folder(name).display()
        );
    }
}

/// Rounds decimal fractions of 16 digits or more to 13 digits. The digits beyond depend on how the
/// compiler arranges the code.
fn round_fractions(text: &str) -> String {
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
    let (mut rounded, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(start) = rest.find(is_of_number) {
        rounded += &rest[..start];
        rest = &rest[start..];
        let (number, after) = rest.split_at(rest.find(|c| !is_of_number(c)).unwrap_or(rest.len()));
        match number.parse::<f64>() {
            Ok(value) if number.len() > 16 && number.contains('.') => {
                rounded += &format!("{value:.12e}");
            }
            _ => rounded += number,
        }
        rest = after;
    }
    rounded + rest
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
fn only_one_run_is_stored_in_every_form() {
    let golden = fs::read_dir(folder("")).unwrap().map(|entry| entry.unwrap().path());
    let with_metrics: Vec<PathBuf> = golden
        .filter(|run| run.join("report.json").exists() || run.join("report.html").exists())
        .collect();
    assert_eq!(with_metrics, [folder("").join(STORED_IN_EVERY_FORM)]);
}

#[test]
fn first_difference_reports_its_line() {
    assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    let difference_text = first_difference("a\nb c\nd\n", "a\nb x\nd\n").unwrap();
    assert_eq!(difference_text, "line 2, from letter 3:\n  stored: b c\n  current: b x");
    assert!(first_difference("a\n", "a\nb\n").unwrap().contains("stored: (no such line)"));
    assert_eq!(first_difference("a\n", "a").unwrap(), "the ends of lines differ");
}

#[test]
fn only_last_digits_of_fractions_are_rounded() {
    for (text, same) in [
        ("\"p\":0.8223910502963705}", "\"p\":0.8223910502963707}"),
        ("[12.345678901234567,x]", "[12.345678901234565,x]"),
    ] {
        assert_eq!(round_fractions(text), round_fractions(same));
    }
    for (text, other) in [
        ("0.8223910502963705", "0.8223910512963705"),
        ("0.8223910502963705", "-0.8223910502963705"),
        ("12345678901234567", "12345678901234568"),
        ("0.12", "0.13"),
        ("1.2.3-e5", "1.2.3-e6"),
    ] {
        assert_ne!(round_fractions(text), round_fractions(other));
    }
    assert_eq!(round_fractions("a 0.5 b, 1.2.3."), "a 0.5 b, 1.2.3.");
}
