//! Renders the section on the effects of a suite's experiment, and on differences between twins.

use dyno_analysis::experiment::DoseEffect;
use dyno_analysis::report::Report;
use maud::{Markup, html};

use super::{figure, note, part, table};
use crate::compare;
use crate::format::{or_dash, ratio};
use crate::overview::label_in_words;
use crate::present::table::{Column, ReportTable, text, value};

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
                &compare::effects_table(&experiment.effects),
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
            (table::render(&compare::effects_table(&report.duets)))
        }
        @if !report.twins.is_empty() {
            h3 { "Twins" } "\n"
            (note("A twin is the same server under a second name, started and loaded like any \
                   other server. Differences between the two are noise, so a difference that is \
                   shown here is a false alarm. About one in twenty runs with a twin has a false \
                   alarm."))
            (table::render(&compare::effects_table(&report.twins)))
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

/// Renders the table of the effects of doubling the level of a dose. Empty without a dose.
fn doses_table(doses: &[DoseEffect]) -> Markup {
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
    part("When the level doubles", "", &ReportTable::plain("sortable", &columns, doses), DOSES)
}

const DOSES: &str = "The table shows the factor by which the metric changes when the level \
                     doubles. Each block (one pass over all servers) gives a factor, from the \
                     slope of a line through the logarithms of level and metric. A factor of 2 \
                     means that the metric is proportional to the level. A factor of 1 means that \
                     the metric is independent of the level. \"–\" means that the factor is \
                     unknown: in some blocks a level has no valid value, and the other blocks may \
                     be a biased selection.";
