//! Writes the answer: the sentences at the head of a report. Each rate or ratio has its interval or
//! its number of repeats, so that readers see how uncertain it is.

mod ratios;
mod repetitions;
mod twins;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use dyno_analysis::Code;
use dyno_analysis::baseline::{Comparison, Offered};
use dyno_analysis::cell::{CellKey, Shape};
use dyno_analysis::compare::ComparisonAnswer;
use dyno_analysis::experiment::Effect;
use dyno_analysis::metric::{CPU, MetricId, THROUGHPUT};
use dyno_analysis::mixture::Mixture;
use dyno_analysis::other_programs;
use dyno_analysis::overview::{OverviewRow, Tie};
use dyno_analysis::peak::RatioBound;
use dyno_analysis::protocols::ProtocolComparison;
use dyno_analysis::report::Report;
use dyno_analysis::stats::{PAIRS_TO_TELL_APART, Repeated};
use dyno_analysis::trial::TrialResult;

use crate::budget::differences;
use crate::format::{list, number, percent, plural, whole_percent};
use crate::overview::label_in_words;
use crate::{brackets, compare};

use ratios::{cpu_clause, range, ratio, ratio_with_uncertainty, skew_text};
use repetitions::repetitions;
use twins::twins;

/// Returns the sentences at the head of a report.
#[must_use]
pub fn sentences(report: &Report) -> Vec<String> {
    // Servers of an experiment, and servers loaded at the same time, have effects instead of ranks.
    let has_ranking = report.experiment.is_none() && report.run.concurrent_arms.is_empty();
    let mut sentences: Vec<String> = Vec::new();
    sentences.extend(other_programs(report));
    if has_ranking {
        sentences.extend(winner(report));
    }
    sentences.extend(effects(report));
    sentences.extend(duets(report));
    sentences.extend(protocols(report));
    if has_ranking {
        sentences.extend(ties(report));
    }
    if has_ranking && !is_order_fixed(report) {
        sentences.extend(noise_floor_sentence(report));
    }
    sentences.extend(twins(report));
    sentences.extend(brackets::sentence(report));
    sentences.extend(report.run.measured_first.as_ref().map(brackets::shares_sentence));
    sentences.extend(validity(report));
    sentences.extend(repetitions(report));
    sentences.extend(failures(report));
    if sentences.is_empty() {
        sentences.push("No results yet.".into());
    }
    sentences
}

/// Maximum number of effects that the answer lists one by one.
const EFFECTS: usize = 3;

/// Describes the effects of an experiment, step by step. Significant effects come first.
fn effects(report: &Report) -> Vec<String> {
    let Some(experiment) = &report.experiment else { return Vec::new() };
    let answers = experiment
        .effects
        .iter()
        .flat_map(|effect| effect.answers.iter().map(move |answer| (effect, answer)));
    let (significant, others): (Vec<_>, Vec<_>) =
        answers.partition(|(effect, answer)| effect.is_shown_in(answer));
    let ordered: Vec<(&Effect, &ComparisonAnswer)> =
        significant.into_iter().chain(others).collect();
    let text = |(effect, answer): &(&Effect, &ComparisonAnswer)| {
        format!("{}. {}", compare::answer_text(answer), effect.reason_in(answer))
    };
    let more = match ordered.len().saturating_sub(EFFECTS) {
        0 => None,
        1 => Some("One more effect is in the table of the experiment.".into()),
        left => Some(format!("{left} more effects are in the table of the experiment.")),
    };
    ordered.iter().take(EFFECTS).map(text).chain(more).collect()
}

/// Describes the cost of servers that were loaded at the same time as the baseline.
fn duets(report: &Report) -> Vec<String> {
    let answers = report.duets.iter().flat_map(|effect| &effect.answers);
    answers.map(|answer| format!("{}.", compare::answer_text(answer))).collect()
}

