//! The rates between which servers stop keeping an objective, in words and cells.

use dyno_analysis::capacity::{
    Bracket, CapacityTrial, RateVotes, SearchCounts, SearchResult, Votes,
};
use dyno_analysis::report::Report;

use crate::format::{length, number, plural};

/// Columns of [`cells`].
pub(crate) const HEAD: [&str; 7] = [
    "Subject",
    "Workload",
    "Connections",
    "Kept up to, requests/s",
    "Missed at",
    "Over repeats",
    "Rates",
];

/// A row of the table.
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
        width(bracket.connections, bracket.streams, bracket.pipeline, bracket.pass),
        format!("{at_least}{}", rate(bracket.kept_rps, "none")),
        format!("{}{by}", rate(bracket.missed_rps, "none")),
        repeats,
        match &bracket.searched {
            Some(searched) => search_text(searched),
            None => bracket.rates.iter().map(votes).collect::<Vec<_>>().join("; "),
        },
    ]
}

/// Whether no start had a load or a failure.
fn is_without_starts(bracket: &Bracket) -> bool {
    bracket.rates.is_empty() && bracket.searched.is_none_or(|of| of.failed_starts == 0)
}

/// Why it is not known whether rates above a rate keep the objective.
fn undecided_reason(bracket: &Bracket, above_rps: f64) -> String {
    if let Some(SearchCounts { starts, failed_starts: failed @ 1.., .. }) = bracket.searched {
        return format!("{failed} of {} starts failed", starts + failed);
    }
    let mut above = bracket.rates.iter().filter(|rate| rate.rate_rps > above_rps);
    match above.all(|rate| rate.kept.loads == 0) {
        true => "its loads had too few requests to decide".into(),
        false => "its repeats disagree".into(),
    }
}

/// `64`, `8 × 16`, `64, pass 2`.
fn width(connections: u32, streams: u32, pipeline: u32, pass: u32) -> String {
    let of_each = streams.max(pipeline);
    let each = if of_each > 1 { format!(" × {of_each}") } else { String::new() };
    let pass = if pass > 1 { format!(", pass {pass}") } else { String::new() };
    format!("{connections}{each}{pass}")
}

/// `searched: 92 loads in 3 starts, 1 of them not settled, kept for 20 s`.
fn search_text(searched: &SearchCounts) -> String {
    let SearchCounts { starts, failed_starts, loads, settled, holds_s, .. } = searched;
    let (loads, by) = (plural(*loads as u64, "load"), plural(*starts as u64, "start"));
    let open = starts - settled;
    let open = if open > 0 { format!(", {open} of them not settled") } else { String::new() };
    let holds =
        holds_s.map_or_else(String::new, |seconds| format!(", kept for {} s", length(seconds)));
    let failed = match failed_starts {
        0 => String::new(),
        failed => format!(", {} failed", plural(*failed as u64, "more start")),
    };
    format!("searched: {loads} in {by}{open}{holds}{failed}")
}

/// Columns of [`search_cells`].
pub(crate) const SEARCH_HEAD: [&str; 7] = [
    "Subject",
    "Workload",
    "Connections",
    "Repeat",
    "Kept up to, requests/s",
    "Missed at",
    "Missed condition",
];

/// A row of the table of searches.
pub(crate) fn search_cells(search: &SearchResult) -> [String; 7] {
    let result = &search.result;
    let rate = |rps: Option<f64>, of: Votes| {
        rps.map_or_else(
            || "none".into(),
            |rps| format!("{} ({} of {})", number(rps), of.agree, of.loads),
        )
    };
    let at = |trial: &&CapacityTrial| Some(trial.rate_rps) == result.missed_rps && !trial.kept;
    let missed = result.trials.iter().find(at).and_then(|trial| trial.missed.clone());
    let ended = result.ended.as_ref().map(|why| format!("ended early: {why}"));
    let open = (!result.settled && ended.is_none()).then(|| "not settled".to_string());
    let failures = result
        .failures_at_any_rate
        .map(|_| "incorrect or missing responses at any rate".to_string());
    let said: Vec<String> = missed.into_iter().chain(failures).chain(ended).chain(open).collect();
    [
        search.subject.clone(),
        search.workload.clone(),
        width(search.connections, search.streams, search.pipeline, search.pass),
        search.repeat.to_string(),
        rate(result.kept_rps, result.kept_by),
        rate(result.missed_rps, result.missed_by),
        said.join("; "),
    ]
}

