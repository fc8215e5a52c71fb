//! Arranges the section on everything except the load: start-up, stop, checks, builds and failures.

use dyno_analysis::backend::BackendResult;
use dyno_analysis::noise::STARTUP;
use dyno_analysis::report::Report;
use dyno_analysis::subject::{SubjectFailure, SubjectResult};
use dyno_config::hint::one_line;
use dyno_model::start::Binary;
use maud::html;

use super::{metric_figure, repeats_cell, subject_cell};
use crate::format::{bytes, millis, number, percent, seconds};
use crate::overview::killed_starts;
use crate::present::block::Block;
use crate::present::part_scope::PartScope;
use crate::present::sentence::Sentence;
use crate::present::table::{Head, ReportTable, Row, TableCell, cell, text, value};

/// Returns the content of the section.
pub(super) fn lifecycle(report: &Report) -> Block {
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
    let chart = metric_figure(
        (report, STARTUP),
        "startup",
        "Start-up",
        ("The bar is the median. Each dot is a repeat.", STARTUP_NOTE),
        startup,
    );
    Block::Group(vec![chart, backends(report), programs(report), checks(report), failures(report)])
}

const STARTUP_NOTE: &str = "Time from the start of the process (exec) to the first response with \
                            the expected status (status under [ready] in subject.toml).";

/// Returns the table of the programs, with their use of resources when idle. Empty if no program
/// was inspected.
fn programs(report: &Report) -> Block {
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
    Block::part("Programs", "", table, PROGRAMS)
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

/// Returns the table of start-up and stop of the back ends. Empty without back ends.
fn backends(report: &Report) -> Block {
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
    Block::part("Back ends", "", table, "")
}

/// Returns the table of checks, and the details of failed checks.
fn checks(report: &Report) -> Block {
    let mut names: Vec<&str> = Vec::new();
    for check in report.subjects.iter().flat_map(|s| &s.checks) {
        if !names.contains(&check.name.as_str()) {
            names.push(&check.name);
        }
    }
    let heads = ["Subject"].into_iter().chain(names.iter().copied()).map(Head::named).collect();
    let row = |s: &SubjectResult| {
        let mut row = vec![subject_cell(report, &s.id, &s.title)];
        row.extend(names.iter().map(|n| check_cell(s, n)));
        Row::new(PartScope::subject(report, &s.id), row)
    };
    let rows: Vec<Row> = report.subjects.iter().map(row).collect();
    let failed = report.subjects.iter().flat_map(|s| s.checks.iter().map(move |c| (s, c)));
    let details = failed.filter(|(_, c)| !c.ok).flat_map(|(s, c)| {
        [
            Block::Paragraph("", Sentence::about(format!("{}: {}", s.title, c.name))),
            Block::Code("", c.detail.clone()),
        ]
    });
    let mut blocks = vec![
        Block::Heading("Checks".into()),
        Block::Table(ReportTable::with_heads("checks", heads, rows)),
        Block::note(CHECKS),
    ];
    blocks.extend(details);
    Block::Group(blocks)
}

const CHECKS: &str = "Each check ran before the load and after the last step. During the load, \
                      dyno ran one check at a time, in rotation. Checks of start-up and stop ran \
                      once, in separate starts. ✗ marks a failed check, and – a late one.";

/// Returns the cell of a check: its mark, and how often it passed.
fn check_cell(subject: &SubjectResult, name: &str) -> TableCell {
    let Some(c) = subject.checks.iter().find(|c| c.name == name) else { return text("–") };
    let (class, mark, verdict) = match (c.ok, c.late, c.waived) {
        (true, ..) => ("good", "✓", if c.waived { " waived" } else { "" }),
        (false, true, _) => ("late", "–", " late"),
        (false, false, true) => ("bad", "✗", " waived"),
        (false, false, false) => ("bad", "✗", ""),
    };
    let shown = format!("{mark} {}/{}{verdict}", c.passed, c.passed + c.failed);
    let page = html! { span class=(class) { (shown) } };
    cell(shown, page).with_hint(Some(c.detail.clone()))
}

/// Returns the failed and the skipped subjects. Empty if there are none.
pub(crate) fn failures(report: &Report) -> Block {
    let skipped = |s: &SubjectResult| {
        let reason = s.skipped.as_ref()?;
        Some(Block::Paragraph(
            "",
            Sentence::about(&*s.title).then(format!(" was skipped: {reason}")),
        ))
    };
    let of_subject = |s| skipped(s).into_iter().chain(s.failures.iter().map(|f| failure(s, f)));
    let blocks: Vec<Block> = report.subjects.iter().flat_map(of_subject).collect();
    if blocks.is_empty() {
        return Block::empty();
    }
    Block::Group(vec![Block::Heading("Failures".into()), Block::Group(blocks)])
}

/// Returns a failure and the last lines of its log.
fn failure(s: &SubjectResult, f: &SubjectFailure) -> Block {
    let (kind, message) = (f.failure.kind.name(), one_line(&f.failure.message));
    let sentence = format!(", repeat {}: {kind}: {message}", f.repeat);
    let mut blocks = vec![Block::Paragraph("bad", Sentence::about(&*s.title).then(sentence))];
    if let Some(log) = &f.log_tail {
        let writer = f.log_of.as_ref().filter(|writer| **writer != s.id);
        blocks.extend(writer.map(|w| Block::note(&format!("The last lines that {w} wrote:"))));
        blocks.push(Block::Code("", log.clone()));
    }
    Block::Group(blocks)
}
