//! Derives the caveats of a whole run. These caveats describe effects that no single step shows,
//! such as a drift of the machine, and peaks that are only lower bounds.
//!
//! The doc comment of each rule states the condition under which its caveat applies.

use std::collections::{BTreeMap, BTreeSet};

use dyno_archive::Phase;
use dyno_archive::plan::{NotServed, Plan, Subject, Trial};
use dyno_archive::resumption::ResumptionDifference;
use dyno_archive::run::Run;
use dyno_archive::start::LimitKind;
use serde_json::{Map, Value, json};

use crate::canary::canary;
use crate::caveat::{Caveat, Code, Severity, info};
use crate::design::Design;
use crate::load::offered::rate_text;
use crate::number_format::plural;
use crate::other_programs;
use crate::peak::OpenStep;
use crate::stats::{ALPHA, PAIRS_TO_TELL_APART, REPEATS_FOR_INTERVAL, Trend, holm};

/// The best throughput of a subject with a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peak<'a> {
    pub(crate) workload: &'a str,
    /// Name of the subject's arm.
    pub(crate) subject: &'a str,
    /// Name of the server, without the variant and the arm's conditions.
    pub(crate) server: &'a str,
    /// Correct responses per second, median over the repeats; `None`: no repeat is valid.
    pub(crate) rps: Option<f64>,
    /// Correct responses per second of each valid repeat, in the order of the blocks.
    pub(crate) repeats: &'a [f64],
    pub(crate) control: bool,
    /// Highest known throughput of the server at any step.
    pub(crate) max_rps: Option<f64>,
    /// Steps at which the server may have reached more. Empty: the peak is exact.
    pub(crate) open: &'a [OpenStep],
    /// Whether all repeats that ran of the peak's step show the server's throughput.
    pub(crate) is_complete: bool,
}

