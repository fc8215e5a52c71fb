//! Tests the text of a report for a terminal: each test changes the report of the golden run.

use std::path::Path;

use dyno_analysis::Report;
use dyno_analysis::report::report;
use dyno_archive::RunDir;
use dyno_report::present::style::Style;
use dyno_report::text;

/// Returns the text of the golden run after a change of its report.
fn text_after(change: impl Fn(&mut Report)) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
    let mut report = report(&RunDir::open(folder).unwrap().read().unwrap());
    change(&mut report);
    text::report(&report, Style::Plain)
}

/// The overview has one line per subject, and the whole reason stands below it.
#[test]
fn long_reason_of_absent_subject_ends_with_ellipsis() {
    let line_with_reason = |reason: &str| {
        let text = text_after(|report| {
            let row = report.overview.iter_mut().find(|row| row.subject == "absent").unwrap();
            row.absent = Some(reason.into());
        });
        text.lines().find(|line| line.starts_with("Absent ")).unwrap().to_string()
    };
    let sixty = "0123456789".repeat(6);
    assert!(line_with_reason(&sixty).ends_with(&sixty));
    let shortened = format!("{}…", &sixty[..59]);
    assert!(line_with_reason(&format!("{sixty}0")).ends_with(&shortened));
}
