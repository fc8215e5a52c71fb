//! Sections of a report as data. `html/mod.rs` and `markdown.rs` render them, so that both have the
//! same tables and sentences.

mod cost;
mod experiment;
pub(crate) mod lifecycle;
mod limiters;
mod load;
mod method;
pub(crate) mod overview;
mod probe_results;
mod profile;
#[cfg(test)]
mod tests;
mod wire;

use dyno_analysis::backend::BackendSummary;
use dyno_analysis::cell::{CellKey, Shape};
use dyno_analysis::metric::{METRICS, MetricId, RESPONSE_P99};
use dyno_analysis::noise::STARTUP;
use dyno_analysis::report::Report;
use dyno_analysis::stats::Repeated;
use dyno_analysis::summary::Summary;
use dyno_analysis::trial::TrialResult;
use maud::{Markup, html};

pub(crate) use self::method::first_part_text;
pub(crate) use self::profile::flame_figure;
use crate::format::{count, number, or_dash, percent, plural, quantity};
use crate::overview::rate_cell;
use crate::present::block::{Block, ReportSection};
use crate::present::part_scope::PartScope;
use crate::present::table::{Column, ReportTable, TableCell, cell, text, value};
use crate::redact::RedactedReport;

/// Returns all sections of a report, in order.
pub(crate) fn sections(redacted: &RedactedReport<'_>) -> Vec<ReportSection> {
    let report = &*redacted.report;
    let section = |id, title: &str, content| ReportSection { id, title: title.into(), content };
    let experiment = experiment::has_section(report)
        .then(|| section("experiment", experiment::heading(report), experiment::content(report)));
    let first = [
        section("answer", "The answer", Block::Group(overview::answer(report).into())),
        section("overview", "Overview", overview::overview(report)),
    ];
    let others = [
        section("load", "Under load", load::under_load(report)),
        section("response", "Response time", load::response(report)),
        section("cost", "Cost", cost::cost(report)),
        section("why", "Why", limiters::limiters(report)),
        section("wire", "On the wire", wire::wire(report)),
        section("life", "Start-up, stop, checks, build", lifecycle::lifecycle(report)),
        section("explorer", "Explorer", method::explorer(report)),
        section("method", "Method", method::method(report, redacted.withheld)),
    ];
    first.into_iter().chain(experiment).chain(others).collect()
}

/// Formats the ends of the interval or range of repeats: `2.1–2.3`.
fn spread_text(q: &Repeated, show: impl Fn(f64) -> String) -> String {
    or_dash(q.spread(), |(a, b)| format!("{}–{}", show(a), show(b)))
}

/// Renders the coloured mark of a subject. The viewer chooses the colour.
fn swatch(report: &Report, id: &str) -> Markup {
    let index = report.subjects.iter().position(|s| s.id == id).unwrap_or(0);
    html! { span.swatch data-colour=(index) {} }
}

/// Returns the cell of a subject, with its colour.
fn subject_cell(report: &Report, id: &str, title: &str) -> TableCell {
    cell(title, html! { (swatch(report, id)) (title) })
}

/// Returns the chart of a metric with its table. Below the note are the scatter of the metric's
/// repeats, and the servers that the chart omits.
fn metric_figure(
    (report, metric): (&Report, &str),
    chart: &'static str,
    caption: &str,
    (legend, note): (&str, &str),
    table: ReportTable,
) -> Block {
    let note = [note.into(), omitted_note(report, metric), noise_note(report, metric)];
    Block::figure(chart, caption, (legend, &note.join("\n")), table)
}

/// Describes the scatter of repeats of a metric. Empty: the scatter is unknown.
fn noise_note(report: &Report, metric: &str) -> String {
    let Some(floor) = report.noise.get(metric) else { return String::new() };
    let (of, unit) = match metric {
        key if key == STARTUP => ("", "subject"),
        key if key == RESPONSE_P99.key => ("p99 of ", "step"),
        _ => ("", "step"),
    };
    let scatter = format!(
        "Noise: {of}repeats of one {unit} differ by {} (standard deviation, median over {})",
        percent(floor.scatter),
        plural(floor.steps as u64, unit)
    );
    match floor.detectable {
        Some(difference) => format!(
            "{scatter}. Smallest detectable difference: {} (detected in 80 % of runs, for a single \
             comparison).",
            percent(difference)
        ),
        None => format!("{scatter}."),
    }
}