/// Summarises the brackets in a sentence. `None`: there are none.
pub(crate) fn sentence(report: &Report) -> Option<String> {
    let objective = report.run.objective.as_ref()?;
    let shape = |bracket: &Bracket| {
        let Bracket { connections, streams, pipeline, pass, .. } = *bracket;
        (connections, streams, pipeline, pass)
    };
    let has_widths = report.brackets.windows(2).any(|pair| shape(&pair[0]) != shape(&pair[1]));
    let said = |bracket: &Bracket| {
        let rates = rate_range(bracket)?;
        let searched = bracket.searched.filter(|_| bracket.missed_rps.is_some());
        let by_generator = searched.map_or(0, |searched| searched.limited_by_generator);
        let by = if bracket.limited_by_generator {
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
        let with = if report.run.workloads.len() > 1 {
            format!(" for {}", bracket.workload)
        } else {
            String::new()
        };
        let over = if has_widths {
            let (connections, streams, pipeline, pass) = shape(bracket);
            let plural =
                if (connections, streams.max(pipeline), pass) == (1, 1, 1) { "" } else { "s" };
            format!(" over {} connection{plural}", width(connections, streams, pipeline, pass))
        } else {
            String::new()
        };
        let open = bracket.searched.map_or(0, |searched| searched.starts - searched.settled);
        let open = if open > 0 {
            format!(" ({} not settled)", plural(open as u64, "search"))
        } else {
            String::new()
        };
        let holds =
            bracket.searched.filter(|of| bracket.kept_rps.is_some() && of.confirmed < of.starts);
        let holds = holds.and_then(|of| of.holds_s).map_or_else(String::new, |seconds| {
            format!(" (confirmed only for {} s)", length(seconds))
        });
        Some(format!("{}{with}{over} {rates}{by}{open}{holds}", bracket.subject))
    };
    let is_control =
        |id: &str| report.subjects.iter().any(|subject| subject.id == id && subject.control);
    let asked = report.brackets.iter().filter(|bracket| !is_control(&bracket.subject));
    let all: Vec<String> = asked.filter_map(said).collect();
    (!all.is_empty()).then(|| format!("Rates that keep {objective}: {}.", all.join(", ")))
}

/// The rates at which a subject keeps the objective. `None`: it was offered none.
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

/// Names the capacity of which the run's rates are shares. `None`: they are absolute rates.
pub(crate) fn shares(report: &Report) -> Option<String> {
    let first = report.run.measured_first.as_ref()?;
    let shares: Vec<String> =
        first.shares.iter().map(|share| crate::format::percent(*share)).collect();
    let each = first
        .capacities
        .iter()
        .map(|of| format!("{} {}/s ({})", of.workload, number(of.rps), of.subject));
    Some(format!(
        "Rates are {} of the slowest subject's throughput in closed loops, which run {} measured \
         first: {}.",
        shares.join(", "),
        first.run,
        each.collect::<Vec<_>>().join(", ")
    ))
}

pub(crate) const EXPLAINED: &str = "A rate is kept if most of its repeats kept the objective. It \
                                    counts if it is below all rates that were missed. Over \
                                    repeats: the 95 % interval of the rate that each repeat alone \
                                    keeps. With fewer than five repeats: each value. The end of \
                                    each row shows how many repeats kept each rate. A searched \
                                    rate is the median over starts, each with its own search.";

pub(crate) const SEARCHES_EXPLAINED: &str = "One search per start, by open loops of the suite's \
                                             duration over the connections of the closed loop \
                                             before it. All requests of a rate's loads together \
                                             decide the rate. A load about ten times as long \
                                             decides the kept rate. In parentheses: how many loads \
                                             agree by themselves. report.json has each load.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searched_server_that_did_not_start_is_in_the_sentence() {
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
    }
}
