//! Renders the section on everything except the load: start-up, stop, checks, builds and failures.

use dyno_analysis::backend::BackendResult;
use dyno_analysis::noise::STARTUP;
use dyno_analysis::report::Report;
use dyno_analysis::subject::{CheckSummary, SubjectFailure, SubjectResult};
use dyno_archive::hint::one_line;
use dyno_archive::start::Binary;
use maud::{Markup, html};

use super::{figure, noise_note, note, part, repeats_cell, subject_cell, table};
use crate::format::{bytes, millis, number, percent, seconds};
use crate::overview::killed_starts;
use crate::present::part_scope::PartScope;
use crate::present::table::{ReportTable, Row, TableCell, cell, text, value};

/// Renders the section.
pub(super) fn lifecycle_section(report: &Report) -> Markup {
    let startup = ReportTable::scoped(
        "sortable",
        &[
            ("Subject", &|s: &SubjectResult| subject_cell(report, &s.id, &s.title)),
            ("Version", &|s| text(s.version.as_deref().unwrap_or("–"))),
            ("#Listening", &|s| value(s.startup_ms.listening.median, millis)),
            ("#First response", &|s| value(s.startup_ms.first_response.median, millis)),
            ("#Each repeat", &|s| repeats_cell(&s.startup_ms.first_response, millis)),
            ("#CPU until ready", &|s| value(s.startup_ms.cpu.median, millis)),
            ("#Warm-up", &|s| value(s.warm_up_s.median, seconds)),
            ("#Stop", &|s| value(s.stop_ms.median, millis)),
            ("#Killed", &|s| value(killed_starts(s).map(|n| n as f64), |n| format!("{n}"))),
            ("#Build", &|s| value(s.build.as_ref().map(|b| b.wall_s), seconds)),
            ("#Build CPU", &|s| value(s.build.as_ref().and_then(|b| b.cpu_s), seconds)),
            ("#Artefacts", &|s| value(s.build.as_ref().map(|b| b.artefact_bytes as f64), bytes)),
        ],
        &report.subjects,
        |s| PartScope::subject(report, &s.id),
    );
    let legend = "Time from the start of the process (exec) to the first response with the \
                  expected status (status under [ready] in subject.toml). The bar is the median. \
                  Each dot is a repeat.";
    let legend = format!("{legend}{}", noise_note(report, STARTUP));
    html! {
        (figure("startup", "Start-up", &legend, &startup))
        (backends(report))
        (programs(report))
        h3 { "Checks" } "\n"
        (checks(report))
        (failures(report))
    }
}

/// Renders the table of the programs, with their use of resources when idle. Empty if no program
/// was inspected.
fn programs(report: &Report) -> Markup {
    let inspected: Vec<&SubjectResult> =
        report.subjects.iter().filter(|s| s.binary.is_some() || s.idle.is_some()).collect();
    let program_cell = |s: &SubjectResult, show: fn(&Binary) -> String| {
        text(s.binary.as_ref().map_or("–".into(), show))
    };
    let table = ReportTable::scoped(
        "sortable",
        &[
            ("Subject", &|s: &&SubjectResult| subject_cell(report, &s.id, &s.title)),
            ("Program", &|s| program_cell(s, |b| b.name.clone())),
            ("#Size", &|s| value(s.binary.as_ref().map(|b| b.bytes as f64), bytes)),
            ("Allocator", &|s| {
                program_cell(s, |b| b.allocator.clone().unwrap_or_else(|| "not known".into()))
            }),
            ("Names and debug information", &|s| program_cell(s, debug_names)),
            ("Extensions of x86-64", &|s| {
                program_cell(s, |b| b.extensions.keys().cloned().collect::<Vec<_>>().join(" "))
            }),
            ("#Libraries", &|s| {
                value(s.binary.as_ref().map(|b| b.libraries.len() as f64), number).with_hint(
                    s.binary.as_ref().map(|b| b.libraries.join(", ")).filter(|l| !l.is_empty()),
                )
            }),
            ("#Idle CPU", &|s| value(s.idle.and_then(|idle| idle.cpus), percent)),
            ("#Idle wake-ups", &|s| {
                value(s.idle.and_then(|idle| idle.wakeups_per_s), |n| format!("{}/s", number(n)))
            }),
            ("#Memory per connection", &|s| value(s.memory.per_connection.median, bytes)),
        ],
        &inspected,
        |s| PartScope::subject(report, &s.id),
    );
    part("Programs", "", &table, PROGRAMS)
}

const PROGRAMS: &str = "Each row describes the process of the server that used most CPU time. An \
                        extension of x86-64 is listed if the program contains one of its \
                        instructions, even if that instruction never runs. \"Idle\" is the second \
                        before the first load. \"Memory per connection\" is the growth of memory \
                        per additional connection (a slope over all steps of a start).";

