//! Formats the rates between which servers stop meeting an objective, as sentences and table cells.

use dyno_analysis::capacity::{
    Bracket, CapacityTrial, RateVotes, SearchCounts, SearchResult, Votes,
};
use dyno_analysis::report::Report;
use dyno_archive::plan::{CapacityFailures, MeasuredFirst};

use crate::format::{length, number, plural};

/// Columns of [`cells`].
pub(crate) const HEAD: [&str; 7] = [
    "Subject",
    "Workload",
    "Connections",
    "Objective met up to, requests/s",
    "Missed at",
    "Over repeats",
    "Rates",
];

/// Formats a bracket as a row of the table.
pub(crate) fn cells(bracket: &Bracket) -> [String; 7] {
    let rate = |rps: Option<f64>, none: &str| rps.map_or_else(|| none.into(), number);
    let by = if bracket.limited_by_generator { " (because of the generator)" } else { "" };
    let at_least =
        if bracket.limited_by_generator && bracket.kept_rps.is_some() { "≥ " } else { "" };
    let repeats = match bracket.interval_rps {
        Some((low, high)) => format!("{}–{}", number(low), number(high)),
        None => bracket.by_repeat_rps.iter().map(|rps| number(*rps)).collect::<Vec<_>>().join(", "),
    };
    let votes = |rate: &RateVotes| {
        format!("{}: {} of {}", number(rate.rate_rps), rate.kept.agree, rate.kept.loads)
    };
    [
        bracket.subject.clone(),
        bracket.workload.clone(),
        connections_text(bracket.connections, bracket.streams, bracket.pipeline, bracket.pass),
        format!("{at_least}{}", rate(bracket.kept_rps, "none")),
        format!("{}{by}", rate(bracket.missed_rps, "none")),
        repeats,
        match &bracket.searched {
            Some(searched) => search_text(searched),
            None => bracket.rates.iter().map(votes).collect::<Vec<_>>().join("; "),
        },
    ]
}

/// Whether the server was offered no rate: none of its starts had a load or failed.
fn is_without_starts(bracket: &Bracket) -> bool {
    bracket.rates.is_empty() && bracket.searched.is_none_or(|search| search.failed_starts == 0)
}

/// Reason why it is unknown whether rates above `above_rps` meet the objective.
fn undecided_reason(bracket: &Bracket, above_rps: f64) -> String {
    if let Some(SearchCounts { starts, failed_starts, failing_starts, .. }) = bracket.searched
        && failed_starts + failing_starts > 0
    {
        let failed = failed_starts + failing_starts;
        return format!("{failed} of {} starts failed", starts + failed_starts);
    }
    let mut above = bracket.rates.iter().filter(|rate| rate.rate_rps > above_rps);
    match above.all(|rate| rate.kept.loads == 0) {
        true => "its loads had too few requests to decide".into(),
        false => "its repeats disagree".into(),
    }
}

/// Connections, with the requests in flight on each and the pass if above 1: `64`, `8 × 16`, `64,
/// pass 2`.
fn connections_text(connections: u32, streams: u32, pipeline: u32, pass: u32) -> String {
    let per_connection = streams.max(pipeline);
    let factor = if per_connection > 1 { format!(" × {per_connection}") } else { String::new() };
    let pass = if pass > 1 { format!(", pass {pass}") } else { String::new() };
    format!("{connections}{factor}{pass}")
}

/// Summarises searches: `searched: 92 loads in 3 starts, 1 of them not settled, holding for 20 s`.
fn search_text(searched: &SearchCounts) -> String {
    let SearchCounts { starts, failed_starts, failing_starts, loads, settled, holds_s, .. } =
        searched;
    let (loads, by) = (plural(*loads as u64, "load"), plural(*starts as u64, "start"));
    let unsettled = starts - settled;
    let unsettled =
        if unsettled > 0 { format!(", {unsettled} of them not settled") } else { String::new() };
    let duration =
        holds_s.map_or_else(String::new, |seconds| format!(", holding for {} s", length(seconds)));
    let failed = match failed_starts {
        0 => String::new(),
        failed => format!(", {} failed", plural(*failed as u64, "more start")),
    };
    let failing = match failing_starts {
        0 => String::new(),
        failing => format!(", {failing} of them with failures at any rate"),
    };
    format!("searched: {loads} in {by}{unsettled}{failing}{duration}{failed}")
}

