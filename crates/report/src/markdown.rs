//! Renders a report as Markdown, for pull requests and wikis.

use std::fmt::Write as _;

use dyno_analysis::backend::{BackendResult, BackendSummary};
use dyno_analysis::cell::Shape;
use dyno_analysis::metric::{MetricId, Unit};
use dyno_analysis::overview::OverviewRow;
use dyno_analysis::report::Report;
use dyno_analysis::stats::Repeated;
use dyno_analysis::subject::{CheckSummary, SubjectResult};
use dyno_analysis::summary::Summary;

use crate::format::{
    Quantile, bytes, error_share_text, micros, millis, number, or_dash, percent, quantity,
    step_percentile_text, valid_repeats,
};
use crate::output::Format;
use crate::present::escape;
use crate::present::table::{Column, ReportTable, Row, text, value};
use crate::redact::RedactedReport;
use crate::{answer, brackets, compare, metrics, overview, redact, shell, terminal};

/// The format.
pub const FORMAT: Format = Format { name: "md", is_stored: true, renderer: render };

/// Renders a report.
fn render(redacted: &RedactedReport<'_>) -> String {
    let report = &*redacted.report;
    let mut out = String::new();
    let _ = writeln!(out, "# {}\n", escape::markdown(&report.run.suite));
    if !report.run.description.is_empty() {
        let _ = writeln!(out, "{}\n", escape::markdown(&report.run.description));
    }
    for sentence in answer::sentences(report) {
        let _ = writeln!(out, "**{}**\n", escape::markdown(&sentence));
    }
    for caveat in &report.caveats {
        let _ = writeln!(out, "- {}", escape::markdown(&caveat.message));
    }
    let _ = writeln!(out, "\n## Overview\n\n{}", overview_table(report));
    if let Some(experiment) = &report.experiment {
        let _ = writeln!(
            out,
            "## Effects\n\n{}",
            compare::effects_table(&experiment.effects).markdown()
        );
        for effect in &experiment.effects {
            let reason =
                format!("{} compared with {}: {}", effect.to, effect.from, effect.reason());
            let _ = writeln!(out, "- {}", escape::markdown(&reason));
        }
        out.push('\n');
    }
    if !report.duets.is_empty() {
        let _ = writeln!(out, "## Duets\n\n{}", compare::effects_table(&report.duets).markdown());
    }
    if !report.twins.is_empty() {
        let _ = writeln!(out, "## Twins\n\n{}", compare::effects_table(&report.twins).markdown());
    }
    if !report.brackets.is_empty() {
        let _ = writeln!(out, "## Objective\n\n{}", brackets_table(report));
    }
    let _ = writeln!(out, "## Steps\n\n{}", markdown_table(&STEPS, &report.summaries));
    let _ = writeln!(out, "{PERCENTILES_NOTE}\n");
    let _ = writeln!(out, "## Every metric\n\n{}", metric_tables(report));
    let _ = writeln!(out, "## Start-up and stop\n\n{}", markdown_table(&STARTUP, &report.subjects));
    if report.subjects.iter().any(|s| !s.backends.is_empty()) {
        let _ = writeln!(out, "## Back ends\n\n{}", backends_tables(report));
    }
    let _ = writeln!(out, "## Checks\n\n{}", checks_table(&report.subjects));
    let _ = writeln!(out, "## Machine\n\n{}", machine_table(report));
    let _ = writeln!(
        out,
        "## Run the suite again\n\n{}",
        code_block(&shell::rerun_command(&report.run.command, report.run.seed))
    );
    if let Some(note) = redact::withheld_note(redacted.withheld) {
        let _ = writeln!(out, "{}", escape::markdown(&note));
    }
    out
}

/// Renders the tables of rates that meet the objective, and of searches.
fn brackets_table(report: &Report) -> String {
    let rates = markdown_table(&brackets::COLUMNS, &report.brackets);
    let objective = report.run.objective.as_deref().unwrap_or_default();
    let rates_section = format!("{}: {}\n\n{rates}", escape::markdown(objective), brackets::NOTE);
    if report.searches.is_empty() {
        return rates_section;
    }
    let searches = markdown_table(&brackets::SEARCH_COLUMNS, &report.searches);
    format!("{rates_section}\n{}\n\n{searches}", brackets::SEARCHES_NOTE)
}

/// Note below the table of percentiles.
const PERCENTILES_NOTE: &str = "Percentiles are over all intended requests. Requests without a \
                                correct response (not ok) rank above every correct response. `> \
                                1.20 s (5.9 % not ok)` means that the percentile lies among the \
                                requests that are not ok, above the longest known wait. `–` means \
                                too few samples: fewer than 20 lie beyond the percentile.";