/// States whether a program has names of functions, debug information, or both.
fn debug_names(binary: &Binary) -> String {
    match (binary.symbols, binary.debug_info) {
        (_, true) => "both".into(),
        (true, false) => "names".into(),
        (false, false) => "none".into(),
    }
}

/// Renders the table of start-up and stop of the back ends. Empty without back ends.
fn backends(report: &Report) -> Markup {
    type SubjectBackend<'a> = (&'a SubjectResult, &'a BackendResult);
    let rows: Vec<SubjectBackend<'_>> =
        report.subjects.iter().flat_map(|s| s.backends.iter().map(move |b| (s, b))).collect();
    let table = ReportTable::scoped(
        "sortable",
        &[
            ("Subject", &|(s, _): &SubjectBackend<'_>| subject_cell(report, &s.id, &s.title)),
            ("Back end", &|(_, b)| text(&b.title)),
            ("Version", &|(_, b)| text(b.version.as_deref().unwrap_or("–"))),
            ("#Listening", &|(_, b)| value(b.startup_ms.listening.median, millis)),
            ("#Ready", &|(_, b)| value(b.startup_ms.ready.median, millis)),
            ("#Each repeat", &|(_, b)| repeats_cell(&b.startup_ms.ready, millis)),
            ("#CPU until ready", &|(_, b)| value(b.startup_ms.cpu.median, millis)),
            ("#Data loaded in", &|(_, b)| value(b.seeded_ms.median, millis)),
            ("#Stop", &|(_, b)| value(b.stop_ms.median, millis)),
            ("#Build", &|(_, b)| value(b.build.as_ref().map(|b| b.wall_s), seconds)),
        ],
        &rows,
        |(s, _)| PartScope::subject(report, &s.id),
    );
    part("Back ends", "", &table, "")
}

/// Renders the table of checks, and the details of failed checks.
fn checks(report: &Report) -> Markup {
    let mut names: Vec<&str> = Vec::new();
    for check in report.subjects.iter().flat_map(|s| &s.checks) {
        if !names.contains(&check.name.as_str()) {
            names.push(&check.name);
        }
    }
    let mut head = vec!["Subject"];
    head.extend(&names);
    let row = |s: &SubjectResult| {
        let mut row = vec![subject_cell(report, &s.id, &s.title)];
        row.extend(names.iter().map(|n| check_cell(s, n)));
        Row::new(PartScope::subject(report, &s.id), row)
    };
    let rows: Vec<Row> = report.subjects.iter().map(row).collect();
    let failed = |s: &'_ SubjectResult| -> Vec<CheckSummary> {
        s.checks.iter().filter(|c| !c.ok).cloned().collect()
    };
    html! {
        (table::render(&ReportTable::new("checks", &head, rows)))
        (note("Each check ran before the load and after the last step. During the load, dyno ran \
               one check at a time, in rotation. Checks of start-up and stop ran once, in separate \
               starts. Hover over a check for its details."))
        @for s in &report.subjects {
            @for c in failed(s) {
                h4 { (s.title) ": " (c.name) } "\n"
                pre { (c.detail) } "\n"
            }
        }
    }
}

/// Returns the cell of a check: its mark, and how often it passed.
fn check_cell(subject: &SubjectResult, name: &str) -> TableCell {
    let Some(c) = subject.checks.iter().find(|c| c.name == name) else { return text("–") };
    let share = format!("{}/{}", c.passed, c.passed + c.failed);
    let (class, mark) = if c.ok {
        ("good", "✓")
    } else if c.late {
        ("late", "–")
    } else {
        ("bad", "✗")
    };
    let content = html! {
        span class=(class) {
            (mark) " " (share)
            @if c.late { " late" } @else if c.waived { " waived" }
        }
    };
    cell(share.clone(), content).with_hint(Some(c.detail.clone()))
}

/// Renders the failed and the skipped subjects. Empty if there are none.
fn failures(report: &Report) -> Markup {
    let has_failures =
        report.subjects.iter().any(|s| s.skipped.is_some() || !s.failures.is_empty());
    html! {
        @if has_failures {
            h3 { "Failures" } "\n"
            @for s in &report.subjects {
                @if let Some(reason) = &s.skipped {
                    p { b { (s.title) } " was skipped: " (reason) } "\n"
                }
                @for f in &s.failures { (failure(s, f)) }
            }
        }
    }
}

/// Renders a failure and the last lines of its log.
fn failure(s: &SubjectResult, f: &SubjectFailure) -> Markup {
    html! {
        p.bad {
            b { (s.title) } ", repeat " (f.repeat) ": " (f.failure.kind.name()) ": "
            (one_line(&f.failure.message))
        }
        "\n"
        @if let Some(log) = &f.log_tail {
            @if let Some(writer) = f.log_of.as_ref().filter(|writer| **writer != s.id) {
                p.note { "The last lines that " (writer) " wrote:" } "\n"
            }
            pre { (log) } "\n"
        }
    }
}
