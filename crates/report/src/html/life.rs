//! What is not load: start-up, stopping, checks, builds, failures.

use std::fmt::Write as _;

use dyno_analysis::report::{Report, SubjectResult};

use super::table::{Cell, escape, table, text, value};
use super::{figure, repeats_of, swatch};
use crate::format::{bytes, micros};

pub(super) fn life(report: &Report) -> String {
    let ms = |v: f64| micros(v * 1e3);
    let rows: Vec<Vec<Cell>> = report
        .subjects
        .iter()
        .map(|s| {
            let build = s.build.as_ref();
            vec![
                Cell { html: format!("{}{}", swatch(report, &s.id), escape(&s.title)), ..Cell::default() },
                text(s.version.as_deref().unwrap_or("–")),
                value(s.startup_ms.listening.median, ms),
                value(s.startup_ms.first_answer.median, ms),
                repeats_of(&s.startup_ms.first_answer, ms),
                value(s.startup_ms.cpu.median, ms),
                value(warm_s(s), |x| micros(x * 1e6)),
                value(s.stop_ms.median, ms),
                value(Some(s.stop_killed as f64), |n| format!("{n}")),
                value(build.map(|b| b.wall_s), |x| micros(x * 1e6)),
                value(build.and_then(|b| b.cpu_s), |x| micros(x * 1e6)),
                value(build.map(|b| b.artefact_bytes as f64), bytes),
            ]
        })
        .collect();
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
    figure(
        "startup",
        "Start-up",
        "From exec to the first right answer: a bar for the median, a dot per repeat.",
        &startup,
    ) + "<h3>Checks</h3>\n"
        + &checks(report)
        + &failures(report)
}

/// How long its starts were warmed; the median.
fn warm_s(subject: &SubjectResult) -> Option<f64> {
    let took: Vec<f64> = subject.warm_ups.iter().map(|w| w.took_s).collect();
    dyno_analysis::stats::median(&took)
}

fn checks(report: &Report) -> String {
    let names: Vec<&str> = report
        .subjects
        .iter()
        .max_by_key(|s| s.checks.len())
        .map(|s| s.checks.iter().map(|c| c.name.as_str()).collect())
        .unwrap_or_default();
    let mut head = vec!["Subject"];
    head.extend(&names);
    let rows: Vec<Vec<Cell>> = report
        .subjects
        .iter()
        .map(|s| {
            let name = format!("{}{}", swatch(report, &s.id), escape(&s.title));
            let mut row = vec![Cell { html: name, ..Cell::default() }];
            row.extend(names.iter().map(|n| check_cell(s, n)));
            row
        })
        .collect();
    let failed: String = report
        .subjects
        .iter()
        .flat_map(|s| s.checks.iter().filter(|c| !c.ok).map(move |c| (s, c)))
        .map(|(s, c)| {
            format!("<h4>{}: {}</h4>\n<pre>{}</pre>\n", escape(&s.title), escape(&c.name), escape(&c.detail))
        })
        .collect();
    let note = "<p class=\"note\">Each check ran before the load, in turn while it ran, and after the last step. Hover for what was seen.</p>\n";
    table("checks", &head, &rows) + note + &failed
}

fn check_cell(subject: &SubjectResult, name: &str) -> Cell {
    match subject.checks.iter().find(|c| c.name == name) {
        None => text("–"),
        Some(c) => Cell {
            html: format!(
                "<span class=\"{}\">{} {}/{}</span>",
                if c.ok { "good" } else { "bad" },
                if c.ok { "✓" } else { "✗" },
                c.passed,
                c.passed + c.failed
            ),
            hint: Some(c.detail.clone()),
            ..Cell::default()
        },
    }
}

fn failures(report: &Report) -> String {
    let mut out = String::new();
    for s in &report.subjects {
        if let Some(why) = &s.skipped {
            let _ = writeln!(out, "<p><b>{}</b> was skipped: {}</p>", escape(&s.title), escape(why));
        }
        for f in &s.failures {
            let _ = writeln!(
                out,
                "<p class=\"bad\"><b>{}</b>, repeat {}: {}: {}</p>",
                escape(&s.title),
                f.repeat,
                f.failure.kind.name(),
                escape(&f.failure.message)
            );
            if let Some(log) = &f.log_tail {
                let _ = writeln!(out, "<pre>{}</pre>", escape(log));
            }
        }
    }
    if out.is_empty() { out } else { format!("<h3>Failures</h3>\n{out}") }
}
