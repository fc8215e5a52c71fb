//! The answer at the head of a report, in sentences. A rate or a ratio comes with its interval or
//! its number of repeats.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use dyno_analysis::Code;
use dyno_analysis::baseline::{Comparison, Offered, PairEstimate};
use dyno_analysis::cell::{CellKey, Shape};
use dyno_analysis::compare::ComparisonAnswer;
use dyno_analysis::experiment::Effect;
use dyno_analysis::metric::{CPU, THROUGHPUT};
use dyno_analysis::mixture::Mixture;
use dyno_analysis::other_programs;
use dyno_analysis::overview::{OverviewRow, Tie};
use dyno_analysis::peak::RatioBound;
use dyno_analysis::protocols::ProtocolComparison;
use dyno_analysis::report::Report;
use dyno_analysis::stats::{PAIRS_TO_TELL_APART, PairUnit, Repeated};

use crate::budget::differences;
use crate::format::{list, number, percent, plural, whole_percent};
use crate::overview::label_in_words;
use crate::{brackets, compare};

/// The sentences at the head of a report.
#[must_use]
pub fn sentences(report: &Report) -> Vec<String> {
    let is_one_of_another = report.experiment.is_some() || !report.run.at_once.is_empty();
    let first = if is_one_of_another { None } else { winner(report) };
    let peaks = [ties(report), noise_floor_sentence(report)]
        .map(|said| said.filter(|_| !is_one_of_another));
    let rest = [protocols(report)].into_iter().chain(peaks).chain([twins(report)]);
    let judged =
        [brackets::sentence(report), brackets::shares(report), validity(report), failures(report)];
    let mut all: Vec<String> = other_programs(report)
        .into_iter()
        .chain(first)
        .chain(effects(report))
        .chain(duets(report))
        .chain(rest.chain(judged).flatten())
        .collect();
    if all.is_empty() {
        all.push("No results yet.".into());
    }
    all
}

/// Most effects that an answer lists one by one.
const EFFECTS: usize = 3;

/// What the changes of an experiment come to, step by step; of many those in which something is
/// shown to change, first.
fn effects(report: &Report) -> Vec<String> {
    let Some(experiment) = &report.experiment else { return Vec::new() };
    let all = experiment.effects.iter();
    let all = all.flat_map(|effect| effect.answers.iter().map(move |of| (effect, of)));
    let (shown, others): (Vec<_>, Vec<_>) = all.partition(|(effect, of)| effect.is_shown_in(of));
    let all: Vec<(&Effect, &ComparisonAnswer)> = shown.into_iter().chain(others).collect();
    let said = |(effect, of): &(&Effect, &ComparisonAnswer)| {
        format!("{}. {}", compare::answer(of), effect.reason_in(of))
    };
    let more = match all.len().saturating_sub(EFFECTS) {
        0 => None,
        1 => Some("One more effect is in the table of the experiment.".into()),
        left => Some(format!("{left} more effects are in the table of the experiment.")),
    };
    all.iter().take(EFFECTS).map(said).chain(more).collect()
}

/// Sentences on the cost of servers that were loaded at the same time as the baseline.
fn duets(report: &Report) -> Vec<String> {
    let answers = report.duets.iter().flat_map(|effect| &effect.answers);
    answers.map(|of| format!("{}.", compare::answer(of))).collect()
}

/// The smallest differences that such a run finds.
fn noise_floor_sentence(report: &Report) -> Option<String> {
    let of = |key| Some((key, report.noise.get(key)?.detectable?));
    let each: Vec<(&str, f64)> = [THROUGHPUT.key, CPU.key].into_iter().filter_map(of).collect();
    let baseline = &report.comparisons.first()?.baseline;
    (!each.is_empty()).then(|| {
        format!(
            "Smallest detectable difference from {} (power 0.8, median over steps): {}.",
            title(report, baseline),
            differences(&each)
        )
    })
}

