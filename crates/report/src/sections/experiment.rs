//! Arranges the section on the effects of a suite's experiment, and on differences between twins.

use dyno_analysis::experiment::{DoseEffect, Effect};
use dyno_analysis::report::Report;
use dyno_analysis::stats::skew_clause;

use crate::compare;
use crate::format::ratio;
use crate::overview::label_in_words;
use crate::present::block::Block;
use crate::present::sentence::Sentence;
use crate::present::table::{Column, ReportTable, text, value};

/// Returns the content of the section.
pub(super) fn content(report: &Report) -> Block {
    let effects = |effects| Block::Table(compare::effects_table(effects));
    let mut blocks = Vec::new();
    if let Some(experiment) = &report.experiment {
        let reason = |effect: &Effect| {
            Sentence::new(&format!(
                "{} compared with {}: {}",
                effect.to,
                effect.from,
                effect.reason()
            ))
        };
        blocks.push(Block::figure(
            "effects",
            effects_title(experiment.factor.as_deref()),
            (EFFECTS_LEGEND, EFFECTS),
            compare::effects_table(&experiment.effects),
        ));
        blocks.push(Block::List(experiment.effects.iter().map(reason).collect()));
        blocks.push(doses(&experiment.doses));
    }
    if !report.duets.is_empty() {
        blocks.extend([Block::note(DUETS), effects(&report.duets)]);
    }
    if !report.twins.is_empty() {
        let heading = Block::Heading("Twins".into());
        blocks.extend([heading, Block::note(TWINS), effects(&report.twins)]);
    }
    Block::Group(blocks)
}

const DUETS: &str = "These servers were loaded at the same time on the same CPUs (a duet), so a \
                     disturbance of the machine affects all of them. Throughput and times are not \
                     compared, because they include the servers' wait for each other.";

const TWINS: &str = "A twin is the same server under a second name, started and loaded like any \
                     other server. Differences between the two are noise, so a difference that is \
                     shown here is a false alarm. About one in twenty runs with a twin has a false \
                     alarm.";

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

const EFFECTS_LEGEND: &str = "Each dot is the ratio of a pair of starts from the same block (one \
                              pass over all servers). Each line is the 95 % interval of the \
                              ratio, if there are five pairs or more.\nThe grey area is the noise \
                              floor: more than one in five comparisons miss a difference that is \
                              smaller.";

const EFFECTS: &str = "A ratio of 1 means no change. Verdicts are corrected for the number of \
                       comparisons (rows).";

/// Returns the table of the effects of doubling the level of a dose. Empty without a dose.
fn doses(doses: &[DoseEffect]) -> Block {
    let columns: [Column<'_, DoseEffect>; 6] = [
        ("Workload", &|d| text(&d.workload)),
        ("Step", &|d| text(label_in_words(d.step))),
        ("Metric", &|d| text(d.title)),
        ("#Factor when the level doubles", &|d| {
            value(d.doubling.map(|e| e.ratio).or(d.doubling_median), ratio)
        }),
        ("#95 % interval", &|d| text(compare::interval_text(d.doubling))),
        ("#Valid blocks", &|d| text(format!("{} of {}", d.counted_blocks, d.loaded_blocks))),
    ];
    let table = ReportTable::plain("sortable", &columns, doses);
    let table = Block::part("When the level doubles", "", table, DOSES);
    let skewed: Vec<String> = doses.iter().filter_map(skew_text).collect();
    Block::Group(vec![table, Block::note(&skewed.join("\n"))])
}

/// States that the factors of a dose are skewed. `None`: they are not.
fn skew_text(dose: &DoseEffect) -> Option<String> {
    dose.doubling.filter(|estimate| estimate.is_skewed)?;
    let (step, clause) = (label_in_words(dose.step), skew_clause(&[]));
    Some(format!("{}, {}, {step}: {clause}.", dose.title, dose.workload))
}

const DOSES: &str = "The table shows the factor by which the metric changes when the level \
                     doubles. Each block (one pass over all servers) gives a factor, from the \
                     slope of a line through the logarithms of level and metric. A factor of 2 \
                     means that the metric is proportional to the level. A factor of 1 means that \
                     the metric is independent of the level. \"–\" means that the factor is \
                     unknown: in some blocks a level has no valid value, and the other blocks may \
                     be a biased selection.";

#[cfg(test)]
mod tests {
    use dyno_analysis::cell::Shape;
    use dyno_analysis::stats::{Estimate, Looks};

    use super::*;

    #[test]
    fn skewed_factor_of_dose_is_described() {
        let dose = |factors: &[f64]| DoseEffect {
            workload: "w".into(),
            step: Shape::closed_loop(16, 1, 1),
            metric: "throughput_rps",
            title: "Throughput",
            doubling: Estimate::from_pairs_at(Looks::AfterEach, factors),
            doubling_median: None,
            counted_blocks: 8,
            loaded_blocks: 8,
        };
        let skewed = dose(&[1.98, 2.02, 1.99, 2.01, 1.98, 2.02, 2.0, 3.0]);
        let expected = "Throughput, w, 16 connections: the ratios of the repeats are skewed, and \
                        intervals assume symmetry, so their confidence is below 95 %.";
        assert_eq!(skew_text(&skewed).as_deref(), Some(expected));
        assert_eq!(skew_text(&dose(&[1.98, 2.02, 1.99, 2.01, 2.0])), None);
        assert_eq!(skew_text(&dose(&[])), None);
    }
}