/// Formats a code block. Its fence is longer than any sequence of backticks in the text.
fn code_block(text: &str) -> String {
    let text = terminal::escape_controls(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}sh\n{text}\n{fence}\n")
}

/// Renders a table with a row per item of `rows`.
fn markdown_table<R>(columns: &[Column<'_, R>], rows: &[R]) -> String {
    ReportTable::plain("", columns, rows).markdown()
}

/// Renders the overview, with a row per subject and back end.
fn overview_table(report: &Report) -> String {
    let rows = &report.overview;
    let cells = |r: &OverviewRow| {
        let mut row = vec![
            format!("{}{}", r.title, if r.control { " (control)" } else { "" }),
            r.language.clone(),
        ];
        row.extend(overview::COLUMNS.iter().map(|column| (column.cell)(report, r)));
        // A row without numbers has the reason for their absence in place of a limiter.
        let absence_or_limiter = r.absent.clone().or(r.limiter_sentence.clone());
        row.push(absence_or_limiter.unwrap_or_else(|| "–".into()));
        row
    };
    let columns = overview::COLUMNS.iter().map(|column| column.title);
    let head: Vec<&str> =
        ["Subject", "Language"].into_iter().chain(columns).chain(["Peak limited by"]).collect();
    let lines = rows.iter().flat_map(|r| {
        let backend_rows = r.backends.iter().map(overview::backend_cells);
        // Back ends have no language and no limiter.
        let backend_rows = backend_rows.map(|row| {
            [vec![row[0].clone(), String::new()], row[1..].to_vec(), vec![String::new()]].concat()
        });
        std::iter::once(cells(r)).chain(backend_rows).collect::<Vec<_>>()
    });
    let table = ReportTable::new("", &head, lines.map(Row::from_iter).collect());
    format!("{}\n{}\n", table.markdown(), overview::notes(rows))
}

const STEPS: [Column<'_, Summary>; 17] = [
    ("Subject", &|s| text(&s.subject)),
    ("Workload", &|s| text(&s.workload)),
    ("Connections", &|s| text(connections_text(s))),
    ("Streams", &|s| text(s.shape.streams.to_string())),
    ("Pipeline", &|s| text(s.shape.pipeline.to_string())),
    ("Rate", &|s| text(overview::rate_cell(s.shape))),
    ("Requests/s", &|s| value(s.median_of(MetricId::Throughput), number)),
    ("Repeats", &|s| text(values_text(s.values(MetricId::Throughput), number))),
    ("p50", &|s| text(step_percentile_text(s, Quantile::P50))),
    ("p99", &|s| text(step_percentile_text(s, Quantile::P99))),
    ("CPU per request", &|s| value(s.median_of(MetricId::Cpu), micros)),
    ("Memory", &|s| value(s.median_of(MetricId::Memory), bytes)),
    ("Memory·time per request", &|s| {
        value(s.median_of(MetricId::MemoryTime), |m| quantity(Unit::MegabyteSeconds, m))
    }),
    ("Errors", &|s| text(error_share_text(s.values(MetricId::ErrorShare)))),
    ("Valid", &|s| text(valid_repeats(s))),
    ("Caveats", &|s| text(overview::caveat_names(&s.caveats))),
    ("Limited by", &|s| text(&s.limiter_sentence)),
];

/// Formats the connections: `1`, or `1 (2)` in the second pass over the steps.
fn connections_text(s: &Summary) -> String {
    let Shape { connections, pass, .. } = s.shape;
    if pass > 1 { format!("{connections} ({pass})") } else { connections.to_string() }
}

/// Formats the value of each repeat.
fn values_text(q: &Repeated, show: fn(f64) -> String) -> String {
    q.values.iter().map(|v| show(*v)).collect::<Vec<_>>().join(" ")
}

/// Renders a table of all metrics per workload.
fn metric_tables(report: &Report) -> String {
    let sheet_table = |sheet: &metrics::Sheet| {
        let mut head = vec![sheet.heading.as_str()];
        head.extend(sheet.subjects.iter().map(String::as_str));
        let row = |row: &metrics::MetricRow| {
            [row.title.to_string()].into_iter().chain(row.cells.clone()).collect()
        };
        ReportTable::new("", &head, sheet.rows.iter().map(row).collect()).markdown()
    };
    let sheets: Vec<String> = metrics::sheets(report).iter().map(sheet_table).collect();
    format!("{}\n{}\n", sheets.join("\n"), metrics::NOTE)
}

const STARTUP: [Column<'_, SubjectResult>; 8] = [
    ("Subject", &|s| text(&s.title)),
    ("Version", &|s| text(s.version.as_deref().unwrap_or("–"))),
    ("Listening", &|s| value(s.startup_ms.listening.median, millis)),
    ("First response", &|s| value(s.startup_ms.first_response.median, millis)),
    ("Repeats", &|s| text(values_text(&s.startup_ms.first_response, millis))),
    ("CPU until ready", &|s| value(s.startup_ms.cpu.median, millis)),
    ("Stop", &|s| value(s.stop_ms.median, millis)),
    ("Starts killed", &|s| text(or_dash(overview::killed_starts(s), |n| n.to_string()))),
];

/// Renders the tables of the use and the starts of back ends.
fn backends_tables(report: &Report) -> String {
    let uses: Vec<BackendUse<'_>> =
        report.summaries.iter().flat_map(|s| s.backends.iter().map(move |b| (s, b))).collect();
    let starts: Vec<BackendStarts<'_>> =
        report.subjects.iter().flat_map(|s| s.backends.iter().map(move |b| (s, b))).collect();
    let use_columns: [Column<'_, BackendUse<'_>>; 8] = [
        ("Subject", &|(s, _)| text(&s.subject)),
        ("Workload", &|(s, _)| text(&s.workload)),
        ("Connections", &|(s, _)| text(connections_text(s))),
        ("Back end", &|(_, b)| text(&b.name)),
        ("CPU per request", &|(_, b)| value(b.cpu_us_per_request.median, micros)),
        ("Share of a request's CPU", &|(_, b)| value(b.cpu_share.median, percent)),
        ("Share of allowed CPU", &|(_, b)| value(b.cpu_utilisation.median, percent)),
        ("Memory", &|(_, b)| value(b.memory_bytes.median, bytes)),
    ];
    let start_columns: [Column<'_, BackendStarts<'_>>; 6] = [
        ("Subject", &|(s, _)| text(&s.id)),
        ("Back end", &|(_, b)| text(&b.name)),
        ("Version", &|(_, b)| text(b.version.as_deref().unwrap_or("–"))),
        ("Ready", &|(_, b)| value(b.startup_ms.ready.median, millis)),
        ("Data loaded in", &|(_, b)| value(b.seeded_ms.median, millis)),
        ("Stop", &|(_, b)| value(b.stop_ms.median, millis)),
    ];
    format!("{}\n{}", markdown_table(&use_columns, &uses), markdown_table(&start_columns, &starts))
}

type BackendUse<'a> = (&'a Summary, &'a BackendSummary);
type BackendStarts<'a> = (&'a SubjectResult, &'a BackendResult);

/// Renders the table of checks.
fn checks_table(subjects: &[SubjectResult]) -> String {
    let checks: Vec<(&SubjectResult, &CheckSummary)> =
        subjects.iter().flat_map(|s| s.checks.iter().map(move |c| (s, c))).collect();
    let columns: [Column<'_, (&SubjectResult, &CheckSummary)>; 5] = [
        ("Subject", &|(s, _)| text(&s.title)),
        ("Check", &|(_, c)| text(&c.name)),
        ("Verdict", &|(_, c)| text(check_verdict(c))),
        ("Passed", &|(_, c)| text(format!("{}/{}", c.passed, c.passed + c.failed))),
        ("Detail", &|(_, c)| text(&c.detail)),
    ];
    markdown_table(&columns, &checks)
}

/// Returns the verdict on a check in words.
const fn check_verdict(c: &CheckSummary) -> &'static str {
    if c.ok {
        "passed"
    } else if c.late {
        "late"
    } else if c.waived {
        "failed (waived)"
    } else {
        "failed"
    }
}