/// Differences between servers and their twins.
fn twins(report: &Report) -> Option<String> {
    let of_twin = |twin: &Effect| {
        let shown: Vec<String> = twin
            .answers
            .iter()
            .filter(|of| twin.is_shown_in(of))
            .map(|of| format!("{}, {}: {}", of.workload, label_in_words(of.step), of.sentence))
            .collect();
        let said = match (shown.is_empty(), &twin.answers[..]) {
            (_, []) => return None,
            (false, _) => format!("a difference is shown nevertheless: {}", shown.join("; ")),
            (true, [only]) => only.sentence.clone(),
            (true, all) => match all.iter().filter(|of| twin.is_compared_in(of)).count() {
                0 => {
                    format!("not compared at any of {} steps, for lack of valid repeats", all.len())
                }
                compared if compared == all.len() => {
                    format!("no difference is shown at any of {compared} steps")
                }
                compared => format!(
                    "no difference is shown at {compared} of {} steps, and the others have too few \
                     valid repeats",
                    all.len()
                ),
            },
        };
        Some(format!("{} and its twin: {said}.", twin.from))
    };
    let said: Vec<String> = report.twins.iter().filter_map(of_twin).collect();
    (!said.is_empty()).then(|| said.join(" "))
}

fn title<'a>(report: &'a Report, id: &'a str) -> &'a str {
    report.subjects.iter().find(|s| s.id == id).map_or(id, |s| s.title.as_str())
}

/// Rows with numbers for the first workload, best first. Controls are included only if no other
/// subject has numbers.
fn ranked_rows(report: &Report) -> Vec<&OverviewRow> {
    let first = report.run.workloads.first().map_or("", |w| w.name.as_str());
    let measured =
        report.overview.iter().filter(|r| r.highest_throughput().is_some() && r.workload == first);
    let (controls, others): (Vec<_>, Vec<_>) = measured.partition(|r| r.control);
    if others.is_empty() { controls } else { others }
}

/// Names a sentence's workload: ` over h1` if workloads are named by their different protocols,
/// ` for json` if there are several of other names, else empty.
fn of_workload(report: &Report, workload: &str) -> String {
    let all = &report.run.workloads;
    let are_protocols = || all.iter().all(|w| w.name.starts_with(w.protocol.base_name()));
    match all.first() {
        Some(first) if all.iter().any(|w| w.protocol != first.protocol) && are_protocols() => {
            format!(" over {workload}")
        }
        Some(_) if all.len() > 1 => format!(" for {workload}"),
        _ => String::new(),
    }
}

fn winner(report: &Report) -> Option<String> {
    let ranked = ranked_rows(report);
    let best = ranked.first()?;
    let [_, second, ..] = ranked.as_slice() else {
        return single_subject_sentence(report, best);
    };
    let of = |row: &OverviewRow| report.comparison(row.reference_cell);
    // The baseline has no comparison: if it is the best, the runner-up is compared with it.
    let comparison = of(best).or_else(|| of(second))?;
    if !report.run.load.steps[comparison.step].arrivals.is_closed() {
        return rate_share_sentence(report, comparison);
    }
    if has_known_ratio(comparison) {
        return Some(comparison_sentence(report, comparison));
    }
    let Some(other) = nearest(report, comparison) else {
        return Some(missing_ratio_sentence(report, comparison));
    };
    let (at, then) =
        (missing_ratio_sentence(report, comparison), comparison_sentence(report, other));
    Some(format!("{at} {then}"))
}

/// Whether a comparison has a ratio, and knows in which direction it is a bound.
fn has_known_ratio(c: &Comparison) -> bool {
    !c.throughput_ratio.values.is_empty() && c.throughput_bound != RatioBound::Unknown
}