/// Columns of [`search_cells`].
pub(crate) const SEARCH_HEAD: [&str; 7] = [
    "Subject",
    "Workload",
    "Connections",
    "Repeat",
    "Objective met up to, requests/s",
    "Missed at",
    "Missed condition",
];

/// Formats a search as a row of the table of searches.
pub(crate) fn search_cells(search: &SearchResult) -> [String; 7] {
    let result = &search.result;
    let rate = |rps: Option<f64>, votes: Votes| {
        rps.map_or_else(
            || "none".into(),
            |rps| format!("{} ({} of {})", number(rps), votes.agree, votes.loads),
        )
    };
    let is_miss = |trial: &&CapacityTrial| Some(trial.rate_rps) == result.missed_rps && !trial.kept;
    let missed = result.trials.iter().find(is_miss).and_then(|trial| trial.missed.clone());
    let ended = result.ended.as_ref().map(|reason| format!("ended early: {reason}"));
    let unsettled = (!result.settled && ended.is_none()).then(|| "not settled".to_string());
    let failures = result
        .failures_at_any_rate
        .map(|_| "incorrect or missing responses at any rate".to_string());
    let notes: Vec<String> =
        missed.into_iter().chain(failures).chain(ended).chain(unsettled).collect();
    [
        search.subject.clone(),
        search.workload.clone(),
        connections_text(search.connections, search.streams, search.pipeline, search.pass),
        search.repeat.to_string(),
        rate(result.kept_rps, result.kept_by),
        rate(result.missed_rps, result.missed_by),
        notes.join("; "),
    ]
}

/// Summarises the brackets in a sentence. `None`: the report has no brackets.
pub(crate) fn sentence(report: &Report) -> Option<String> {
    let objective = report.run.objective.as_ref()?;
    let shape = |bracket: &Bracket| {
        let Bracket { connections, streams, pipeline, pass, .. } = *bracket;
        (connections, streams, pipeline, pass)
    };
    let has_several_shapes =
        report.brackets.windows(2).any(|pair| shape(&pair[0]) != shape(&pair[1]));
    let bracket_text = |bracket: &Bracket| {
        let rates = rate_range(bracket)?;
        let searched = bracket.searched.filter(|_| bracket.missed_rps.is_some());
        let by_generator = searched.map_or(0, |searched| searched.limited_by_generator);
        let limit = if bracket.limited_by_generator {
            " (limited by the generator: the server may do more)".to_string()
        } else if by_generator > 0 {
            let starts = bracket.searched.map_or(0, |searched| searched.starts);
            format!(
                " (limited by the generator in {by_generator} of {starts} searches: the server may \
                 do more)"
            )
        } else {
            String::new()
        };
        let workload = if report.run.workloads.len() > 1 {
            format!(" for {}", bracket.workload)
        } else {
            String::new()
        };
        let connections = if has_several_shapes {
            let (connections, streams, pipeline, pass) = shape(bracket);
            let ending =
                if (connections, streams.max(pipeline), pass) == (1, 1, 1) { "" } else { "s" };
            format!(
                " over {} connection{ending}",
                connections_text(connections, streams, pipeline, pass)
            )
        } else {
            String::new()
        };
        let unsettled = bracket.searched.map_or(0, |searched| searched.starts - searched.settled);
        let unsettled = if unsettled > 0 {
            format!(" ({} not settled)", plural(unsettled as u64, "search"))
        } else {
            String::new()
        };
        let duration = bracket
            .searched
            .filter(|search| bracket.kept_rps.is_some() && search.confirmed < search.starts)
            .and_then(|search| search.holds_s)
            .map_or_else(String::new, |s| format!(" (confirmed only for {} s)", length(s)));
        Some(format!(
            "{}{workload}{connections} {rates}{limit}{unsettled}{duration}",
            bracket.subject
        ))
    };
    let is_control =
        |id: &str| report.subjects.iter().any(|subject| subject.id == id && subject.control);
    let brackets = report.brackets.iter().filter(|bracket| !is_control(&bracket.subject));
    let texts: Vec<String> = brackets.filter_map(bracket_text).collect();
    (!texts.is_empty()).then(|| format!("Rates that meet {objective}: {}.", texts.join(", ")))
}