/// Returns all caveats of a whole run, the most severe first. `peaks` are sorted by workload.
pub(crate) fn run(run: &Run, peaks: &[Peak<'_>]) -> Vec<Caveat> {
    let plan = &run.header.plan;
    let mut caveats = Vec::new();
    let design = Design::new(plan);
    caveats.extend(shared_cpus(plan));
    caveats.extend(few_repeats(plan));
    caveats.extend(resumption(run));
    caveats.extend(profile_options(run));
    caveats.extend(external_server(run));
    caveats.extend(early_end(run));
    caveats.extend(second_measurements(run));
    caveats.extend(mixed_parts(run));
    caveats.extend(machine_speed_change(run, design));
    caveats.extend(new_files(run));
    caveats.extend(unset_limits(run));
    caveats.extend(omitted_workloads(plan));
    caveats.extend(peak_lower_bound(peaks, can_be_resumed(run)));
    caveats.extend(similar_peaks(peaks));
    caveats.extend(fixed_order(plan, design));
    caveats.extend(trend(peaks, design));
    caveats.sort_by_key(|caveat| std::cmp::Reverse(caveat.severity));
    caveats
}

/// Server and generator share CPUs.
fn shared_cpus(plan: &Plan) -> Option<Caveat> {
    let mut placements = plan.arms.iter().map(|arm| &arm.conditions.placement);
    let shared = placements.find(|placement| !placement.is_disjoint())?;
    let message = "Server and generator share CPUs, because this machine has too few of them. Each \
                   slows the other, and the numbers of different subjects are only roughly \
                   comparable. Use a machine with two CPUs or more.";
    let evidence = json!({"subject": shared.subject, "generator": shared.generator});
    Some(Caveat::new(Code::SharedCpus, Severity::Warning, message.into(), evidence))
}

/// The plan has too few repeats for confidence intervals.
fn few_repeats(plan: &Plan) -> Option<Caveat> {
    let repeats = plan.repeats as usize;
    if repeats >= REPEATS_FOR_INTERVAL {
        return None;
    }
    let too_few = match repeats {
        1 => "One repeat is too few".to_string(),
        n => format!("{n} repeats are too few"),
    };
    let comparisons = if repeats < PAIRS_TO_TELL_APART {
        "This run cannot show that one subject has a higher throughput than another"
    } else {
        "A difference between two subjects counts only if it has the same direction in each block \
         (one pass over all subjects). It must also exceed 5 % in each block, or have p below 0.05 \
         in a paired t-test over the blocks"
    };
    let message = format!(
        "{too_few} for confidence intervals, so ranges over the repeats are shown instead. \
         {comparisons}. Use {REPEATS_FOR_INTERVAL} or more repeats."
    );
    Some(info(Code::FewRepeats, message))
}

/// The run was interrupted and resumed.
fn resumption(run: &Run) -> Option<Caveat> {
    let message = "This run was interrupted and resumed. Some steps were measured after a restart \
                   of the server.";
    run.starts.iter().any(|start| start.resumed).then(|| info(Code::Resumed, message))
}

/// Profiles were taken, so servers may have run with options that slow them.
fn profile_options(run: &Run) -> Option<Caveat> {
    let has_profiles = run.profiles.iter().any(|profile| profile.failure.is_none());
    has_profiles.then(|| {
        info(
            Code::StartedForProfiles,
            "Profiles were taken. Servers with a JIT compiler were started with options that show \
             the names of their functions in profiles (`[profile]` of their subject.toml). These \
             options may lower throughput in this run. To compare servers, use a run without \
             profiles.",
        )
    })
}

/// dyno loaded a server that it did not start.
fn external_server(run: &Run) -> Option<Caveat> {
    let has_trials = |start: usize| run.trials.iter().any(|trial| trial.start == start);
    let is_external =
        run.starts.iter().any(|start| !start.has_subject() && has_trials(start.start));
    let message = "dyno did not start this server, so its start-up, CPU time, memory and checks \
                   are unknown. Let dyno start the server (`dyno run`) to see them.";
    is_external.then(|| info(Code::ServerNotObserved, message))
}

/// The user ended the load early. Runs of suites have no trial that ended early, because a resumed
/// run measures such a trial again.
fn early_end(run: &Run) -> Option<Caveat> {
    let trial = run.trials.iter().find(|trial| trial.load.cut_short)?;
    let (opens_ns, closes_ns) = trial.load.window_ns;
    let seconds = |ns: u64| format!("{:.1} s", ns as f64 / 1e9);
    let planned = run.header.plan.load.set_duration_ns();
    let window_ns = closes_ns.saturating_sub(opens_ns);
    if planned.is_some_and(|ns| window_ns >= ns) {
        let message = format!(
            "The user ended this load after its window, while dyno waited for {} responses.",
            trial.load.books.in_flight_at_end
        );
        return Some(info(Code::CutShort, message));
    }
    let planned_text =
        planned.map_or(String::new(), |ns| format!(" of the planned {}", seconds(ns)));
    let message = format!(
        "The user ended this load early. The measured window covers only {}{planned_text}.",
        seconds(window_ns)
    );
    Some(info(Code::CutShort, message))
}

/// Trials were measured twice, because their first measurement was disturbed and is not valid.
fn second_measurements(run: &Run) -> Option<Caveat> {
    let plan = &run.header.plan;
    let trials: Vec<Value> = run
        .contaminated
        .iter()
        .map(|record| {
            let planned = &plan.trials[record.trial];
            json!({
                "subject": plan.arms[planned.arm].name,
                "workload": plan.workloads[planned.workload].name, "step": planned.step,
                "block": plan.launches[planned.launch].block, "trial": record.trial,
            })
        })
        .collect();
    let mut message = match trials.len() {
        0 => return None,
        1 => "One step was measured again, because during the first measurement another program \
              used the machine, heat slowed a CPU, or the generator did not run. The second \
              measurement is used, even if it was disturbed as well."
            .to_string(),
        n => format!(
            "{n} steps were measured again. During the first measurement another program used the \
             machine, heat slowed a CPU, or the generator did not run. If servers were loaded in \
             turns, the steps of all these servers were measured again together. The second \
             measurement is used, even if it was disturbed as well."
        ),
    };
    message += " The first measurement is in the archive (`contaminated/`).";
    // Older versions also repeated trials in which the server had failed.
    let after_warmup = run.contaminated.iter().flat_map(|record| {
        record.load.intervals.iter().filter(|interval| interval.phase != Phase::Warmup)
    });
    let failed: u64 =
        after_warmup.flat_map(|interval| interval.outcomes.not_ok()).map(|(_, n)| n).sum();
    if failed > 0 {
        message += &format!(
            " In the first measurement, {} failed or got an incorrect response.",
            plural(failed, "request")
        );
    }
    let severity = if failed > 0 { Severity::Warning } else { Severity::Info };
    Some(Caveat::new(
        Code::DoneAgain,
        severity,
        message,
        json!({"trials": trials, "failed": failed}),
    ))
}

/// The user resumed the run although conditions had changed, so its parts are not one experiment.
fn mixed_parts(run: &Run) -> Option<Caveat> {
    let (header, later_parts) = (&run.header, run.later_parts());
    let differences: Vec<String> = later_parts
        .iter()
        .flat_map(|part| &part.differences)
        .map(|difference| {
            let ResumptionDifference { name, before, now } = difference;
            format!("{name} from {before} to {now}")
        })
        .collect();
    if differences.is_empty() {
        return None;
    }
    // Each part ends where the next part's first start begins.
    let first_starts = std::iter::once(0).chain(later_parts.iter().map(|part| part.from_start));
    let ends = later_parts.iter().map(|part| part.from_start).chain([usize::MAX]);
    let parts: Vec<Vec<usize>> = first_starts
        .zip(ends)
        .map(|(first, end)| {
            run.trials.iter().filter(|t| (first..end).contains(&t.start)).map(|t| t.trial).collect()
        })
        .collect();
    let versions = |subjects: &[Subject]| -> Value {
        subjects.iter().map(|s| (s.id(), json!(s.version))).collect::<Map<_, _>>().into()
    };
    let subjects =
        std::iter::once(&header.plan.subjects).chain(later_parts.iter().map(|part| &part.subjects));
    let started =
        std::iter::once(&header.started).chain(later_parts.iter().map(|part| &part.started));
    let evidence: Vec<_> = parts
        .iter()
        .zip(subjects.zip(started))
        .map(|(trials, (subjects, started))| {
            json!({
                "started": started, "trials": trials, "versions": versions(subjects),
            })
        })
        .collect();
    let counts: Vec<String> = parts.iter().map(|trials| trials.len().to_string()).collect();
    let message = format!(
        "This run was interrupted and resumed although conditions had changed. Its parts ({} \
         trials) were measured under different conditions, but the report combines them in one row \
         per subject. Changes: {}.",
        counts.join(" and "),
        differences.join("; ")
    );
    let evidence = json!({"parts": evidence, "differences": differences});
    Some(Caveat::new(Code::Mixed, Severity::Warning, message, evidence))
}

/// Some subjects were not loaded with some workloads, so their rows are missing. Subjects with the
/// same workload and reason share a sentence.
fn omitted_workloads(plan: &Plan) -> Option<Caveat> {
    let mut groups: Vec<(&NotServed, Vec<String>)> = Vec::new();
    for omission in &plan.not_served {
        let group = groups.iter_mut().find(|(other, _)| {
            other.workload == omission.workload && other.reason == omission.reason
        });
        let id = plan.subjects[omission.subject].id();
        match group {
            Some((_, ids)) => ids.push(id),
            None => groups.push((omission, vec![id])),
        }
    }
    let sentence = |(omission, ids): &(&NotServed, Vec<String>)| {
        let workload = &plan.workloads[omission.workload].name;
        let reason = &omission.reason;
        match ids.as_slice() {
            [id] => format!("{id} was not loaded with {workload}: {reason}"),
            ids => {
                // For several servers, "it speaks no h2" becomes "each speaks no h2".
                let reason = reason
                    .strip_prefix("it ")
                    .map_or_else(|| reason.clone(), |predicate| format!("each {predicate}"));
                format!("{} were not loaded with {workload}: {reason}", ids.join(", "))
            }
        }
    };
    let sentences: Vec<String> = groups.iter().map(sentence).collect();
    (!sentences.is_empty()).then(|| info(Code::NotServed, format!("{}.", sentences.join(". "))))
}

/// The machine's speed has changed if the slowest canary (a fixed piece of work) takes at least
/// this many times as long as the fastest.
const SPEED_RATIO: f64 = 1.15;

/// The machine's speed changed during the run.
fn machine_speed_change(run: &Run, design: Design) -> Option<Caveat> {
    let canary = canary(run).filter(|canary| canary.slowest_to_fastest >= SPEED_RATIO)?;
    let (fastest, slowest) = (canary.fastest_us / 1e3, canary.slowest_us / 1e3);
    let message = format!(
        "The speed of the machine changed during the run. On the same CPU, a fixed piece of work \
         took {fastest:.1} ms before one server start and {slowest:.1} ms before another. {} A \
         part of the range over the repeats may come from the machine.",
        match design {
            Design::Single | Design::Concurrent | Design::Balanced =>
                "The starts of one block (one pass over all subjects) are close in time, so they \
                 are still comparable.",
            Design::Unbalanced | Design::Fixed =>
                "The order of starts does not cancel this effect, so a part of each difference \
                 between subjects may come from the machine.",
        }
    );
    let evidence =
        json!({"slowest_to_fastest": canary.slowest_to_fastest, "piece_us": canary.piece_us});
    Some(Caveat::new(Code::MachineChanged, Severity::Warning, message, evidence))
}

/// Servers wrote files into their folders. A later start that reads these files is not comparable
/// with earlier starts.
fn new_files(run: &Run) -> Option<Caveat> {
    // By server or back end: the number of starts with new files, and the first new file.
    let mut parts: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for part in run.starts.iter().flat_map(|start| &start.parts) {
        if let Some(new) = &part.new_files {
            let (starts, _) = parts.entry(&part.name).or_insert((0, &new.first));
            *starts += 1;
        }
    }
    let descriptions: Vec<String> = parts
        .iter()
        .map(|(name, (starts, first))| match starts {
            1 => format!("{name} ({first}; 1 start)"),
            _ => format!("{name} ({first}; {starts} starts)"),
        })
        .collect();
    (!descriptions.is_empty()).then(|| {
        let message = format!(
            "New files are in folders of servers (since the run was planned) or of their build \
             results (since the build): {}. If a server reads these files, its starts may not be \
             equal. Let servers write below `{{work}}`, a folder that is new for each start.",
            descriptions.join(", ")
        );
        let names: Vec<&&str> = parts.keys().collect();
        Caveat::new(Code::NewFiles, Severity::Warning, message, json!({"parts": names}))
    })
}

/// Limits of the suite could not be set, or read back.
fn unset_limits(run: &Run) -> Option<Caveat> {
    let parts = run.starts.iter().flat_map(|start| &start.parts);
    let unset = parts.flat_map(|part| &part.limits).filter(|limit| limit.read_back.is_none());
    let mut by_name: BTreeMap<&str, (LimitKind, String)> = BTreeMap::new();
    for limit in unset {
        let reason = limit.reason.as_deref().unwrap_or("for an unknown reason");
        let description = format!("{} ({}): {reason}", limit.kind.name(), limit.asked);
        by_name.entry(limit.kind.name()).or_insert((limit.kind, description));
    }
    let kinds: Vec<LimitKind> = by_name.values().map(|(kind, _)| *kind).collect();
    let descriptions: Vec<&str> = by_name.values().map(|(_, description)| &**description).collect();
    (!kinds.is_empty()).then(|| {
        let message = format!(
            "Limits could not be set: {}. `dyno doctor` prints how to enable them.",
            descriptions.join("; ")
        );
        Caveat::new(Code::LimitsNotSet, Severity::Warning, message, json!({"limits": kinds}))
    })
}

/// Number of names and steps that a sentence lists. The evidence has all of them.
const LISTED: usize = 3;

/// Servers may reach more than their peaks show. Controls are excluded, because they show the
/// generator's maximum on purpose.
fn peak_lower_bound(peaks: &[Peak<'_>], can_be_resumed: bool) -> Option<Caveat> {
    let open: Vec<&Peak<'_>> = peaks.iter().filter(|p| !p.open.is_empty() && !p.control).collect();
    if open.is_empty() {
        return None;
    }
    let has_workloads = peaks.iter().any(|peak| peak.workload != peaks[0].workload);
    let listed = || open.iter().take(LISTED);
    let shared_reason = shared_reason(listed().flat_map(|peak| peak.open.iter().take(LISTED)));
    let descriptions: Vec<String> = listed()
        .map(|peak| describe_open_peak(peak, has_workloads, shared_reason.is_some()))
        .collect();
    let reason = shared_reason.map_or_else(String::new, |reason| {
        format!(", because some repeats are excluded ({reason})")
    });
    let more = match open.len().saturating_sub(LISTED) {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    let message = format!(
        "Some peaks are lower bounds (≥){reason}: {}{more}. These servers may reach more, so they \
         are not ranked below any other. {}",
        descriptions.join("; "),
        remedy(&open, can_be_resumed)
    );
    let evidence = open.iter().map(|peak| {
        json!({
            "subject": peak.subject, "workload": peak.workload, "at_least_rps": peak.max_rps,
            "steps": peak.open,
        })
    });
    let evidence = json!({"peaks": evidence.collect::<Vec<Value>>()});
    Some(Caveat::new(Code::PeakLowerBound, Severity::Warning, message, evidence))
}

/// Whether `dyno run --resume` certainly measures missing trials of a run: it is the run of a suite
/// without revisions, it cannot end early, and a planned trial of a server that takes part has no
/// record.
fn can_be_resumed(run: &Run) -> bool {
    let plan = &run.header.plan;
    let recorded: BTreeSet<usize> = run.trials.iter().map(|record| record.trial).collect();
    let is_missing =
        |(index, trial): (usize, &Trial)| plan.takes_part(trial.arm) && !recorded.contains(&index);
    plan.suite.is_from_file()
        && plan.stop.is_none()
        && plan.subjects.iter().all(|subject| subject.revision.is_none())
        && plan.trials.iter().enumerate().any(is_missing)
}

/// Returns the advice for peaks that are lower bounds, by the reasons of their steps.
fn remedy(open: &[&Peak<'_>], can_be_resumed: bool) -> String {
    const QUIET: &str = "stop the other programs, or let dyno wait until the machine is quiet \
                         (`--wait-quiet 5m`)";
    const CPUS: &str = "give the generator more CPUs and the servers fewer: `cpuset` under \
                        `[limits]` names the servers' CPUs, and the generator gets the other CPUs, \
                        with a thread on each";
    let reasons = || open.iter().flat_map(|peak| peak.open).filter_map(|step| step.reason);
    let is_by_others = reasons().any(|code| code == Code::Contaminated);
    match (is_by_others, reasons().any(Code::is_generator_limit)) {
        (true, true) => {
            format!("To find their real peaks, {QUIET}. Where the generator was the limit, {CPUS}.")
        }
        (true, false) => format!("To find their real peaks, {QUIET}."),
        (false, true) => format!("To find their real peaks, {CPUS}."),
        (false, false) => {
            let action =
                if can_be_resumed { "finish the run (`--resume`)" } else { "raise `repeats`" };
            format!(
                "To find their real peaks, {action}, so that each step has at least three valid \
                 repeats."
            )
        }
    }
}

/// Returns the reason why repeats are excluded, if it is the same at all steps. `None`: the reasons
/// differ, or a step was not run.
fn shared_reason<'a>(steps: impl Iterator<Item = &'a OpenStep>) -> Option<&'static str> {
    let reasons: Option<BTreeSet<&'static str>> = steps
        .map(|step| step.reason.filter(|_| step.repeats > 0).map(other_programs::reason))
        .collect();
    reasons.filter(|reasons| reasons.len() == 1)?.pop_first()
}

/// Formats a peak as `fast ≥ 23000/s (5 of 5 repeats at 16 connections are excluded, because the
/// generator was the limit)`. `is_reason_shared`: the message names the reason before the peaks.
fn describe_open_peak(peak: &Peak<'_>, has_workloads: bool, is_reason_shared: bool) -> String {
    let step = |open: &OpenStep| {
        let at = open.at.in_words(|rate| format!("{rate:.0}"));
        if open.repeats == 0 {
            return format!("the step at {at} was not run");
        }
        let repeats = format!("{} of {} repeats at {at}", open.refused, open.repeats);
        match open.reason.map(other_programs::reason) {
            _ if is_reason_shared => repeats,
            Some(reason) => format!("{repeats} are excluded, because {reason}"),
            None => format!("{repeats} did not run or are excluded"),
        }
    };
    let with = if has_workloads { format!(" with {}", peak.workload) } else { String::new() };
    let rate = peak.max_rps.map_or_else(String::new, |rps| format!(" ≥ {}/s", rate_text(rps)));
    let steps: Vec<String> = peak.open.iter().take(LISTED).map(step).collect();
    format!("{}{with}{rate} ({})", peak.subject, steps.join("; "))
}

/// Four or more servers have nearly the same peak with a workload, so a resource that they share
/// may be the limit. Variants of one server are one server here, because they are expected to be
/// similar.
fn similar_peaks(peaks: &[Peak<'_>]) -> Option<Caveat> {
    let mut workloads: Vec<&str> = peaks.iter().map(|peak| peak.workload).collect();
    workloads.dedup();
    workloads.iter().find_map(|workload| {
        // Lower bounds are excluded, because the generator or the machine limited these peaks.
        let exact = peaks.iter().filter(|peak| peak.workload == *workload && peak.open.is_empty());
        let names = similar_subjects(exact.filter_map(|peak| Some((peak.rps?, peak))).collect())?;
        let with = if workloads.len() > 1 { format!(" with {workload}") } else { String::new() };
        let message = format!(
            "{} have nearly the same peak throughput{with}, which is rare for different servers. A \
             shared resource may be the limit: check what limited each of them.",
            names.join(", ")
        );
        Some(Caveat::new(Code::SameNumbers, Severity::Warning, message, json!({"subjects": names})))
    })
}

/// Every block starts the subjects in the same order.
fn fixed_order(plan: &Plan, design: Design) -> Option<Caveat> {
    let names: Vec<&str> = plan.arms.iter().map(|arm| &*arm.name).collect();
    let message = "Every block (one pass over all subjects) started the subjects in the same order \
                   (`order = \"fixed\"` under `[suite]`). If the speed of the machine drifts, \
                   every difference between subjects is biased. This report therefore ranks no \
                   subjects and names no causes of differences. Use `order = \"random\"` to \
                   compare subjects.";
    design.is_fixed().then(|| {
        Caveat::new(Code::FixedOrder, Severity::Warning, message.into(), json!({"order": names}))
    })
}

/// Returns the consequence of a trend for comparisons of subjects, by the run's design and its
/// number of repeats.
const fn trend_consequence(design: Design, repeats: usize) -> &'static str {
    match design {
        Design::Single => "This trend affects medians over repeats and their intervals.",
        Design::Concurrent => {
            "Subjects ran at the same time or in turns, so this trend does not affect comparisons. \
             It affects medians over repeats and their intervals."
        }
        Design::Balanced if repeats.is_multiple_of(2) => {
            "Each pair of subjects ran in both orders equally often, so a steady trend cancels out \
             in comparisons. The trend affects medians over repeats and their intervals."
        }
        Design::Balanced => {
            "Each pair of subjects ran in both orders nearly equally often, so a steady trend \
             nearly cancels out in comparisons. The trend affects medians over repeats and their \
             intervals."
        }
        Design::Unbalanced => {
            "Some pairs of subjects ran in one order more often than in the other. This trend \
             therefore affects comparisons and medians over repeats. Run the suite again: dyno now \
             balances the orders."
        }
        Design::Fixed => {
            "Subjects ran in the same order in each block (one pass over all subjects). This trend \
             therefore affects comparisons and medians over repeats. Use `order = \"random\"`."
        }
    }
}

/// The throughput of a subject rises or falls over the run. Tests of several subjects are corrected
/// (Holm), and the steepest trend is reported.
fn trend(peaks: &[Peak<'_>], design: Design) -> Option<Caveat> {
    let trends: Vec<(&Peak<'_>, Trend)> = peaks
        .iter()
        .filter(|p| p.is_complete)
        .filter_map(|p| Some((p, Trend::from_values(p.repeats)?)))
        .collect();
    let p_values = holm(&trends.iter().map(|(_, trend)| trend.p).collect::<Vec<f64>>());
    let significant =
        trends.iter().zip(p_values).filter(|(_, p)| *p < ALPHA).map(|(trend, _)| trend);
    let steepness = |trend: &Trend| trend.ratio.ln().abs();
    let (peak, trend) =
        significant.max_by(|(_, a), (_, b)| steepness(a).total_cmp(&steepness(b)))?;
    let change = if trend.ratio > 1.0 { "rose" } else { "fell" };
    let message = format!(
        "The throughput of {} with {} {change} over the run, more than chance explains. In the \
         last repeat it was {:.3} times that of the first repeat (95 % interval {:.3} to {:.3}). \
         {}",
        peak.subject,
        peak.workload,
        trend.ratio,
        trend.low,
        trend.high,
        trend_consequence(design, peak.repeats.len())
    );
    let evidence =
        json!({"subject": peak.subject, "workload": peak.workload, "last_to_first": trend.ratio});
    Some(Caveat::new(Code::Trend, Severity::Warning, message, evidence))
}

/// Returns subjects of four different servers whose peaks are at most 3 % above the lowest of the
/// four. `None`: there are no such four servers. If several groups are similar, the result is the
/// group with the lowest peaks. `peaks`: with their throughput.
fn similar_subjects<'a>(mut peaks: Vec<(f64, &Peak<'a>)>) -> Option<Vec<&'a str>> {
    const TOLERANCE: f64 = 0.03;
    const SERVERS: usize = 4;
    peaks.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    peaks.iter().enumerate().find_map(|(i, (lowest, _))| {
        let mut servers: Vec<&str> = Vec::new();
        let mut names = Vec::new();
        for (_, peak) in peaks[i..].iter().take_while(|(rps, _)| *rps <= lowest * (1.0 + TOLERANCE))
        {
            if !servers.contains(&peak.server) && names.len() < SERVERS {
                servers.push(peak.server);
                names.push(peak.subject);
            }
        }
        (names.len() == SERVERS).then_some(names)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trend_of_odd_repeats_cancels_nearly() {
        let text = |repeats| trend_consequence(Design::Balanced, repeats);
        assert!(text(6).starts_with("Each pair of subjects ran in both orders equally often"));
        assert!(text(5).starts_with("Each pair of subjects ran in both orders nearly equally"));
    }
}