/// The comparison of the same two subjects at another closed loop, nearest in requests in flight.
fn nearest<'a>(report: &'a Report, c: &Comparison) -> Option<&'a Comparison> {
    let steps = &report.run.load.steps;
    let in_flight = |c: &Comparison| steps[c.step].in_flight();
    let is_other = |other: &&Comparison| {
        (other.cell.arm, other.cell.workload) == (c.cell.arm, c.cell.workload)
            && steps[other.step].arrivals.is_closed()
            && has_known_ratio(other)
    };
    report
        .comparisons
        .iter()
        .filter(is_other)
        .min_by_key(|other| in_flight(other).abs_diff(in_flight(c)))
}

fn missing_ratio_sentence(report: &Report, c: &Comparison) -> String {
    let (subject, baseline) = (title(report, &c.subject), title(report, &c.baseline));
    let (at, with) = (step_in_words(c), of_workload(report, &c.workload));
    match c.throughput_bound {
        RatioBound::Unknown if !c.throughput_ratio.values.is_empty() => format!(
            "At {at}, repeats of both {subject} and {baseline}{with} do not count, for reasons \
             outside of the servers."
        ),
        _ => format!("At {at}, {subject} and {baseline} have no valid repeats{with} in common."),
    }
}

/// The closed loop of a comparison.
fn step_in_words(c: &Comparison) -> String {
    let Comparison { connections, streams, pipeline, pass, .. } = *c;
    label_in_words(Shape { connections, streams, pipeline, rate: None, schedule: None, pass })
}

/// Shares of an offered rate that two servers kept: no server serves more than is offered.
fn rate_share_sentence(report: &Report, c: &Comparison) -> Option<String> {
    let base = report.subjects.iter().position(|s| s.id == c.baseline)?;
    let rate = Offered::new(report, c.cell).rps;
    let said = |cell: CellKey| {
        let share = Offered::new(report, cell).kept;
        let middle =
            share.median.map_or_else(|| "an unknown share (no valid repeat)".into(), percent);
        let range = range(&share, percent).filter(|range| *range != middle);
        range.map_or_else(|| middle.clone(), |range| format!("{middle} ({range})"))
    };
    let with = of_workload(report, &c.workload);
    let rate = rate.map_or_else(String::new, |rate| format!("{} ", number(rate)));
    let levels = mixtures(report, c);
    Some(format!(
        "Of the {rate}requests per second{with} offered over {}, {} served {} and {} {}.{levels}",
        plural(u64::from(c.connections), "connection"),
        title(report, &c.subject),
        said(c.cell),
        title(report, &c.baseline),
        said(c.cell.with_arm(base))
    ))
}

fn single_subject_sentence(report: &Report, row: &OverviewRow) -> Option<String> {
    let (peak, at) = row.highest_throughput()?;
    let repeats = peak.values.len();
    let over = if repeats == 1 {
        "one repeat, so no interval".to_string()
    } else {
        // A lower bound has no interval: its upper end would be no bound.
        let shown = match row.peak_is_lower_bound {
            true => Repeated { interval: None, ..peak.clone() },
            false => peak.clone(),
        };
        let what = if shown.interval.is_some() { "95 % interval of" } else { "range of" };
        format!("{}, {what} {repeats} repeats", range(&shown, number)?)
    };
    let with = of_workload(report, &row.workload);
    let (who, rate) = (title(report, &row.subject), number(peak.median?));
    let most = match (row.peak_is_lower_bound, &row.peak_mixture) {
        (true, _) => "at least ",
        (false, Some(_)) => "a mean of ",
        // An offered rate is the most that any server can serve of it.
        (false, None) if row.peak_is_offered => "",
        (false, None) => "at most ",
    };
    let levels = row.peak_mixture.as_ref().map(|of| mixture("its", of)).unwrap_or_default();
    Some(format!(
        "{who} served {most}{rate} requests per second{with} ({over}), at {}.{levels}",
        label_in_words(at)
    ))
}

