//! Renders a report as Markdown, for pull requests and wikis.

use std::fmt::Write as _;

use dyno_analysis::experiment::Effect;
use dyno_analysis::metric::{MetricId, Unit};
use dyno_analysis::overview::OverviewRow;
use dyno_analysis::report::Report;
use dyno_analysis::stats::Repeated;
use dyno_analysis::subject::SubjectResult;
use dyno_analysis::summary::Summary;

use crate::format::{
    Quantile, bytes, error_share_text, micros, millis, number, or_dash, percent, quantity,
    step_percentile_text, valid_repeats,
};
use crate::output::Format;
use crate::present::{escape, table};
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
        let _ = writeln!(out, "## Effects\n\n{}", effects_table(&experiment.effects));
        for effect in &experiment.effects {
            let reason =
                format!("{} compared with {}: {}", effect.to, effect.from, effect.reason());
            let _ = writeln!(out, "- {}", escape::markdown(&reason));
        }
        out.push('\n');
    }
    if !report.duets.is_empty() {
        let _ = writeln!(out, "## Duets\n\n{}", effects_table(&report.duets));
    }
    if !report.twins.is_empty() {
        let _ = writeln!(out, "## Twins\n\n{}", effects_table(&report.twins));
    }
    if !report.brackets.is_empty() {
        let _ = writeln!(out, "## Objective\n\n{}", brackets_table(report));
    }
    let _ = writeln!(out, "## Steps\n\n{}", table_from_columns(&STEPS, &report.summaries));
    let _ = writeln!(out, "{PERCENTILES_NOTE}\n");
    let _ = writeln!(out, "## Every metric\n\n{}", metric_tables(report));
    let _ =
        writeln!(out, "## Start-up and stop\n\n{}", table_from_columns(&STARTUP, &report.subjects));
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
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let seven_columns = |head: &[&str], rows: &mut dyn Iterator<Item = [String; 7]>| {
        let names: Vec<String> = head.iter().map(|name| (*name).to_string()).collect();
        let row_line = |cells: [String; 7]| line(&cells.map(|cell| escape::markdown(&cell)));
        let lines: String = rows.map(row_line).collect();
        format!("{}|{}\n{lines}", line(&names), "---|".repeat(head.len()))
    };
    let rates = seven_columns(&brackets::HEAD, &mut report.brackets.iter().map(brackets::cells));
    let objective = report.run.objective.as_deref().unwrap_or_default();
    let rates_section = format!("{}: {}\n\n{rates}", escape::markdown(objective), brackets::NOTE);
    if report.searches.is_empty() {
        return rates_section;
    }
    let search_rows = &mut report.searches.iter().map(brackets::search_cells);
    let searches = seven_columns(&brackets::SEARCH_HEAD, search_rows);
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

/// Renders the table of effects.
fn effects_table(effects: &[Effect]) -> String {
    let rows = effects.iter().flat_map(|effect| &effect.rows);
    table::markdown(&compare::COLUMNS, rows.map(compare::cells))
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
    format!("{}\n{}\n", table::markdown(&head, lines), overview::notes(rows))
}

/// A column: its head, and a function from a row to its cell.
type Column<T> = (&'static str, fn(&T) -> String);

/// Renders a table with a row per item of `rows`.
fn table_from_columns<T>(columns: &[Column<T>], rows: &[T]) -> String {
    let head: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let cells = |row: &T| columns.iter().map(|(_, cell)| cell(row)).collect();
    table::markdown(&head, rows.iter().map(cells))
}

const STEPS: [Column<Summary>; 17] = [
    ("Subject", |s| s.subject.clone()),
    ("Workload", |s| s.workload.clone()),
    ("Connections", connections_text),
    ("Streams", |s| s.streams.to_string()),
    ("Pipeline", |s| s.pipeline.to_string()),
    ("Rate", |s| overview::rate_cell(s.shape())),
    ("Requests/s", |s| or_dash(s.median_of(MetricId::Throughput), number)),
    ("Repeats", |s| values_text(s.values(MetricId::Throughput), number)),
    ("p50", |s| step_percentile_text(s, Quantile::P50)),
    ("p99", |s| step_percentile_text(s, Quantile::P99)),
    ("CPU per request", |s| or_dash(s.median_of(MetricId::Cpu), micros)),
    ("Memory", |s| or_dash(s.median_of(MetricId::Memory), bytes)),
    ("Memory·time per request", |s| {
        or_dash(s.median_of(MetricId::MemoryTime), |m| quantity(Unit::MegabyteSeconds, m))
    }),
    ("Errors", |s| error_share_text(s.values(MetricId::ErrorShare))),
    ("Valid", valid_repeats),
    ("Caveats", |s| s.caveats.iter().map(|c| c.code.in_words()).collect::<Vec<_>>().join(", ")),
    ("Limited by", |s| s.limiter_sentence.clone()),
];

/// Formats the connections: `1`, or `1 (2)` in the second pass over the steps.
fn connections_text(s: &Summary) -> String {
    if s.pass > 1 { format!("{} ({})", s.connections, s.pass) } else { s.connections.to_string() }
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
        let cells = |row: &metrics::MetricRow| {
            [row.title.into()].into_iter().chain(row.cells.clone()).collect()
        };
        table::markdown(&head, sheet.rows.iter().map(cells))
    };
    let sheets: Vec<String> = metrics::sheets(report).iter().map(sheet_table).collect();
    format!("{}\n{}\n", sheets.join("\n"), metrics::NOTE)
}

