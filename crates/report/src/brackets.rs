//! Formats the rates between which servers stop meeting an objective, as sentences and table cells.

use std::ops::{Bound, RangeBounds};

use dyno_analysis::capacity::{
    Bracket, CapacityTrial, RateVotes, SearchCounts, SearchResult, Votes,
};
use dyno_analysis::cell::Shape;
use dyno_analysis::report::Report;
use dyno_model::plan::{CapacityFailures, MeasuredFirst};

use crate::format::{length, number, plural};
use crate::overview::{label, label_in_words};
use crate::present::table::{Column, TableCell, text, value};

/// Columns of the table of brackets.
pub(crate) const COLUMNS: [Column<'_, Bracket>; 7] = [
    ("Subject", &|b| text(&b.subject)),
    ("Workload", &|b| text(&b.workload)),
    ("#Connections", &|b| connections_value(b.shape)),
    ("#Objective met up to, requests/s", &|b| {
        let is_bound = b.limited_by_generator && b.kept_rps.is_some();
        let at_least = if is_bound { "≥ " } else { "" };
        text(format!("{at_least}{}", rate_or_none(b.kept_rps))).sorted_by(b.kept_rps)
    }),
    ("#Missed at", &|b| {
        let by = if b.limited_by_generator { " (because of the generator)" } else { "" };
        text(format!("{}{by}", rate_or_none(b.missed_rps))).sorted_by(b.missed_rps)
    }),
    ("Range over repeats", &|b| text(range_text(b))),
    ("Evidence", &|b| text(evidence_text(b))),
];

/// Returns the value of a load point, which sorts by the connections.
fn connections_value(shape: Shape) -> TableCell {
    text(label(shape.without_rate())).sorted_by(Some(f64::from(shape.connections)))
}

/// Formats a rate, or `none`.
fn rate_or_none(rps: Option<f64>) -> String {
    rps.map_or_else(|| "none".into(), number)
}

/// Formats the interval of the rates that meet the objective, or the rate of each repeat.
fn range_text(bracket: &Bracket) -> String {
    match bracket.interval_rps {
        Some((low, high)) => format!("{}–{}", number(low), number(high)),
        None => {
            let rate = |rps: &f64| rate_or_none(Some(*rps).filter(|rps| *rps > 0.0));
            bracket.by_repeat_rps.iter().map(rate).collect::<Vec<_>>().join(", ")
        }
    }
}

/// Formats the votes at each rate, or the searches.
fn evidence_text(bracket: &Bracket) -> String {
    let votes = |rate: &RateVotes| {
        format!("{}: {} of {}", number(rate.rate_rps), rate.kept.agree, rate.kept.loads)
    };
    match &bracket.searched {
        Some(searched) => search_text(searched),
        None => bracket.rates.iter().map(votes).collect::<Vec<_>>().join("; "),
    }
}

/// Whether no rate was offered to the server, and no start failed.
fn is_without_starts(bracket: &Bracket) -> bool {
    bracket.rates.is_empty() && bracket.searched.is_none_or(|search| search.failed_starts == 0)
}

/// Returns the reason why it is unknown whether the rates in a range meet the objective.
fn undecided_reason(bracket: &Bracket, range: impl RangeBounds<f64>) -> String {
    if let Some(SearchCounts { starts, failed_starts, failing_starts, .. }) = bracket.searched
        && failed_starts + failing_starts > 0
    {
        let failed = failed_starts + failing_starts;
        return format!("{failed} of {} starts failed", starts + failed_starts);
    }
    let mut rates = bracket.rates.iter().filter(|rate| range.contains(&rate.rate_rps));
    match rates.all(|rate| rate.kept.loads == 0) {
        true => "the loads had too few requests to decide".into(),
        false => "the repeats disagree".into(),
    }
}

