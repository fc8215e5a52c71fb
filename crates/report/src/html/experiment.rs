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

/// Renders the section. Empty without an experiment, twins and servers that were loaded at the same
/// time.
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
            (note("Loaded at the same time on the same CPUs, so a disturbance of the machine \
                   affects all of them. Throughput and times include the wait for each other, and \
                   are not compared."))
            (effects_table(&report.duets))
        }
        @if !report.twins.is_empty() {
            h3 { "Twins" } "\n"
            (note("One server under two names, started and loaded like any other. Differences \
                   between the two are noise. A difference that is shown here is a false alarm. \
                   One in twenty such runs has one."))
            (effects_table(&report.twins))
        }
    };
    super::section("experiment", heading(report), &body)
}

/// Whether the report has an experiment, twins or duets.
pub(super) fn has_section(report: &Report) -> bool {
    report.experiment.is_some() || !report.twins.is_empty() || !report.duets.is_empty()
}

/// Heading of the section: "Effects" if there is an experiment.
pub(super) fn heading(report: &Report) -> &'static str {
    if report.experiment.is_none() { "Twins and duets" } else { "Effects" }
}

fn effects_title(factor: Option<&str>) -> String {
    factor.map_or_else(|| "Effect of each change".into(), |factor| format!("Effect of {factor}"))
}

const EFFECTS: &str = "Dots: pairs of launches of one block. Lines: the 95 % interval of their \
                       ratio, with five or more pairs. 1: no change. Grey: the noise floor. \
                       Smaller differences are missed in more than one of five comparisons. \
                       Verdicts are corrected for all rows together.";

/// Indexes of the [`COLUMNS`] that hold numbers. [`table`] marks such columns with a leading `#`.
const NUMBERS: std::ops::RangeInclusive<usize> = 3..=6;

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

/// Table of the effects of doubling the level of a dose. Empty without a dose. Names of numeric
/// columns begin with `#`.
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
        (note("The factor of the metric when the level doubles, from the slope of the logarithms \
               over all levels, per block. 2: proportional to the level. 1: independent of the \
               level. –: in some blocks a level has no valid value, so the other blocks may be a \
               biased selection."))
    }
}