const STARTUP: [Column<SubjectResult>; 8] = [
    ("Subject", |s| s.title.clone()),
    ("Version", |s| or_dash(s.version.clone(), |v| v)),
    ("Listening", |s| or_dash(s.startup_ms.listening.median, millis)),
    ("First response", |s| or_dash(s.startup_ms.first_response.median, millis)),
    ("Repeats", |s| values_text(&s.startup_ms.first_response, millis)),
    ("CPU until ready", |s| or_dash(s.startup_ms.cpu.median, millis)),
    ("Stop", |s| or_dash(s.stop_ms.median, millis)),
    ("Starts killed", |s| or_dash(overview::killed_starts(s), |n| n.to_string())),
];

/// Renders the tables of the use and the starts of back ends.
fn backends_tables(report: &Report) -> String {
    let rows = report.summaries.iter().flat_map(|s| {
        s.backends.iter().map(|b| {
            vec![
                s.subject.clone(),
                s.workload.clone(),
                connections_text(s),
                b.name.clone(),
                or_dash(b.cpu_us_per_request.median, micros),
                or_dash(b.cpu_share.median, percent),
                or_dash(b.cpu_utilisation.median, percent),
                or_dash(b.memory_bytes.median, bytes),
            ]
        })
    });
    let head = [
        "Subject",
        "Workload",
        "Connections",
        "Back end",
        "CPU per request",
        "Share of a request's CPU",
        "Share of allowed CPU",
        "Memory",
    ];
    let starts = report.subjects.iter().flat_map(|s| {
        s.backends.iter().map(|b| {
            vec![
                s.id.clone(),
                b.name.clone(),
                or_dash(b.version.clone(), |v| v),
                or_dash(b.startup_ms.ready.median, millis),
                or_dash(b.seeded_ms.median, millis),
                or_dash(b.stop_ms.median, millis),
            ]
        })
    });
    let start_head = ["Subject", "Back end", "Version", "Ready", "Data loaded in", "Stop"];
    format!("{}\n{}", table::markdown(&head, rows), table::markdown(&start_head, starts))
}

/// Renders the table of checks.
fn checks_table(subjects: &[SubjectResult]) -> String {
    let rows = subjects.iter().flat_map(|s| {
        s.checks.iter().map(move |c| {
            let verdict = if c.ok {
                "passed"
            } else if c.late {
                "late"
            } else if c.waived {
                "failed (waived)"
            } else {
                "failed"
            };
            vec![
                s.title.clone(),
                c.name.clone(),
                verdict.into(),
                format!("{}/{}", c.passed, c.passed + c.failed),
                c.detail.clone(),
            ]
        })
    });
    table::markdown(&["Subject", "Check", "Verdict", "Passed", "Detail"], rows)
}

/// Renders the table of the machine.
fn machine_table(report: &Report) -> String {
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
        ("Control groups", facts.cgroup.name().into()),
        ("dyno", facts.dyno_version.clone()),
        ("Seed", report.run.seed.to_string()),
    ];
    table::markdown(
        &["Property", "Value"],
        rows.into_iter().map(|(name, value)| vec![name.to_string(), value]),
    )
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