/// Summarises searches: `searched: 92 loads in 3 starts, 1 start not settled`.
fn search_text(searched: &SearchCounts) -> String {
    let SearchCounts { starts, failed_starts, failing_starts, loads, settled, holds_s, .. } =
        searched;
    let loads = plural(*loads as u64, "load");
    let starts_text = |n: usize| plural(n as u64, "start");
    let mut text = format!("searched: {loads} in {}", starts_text(*starts));
    if starts > settled {
        text.push_str(&format!(", {} not settled", starts_text(starts - settled)));
    }
    if *failing_starts > 0 {
        text.push_str(&format!(
            ", {} with failures at low rates, too",
            starts_text(*failing_starts)
        ));
    }
    if let Some(seconds) = holds_s {
        text.push_str(&format!(", objective met for {} s", length(*seconds)));
    }
    if *failed_starts > 0 {
        text.push_str(&format!(", {} failed", plural(*failed_starts as u64, "more start")));
    }
    text
}

/// Columns of the table of searches.
pub(crate) const SEARCH_COLUMNS: [Column<'_, SearchResult>; 7] = [
    ("Subject", &|s| text(&s.subject)),
    ("Workload", &|s| text(&s.workload)),
    ("#Connections", &|s| connections_value(s.shape)),
    ("#Repeat", &|s| value(Some(f64::from(s.repeat)), |n| n.to_string())),
    ("#Objective met up to, requests/s", &|s| voted_rate(s.result.kept_rps, s.result.kept_by)),
    ("#Missed at", &|s| voted_rate(s.result.missed_rps, s.result.missed_by)),
    ("Missed condition", &|s| text(search_notes(s))),
];

/// Returns the value of a rate, with the number of loads that agree.
fn voted_rate(rps: Option<f64>, votes: Votes) -> TableCell {
    let shown = rps.map(|rps| format!("{} ({} of {})", number(rps), votes.agree, votes.loads));
    text(shown.unwrap_or_else(|| "none".into())).sorted_by(rps)
}

/// States which condition a search missed, and what is uncertain about its result.
fn search_notes(search: &SearchResult) -> String {
    let result = &search.result;
    let is_miss = |trial: &&CapacityTrial| Some(trial.rate_rps) == result.missed_rps && !trial.kept;
    let missed = result.trials.iter().find(is_miss).and_then(|trial| trial.missed.clone());
    let ended = result.ended.as_ref().map(|reason| format!("ended early: {reason}"));
    let unsettled = (!result.settled && ended.is_none()).then(|| "not settled".to_string());
    let failures = result
        .failures_at_any_rate
        .map(|_| "incorrect or missing responses at low rates, too".to_string());
    let notes: Vec<String> =
        missed.into_iter().chain(failures).chain(ended).chain(unsettled).collect();
    notes.join("; ")
}

/// Summarises the brackets in a sentence. `None`: the report has no brackets.
pub(crate) fn sentence(report: &Report) -> Option<String> {
    let objective = report.run.objective.as_ref()?;
    let has_several_shapes = report.brackets.windows(2).any(|pair| pair[0].shape != pair[1].shape);
    let bracket_text = |bracket: &Bracket| {
        let rates = rate_range(bracket)?;
        let notes = generator_note(bracket) + &uncertainty_note(bracket);
        let workload = if report.run.workloads.len() > 1 {
            format!(" for {}", bracket.workload)
        } else {
            String::new()
        };
        let connections = if has_several_shapes {
            format!(" over {}", label_in_words(bracket.shape.without_rate()))
        } else {
            String::new()
        };
        Some(format!("{}{workload}{connections} {rates}{notes}", bracket.subject))
    };
    let is_control =
        |id: &str| report.subjects.iter().any(|subject| subject.id == id && subject.control);
    let brackets = report.brackets.iter().filter(|bracket| !is_control(&bracket.subject));
    let texts: Vec<String> = brackets.filter_map(bracket_text).collect();
    (!texts.is_empty()).then(|| format!("Rates that meet {objective}: {}.", texts.join(", ")))
}

/// States that the generator, not the server, was the limit. Empty: the generator was not.
fn generator_note(bracket: &Bracket) -> String {
    if bracket.limited_by_generator {
        return " (limited by the generator, so the server may reach more)".into();
    }
    match bracket.searched {
        Some(searched) if bracket.missed_rps.is_some() && searched.limited_by_generator > 0 => {
            format!(
                " (limited by the generator in {} of {} searches, so the server may reach more)",
                searched.limited_by_generator, searched.starts
            )
        }
        _ => String::new(),
    }
}