/// Explains which servers a chart omits because they waited for the same CPUs. Empty for metrics
/// that do not include the wait for CPUs, because their charts show all servers.
fn omitted_note(report: &Report, metric: &str) -> String {
    let includes_waits = METRICS.iter().any(|known| known.key == metric && known.includes_waits);
    match report.run.concurrent_arms.as_slice() {
        [first @ .., last] if includes_waits => format!(
            "{} and {last} are omitted, because they were loaded at the same time and waited for \
             the same CPUs. The charts of cost show these servers.",
            first.join(", ")
        ),
        _ => String::new(),
    }
}

/// The column of throughput in tables of trials.
const REQUESTS_PER_SECOND: Column<'_, TrialResult> =
    ("#Requests/s", &|t| value((MetricId::Throughput.metric().pick)(t), number));

/// Names of a row of a table of steps or trials.
struct CellNames<'a> {
    subject: &'a str,
    workload: &'a str,
    cell: CellKey,
    shape: Shape,
}

impl CellNames<'_> {
    fn from_step(s: &Summary) -> CellNames<'_> {
        CellNames { subject: &s.subject, workload: &s.workload, cell: s.cell, shape: s.shape }
    }

    fn from_trial(t: &TrialResult) -> CellNames<'_> {
        CellNames {
            subject: &t.subject_id,
            workload: &t.workload,
            cell: t.cell,
            shape: t.step.shape,
        }
    }
}

