//! What is not load: start-up, stopping, checks, builds, failures.

use dyno_analysis::report::Report;
use dyno_analysis::subject::{CheckSummary, SubjectFailure, SubjectResult};
use maud::{Markup, html};

use super::table::{Cell, cell, table, text, value};
use super::{figure, note, repeats_of, swatch};
use crate::format::{bytes, micros, millis};

pub(super) fn life(report: &Report) -> Markup {
    let row = |s: &SubjectResult| {
        let build = s.build.as_ref();
        vec![
            subject(report, s),
            text(s.version.as_deref().unwrap_or("–")),
            value(s.startup_ms.listening.median, millis),
            value(s.startup_ms.first_answer.median, millis),
            repeats_of(&s.startup_ms.first_answer, millis),
            value(s.startup_ms.cpu.median, millis),
            value(warm_s(s), |x| micros(x * 1e6)),
            value(s.stop_ms.median, millis),
            value(Some(s.stop_killed as f64), |n| format!("{n}")),
            value(build.map(|b| b.wall_s), |x| micros(x * 1e6)),
            value(build.and_then(|b| b.cpu_s), |x| micros(x * 1e6)),
            value(build.map(|b| b.artefact_bytes as f64), bytes),
        ]
    };
    let rows: Vec<Vec<Cell>> = report.subjects.iter().map(row).collect();
    let startup = table(
        "sortable",
        &[
            "Subject",
            "Version",
            "#Listening",
            "#First right answer",
            "#Each repeat",
            "#CPU by then",
            "#Warm-up",
            "#Stop",
            "#Killed",
            "#Build",
            "#Build CPU",
            "#Artefacts",
        ],
        &rows,
    );
    let what = "From exec to the first right answer: a bar for the median, a dot per repeat.";
    html! {
        (figure("startup", "Start-up", what, &startup))
        h3 { "Checks" } "\n"
        (checks(report))
        (failures(report))
    }
}

fn subject(report: &Report, s: &SubjectResult) -> Cell {
    cell(html! { (swatch(report, &s.id)) (s.title) })
}

/// How long its starts were warmed; the median.
fn warm_s(subject: &SubjectResult) -> Option<f64> {
    let took: Vec<f64> = subject.warm_ups.iter().map(|w| w.took_s).collect();
    dyno_analysis::stats::median(&took)
}

fn checks(report: &Report) -> Markup {
    let names: Vec<&str> = report
        .subjects
        .iter()
        .max_by_key(|s| s.checks.len())
        .map(|s| s.checks.iter().map(|c| c.name.as_str()).collect())
        .unwrap_or_default();
    let mut head = vec!["Subject"];
    head.extend(&names);
    let row = |s: &SubjectResult| {
        let mut row = vec![subject(report, s)];
        row.extend(names.iter().map(|n| check_cell(s, n)));
        row
    };
    let rows: Vec<Vec<Cell>> = report.subjects.iter().map(row).collect();
    let failed =
        |s: &'_ SubjectResult| -> Vec<CheckSummary> { s.checks.iter().filter(|c| !c.ok).cloned().collect() };
    html! {
        (table("checks", &head, &rows))
        (note("Each check ran before the load, in turn while it ran, and after the last step. Hover for what was seen."))
        @for s in &report.subjects {
            @for c in failed(s) {
                h4 { (s.title) ": " (c.name) } "\n"
                pre { (c.detail) } "\n"
            }
        }
    }
}

fn check_cell(subject: &SubjectResult, name: &str) -> Cell {
    let Some(c) = subject.checks.iter().find(|c| c.name == name) else { return text("–") };
    let (class, mark) = if c.ok { ("good", "✓") } else { ("bad", "✗") };
    let shown = html! { span class=(class) { (mark) " " (c.passed) "/" (c.passed + c.failed) } };
    cell(shown).with_hint(Some(c.detail.clone()))
}

fn failures(report: &Report) -> Markup {
    let any = report.subjects.iter().any(|s| s.skipped.is_some() || !s.failures.is_empty());
    html! {
        @if any {
            h3 { "Failures" } "\n"
            @for s in &report.subjects {
                @if let Some(why) = &s.skipped { p { b { (s.title) } " was skipped: " (why) } "\n" }
                @for f in &s.failures { (failure(s, f)) }
            }
        }
    }
}

fn failure(s: &SubjectResult, f: &SubjectFailure) -> Markup {
    html! {
        p.bad {
            b { (s.title) } ", repeat " (f.repeat) ": " (f.failure.kind.name()) ": " (f.failure.message)
        }
        "\n"
        @if let Some(log) = &f.log_tail { pre { (log) } "\n" }
    }
}