/// States the smallest differences that a run like this detects.
fn noise_floor_sentence(report: &Report) -> Option<String> {
    let detectable = |key| Some((key, report.noise.get(key)?.detectable?));
    let differences_by_key: Vec<(&str, f64)> =
        [THROUGHPUT.key, CPU.key].into_iter().filter_map(detectable).collect();
    let baseline = &report.comparisons.first()?.baseline;
    (!differences_by_key.is_empty()).then(|| {
        format!(
            "Smallest detectable difference from {} (detected in 80 % of runs, median over steps): \
             {}.",
            title(report, baseline),
            differences(&differences_by_key)
        )
    })
}

/// Returns the title of a subject.
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

/// Returns the phrase that names a workload in a sentence: ` over h1` if workloads are named by
/// their different protocols, ` for json` if there are several other workloads, and empty for only
/// one.
fn workload_phrase(report: &Report, workload: &str) -> String {
    let workloads = &report.run.workloads;
    if workloads.len() < 2 {
        return String::new();
    }
    let have_different_protocols = workloads.iter().any(|w| w.protocol != workloads[0].protocol);
    let have_protocol_names = workloads.iter().all(|w| w.name.starts_with(w.protocol.base_name()));
    if have_different_protocols && have_protocol_names {
        format!(" over {workload}")
    } else {
        format!(" for {workload}")
    }
}

/// Compares the best subject with the baseline. A single subject has a sentence on its peak.
fn winner(report: &Report) -> Option<String> {
    let ranked = ranked_rows(report);
    let best = ranked.first()?;
    let [_, second, ..] = ranked.as_slice() else {
        return single_subject_sentence(report, best);
    };
    if is_order_fixed(report) {
        return None;
    }
    let comparison_of = |row: &OverviewRow| report.comparison(row.reference_cell);
    // The baseline has no comparison of its own. If the baseline is the best, the runner-up is
    // compared with the baseline.
    let comparison = comparison_of(best).or_else(|| comparison_of(second))?;
    if !report.run.load.steps[comparison.step].arrivals.is_closed() {
        return rate_share_sentence(report, comparison);
    }
    if has_known_ratio(comparison) {
        return Some(comparison_sentence(report, comparison));
    }
    let Some(other) = nearest_comparison(report, comparison) else {
        return Some(missing_ratio_sentence(report, comparison));
    };
    let (missing, nearest_text) =
        (missing_ratio_sentence(report, comparison), comparison_sentence(report, other));
    Some(format!("{missing} {nearest_text}"))
}

/// Whether a comparison has a ratio, and the direction of its bound is known.
fn has_known_ratio(c: &Comparison) -> bool {
    !c.ratio(MetricId::Throughput).values.is_empty() && c.throughput_bound != RatioBound::Unknown
}

/// Returns the comparison of the same two subjects at another closed loop with the nearest number
/// of requests in flight.
fn nearest_comparison<'a>(report: &'a Report, c: &Comparison) -> Option<&'a Comparison> {
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

/// Explains why a comparison has no ratio.
fn missing_ratio_sentence(report: &Report, c: &Comparison) -> String {
    let (subject, baseline) = (title(report, &c.subject), title(report, &c.baseline));
    let step = label_in_words(c.shape.without_rate());
    let workload = workload_phrase(report, &c.workload);
    match c.throughput_bound {
        RatioBound::Unknown if !c.ratio(MetricId::Throughput).values.is_empty() => format!(
            "At {step}, the ratio of {subject} to {baseline}{workload} is unknown, because repeats \
             of both servers are excluded. The servers did not cause these exclusions."
        ),
        _ => format!(
            "At {step}, {subject} and {baseline} are not compared{workload}: in no block (one pass \
             over all servers) do both have a valid repeat{}.",
            if is_interrupted(report, c) { " without a resumption between them" } else { "" }
        ),
    }
}

/// Whether both servers of a comparison have a valid repeat in a block, but in different parts of
/// the run.
fn is_interrupted(report: &Report, c: &Comparison) -> bool {
    let mut trials = valid_trials(report, c, &c.subject);
    trials.any(|trial| {
        let mut others = valid_trials(report, c, &c.baseline);
        others.any(|other| trial.block == other.block && trial.part != other.part)
    })
}