/// States that searches are not settled, or that their result is confirmed only for short loads.
/// Empty: the result is certain, or comes from no search.
fn uncertainty_note(bracket: &Bracket) -> String {
    let Some(searched) = bracket.searched else { return String::new() };
    let mut note = String::new();
    let unsettled = searched.starts - searched.settled;
    if unsettled > 0 {
        note.push_str(&format!(" ({} not settled)", plural(unsettled as u64, "search")));
    }
    let is_unconfirmed = bracket.kept_rps.is_some() && searched.confirmed < searched.starts;
    if is_unconfirmed && let Some(seconds) = searched.holds_s {
        note.push_str(&format!(" (confirmed only for {} s)", length(seconds)));
    }
    note
}

/// Describes the rates at which a subject meets the objective. `None`: no rate was offered to the
/// subject.
fn rate_range(bracket: &Bracket) -> Option<String> {
    if bracket.failures_at_any_rate {
        return Some(
            "none known (lower rates did not clearly have fewer incorrect or missing responses)"
                .into(),
        );
    }
    Some(match (bracket.kept_rps, bracket.missed_rps) {
        (Some(kept), Some(missed)) => format!("up to {}–{}/s", number(kept), number(missed)),
        (Some(kept), None) if bracket.searched.is_some() => {
            format!("up to {}/s (no upper bound found)", number(kept))
        }
        (Some(kept), None) if bracket.rates.last().is_some_and(|last| last.rate_rps > kept) => {
            format!(
                "up to {}/s (higher rates are undecided: {})",
                number(kept),
                undecided_reason(bracket, (Bound::Excluded(kept), Bound::Unbounded))
            )
        }
        (Some(kept), None) => format!("up to {}/s (the highest rate tried)", number(kept)),
        (None, Some(missed)) => match bracket.rates.iter().any(|rate| rate.rate_rps < missed) {
            true => format!(
                "none known (missed at {}/s; lower rates are undecided: {})",
                number(missed),
                undecided_reason(bracket, ..missed)
            ),
            // Lower rates may meet it: no load had them.
            false => format!("none known (missed at {}/s)", number(missed)),
        },
        (None, None) if is_without_starts(bracket) => return None,
        (None, None) => format!("undecided ({})", undecided_reason(bracket, ..)),
    })
}

/// States the shares of capacities, and which run measured the capacities.
pub(crate) fn shares_sentence(first: &MeasuredFirst) -> String {
    let shares: Vec<String> =
        first.shares.iter().map(|share| crate::format::percent(*share)).collect();
    let capacities = first.capacities.iter().map(|capacity| {
        format!("{}/s for {} by {}", number(capacity.rps), capacity.workload, capacity.subject)
    });
    let failures = first.failures.iter().map(|CapacityFailures { subject, failed, repeats }| {
        format!(" {subject} failed in {failed} of {repeats} repeats of that run.")
    });
    format!(
        "Rates are {} of the slowest subject's throughput in closed loops. Run {} measured this \
         throughput first: {}.{}",
        shares.join(", "),
        first.run,
        capacities.collect::<Vec<_>>().join(", "),
        failures.collect::<String>()
    )
}

pub(crate) const NOTE: &str = "A rate meets the objective if most of its repeats meet the \
                               objective. \"Objective met up to\" is the highest rate that meets \
                               the objective, if all lower rates meet it, too. The range is the \
                               95 % interval of the rates that the repeats reached, or the rate of \
                               each repeat if there are fewer than five. The evidence is the \
                               number of repeats that met the objective at each rate. If dyno \
                               searched for the rate, each start of the server has one search. The \
                               rate is then the median of these searches, and the evidence is the \
                               number of loads and starts.";

pub(crate) const SEARCHES_NOTE: &str = "Each start of a server has its own search. The loads of a \
                                        search are open loops (requests on a schedule), over as \
                                        many connections as the closed loop before the search. \
                                        Each load takes the suite's duration. All loads at a rate \
                                        together decide whether the rate meets the objective. A \
                                        load that is about ten times as long confirms the highest \
                                        rate that meets the objective. The numbers in parentheses \
                                        show how many single loads agree. \"Not settled\" means \
                                        that the two rates are not as close as requested, or that \
                                        a longer load contradicts the result. report.json has each \
                                        load.";