/// The levels that a mean is of. `whose`: the server's.
fn mixture(whose: &str, of: &Mixture) -> String {
    let (low, high) = (number(of.lowest_rps), number(of.highest_rps));
    let repeats = match (of.changed, of.repeats) {
        (1, 1) => format!("In {whose} only repeat"),
        (changed, repeats) if changed == repeats => format!("In each of {whose} {repeats} repeats"),
        (changed, repeats) => format!("In {changed} of {whose} {repeats} repeats"),
    };
    format!(
        " {repeats} throughput changed within the measured window between levels of {low} and \
         {high} requests per second. The mean was never sustained."
    )
}

/// The levels of the servers of a comparison whose throughput there is a mean of several.
fn mixtures(report: &Report, c: &Comparison) -> String {
    let of = |arm: usize, id: &str| {
        let cell = c.cell.with_arm(arm);
        let found = Mixture::new(report.trials.iter().filter(|trial| trial.cell == cell))?;
        Some(mixture(&format!("{}'s", title(report, id)), &found))
    };
    let base = report.subjects.iter().position(|s| s.id == c.baseline);
    let both = [of(c.cell.arm, &c.subject), base.and_then(|base| of(base, &c.baseline))];
    both.into_iter().flatten().collect()
}

/// Throughput over HTTP/2 against HTTP/1.1, at equal requests in flight: otherwise concurrency
/// would be compared. Without controls, which say nothing about servers.
fn protocols(report: &Report) -> Option<String> {
    let is_control =
        |c: &&ProtocolComparison| report.subjects.iter().any(|s| s.id == c.subject && s.control);
    let measured = |c: &&ProtocolComparison| c.throughput_ratio.median.is_some();
    let all: Vec<&ProtocolComparison> =
        report.protocols.iter().filter(|c| !is_control(c)).filter(measured).collect();
    let mut kinds: Vec<Vec<&ProtocolComparison>> = Vec::new();
    for c in &all {
        match kinds.iter_mut().find(|k| kind(k[0]) == kind(c)) {
            Some(known) => known.push(c),
            None => kinds.push(vec![c]),
        }
    }
    kinds.sort_by(|a, b| (a[0].in_flight, &a[0].workload).cmp(&(b[0].in_flight, &b[0].workload)));
    let clauses: Vec<String> = kinds.iter().map(|k| protocol_clause(report, k, &kinds)).collect();
    let over = medians_of(all.iter().map(|c| c.throughput_ratio.values.len()))?;
    Some(format!("Requests per second by protocol ({over}): {}.", clauses.join("; ")))
}

/// `medians of 3 repeats`, given the number of repeats of each median; `None`: there are none.
fn medians_of(repeats: impl Iterator<Item = usize> + Clone) -> Option<String> {
    Some(match (repeats.clone().min()?, repeats.max()?) {
        (_, 1) => "one repeat, so no interval".into(),
        (least, most) if least == most => format!("medians of {most} repeats"),
        (least, most) => format!("medians of {least} to {most} repeats"),
    })
}

/// Comparisons of several servers with an equal key share one clause.
fn kind(c: &ProtocolComparison) -> (&str, &str, [u32; 4]) {
    let shape = [c.connections, c.streams, c.baseline_connections, c.baseline_pipeline];
    (&c.workload, &c.baseline, shape)
}

fn protocol_clause(
    report: &Report,
    own: &[&ProtocolComparison],
    kinds: &[Vec<&ProtocolComparison>],
) -> String {
    let first = own[0];
    let ratios: Vec<f64> = own.iter().filter_map(|c| c.throughput_ratio.median).collect();
    let end =
        |of: fn(f64, f64) -> f64| ratios.iter().copied().reduce(of).map(ratio).unwrap_or_default();
    let (low, high) = (end(f64::min), end(f64::max));
    let times = if low == high { low } else { format!("{low} to {high}") };
    let mut servers: Vec<&str> = own.iter().map(|c| c.server.as_str()).collect();
    servers.sort_unstable();
    servers.dedup();
    let subjects: BTreeSet<&str> = own.iter().map(|c| c.subject.as_str()).collect();
    let who = match (subjects.len(), servers.as_slice()) {
        (1, _) => title(report, &first.subject).to_string(),
        (n, [server]) => format!("{n} variants of {server}"),
        (_, servers) => format!("{} servers", servers.len()),
    };
    let same_level = |k: &&Vec<&ProtocolComparison>| {
        let (level, of) = (k[0].in_flight, (&k[0].workload, &k[0].baseline));
        level == first.in_flight && of == (&first.workload, &first.baseline)
    };
    let shape = if kinds.iter().filter(same_level).count() > 1 {
        format!(
            " as {} × {} compared with {} × {}",
            first.connections, first.streams, first.baseline_connections, first.baseline_pipeline
        )
    } else {
        String::new()
    };
    format!(
        "{} served {times} times as many as {} at {} in flight{shape} ({who})",
        first.workload, first.baseline, first.in_flight
    )
}