/// Renders the table of the machine.
fn machine_table(report: &Report) -> String {
    let facts = &report.run.facts;
    let known_text = |t: &Option<String>| t.clone().unwrap_or_else(|| "not known".into());
    let rows = [
        ("CPU", format!("{} × {}", facts.cpus, known_text(&facts.cpu_model))),
        ("Memory", or_dash(facts.memory_bytes, |b| bytes(b as f64))),
        ("Kernel", known_text(&facts.kernel)),
        ("System", known_text(&facts.os)),
        ("Virtualisation", known_text(&facts.virtualisation)),
        ("Governor", known_text(&facts.governor)),
        ("Clock source", known_text(&facts.clock_source)),
        ("Control groups", facts.cgroup.name().into()),
        ("dyno", facts.dyno_version.clone()),
        ("Seed", report.run.seed.to_string()),
    ];
    let columns: [Column<'_, (&str, String)>; 2] =
        [("Property", &|(name, _)| text(*name)), ("Value", &|(_, value)| text(value))];
    markdown_table(&columns, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_block_ends_at_its_own_fence() {
        assert_eq!(code_block("dyno run x"), "```sh\ndyno run x\n```\n");
        assert_eq!(code_block("a ```` b"), "`````sh\na ```` b\n`````\n");
    }
}