#[cfg(test)]
mod tests {
    use dyno_model::plan::Capacity;

    use super::*;

    #[test]
    fn shares_sentence_names_failures_of_capacity_run() {
        let mut first = MeasuredFirst {
            run: "r-capacity".into(),
            shares: vec![0.2],
            capacities: vec![Capacity { workload: "w".into(), rps: 800.0, subject: "a".into() }],
            failures: Vec::new(),
        };
        let sentence = shares_sentence(&first);
        assert!(
            sentence.ends_with("Run r-capacity measured this throughput first: 800/s for w by a.")
        );
        first.failures = vec![CapacityFailures { subject: "b".into(), failed: 1, repeats: 3 }];
        let expected = format!("{sentence} b failed in 1 of 3 repeats of that run.");
        assert_eq!(shares_sentence(&first), expected);
    }

    /// No load had a lower rate, or those with lower rates decide nothing.
    #[test]
    fn missed_rate_says_nothing_of_lower_rates() {
        let votes = |rate_rps: f64, agree: usize, loads: usize| RateVotes {
            rate_rps,
            kept: Votes { agree, loads },
            missed: None,
        };
        let mut bracket = searched(2, 0, None);
        (bracket.missed_rps, bracket.by_repeat_rps) = (Some(500.0), vec![0.0, 300.0]);
        assert_eq!(rate_range(&bracket).unwrap(), "none known (missed at 500/s)");
        assert_eq!(range_text(&bracket), "none, 300");
        (bracket.searched, bracket.rates) = (None, vec![votes(500.0, 0, 3)]);
        assert_eq!(rate_range(&bracket).unwrap(), "none known (missed at 500/s)");
        for (lower, reason) in [
            (votes(100.0, 1, 2), "the repeats disagree"),
            (votes(100.0, 0, 0), "the loads had too few requests to decide"),
        ] {
            bracket.rates.insert(0, lower);
            let expected =
                format!("none known (missed at 500/s; lower rates are undecided: {reason})");
            assert_eq!(rate_range(&bracket).unwrap(), expected);
            bracket.rates.remove(0);
        }
    }

    /// Returns the bracket of searches without a missed rate.
    fn searched(starts: usize, failed_starts: usize, kept_rps: Option<f64>) -> Bracket {
        Bracket {
            subject: "a".into(),
            workload: "w".into(),
            shape: Shape::closed_loop(1, 1, 1),
            kept_rps,
            missed_rps: None,
            limited_by_generator: false,
            failures_at_any_rate: false,
            rates: Vec::new(),
            searched: Some(SearchCounts {
                starts,
                failed_starts,
                failing_starts: 0,
                loads: 9,
                settled: starts,
                confirmed: starts,
                limited_by_generator: 0,
                holds_s: None,
            }),
            by_repeat_rps: Vec::new(),
            interval_rps: None,
        }
    }

    #[test]
    fn rate_range_with_failed_starts_counts_them() {
        let bracket = searched;
        let range = |bracket: &Bracket| rate_range(bracket).unwrap_or_default();
        assert_eq!(range(&bracket(0, 3, None)), "undecided (3 of 3 starts failed)");
        assert_eq!(range(&bracket(1, 2, None)), "undecided (2 of 3 starts failed)");
        assert_eq!(range(&bracket(0, 0, None)), "", "no rate was offered");
        assert_eq!(
            search_text(&bracket(2, 1, None).searched.unwrap()),
            "searched: 9 loads in 2 starts, 1 more start failed"
        );
        let mut failing = bracket(4, 1, None);
        failing.searched.as_mut().unwrap().failing_starts = 2;
        assert_eq!(range(&failing), "undecided (3 of 5 starts failed)");
        let text = search_text(&failing.searched.unwrap());
        assert!(text.contains("4 starts, 2 starts with failures at low rates, too"), "{text}");
    }
}
