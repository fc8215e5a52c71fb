//! The answer first: one to three sentences made from the results, with intervals or their absence said.

use std::fmt::Write as _;

use dyno_analysis::report::Report;
use dyno_analysis::stats::Repeated;
use dyno_analysis::summary::{Comparison, OverviewRow};

use crate::format::{list, number};

/// The sentences at the head of a report.
#[must_use]
pub fn sentences(report: &Report) -> Vec<String> {
    let mut all: Vec<String> =
        [winner(report), protocols(report), ties(report), validity(report), failures(report)]
            .into_iter()
            .flatten()
            .collect();
    if all.is_empty() {
        all.push("Nothing could be measured: see the reasons below.".into());
    }
    all
}

fn title<'a>(report: &'a Report, id: &'a str) -> &'a str {
    report.subjects.iter().find(|s| s.id == id).map_or(id, |s| s.title.as_str())
}

/// Subjects with numbers, controls aside, best first.
fn ranked(report: &Report) -> Vec<&OverviewRow> {
    let first = report.run.workloads.first().map_or("", |w| w.name.as_str());
    let is_ranked = |r: &&OverviewRow| !r.control && r.peak_rps.is_some() && r.workload == first;
    report.overview.iter().filter(is_ranked).collect()
}

fn winner(report: &Report) -> Option<String> {
    let ranked = ranked(report);
    let best = ranked.first()?;
    let connections = best.reference_connections;
    let [_, _, ..] = ranked.as_slice() else {
        let peak = best.peak_rps.as_ref()?;
        return Some(format!(
            "{} served at most {} requests per second ({} over {} repeats), at {} connections.",
            best.title,
            number(peak.median?),
            range(peak, number)?,
            peak.values.len(),
            best.peak_connections?
        ));
    };
    let is_of = |c: &&Comparison, row: &OverviewRow| {
        c.subject == row.subject && c.workload == row.workload && c.connections == connections
    };
    let other = report.comparisons.iter().find(|c| is_of(c, best));
    let Some(comparison) = other else {
        // The best is the baseline itself: compare the runner-up with it.
        let second = ranked.get(1)?;
        let comparison = report.comparisons.iter().find(|c| is_of(c, second))?;
        return Some(compared(report, comparison, connections));
    };
    Some(compared(report, comparison, connections))
}

/// What HTTP/2 did to throughput, at equal requests in flight: otherwise it would be the concurrency that is compared.
fn protocols(report: &Report) -> Option<String> {
    let mut kinds: Vec<(&str, &str, u64)> = Vec::new();
    for c in &report.protocols {
        let kind = (c.workload.as_str(), c.baseline.as_str(), c.in_flight);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.sort_by_key(|(workload, _, level)| (*level, *workload));
    let of_kind = |(workload, baseline, level): &(&str, &str, u64)| {
        let same = report.protocols.iter().filter(|c| {
            (c.workload.as_str(), c.baseline.as_str(), c.in_flight) == (*workload, *baseline, *level)
        });
        let ratios: Vec<f64> = same.filter_map(|c| c.throughput_ratio.median).collect();
        let (low, high) = ratios.iter().fold((f64::MAX, 0.0f64), |(l, h), r| (l.min(*r), h.max(*r)));
        (!ratios.is_empty()).then(|| {
            format!(
                "{workload} served {} to {} times as many as {baseline} at {level} in flight ({} servers)",
                ratio(low),
                ratio(high),
                ratios.len()
            )
        })
    };
    let clauses: Vec<String> = kinds.iter().filter_map(of_kind).collect();
    (!clauses.is_empty()).then(|| format!("Requests per second by protocol: {}.", clauses.join("; ")))
}

fn compared(report: &Report, c: &Comparison, connections: u32) -> String {
    let (subject, baseline) = (title(report, &c.subject), title(report, &c.baseline));
    let repeats = c.throughput_ratio.values.len();
    let over = match c.throughput_ratio.interval {
        Some(_) => "95 % interval".to_string(),
        None => format!("range of {repeats} repeats, too few for an interval"),
    };
    let rate = match range(&c.throughput_ratio, ratio) {
        Some(range) => format!("{range} times as many requests per second as {baseline} ({over})"),
        None => return format!("{subject} and {baseline} have no valid step in common to compare."),
    };
    let cpu = c
        .cpu_per_request_ratio
        .median
        .map_or(String::new(), |r| format!(", for {} times the CPU per request", ratio(r)));
    format!("At {connections} connections {subject} served {rate}{cpu}.")
}

fn ratio(r: f64) -> String {
    if r >= 10.0 {
        format!("{r:.0}")
    } else if r >= 0.1 {
        format!("{r:.2}")
    } else {
        format!("{r:.3}")
    }
}

/// `2.1–2.3`, or one value where both ends read the same.
fn range(q: &Repeated, show: impl Fn(f64) -> String) -> Option<String> {
    let (low, high) = q.spread()?;
    let (low, high) = (show(low), show(high));
    Some(if low == high { low } else { format!("{low}–{high}") })
}

fn ties(report: &Report) -> Option<String> {
    let ranked = ranked(report);
    let groups: Vec<Vec<String>> = (1..=ranked.len())
        .map(|g| ranked.iter().filter(|r| r.tie_group == Some(g)).map(|r| r.title.clone()).collect())
        .filter(|group: &Vec<String>| group.len() > 1)
        .collect();
    let mut sentence = format!("By peak throughput {} cannot be told apart (tie)", list(groups.first()?));
    for group in &groups[1..] {
        let _ = write!(sentence, ", nor can {}", list(group));
    }
    Some(sentence + ".")
}

fn validity(report: &Report) -> Option<String> {
    let (done, invalid) = (report.run.trials_done, report.run.trials_invalid);
    if done == 0 {
        return None;
    }
    let mut codes: Vec<(&str, usize)> = Vec::new();
    for trial in report.trials.iter().filter(|t| !t.valid) {
        if let Some(code) = trial.caveats.first().map(|c| c.code) {
            match codes.iter_mut().find(|(c, _)| *c == code) {
                Some((_, n)) => *n += 1,
                None => codes.push((code, 1)),
            }
        }
    }
    codes.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let missing = report.run.trials_planned - done;
    let rest = if missing > 0 { format!(" {missing} planned steps were not run.") } else { String::new() };
    if invalid == 0 {
        return Some(format!("All {done} steps are valid.{rest}"));
    }
    let why: Vec<String> = codes.iter().map(|(code, n)| format!("{} ({n})", reason(code))).collect();
    let are = if invalid == 1 { "is" } else { "are" };
    Some(format!("{invalid} of {done} steps {are} not valid: {}.{rest}", list(&why)))
}

fn reason(code: &str) -> &str {
    match code {
        "generator_busy" => "the generator was the limit",
        "wrong_answers" => "answers were wrong",
        "no_answers" => "nothing was answered",
        "subject_failed" => "the server failed",
        "littles_law" => "Little's law does not hold",
        "books" => "the books do not balance",
        other => other,
    }
}

fn failures(report: &Report) -> Option<String> {
    let failed: Vec<String> = report
        .subjects
        .iter()
        .filter_map(|s| Some(format!("{} {}", s.title, s.failures.first()?.failure.kind.name())))
        .collect();
    let skipped: Vec<String> =
        report.subjects.iter().filter(|s| s.skipped.is_some()).map(|s| s.title.clone()).collect();
    let mut sentences = Vec::new();
    if !failed.is_empty() {
        sentences.push(format!("{}.", list(&failed)));
    }
    if !skipped.is_empty() {
        sentences.push(format!("{} could not take part here.", list(&skipped)));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}