/// Describes the rates at which a subject meets the objective. `None`: no rate was offered to the
/// subject.
fn rate_range(bracket: &Bracket) -> Option<String> {
    Some(match (bracket.kept_rps, bracket.missed_rps) {
        _ if bracket.failures_at_any_rate => {
            "none known (incorrect or missing responses are not shown to be fewer at low rates)"
                .into()
        }
        (Some(kept), Some(missed)) => format!("up to {}–{}/s", number(kept), number(missed)),
        (Some(kept), None) if bracket.searched.is_some() => {
            format!("up to {}/s (no upper bound found)", number(kept))
        }
        (Some(kept), None) if bracket.rates.last().is_some_and(|last| last.rate_rps > kept) => {
            format!(
                "up to {}/s (undecided above: {})",
                number(kept),
                undecided_reason(bracket, kept)
            )
        }
        (Some(kept), None) => format!("up to {}/s and more", number(kept)),
        (None, Some(missed)) => format!("not at {}/s", number(missed)),
        (None, None) if is_without_starts(bracket) => return None,
        (None, None) => format!("undecided ({})", undecided_reason(bracket, 0.0)),
    })
}

/// Names the capacities of which the run's rates are shares. `None`: the rates are absolute.
pub(crate) fn shares(report: &Report) -> Option<String> {
    let first = report.run.measured_first.as_ref()?;
    Some(shares_sentence(first))
}

fn shares_sentence(first: &MeasuredFirst) -> String {
    let shares: Vec<String> =
        first.shares.iter().map(|share| crate::format::percent(*share)).collect();
    let capacities = first.capacities.iter().map(|capacity| {
        format!("{} {}/s ({})", capacity.workload, number(capacity.rps), capacity.subject)
    });
    let failures = first.failures.iter().map(|CapacityFailures { subject, failed, repeats }| {
        format!(" {subject} failed in {failed} of {repeats} repeats of that run.")
    });
    format!(
        "Rates are {} of the slowest subject's throughput in closed loops, which run {} measured \
         first: {}.{}",
        shares.join(", "),
        first.run,
        capacities.collect::<Vec<_>>().join(", "),
        failures.collect::<String>()
    )
}

pub(crate) const NOTE: &str = "A rate meets the objective if most of its repeats do. Shown is \
                                    the highest such rate below all rates that miss it. Over \
                                    repeats: the 95 % interval of the rate that each repeat alone \
                                    reached. With fewer than five repeats: each value. The end of \
                                    each row shows how many repeats met the objective at each \
                                    rate. A searched rate is the median over starts, each with its \
                                    own search.";

pub(crate) const SEARCHES_NOTE: &str = "One search per start, by open loops of the suite's \
                                             duration over the connections of the closed loop \
                                             before it. All requests of a rate's loads together \
                                             decide whether the rate meets the objective. A load \
                                             about ten times as long confirms the highest such \
                                             rate. In parentheses: how many loads agree by \
                                             themselves. report.json has each load.";

#[cfg(test)]
mod tests {
    use dyno_archive::plan::Capacity;

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
        assert!(sentence.ends_with("which run r-capacity measured first: w 800/s (a)."));
        first.failures = vec![CapacityFailures { subject: "b".into(), failed: 1, repeats: 3 }];
        let expected = format!("{sentence} b failed in 1 of 3 repeats of that run.");
        assert_eq!(shares_sentence(&first), expected);
    }

    #[test]
    fn rate_range_with_failed_starts_counts_them() {
        let bracket = |starts: usize, failed_starts: usize, kept_rps: Option<f64>| Bracket {
            subject: "a".into(),
            workload: "w".into(),
            connections: 1,
            streams: 1,
            pipeline: 1,
            pass: 1,
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
        };
        let range = |bracket: &Bracket| rate_range(bracket).unwrap_or_default();
        assert_eq!(range(&bracket(0, 3, None)), "undecided (3 of 3 starts failed)");
        assert_eq!(range(&bracket(1, 2, None)), "undecided (2 of 3 starts failed)");
        assert_eq!(range(&bracket(0, 0, None)), "", "it was offered no rate");
        assert_eq!(
            search_text(&bracket(2, 1, None).searched.unwrap()),
            "searched: 9 loads in 2 starts, 1 more start failed"
        );
        let mut failing = bracket(4, 1, None);
        failing.searched.as_mut().unwrap().failing_starts = 2;
        assert_eq!(range(&failing), "undecided (3 of 5 starts failed)");
        let text = search_text(&failing.searched.unwrap());
        assert!(text.contains("4 starts, 2 of them with failures at any rate"), "{text}");
    }
}