fn comparison_sentence(report: &Report, c: &Comparison) -> String {
    let (subject, baseline) = (title(report, &c.subject), title(report, &c.baseline));
    let repeats = c.throughput_ratio.values.len();
    let with = of_workload(report, &c.workload);
    let (ends, over) = match interval_of_all_pairs(c.throughput) {
        Some((low, high)) if report.run.at_every_look => {
            (ends(low, high, ratio), "95 % interval that allows for early stopping".to_string())
        }
        Some((low, high)) => (ends(low, high, ratio), interval_text(report, c).to_string()),
        None => (
            range(&c.throughput_ratio, ratio).unwrap_or_default(),
            ratio_range_text(report, c, repeats),
        ),
    };
    let bound = match c.throughput_bound {
        RatioBound::AtLeast => "at least ",
        RatioBound::AtMost => "at most ",
        RatioBound::Exact | RatioBound::Unknown => "",
    };
    let skewed = c.throughput.filter(|of| of.is_skewed);
    let skewed = skewed.map_or(
        "",
        |_| " The pairs are skewed and the interval assumes symmetry, so it covers less than 95 %.",
    );
    let at = step_in_words(c);
    let cpu = cpu_clause(c);
    format!(
        "At {at}, {subject} served {bound}{ends} times as many requests per second{with} as \
         {baseline} ({over}){cpu}.{skewed}{}",
        mixtures(report, c)
    )
}

/// `, for 0.39 (0.37–0.41) times the CPU per request`; nothing where that is not known.
fn cpu_clause(c: &Comparison) -> String {
    let Some(middle) = c.cpu_per_request_ratio.median else { return String::new() };
    let (middle, range) = match (c.cpu, interval_of_all_pairs(c.cpu)) {
        (Some(of), Some((low, high))) => (of.estimate.ratio, Some(ends(low, high, ratio))),
        _ => (middle, range(&c.cpu_per_request_ratio, ratio)),
    };
    let middle = ratio(middle);
    let range = range
        .filter(|range| *range != middle)
        .map_or_else(String::new, |range| format!(" ({range})"));
    format!(", with {middle}{range} times the CPU per request")
}

/// The interval that holds for all pairs of subjects at once, so that it agrees with ties; `None`:
/// too few launches.
fn interval_of_all_pairs(estimate: Option<PairEstimate>) -> Option<(f64, f64)> {
    estimate.filter(|of| of.over == PairUnit::Launches)?.interval_of_all
}

fn interval_text(report: &Report, c: &Comparison) -> &'static str {
    let is_asked = |row: &&OverviewRow| {
        !row.control && row.workload == c.workload && row.highest_throughput().is_some()
    };
    let has_others = report.overview.iter().filter(is_asked).count() > 2;
    if has_others { "95 % interval, corrected for all pairs of subjects" } else { "95 % interval" }
}

/// Describes the range of a ratio that has no interval of the mean.
fn ratio_range_text(report: &Report, c: &Comparison, repeats: usize) -> String {
    match c.throughput_ratio.interval {
        // With a stopping rule at every look, no interval of the median holds.
        Some(_) if report.run.at_every_look => {
            format!("{repeats} repeats, a number that depends on the results")
        }
        Some(_) => "95 % interval".to_string(),
        None if repeats == 1 => "one repeat, so no interval".to_string(),
        None => format!("range of {repeats} valid repeats, too few for an interval"),
    }
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
    Some(ends(low, high, show))
}

