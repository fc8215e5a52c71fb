//! The report as Markdown, for pull requests and wikis.

use std::fmt::Write as _;

use dyno_analysis::report::{Report, SubjectResult};
use dyno_analysis::summary::{OverviewRow, Summary};

use crate::answer;
use crate::format::{bytes, micros, number, or_dash, percent};
use crate::overview;

/// Renders the report.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "# {}\n", report.run.suite);
    if !report.run.description.is_empty() {
        let _ = writeln!(out, "{}\n", report.run.description);
    }
    for sentence in answer::sentences(report) {
        let _ = writeln!(out, "**{sentence}**\n");
    }
    for caveat in &report.caveats {
        let _ = writeln!(out, "- {}", caveat.message);
    }
    let _ = writeln!(out, "\n## Overview\n\n{}", overview_table(&report.overview));
    let _ = writeln!(out, "## Steps\n\n{}", steps(&report.summaries));
    let _ = writeln!(out, "## Start-up and stop\n\n{}", startup(&report.subjects));
    let _ = writeln!(out, "## Checks\n\n{}", checks(&report.subjects));
    let _ = writeln!(out, "## Machine\n\n{}", machine(report));
    out
}

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = format!("|{}\n", " --- |".repeat(head.len()));
    let head: Vec<String> = head.iter().map(ToString::to_string).collect();
    // A bar or a line break inside a cell would end it.
    let clean =
        |row: Vec<String>| row.iter().map(|c| c.replace('|', "\\|").replace('\n', " ")).collect::<Vec<_>>();
    line(&head) + &rule + &rows.map(|row| line(&clean(row))).collect::<String>()
}

fn overview_table(rows: &[OverviewRow]) -> String {
    let cells = |r: &OverviewRow| {
        let mut row =
            vec![format!("{}{}", r.title, if r.control { " (control)" } else { "" }), r.language.clone()];
        row.extend(overview::cells(r));
        row.push(r.absent.clone().or(r.limiter_sentence.clone()).unwrap_or_else(|| "–".into()));
        row
    };
    let head = [
        "Subject",
        "Language",
        "Peak requests/s",
        "At",
        "Range",
        "Tie group",
        "Reference",
        "p50",
        "p99",
        "CPU per request",
        "Memory",
        "Start-up",
        "Errors",
        "Checks",
        "Peak limited by",
    ];
    format!("{}\n{}\n", table(&head, rows.iter().map(cells)), overview::OF_WHICH_STEP)
}

fn steps(summaries: &[Summary]) -> String {
    let cells = |s: &Summary| {
        vec![
            s.subject.clone(),
            s.workload.clone(),
            s.connections.to_string(),
            s.streams.to_string(),
            s.pipeline.to_string(),
            or_dash(s.rate, number),
            or_dash(s.throughput_rps.median, number),
            s.throughput_rps.values.iter().map(|v| number(*v)).collect::<Vec<_>>().join(" "),
            or_dash(s.response_p50_us.median, micros),
            or_dash(s.response_p99_us.median, micros),
            or_dash(s.cpu_us_per_request.median, micros),
            or_dash(s.memory_bytes.median, bytes),
            or_dash(s.memory_mb_s_per_request.median, |m| format!("{} kB·s", number(m * 1e3))),
            or_dash(s.error_share.median, percent),
            format!("{} of {}", s.trials - s.invalid, s.trials),
            s.caveats.iter().map(|c| c.code.replace('_', " ")).collect::<Vec<_>>().join(", "),
            s.limiter_sentence.clone(),
        ]
    };
    let head = [
        "Subject",
        "Workload",
        "Connections",
        "Streams",
        "Pipeline",
        "Rate",
        "Requests/s",
        "Repeats",
        "p50",
        "p99",
        "CPU per request",
        "Memory",
        "Memory·time per request",
        "Errors",
        "Valid",
        "Caveats",
        "Limited by",
    ];
    table(&head, summaries.iter().map(cells))
}

fn startup(subjects: &[SubjectResult]) -> String {
    let ms = |v: f64| micros(v * 1e3);
    let cells = |s: &SubjectResult| {
        let all = s.startup_ms.first_answer.values.iter().map(|v| ms(*v)).collect::<Vec<_>>().join(" ");
        vec![
            s.title.clone(),
            or_dash(s.version.clone(), |v| v),
            or_dash(s.startup_ms.listening.median, ms),
            or_dash(s.startup_ms.first_answer.median, ms),
            all,
            or_dash(s.startup_ms.cpu.median, ms),
            or_dash(s.stop_ms.median, ms),
            s.stop_killed.to_string(),
        ]
    };
    let head = [
        "Subject",
        "Version",
        "Listening",
        "First right answer",
        "Repeats",
        "CPU by then",
        "Stop",
        "Had to be killed",
    ];
    table(&head, subjects.iter().map(cells))
}

fn checks(subjects: &[SubjectResult]) -> String {
    let rows = subjects.iter().flat_map(|s| {
        s.checks.iter().map(move |c| {
            let verdict = if c.ok { "right" } else { "**wrong**" };
            vec![
                s.title.clone(),
                c.name.clone(),
                verdict.into(),
                format!("{}/{}", c.passed, c.passed + c.failed),
                c.detail.clone(),
            ]
        })
    });
    table(&["Subject", "Check", "Verdict", "Passed", "Detail"], rows)
}

fn machine(report: &Report) -> String {
    let facts = &report.run.facts;
    let text = |t: &Option<String>| t.clone().unwrap_or_else(|| "not known".into());
    let rows = [
        ("CPU", format!("{} × {}", facts.cpus, text(&facts.cpu_model))),
        ("Memory", or_dash(facts.memory_bytes, |b| bytes(b as f64))),
        ("Kernel", text(&facts.kernel)),
        ("System", text(&facts.os)),
        ("Virtualisation", text(&facts.virtualisation)),
        ("Governor", text(&facts.governor)),
        ("Clock source", text(&facts.clock_source)),
        ("Control groups", facts.cgroup.clone()),
        ("dyno", facts.dyno_version.clone()),
        ("Seed", report.run.seed.to_string()),
        ("Again", format!("`{}`", report.run.command.join(" "))),
    ];
    table(&["What", "Value"], rows.into_iter().map(|(what, value)| vec![what.to_string(), value]))
}