/// Returns the valid trials of a server at the step of a comparison.
fn valid_trials<'a>(
    report: &'a Report,
    c: &'a Comparison,
    subject: &'a str,
) -> impl Iterator<Item = &'a TrialResult> {
    report.trials.iter().filter(move |trial| {
        let is_of_step = trial.cell == c.cell.with_arm(trial.cell.arm);
        trial.valid && is_of_step && trial.subject_id == subject
    })
}

/// States the shares of an offered rate that two servers served. A ratio of throughputs would mean
/// little, because no server serves more than is offered.
fn rate_share_sentence(report: &Report, c: &Comparison) -> Option<String> {
    let base = report.subjects.iter().position(|s| s.id == c.baseline)?;
    let rate = Offered::new(&report.trials, c.cell).rps;
    let share_text = |cell: CellKey| {
        let share = Offered::new(&report.trials, cell).served_share;
        let median =
            share.median.map_or_else(|| "an unknown share (no valid repeat)".into(), percent);
        let range = range(&share, percent).filter(|range| *range != median);
        range.map_or_else(|| median.clone(), |range| format!("{median} ({range})"))
    };
    let workload = workload_phrase(report, &c.workload);
    let rate = rate.map_or_else(String::new, |rate| format!("{} ", number(rate)));
    let (skewed, levels) = (skew_text(c), mixture_sentences(report, c));
    Some(format!(
        "Of the {rate}requests per second{workload} offered over {}, {} served {} and {} \
         {}.{skewed}{levels}",
        plural(u64::from(c.shape.connections), "connection"),
        title(report, &c.subject),
        share_text(c.cell),
        title(report, &c.baseline),
        share_text(c.cell.with_arm(base))
    ))
}

/// Whether a search found a higher rate than `peak_rps`, the throughput of the best closed loop.
fn is_exceeded_by_search(report: &Report, row: &OverviewRow, peak_rps: f64) -> bool {
    report.brackets.iter().any(|bracket| {
        let is_of_row = (&bracket.subject, &bracket.workload) == (&row.subject, &row.workload);
        let is_higher = bracket.kept_rps.is_some_and(|kept_rps| kept_rps > peak_rps);
        is_of_row && bracket.searched.is_some() && is_higher
    })
}

/// States the peak, or the throughput, of the only subject with numbers.
fn single_subject_sentence(report: &Report, row: &OverviewRow) -> Option<String> {
    let (peak, at) = row.highest_throughput()?;
    let repeats = peak.values.len();
    let uncertainty = if repeats == 1 {
        "one repeat, so no interval".to_string()
    } else {
        // A lower bound has no interval, because the upper end would not be a bound.
        let peak_to_show = match row.peak_is_lower_bound {
            true => Repeated { interval: None, ..peak.clone() },
            false => peak.clone(),
        };
        let kind = if peak_to_show.interval.is_some() { "95 % interval of" } else { "range of" };
        format!("{}, {kind} {repeats} repeats", range(&peak_to_show, number)?)
    };
    let workload = workload_phrase(report, &row.workload);
    let (subject, rate) = (title(report, &row.subject), number(peak.median?));
    let is_exceeded = is_exceeded_by_search(report, row, peak.median?);
    let statement = match (row.peak_is_lower_bound, &row.peak_mixture) {
        (true, _) => format!("The peak of {subject} was at least"),
        (false, Some(_)) => format!("{subject} served a mean of"),
        // This is not the server's peak: the offered rate limited it, or a search reached more.
        (false, None) if row.peak_is_offered || is_exceeded => format!("{subject} served"),
        (false, None) => format!("The peak of {subject} was"),
    };
    let mixture_text = row
        .peak_mixture
        .as_ref()
        .map(|mixture_levels| mixture_sentence("its", mixture_levels))
        .unwrap_or_default();
    let search_text = match is_exceeded {
        true => " The search for the highest rate (rate = \"find\") reached a higher rate.",
        false => "",
    };
    Some(format!(
        "{statement} {rate} requests per second{workload} ({uncertainty}), at \
         {}.{mixture_text}{search_text}",
        label_in_words(at)
    ))
}