fn ends(low: f64, high: f64, show: impl Fn(f64) -> String) -> String {
    let (low, high) = (show(low), show(high));
    if low == high { low } else { format!("{low}–{high}") }
}

/// A subject's title, and how many valid repeats its peak has.
type Ranked = (String, usize);

fn ties(report: &Report) -> Option<String> {
    let ranked = ranked_rows(report);
    let first = ranked.first()?;
    let with = of_workload(report, &first.workload);
    let own = report.ties.iter().filter(|tie| tie.workload == first.workload);
    let named = |tie: &Tie, id: &str| {
        let open = if tie.lower_bounds.iter().any(|one| one == id) {
            " (its peak is a lower bound)"
        } else {
            ""
        };
        format!("{}{open}", title(report, id))
    };
    let tie = tie_sentence(&with, own.map(|tie| tie_text(tie, |id| named(tie, id))));
    // Offered rates give no ranking.
    if !first.shows_capacity() {
        return None;
    }
    if is_order_fixed(report) {
        return (ranked.len() > 1).then(|| NOT_RANKED.into());
    }
    let of_row = |row: &&OverviewRow| -> Ranked {
        let repeats = row.highest_throughput().map_or(0, |(peak, _)| peak.values.len());
        (title(report, &row.subject).to_string(), repeats)
    };
    let unranked = unranked_sentence(&with, &ranked.iter().map(of_row).collect::<Vec<_>>());
    let sentences: Vec<String> = [tie, unranked].into_iter().flatten().collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

const NOT_RANKED: &str = "Subjects are not ranked, because the order of starts was fixed. A drift \
                          of the machine is part of every difference between them.";

/// Whether a drift of the machine may be why subjects differ.
fn is_order_fixed(report: &Report) -> bool {
    report.caveats.iter().any(|caveat| caveat.code == Code::FixedOrder)
}

/// The sentence on ties. `groups`: the result of [`tie_text`] for each tie group; `None`: there are
/// none.
fn tie_sentence(with: &str, mut groups: impl Iterator<Item = (String, String)>) -> Option<String> {
    let (who, from) = groups.next()?;
    let mut sentence =
        format!("{who} cannot be distinguished{from} by peak throughput{with} (tie)");
    for (who, from) in groups {
        let _ = write!(sentence, ", nor can {who}{from}");
    }
    Some(sentence + ".")
}

/// The names in a tie group, and ` from BEST` unless all are tied with all: two members that are
/// tied with the best may be distinguished from each other.
fn tie_text(tie: &Tie, title: impl Fn(&str) -> String) -> (String, String) {
    let best = [&tie.best].into_iter().filter(|_| tie.mutual);
    let names: Vec<String> = best.chain(&tie.with).map(|id| title(id)).collect();
    let from = if tie.mutual { String::new() } else { format!(" from {}", title(&tie.best)) };
    (list(&names), from)
}

/// The sentence on subjects with too few valid repeats to be ranked; `None`: all have enough, or
/// there is only one.
fn unranked_sentence(with: &str, all: &[Ranked]) -> Option<String> {
    let most = all.iter().map(|p| p.1).max().filter(|_| all.len() > 1)?;
    let repeats = |p: &Ranked| plural(p.1 as u64, "valid repeat");
    if most < PAIRS_TO_TELL_APART {
        let repeats = plural(most as u64, "valid repeat");
        return Some(format!(
            "With {repeats}, differences in peak throughput{with} are not significant. The order \
             is not a ranking."
        ));
    }
    let few: Vec<&Ranked> = all.iter().filter(|p| p.1 < PAIRS_TO_TELL_APART).collect();
    match few.as_slice() {
        [] => None,
        [one] => Some(format!("{} has {}, too few for a rank.", one.0, repeats(one))),
        _ => {
            let each: Vec<String> =
                few.iter().map(|p| format!("{} ({})", p.0, repeats(p))).collect();
            Some(format!("{} have too few valid repeats for a rank.", list(&each)))
        }
    }
}

/// The other programs of the machine, where most steps are not valid because of them.
fn other_programs(report: &Report) -> Option<String> {
    let run = &report.run;
    let of = run.other_programs.as_ref()?;
    let asked = report.trials.iter().filter(|trial| !trial.refused).count();
    if 2 * of.trials_invalid <= asked {
        return None;
    }
    let names =
        if of.names.is_empty() { String::new() } else { format!(" ({})", of.names.join(", ")) };
    let used = match of.cpu_share {
        Some(share) => {
            format!("Other programs used {} of this machine's CPUs{names}", whole_percent(share))
        }
        None => format!("Other programs used this machine's CPUs{names}"),
    };
    let steps = match (run.trials_invalid, asked) {
        (1, 1) => "the only step is not valid".to_string(),
        (invalid, _) => format!("{invalid} of {asked} steps are not valid"),
    };
    let others = match run.trials_invalid - of.trials_invalid {
        0 => String::new(),
        n => format!(" ({n} of them for other reasons)"),
    };
    Some(format!("{used}, and {steps}{others}."))
}

fn validity(report: &Report) -> Option<String> {
    let run = &report.run;
    let refused = report.trials.iter().filter(|t| t.refused).count();
    let asked = run.trials_done.checked_sub(refused)?;
    let is_said = other_programs(report).is_some()
        && run.other_programs.as_ref().is_some_and(|of| of.trials_invalid == run.trials_invalid);
    // What was known already was not to be measured again.
    let missing =
        if run.answered_after.is_some() { 0 } else { run.trials_planned - run.trials_done };
    let of_asked = match (asked, run.trials_invalid) {
        _ if is_said => None,
        (0, _) => None,
        (1, 0) if missing + refused == 0 => Some("The only step is valid.".into()),
        (1, 0) => Some("The step that was run is valid.".into()),
        (_, 0) => Some(format!("All {asked} steps are valid.")),
        (1, 1) if missing + refused == 0 => {
            Some(format!("The only step is not valid: {}.", reasons(report)))
        }
        (1, 1) => Some(format!("The step that was run is not valid: {}.", reasons(report))),
        (_, 1) => Some(format!("1 of {asked} steps is not valid: {}.", reasons(report))),
        (_, n) => Some(format!("{n} of {asked} steps are not valid: {}.", reasons(report))),
    };
    let of_refused = match refused {
        0 => None,
        n => {
            let steps = plural(n as u64, if asked == 0 { "step" } else { "more step" });
            Some(format!("In {steps} all connections were refused, as expected."))
        }
    };
    let of_missing = match missing {
        _ if run.trials_done == 0 => None,
        0 => None,
        1 => Some("1 planned step was not run.".into()),
        n => Some(format!("{n} planned steps were not run.")),
    };
    let of_answer = run.answered_after.map(|repeats| {
        format!(
            "The run ended after {repeats} of {} repeats, when its question was answered.",
            run.repeats
        )
    });
    let said: Vec<String> =
        [of_asked, of_refused, of_missing, of_answer].into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join(" "))
}

/// Why steps are not valid that were to be, the most frequent reason first.
fn reasons(report: &Report) -> String {
    // Several codes have the same words.
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for trial in report.trials.iter().filter(|t| t.is_unexpectedly_invalid()) {
        if let Some(reason) = trial.refusal().map(other_programs::reason) {
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, n)) => *n += 1,
                None => reasons.push((reason, 1)),
            }
        }
    }
    reasons.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let each: Vec<String> = reasons.iter().map(|(reason, n)| format!("{reason} ({n})")).collect();
    list(&each)
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
        sentences.push(format!("Skipped: {}.", list(&skipped)));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

#[cfg(test)]
mod tests;
