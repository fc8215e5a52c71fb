//! Renders the section on the effects of a suite's experiment, and on differences between twins.

use dyno_analysis::compare::ComparisonRow;
use dyno_analysis::experiment::{DoseEffect, Effect};
use dyno_analysis::report::Report;
use maud::{Markup, html};

use super::table::{Column, TableRow, table, table_from_columns, text, text_row, value};
use super::{figure, note};
use crate::compare::{COLUMNS, cells};
use crate::format::{or_dash, ratio};
use crate::html::part_scope::PartScope;
use crate::overview::label_in_words;

/// Renders the section. Empty if the report has no experiment, no twins and no duets (servers that
/// were loaded at the same time).
pub(super) fn section(report: &Report) -> Markup {
    if !has_section(report) {
        return Markup::default();
    }
    let experiment = report.experiment.as_ref();
    let body = html! {
        @if let Some(experiment) = experiment {
            (figure(
                "effects",
                &effects_title(experiment.factor.as_deref()),
                EFFECTS,
                &effects_table(&experiment.effects),
            ))
            ul {
                @for effect in &experiment.effects {
                    li { (effect.to) " compared with " (effect.from) ": " (effect.reason()) }
                }
            }
            "\n"
            (doses_table(&experiment.doses))
        }
        @if !report.duets.is_empty() {
            (note("These servers were loaded at the same time on the same CPUs (a duet), so a \
                   disturbance of the machine affects all of them. Throughput and times are not \
                   compared, because they include the servers' wait for each other."))
            (effects_table(&report.duets))
        }
        @if !report.twins.is_empty() {
            h3 { "Twins" } "\n"
            (note("A twin is the same server under a second name, started and loaded like any \
                   other server. Differences between the two are noise, so a difference that is \
                   shown here is a false alarm. About one in twenty runs with a twin has a false \
                   alarm."))
            (effects_table(&report.twins))
        }
    };
    super::section("experiment", heading(report), &body)
}

/// Whether the report has an experiment, twins or duets.
pub(super) fn has_section(report: &Report) -> bool {
    report.experiment.is_some() || !report.twins.is_empty() || !report.duets.is_empty()
}

/// Returns the heading of the section: "Effects" if there is an experiment.
pub(super) fn heading(report: &Report) -> &'static str {
    if report.experiment.is_none() { "Twins and duets" } else { "Effects" }
}

/// Returns the heading of the chart of effects.
fn effects_title(factor: Option<&str>) -> String {
    factor.map_or_else(|| "Effect of each change".into(), |factor| format!("Effect of {factor}"))
}

const EFFECTS: &str = "Each dot is the ratio of a pair of starts from the same block (one pass \
                       over all servers). Each line is the 95 % interval of the ratio, if there \
                       are five pairs or more. A ratio of 1 means no change.\nThe grey area is the \
                       noise floor: more than one in five comparisons miss a difference that is \
                       smaller.\nVerdicts are corrected for the number of comparisons (rows).";

/// Indexes of the [`COLUMNS`] that hold numbers. [`table`] marks such columns with a leading `#`.
const NUMBERS: std::ops::RangeInclusive<usize> = 3..=6;

/// Renders the table of effects, with a row per metric.
fn effects_table(effects: &[Effect]) -> Markup {
    let head: Vec<String> = COLUMNS
        .iter()
        .enumerate()
        .map(
            |(i, name)| if NUMBERS.contains(&i) { format!("#{name}") } else { (*name).to_string() },
        )
        .collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let rows = effects.iter().flat_map(|effect| &effect.rows);
    let row = |row: &ComparisonRow| {
        let ratio = row.estimate.map(|e| e.ratio).or(row.ratio_of_medians);
        let low = row.estimate.map(|e| e.low);
        text_row(cells(row), [(3, row.a.median), (4, row.b.median), (5, ratio), (6, low)])
    };
    table("sortable", &head, &rows.map(row).collect::<Vec<TableRow>>())
}

/// Renders the table of the effects of doubling the level of a dose. Empty without a dose. Names of
/// numeric columns begin with `#`.
fn doses_table(doses: &[DoseEffect]) -> Markup {
    if doses.is_empty() {
        return Markup::default();
    }
    let columns: [Column<'_, DoseEffect>; 6] = [
        ("Workload", &|d| text(&d.workload)),
        ("Step", &|d| text(label_in_words(d.step))),
        ("Metric", &|d| text(d.title)),
        ("#Factor when the level doubles", &|d| {
            value(d.doubling.map(|e| e.ratio).or(d.doubling_median), ratio)
        }),
        ("#95 % interval", &|d| {
            text(or_dash(d.doubling, |e| format!("{}–{}", ratio(e.low), ratio(e.high))))
        }),
        ("#Valid blocks", &|d| text(format!("{} of {}", d.counted_blocks, d.loaded_blocks))),
    ];
    html! {
        h3 { "When the level doubles" } "\n"
        (table_from_columns("sortable", &columns, doses, |_| PartScope::default()))
        (note("The table shows the factor by which the metric changes when the level doubles. Each \
               block (one pass over all servers) gives a factor, from the slope of a line through \
               the logarithms of level and metric. A factor of 2 means that the metric is \
               proportional to the level. A factor of 1 means that the metric is independent of \
               the level. \"–\" means that the factor is unknown: in some blocks a level has no \
               valid value, and the other blocks may be a biased selection."))
    }
}