/// States the levels of throughput that a mean combines. `owner`: a possessive, such as `its`.
fn mixture_sentence(owner: &str, mixture: &Mixture) -> String {
    let (low, high) = (number(mixture.lowest_rps), number(mixture.highest_rps));
    let repeats = match (mixture.changed, mixture.repeats) {
        (1, 1) => format!("In {owner} only repeat"),
        (changed, repeats) if changed == repeats => format!("In each of {owner} {repeats} repeats"),
        (changed, repeats) => format!("In {changed} of {owner} {repeats} repeats"),
    };
    format!(
        " {repeats}, throughput changed within the measured window between levels of {low} and \
         {high} requests per second. The server never sustained the mean."
    )
}

/// States the levels of each server of a comparison whose throughput is a mean of several levels.
fn mixture_sentences(report: &Report, c: &Comparison) -> String {
    let sentence = |arm: usize, id: &str| {
        let cell = c.cell.with_arm(arm);
        let mixture = Mixture::new(report.trials.iter().filter(|trial| trial.cell == cell))?;
        Some(mixture_sentence(&format!("{}'s", title(report, id)), &mixture))
    };
    let base = report.subjects.iter().position(|s| s.id == c.baseline);
    let sentences =
        [sentence(c.cell.arm, &c.subject), base.and_then(|base| sentence(base, &c.baseline))];
    sentences.into_iter().flatten().collect()
}

/// Compares throughput over HTTP/2 with HTTP/1.1 at equal numbers of requests in flight. At
/// different numbers, the ratio would also show the effect of concurrency. Controls are excluded,
/// because they are not servers of interest.
fn protocols(report: &Report) -> Option<String> {
    let is_control =
        |c: &&ProtocolComparison| report.subjects.iter().any(|s| s.id == c.subject && s.control);
    let is_measured = |c: &&ProtocolComparison| c.ratio(MetricId::Throughput).median.is_some();
    let comparisons: Vec<&ProtocolComparison> =
        report.protocols.iter().filter(|c| !is_control(c)).filter(is_measured).collect();
    let mut groups: Vec<Vec<&ProtocolComparison>> = Vec::new();
    for c in &comparisons {
        match groups.iter_mut().find(|group| clause_key(group[0]) == clause_key(c)) {
            Some(group) => group.push(c),
            None => groups.push(vec![c]),
        }
    }
    groups.sort_by(|a, b| (a[0].in_flight, &a[0].workload).cmp(&(b[0].in_flight, &b[0].workload)));
    let clauses: Vec<String> =
        groups.iter().map(|group| protocol_clause(report, group, &groups)).collect();
    let repeats =
        medians_of(comparisons.iter().map(|c| c.ratio(MetricId::Throughput).values.len()))?;
    Some(format!("Requests per second by protocol ({repeats}): {}.", clauses.join("; ")))
}

/// Formats the numbers of repeats of several medians: `medians of 3 repeats`. `None`: there are
/// none.
fn medians_of(repeats: impl Iterator<Item = usize> + Clone) -> Option<String> {
    Some(match (repeats.clone().min()?, repeats.max()?) {
        (_, 1) => "one repeat, so no interval".into(),
        (min, max) if min == max => format!("medians of {max} repeats"),
        (min, max) => format!("medians of {min} to {max} repeats"),
    })
}

/// Returns the key of a comparison. Comparisons of several servers with equal keys share a clause.
fn clause_key(c: &ProtocolComparison) -> (&str, &str, [u32; 4], RatioBound) {
    let shape = [c.connections, c.streams, c.baseline_connections, c.baseline_pipeline];
    (&c.workload, &c.baseline, shape, c.throughput_bound)
}