/// Returns a table with a row per step: the columns that name the step, then `columns`.
fn step_table(report: &Report, columns: &[Column<'_, Summary>]) -> ReportTable {
    cell_table(report, &report.summaries, CellNames::from_step, columns)
}

/// Returns a table with a row per step: the median of a metric with those of the back ends, its
/// value in each repeat, and the medians of other metrics. `title` and `others` have the heads.
fn metric_table(
    report: &Report,
    title: &str,
    id: MetricId,
    others: &[(&str, MetricId)],
) -> ReportTable {
    let shown = |id: MetricId| move |v: f64| quantity(id.metric().unit, v);
    let cell_of = |s: &Summary, id: MetricId| value(s.median_of(id), shown(id));
    let own = |s: &Summary| with_backends(cell_of(s, id), s, id);
    let repeats = |s: &Summary| repeats_cell(s.values(id), shown(id));
    let others: Vec<_> =
        others.iter().map(|(title, id)| (*title, move |s: &Summary| cell_of(s, *id))).collect();
    let first: [Column<'_, Summary>; 2] = [(title, &own), ("#Each repeat", &repeats)];
    let others = others.iter().map(|(title, cell)| -> Column<'_, Summary> { (title, cell) });
    step_table(report, &first.into_iter().chain(others).collect::<Vec<_>>())
}

/// Adds the value of each back end to a cell of the subject.
fn with_backends(cell: TableCell, s: &Summary, id: MetricId) -> TableCell {
    let shown = |backend: &BackendSummary| {
        let median = match id {
            MetricId::Cpu => backend.cpu_us_per_request.median,
            MetricId::Memory => backend.memory_bytes.median,
            _ => None,
        };
        Some(format!("+ {} {}", backend.name, quantity(id.metric().unit, median?)))
    };
    s.backends.iter().filter_map(shown).fold(cell, TableCell::with_small)
}

/// Returns a table with a row per trial or part of a trial: the columns that name the trial, then
/// `columns`. `trial` returns the trial of a row.
fn trial_table<T>(
    report: &Report,
    rows: &[T],
    trial: fn(&T) -> &TrialResult,
    columns: &[Column<'_, T>],
) -> ReportTable {
    let repeat_column: Column<'_, T> = ("#Repeat", &|t| whole_number_cell(trial(t).repeat));
    // The column "Valid" is omitted if `columns` contains it, or if all trials are valid.
    let valid_column: Column<'_, T> = ("Valid", &|t| text(method::valid(trial(t))));
    let omits_valid =
        columns.iter().any(|(head, _)| *head == "Valid") || report.trials.iter().all(|t| t.valid);
    let trial_columns = [repeat_column].into_iter().chain((!omits_valid).then_some(valid_column));
    let columns: Vec<Column<'_, T>> = trial_columns.chain(columns.iter().copied()).collect();
    cell_table(report, rows, |row| CellNames::from_trial(trial(row)), &columns)
}

/// Folds a table with a row per trial, which only pages have. CSV has a line per trial, too.
fn every_trial(table: ReportTable) -> Block {
    Block::OnPages(vec![Block::Folded("Every trial".into(), vec![Block::Table(table)])])
}

/// Returns a table with a row per item of `rows`: the columns that name its cell, then `columns`.
fn cell_table<R>(
    report: &Report,
    rows: &[R],
    names: impl Fn(&R) -> CellNames<'_>,
    columns: &[Column<'_, R>],
) -> ReportTable {
    let name_columns: [Column<'_, R>; 3] = [
        ("Subject", &|r| text(names(r).subject)),
        ("Workload", &|r| text(names(r).workload)),
        ("#Connections", &|r| whole_number_cell(names(r).shape.connections)),
    ];
    let optional_columns: [VaryingColumn<'_, R>; 4] = [
        (|at| at.streams > 1, ("#Streams", &|r| whole_number_cell(names(r).shape.streams))),
        (|at| at.pipeline > 1, ("#Pipeline", &|r| whole_number_cell(names(r).shape.pipeline))),
        (has_rate, ("#Rate", &|r| rate_cell_of(names(r).shape))),
        (|at| at.pass > 1, ("#Pass", &|r| whole_number_cell(names(r).shape.pass))),
    ];
    let columns =
        [&name_columns[..], &varying_columns(report, &optional_columns), columns].concat();
    ReportTable::scoped("sortable", &columns, rows, |r| PartScope::cell(report, names(r).cell))
}

/// A column that distinguishes steps, and a function that returns whether a step needs it.
type VaryingColumn<'a, T> = (fn(Shape) -> bool, Column<'a, T>);

/// Returns the columns that any step needs. A column that would contain only 1 is omitted.
fn varying_columns<'a, T>(report: &Report, columns: &[VaryingColumn<'a, T>]) -> Vec<Column<'a, T>> {
    let is_needed = |needs: &fn(Shape) -> bool| report.summaries.iter().any(|s| needs(s.shape));
    columns.iter().filter(|(needs, _)| is_needed(needs)).map(|(_, column)| *column).collect()
}

/// Whether a step has an offered rate.
const fn has_rate(at: Shape) -> bool {
    at.rate.is_some() || at.schedule.is_some()
}

/// Returns the cell of the offered rate of a step, or of its schedule.
fn rate_cell_of(at: Shape) -> TableCell {
    text(rate_cell(at)).sorted_by(at.rate.or(at.schedule.and_then(|schedule| schedule.to_rps)))
}

/// Returns the cell of a count with separated thousands.
fn count_cell(n: u64) -> TableCell {
    text(count(n)).sorted_by(Some(n as f64))
}

/// Returns the cell of a number without separated thousands, such as connections and repeats.
fn whole_number_cell(n: u32) -> TableCell {
    value(Some(f64::from(n)), |n| format!("{n}"))
}

/// Returns a cell with the value of each repeat.
fn repeats_cell(q: &Repeated, show: impl Fn(f64) -> String) -> TableCell {
    text(q.values.iter().map(|v| show(*v)).collect::<Vec<_>>().join("  "))
}

/// Returns the cell of the valid repeats. Its spaces do not break, so that the text stays on one
/// line.
fn valid_repeats_cell(s: &Summary) -> TableCell {
    text(crate::format::valid_repeats(s).replace(' ', "\u{a0}"))
}