/// States the ratios of throughput of a group of comparisons: `h2 served 2.00 times as many as h1`.
fn protocol_clause(
    report: &Report,
    group: &[&ProtocolComparison],
    groups: &[Vec<&ProtocolComparison>],
) -> String {
    let first = group[0];
    let ratios: Vec<f64> =
        group.iter().filter_map(|c| c.ratio(MetricId::Throughput).median).collect();
    let extreme = |pick: fn(f64, f64) -> f64| {
        ratios.iter().copied().reduce(pick).map(ratio).unwrap_or_default()
    };
    let (low, high) = (extreme(f64::min), extreme(f64::max));
    let factor = match first.throughput_bound {
        RatioBound::AtLeast => format!("at least {low}"),
        RatioBound::AtMost => format!("at most {high}"),
        RatioBound::Exact | RatioBound::Unknown if low == high => low,
        RatioBound::Exact | RatioBound::Unknown => format!("{low} to {high}"),
    };
    let mut servers: Vec<&str> = group.iter().map(|c| c.server.as_str()).collect();
    servers.sort_unstable();
    servers.dedup();
    let subjects: BTreeSet<&str> = group.iter().map(|c| c.subject.as_str()).collect();
    let servers_text = match (subjects.len(), servers.as_slice()) {
        (1, _) => title(report, &first.subject).to_string(),
        (n, [server]) => format!("{n} variants of {server}"),
        (_, servers) => format!("{} servers", servers.len()),
    };
    let has_same_level = |other: &&Vec<&ProtocolComparison>| {
        let key = (other[0].in_flight, &other[0].workload, &other[0].baseline);
        key == (first.in_flight, &first.workload, &first.baseline)
    };
    // Connections are stated only if several groups have the same number of requests in flight.
    let shape = if groups.iter().filter(has_same_level).count() > 1 {
        let shape_in_words = |connections, streams, pipeline| {
            label_in_words(Shape::closed_loop(connections, streams, pipeline))
        };
        format!(
            ", over {} for {} and over {} for {}",
            shape_in_words(first.connections, first.streams, 1),
            first.workload,
            shape_in_words(first.baseline_connections, 1, first.baseline_pipeline),
            first.baseline
        )
    } else {
        String::new()
    };
    format!(
        "{} served {factor} times as many as {} at {} requests in flight{shape} ({servers_text})",
        first.workload, first.baseline, first.in_flight
    )
}

/// States the ratios of throughput and CPU time of two subjects.
fn comparison_sentence(report: &Report, c: &Comparison) -> String {
    let (subject, baseline) = (title(report, &c.subject), title(report, &c.baseline));
    let workload = workload_phrase(report, &c.workload);
    let (factor, uncertainty) = ratio_with_uncertainty(report, c);
    let step = label_in_words(c.shape.without_rate());
    let cpu = cpu_clause(c);
    format!(
        "At {step}, {subject} served {factor} times as many requests per second{workload} as \
         {baseline} ({uncertainty}){cpu}.{}{}",
        skew_text(c),
        mixture_sentences(report, c)
    )
}

/// A subject that may have a rank.
#[derive(Debug)]
struct Ranked {
    title: String,
    /// Number of usable repeats of the subject's peak.
    repeats: usize,
}

/// Names ties, peaks that are lower bounds, and subjects without a rank. `None`: there are none.
fn ties(report: &Report) -> Option<String> {
    let ranked = ranked_rows(report);
    let first = ranked.first()?;
    let workload = workload_phrase(report, &first.workload);
    let workload_ties = || report.ties.iter().filter(|tie| tie.workload == first.workload);
    let name = |id: &str| title(report, id).to_string();
    let tie = tie_sentence(&workload, workload_ties().map(|tie| tie_text(tie, name)));
    let bounds: BTreeSet<&String> = workload_ties().flat_map(|tie| &tie.lower_bounds).collect();
    let bounds = lower_bounds_sentence(&bounds.into_iter().map(|id| name(id)).collect::<Vec<_>>());
    // Offered rates give no ranking.
    if !first.shows_capacity() {
        return None;
    }
    if is_order_fixed(report) {
        return (ranked.len() > 1).then(|| NOT_RANKED.into());
    }
    let ranked_row = |row: &&OverviewRow| Ranked {
        title: title(report, &row.subject).to_string(),
        repeats: row.highest_throughput().map_or(0, |(peak, _)| peak.values.len()),
    };
    let unranked = unranked_sentence(&workload, &ranked.iter().map(ranked_row).collect::<Vec<_>>());
    let sentences: Vec<String> = [tie, bounds, unranked].into_iter().flatten().collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// Names the tied subjects whose peaks are lower bounds. `None`: `names` is empty.
fn lower_bounds_sentence(names: &[String]) -> Option<String> {
    match names {
        [] => None,
        [name] => {
            Some(format!("The peak of {name} is a lower bound: the real peak may be higher."))
        }
        names => Some(format!(
            "The peaks of {} are lower bounds: the real peaks may be higher.",
            list(names)
        )),
    }
}

const NOT_RANKED: &str = "Subjects are not ranked, because they always started in the same order. \
                          If the machine became slower or faster during the run, every difference \
                          between subjects is biased.";

/// Whether the order of starts was fixed, so that differences may be a drift of the machine.
fn is_order_fixed(report: &Report) -> bool {
    report.caveats.iter().any(|caveat| caveat.code == Code::FIXED_ORDER)
}

/// Joins the results of [`tie_text`] for all tie groups to a sentence. `None`: there is no group.
fn tie_sentence(
    workload: &str,
    mut groups: impl Iterator<Item = (String, String)>,
) -> Option<String> {
    let (names, from) = groups.next()?;
    let mut sentence =
        format!("{names} cannot be distinguished{from} by peak throughput{workload} (tie)");
    for (names, from) in groups {
        let _ = write!(sentence, ", nor can {names}{from}");
    }
    Some(sentence + ".")
}

/// Returns the names in a tie group, and ` from BEST`. If all members are tied with each other, the
/// second text is empty. Otherwise each member is tied with the best, but two members may differ.
fn tie_text(tie: &Tie, title: impl Fn(&str) -> String) -> (String, String) {
    let best = tie.mutual.then_some(&tie.best);
    let names: Vec<String> = best.into_iter().chain(&tie.with).map(|id| title(id)).collect();
    let from = if tie.mutual { String::new() } else { format!(" from {}", title(&tie.best)) };
    (list(&names), from)
}

/// Names the subjects with too few repeats for a rank. Repeats that only the generator limited are
/// usable: they are lower bounds. `None`: all have enough, or there is only one subject.
fn unranked_sentence(workload: &str, subjects: &[Ranked]) -> Option<String> {
    if subjects.len() < 2 {
        return None;
    }
    let most_repeats = subjects.iter().map(|subject| subject.repeats).max()?;
    let repeats = |subject: &Ranked| plural(subject.repeats as u64, "usable repeat");
    if most_repeats < PAIRS_TO_TELL_APART {
        let repeats = plural(most_repeats as u64, "usable repeat");
        return Some(format!(
            "With {repeats}, differences in peak throughput{workload} are not significant. The \
             order is not a ranking."
        ));
    }
    let few: Vec<&Ranked> =
        subjects.iter().filter(|subject| subject.repeats < PAIRS_TO_TELL_APART).collect();
    match few.as_slice() {
        [] => None,
        [subject] => {
            Some(format!("{} has {}, too few for a rank.", subject.title, repeats(subject)))
        }
        _ => {
            let names: Vec<String> = few
                .iter()
                .map(|subject| format!("{} ({})", subject.title, repeats(subject)))
                .collect();
            Some(format!("{} have too few usable repeats for a rank.", list(&names)))
        }
    }
}

/// States the CPU use of other programs if it made most steps invalid.
fn other_programs(report: &Report) -> Option<String> {
    let run = &report.run;
    let programs = run.other_programs.as_ref()?;
    let steps_run = report.trials.iter().filter(|trial| !trial.refused).count();
    if 2 * programs.trials_invalid <= steps_run {
        return None;
    }
    let names = if programs.names.is_empty() {
        String::new()
    } else {
        format!(" ({})", programs.names.join(", "))
    };
    let used = match programs.cpu_share {
        Some(share) => {
            format!("Other programs used {} of this machine's CPUs{names}", whole_percent(share))
        }
        None => format!("Other programs used this machine's CPUs{names}"),
    };
    let steps = match (run.trials_invalid, steps_run) {
        (1, 1) => "the only step is not valid".to_string(),
        (invalid, _) => format!("{invalid} of {steps_run} steps are not valid"),
    };
    let others = match run.trials_invalid - programs.trials_invalid {
        0 => String::new(),
        n => format!(" ({n} of these steps for other reasons)"),
    };
    Some(format!("{used}, and {steps}{others}."))
}

/// States how many steps are valid, and which planned work was not done.
fn validity(report: &Report) -> Option<String> {
    let run = &report.run;
    let refused = report.trials.iter().filter(|t| t.refused).count();
    let steps_run = run.trials_done.checked_sub(refused)?;
    // Whether the sentence on other programs already counts all invalid steps.
    let is_explained = other_programs(report).is_some()
        && run
            .other_programs
            .as_ref()
            .is_some_and(|programs| programs.trials_invalid == run.trials_invalid);
    // A run that ended early because all comparisons were clear has no missing steps.
    let missing =
        if run.answered_after.is_some() { 0 } else { run.trials_planned - run.trials_done };
    let is_only_step = missing + refused == 0;
    let run_text = (!is_explained).then(|| valid_steps(report, steps_run, is_only_step)).flatten();
    let refused_text = match refused {
        0 => None,
        n => {
            let steps = plural(n as u64, if steps_run == 0 { "step" } else { "more step" });
            Some(format!("In {steps} all connections were refused, as expected."))
        }
    };
    let missing_text = match missing {
        0 => None,
        _ if run.trials_done == 0 => None,
        1 => Some("1 planned step was not run.".into()),
        n => Some(format!("{n} planned steps were not run.")),
    };
    let searches_text = match run.searches_missing {
        0 => None,
        1 => Some("1 planned search for a rate was not completed.".into()),
        n => Some(format!("{n} planned searches for a rate were not completed.")),
    };
    let unchecked_text = (run.trials_unchecked > 0).then(|| {
        let steps = plural(run.trials_unchecked as u64, "step");
        format!(
            "{steps} must be repeated (`dyno run --resume`): a back end or the machine failed, or \
             responses were not checked against the contract afterwards."
        )
    });
    let stop_text = run.answered_after.map(|repeats| {
        format!(
            "The run ended early, after {repeats} of {} repeats, because the result of every \
             comparison was clear.",
            run.repeats
        )
    });
    let sentences: Vec<String> =
        [run_text, refused_text, missing_text, searches_text, unchecked_text, stop_text]
            .into_iter()
            .flatten()
            .collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// States how many of the steps that were run are valid. `None`: no step was run. `is_only_step`:
/// no other step was planned, so a single step may be called the only one.
fn valid_steps(report: &Report, steps_run: usize, is_only_step: bool) -> Option<String> {
    Some(match (steps_run, report.run.trials_invalid) {
        (0, _) => return None,
        (1, 0) if is_only_step => "The only step is valid.".into(),
        (1, 0) => "The step that was run is valid.".into(),
        (_, 0) => format!("All {steps_run} steps are valid."),
        (1, 1) if is_only_step => format!("The only step is not valid: {}.", reasons(report)),
        (1, 1) => format!("The step that was run is not valid: {}.", reasons(report)),
        (_, 1) => format!("1 of {steps_run} steps is not valid: {}.", reasons(report)),
        (_, n) => format!("{n} of {steps_run} steps are not valid: {}.", reasons(report)),
    })
}

/// Lists the reasons for unexpectedly invalid steps, the most frequent first.
fn reasons(report: &Report) -> String {
    // Several codes share one reason.
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for trial in report.trials.iter().filter(|t| t.is_unexpectedly_invalid()) {
        if let Some(reason) = trial.invalid_reason().map(other_programs::reason) {
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, n)) => *n += 1,
                None => reasons.push((reason, 1)),
            }
        }
    }
    reasons.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let texts: Vec<String> = reasons.iter().map(|(reason, n)| format!("{reason} ({n})")).collect();
    list(&texts)
}

/// Names the subjects that failed or were skipped. `None`: there are none.
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
