//! The reasons to distrust a whole run.

use std::collections::BTreeMap;

use dyno_archive::Phase;
use dyno_archive::plan::{NotServed, Plan, Subject};
use dyno_archive::run::Run;
use dyno_archive::start::LimitKind;
use serde_json::{Map, Value, json};

use crate::canary::canary;
use crate::caveat::{Caveat, Code, Severity, info};
use crate::design::Design;
use crate::load::offered::rate_text;
use crate::other_programs;
use crate::peak::{OpenStep, is_generator_limit};
use crate::stats::{ALPHA, PAIRS_TO_TELL_APART, REPEATS_FOR_INTERVAL, Trend, holm};

/// The best throughput of a subject with a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peak<'a> {
    pub(crate) workload: &'a str,
    /// Name of the arm.
    pub(crate) subject: &'a str,
    /// The subject's server, whatever its variant and the arm's conditions.
    pub(crate) server: &'a str,
    /// Correct responses per second, median over the repeats; `None`: no repeat is valid.
    pub(crate) rps: Option<f64>,
    /// The same of each valid repeat, in the order of the blocks.
    pub(crate) repeats: &'a [f64],
    pub(crate) control: bool,
    /// The most that is known of the server.
    pub(crate) most_rps: Option<f64>,
    /// Steps at which it may have done more; empty: the peak is exact.
    pub(crate) open: &'a [OpenStep],
    /// All repeats of the peak's step that ran say what the server did.
    pub(crate) is_complete: bool,
}

/// Reasons to distrust a whole run, the most severe first. `peaks`: workload by workload.
pub(crate) fn run(run: &Run, peaks: &[Peak<'_>]) -> Vec<Caveat> {
    let plan = &run.header.plan;
    let mut all = Vec::new();
    let placements = || plan.arms.iter().map(|arm| &arm.conditions.placement);
    if let Some(shared) = placements().find(|placement| !placement.is_disjoint()) {
        let message = "Server and generator share CPUs, because this machine has too few of them. \
                       Each slows the other, and numbers of different subjects are only roughly \
                       comparable. Use a machine with two CPUs or more.";
        all.push(Caveat::new(
            Code::SharedCpus,
            Severity::Warning,
            message.into(),
            json!({"subject": shared.subject, "generator": shared.generator}),
        ));
    }
    if (plan.repeats as usize) < REPEATS_FOR_INTERVAL {
        let too_few = match plan.repeats {
            1 => "One repeat is too few".to_string(),
            n => format!("{n} repeats are too few"),
        };
        let apart = if (plan.repeats as usize) < PAIRS_TO_TELL_APART {
            "No subject is distinguished from another by throughput"
        } else {
            "Subjects are distinguished only if all pairs within blocks differ in the same \
             direction. Each pair must also differ by more than 5 %, or all pairs with p below \
             0.05 in a paired t-test"
        };
        let message = format!(
            "{too_few} for confidence intervals, so ranges over the repeats are shown. {apart}. \
             Use {REPEATS_FOR_INTERVAL} or more repeats."
        );
        all.push(info(Code::FewRepeats, message));
    }
    if run.starts.iter().any(|s| s.resumed) {
        all.push(info(
            Code::Resumed,
            "This run was interrupted and resumed. Some trials were served by a restarted process.",
        ));
    }
    all.extend(started_for_profiles(run));
    all.extend(not_started(run));
    all.extend(ended_early(run));
    all.extend(remeasured(run));
    all.extend(mixed(run));
    all.extend(machine_changed(run, Design::new(plan)));
    all.extend(new_files(run));
    all.extend(limits_not_set(run));
    all.extend(not_served(plan));
    all.extend(peak_lower_bound(peaks));
    all.extend(same_numbers(peaks));
    let design = Design::new(plan);
    all.extend(fixed_order(plan, design));
    all.extend(trend(peaks, design));
    all.sort_by_key(|c| std::cmp::Reverse(c.severity));
    all
}

/// The run measured servers that were started for profiles.
fn started_for_profiles(run: &Run) -> Option<Caveat> {
    let is_taken = run.profiles.iter().any(|profile| profile.failure.is_none());
    is_taken.then(|| {
        info(
            Code::StartedForProfiles,
            "Profiles were taken. Servers with a JIT compiler were started with options that name \
             their functions ([profile] of their subject.toml). These options may lower throughput \
             in this run. Compare servers by a run without profiles.",
        )
    })
}

/// A server that dyno loaded and did not start.
fn not_started(run: &Run) -> Option<Caveat> {
    let was_there = run
        .starts
        .iter()
        .any(|s| !s.has_subject() && run.trials.iter().any(|t| t.start == s.start));
    let message = "dyno did not start this server. Its start-up, CPU time, memory and checks are \
                   unknown. Run it as a subject under `dyno run` to see them.";
    was_there.then(|| info(Code::ServerNotObserved, message))
}

/// A load that the user ended early and that is still a result. Runs of suites keep no such trial:
/// they run it again when they are resumed.
fn ended_early(run: &Run) -> Option<Caveat> {
    let cut = run.trials.iter().find(|trial| trial.load.cut_short)?;
    let (opens, closes) = cut.load.window_ns;
    let seconds = |ns: u64| format!("{:.1} s", ns as f64 / 1e9);
    let planned = run.header.plan.load.set_duration_ns();
    let of = planned.map_or(String::new(), |ns| format!(" of {}", seconds(ns)));
    let message = format!(
        "The user ended this load after {}{of} of its window. Its numbers cover only that part.",
        seconds(closes.saturating_sub(opens))
    );
    Some(info(Code::CutShort, message))
}

/// Trials whose first measurement does not count.
fn remeasured(run: &Run) -> Option<Caveat> {
    let plan = &run.header.plan;
    let places: Vec<Value> = run
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
    let message = match places.len() {
        0 => return None,
        1 => {
            "One step was measured again: another program used the machine meanwhile, heat slowed \
             it, or the generator did not run. The second measurement counts in any case."
                .to_string()
        }
        n => format!(
            "{n} steps were measured again: another program used the machine meanwhile, heat \
             slowed it, the generator did not run, or they shared a turn with such a step. The \
             second measurement counts in any case."
        ),
    };
    let mut message = format!("{message} The first is in the archive (`contaminated/`).");
    // Older versions measured also those again in which the server had failed.
    let after_warmup = run.contaminated.iter().flat_map(|record| {
        record.load.intervals.iter().filter(|interval| interval.phase != Phase::Warmup)
    });
    let failed: u64 =
        after_warmup.flat_map(|interval| interval.outcomes.not_ok()).map(|(_, n)| n).sum();
    if failed > 0 {
        message += &format!(
            " In the first measurement, {failed} {} failed or got an incorrect response.",
            if failed == 1 { "request" } else { "requests" }
        );
    }
    let severity = if failed > 0 { Severity::Warning } else { Severity::Info };
    Some(Caveat::new(
        Code::DoneAgain,
        severity,
        message,
        json!({"trials": places, "failed": failed}),
    ))
}

/// A run that the user resumed although something had changed: its parts are not one experiment.
fn mixed(run: &Run) -> Option<Caveat> {
    let (header, later) = (&run.header, run.later_parts());
    let all: Vec<String> = later
        .iter()
        .flat_map(|r| &r.differences)
        .map(|d| format!("{}: {} then, {} later", d.what, d.before, d.now))
        .collect();
    if all.is_empty() {
        return None;
    }
    // Each part ends where the next part's first start begins.
    let begins = std::iter::once(0).chain(later.iter().map(|r| r.from_start));
    let ends = later.iter().map(|r| r.from_start).chain([usize::MAX]);
    let parts: Vec<Vec<usize>> = begins
        .zip(ends)
        .map(|(from, to)| {
            run.trials.iter().filter(|t| (from..to).contains(&t.start)).map(|t| t.trial).collect()
        })
        .collect();
    let versions = |subjects: &[Subject]| -> Value {
        subjects.iter().map(|s| (s.id(), json!(s.version))).collect::<Map<_, _>>().into()
    };
    let subjects = std::iter::once(&header.plan.subjects).chain(later.iter().map(|r| &r.subjects));
    let started = std::iter::once(&header.started).chain(later.iter().map(|r| &r.started));
    let evidence: Vec<_> = parts
        .iter()
        .zip(subjects.zip(started))
        .map(|(trials, (s, started))| {
            json!({
                "started": started, "trials": trials, "versions": versions(s),
            })
        })
        .collect();
    let counts: Vec<String> = parts.iter().map(|trials| trials.len().to_string()).collect();
    let message = format!(
        "This run was interrupted and resumed although conditions had changed. Its parts ({} \
         trials) are not one experiment, and a subject's row joins them. Changes: {}.",
        counts.join(" and "),
        all.join("; ")
    );
    let evidence = json!({"parts": evidence, "differences": all});
    Some(Caveat::new(Code::Mixed, Severity::Warning, message, evidence))
}

/// Workloads that some subjects did not get: their rows are missing for a reason. Those of one
/// reason are named together.
fn not_served(plan: &Plan) -> Option<Caveat> {
    let mut alike: Vec<(&NotServed, Vec<String>)> = Vec::new();
    for not in &plan.not_served {
        let is_same = |(other, _): &&mut (&NotServed, _)| {
            (other.workload, &other.reason) == (not.workload, &not.reason)
        };
        let id = plan.subjects[not.subject].id();
        match alike.iter_mut().find(is_same) {
            Some((_, ids)) => ids.push(id),
            None => alike.push((not, vec![id])),
        }
    }
    let sentence = |(not, ids): &(&NotServed, Vec<String>)| {
        let workload = &plan.workloads[not.workload].name;
        match ids.as_slice() {
            [id] => format!("{id} was not loaded with {workload}: {}", not.reason),
            ids => {
                let reason = not
                    .reason
                    .strip_prefix("it ")
                    .map_or_else(|| not.reason.clone(), |r| format!("each {r}"));
                format!("{} were not loaded with {workload}: {reason}", ids.join(", "))
            }
        }
    };
    let each: Vec<String> = alike.iter().map(sentence).collect();
    (!each.is_empty()).then(|| info(Code::NotServed, format!("{}.", each.join(". "))))
}

/// Largest ratio of the times of the fixed piece of work before two starts without a caveat.
const CHANGED: f64 = 1.15;

/// A machine that was not the same all the time.
fn machine_changed(run: &Run, design: Design) -> Option<Caveat> {
    let canary = canary(run).filter(|canary| canary.slowest_to_fastest >= CHANGED)?;
    let (fastest, slowest) = (canary.fastest_us / 1e3, canary.slowest_us / 1e3);
    let message = format!(
        "The speed of the machine changed during the run. A fixed piece of work took {fastest:.1} \
         ms before one start and {slowest:.1} ms before another on the same CPU. {} Ranges over \
         the repeats contain the changes of the machine.",
        match design {
            Design::Single | Design::Concurrent | Design::Balanced =>
                "Starts of one block are close in time, so they are comparable.",
            Design::Unbalanced | Design::Fixed =>
                "The order of starts does not balance such changes. Differences between subjects \
                 contain a part of them.",
        }
    );
    let evidence =
        json!({"slowest_to_fastest": canary.slowest_to_fastest, "piece_us": canary.piece_us});
    Some(Caveat::new(Code::MachineChanged, Severity::Warning, message, evidence))
}

/// A server that reads what an earlier start of it wrote is another server from then on.
fn new_files(run: &Run) -> Option<Caveat> {
    let mut found: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for part in run.starts.iter().flat_map(|start| &start.parts) {
        if let Some(new) = &part.new_files {
            found.entry(&part.name).or_insert((0, &new.first)).0 += 1;
        }
    }
    let words: Vec<String> = found
        .iter()
        .map(|(name, (starts, first))| match starts {
            1 => format!("{name} ({first}; 1 start)"),
            _ => format!("{name} ({first}; {starts} starts)"),
        })
        .collect();
    (!words.is_empty()).then(|| {
        let message = format!(
            "Files appeared in the folders of servers during the run: {}. If these servers read \
             them, their starts are not equal. Let servers write below `{{work}}`, which is new \
             for each start.",
            words.join(", ")
        );
        let names: Vec<&&str> = found.keys().collect();
        Caveat::new(Code::NewFiles, Severity::Warning, message, json!({"parts": names}))
    })
}

fn limits_not_set(run: &Run) -> Option<Caveat> {
    let parts = run.starts.iter().flat_map(|start| &start.parts);
    let unset = parts.flat_map(|part| &part.limits).filter(|limit| limit.read_back.is_none());
    let mut all: BTreeMap<&str, (LimitKind, String)> = BTreeMap::new();
    for limit in unset {
        let reason = limit.reason.as_deref().unwrap_or("for an unknown reason");
        let words = format!("{} ({}): {reason}", limit.kind.name(), limit.asked);
        all.entry(limit.kind.name()).or_insert((limit.kind, words));
    }
    let kinds: Vec<LimitKind> = all.values().map(|(kind, _)| *kind).collect();
    let words: Vec<&str> = all.values().map(|(_, words)| &**words).collect();
    (!kinds.is_empty()).then(|| {
        let message = format!(
            "Limits could not be set: {}. `dyno doctor` prints how to enable them.",
            words.join("; ")
        );
        Caveat::new(Code::LimitsNotSet, Severity::Warning, message, json!({"limits": kinds}))
    })
}

/// Names and steps that a caveat lists; more are in the evidence.
const LISTED: usize = 3;

/// Servers that may do more than their peaks say. A control is there to show where the generator
/// ends.
fn peak_lower_bound(peaks: &[Peak<'_>]) -> Option<Caveat> {
    let open: Vec<&Peak<'_>> = peaks.iter().filter(|p| !p.open.is_empty() && !p.control).collect();
    if open.is_empty() {
        return None;
    }
    let has_workloads = peaks.iter().any(|peak| peak.workload != peaks[0].workload);
    let each: Vec<String> =
        open.iter().take(LISTED).map(|peak| open_peak(peak, has_workloads)).collect();
    let more = match open.len().saturating_sub(LISTED) {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    let message = format!(
        "Some peaks are lower bounds (≥): {}{more}. These servers may reach more, so none of them \
         is ranked below another. {}",
        each.join("; "),
        remedy(&open)
    );
    let evidence = open.iter().map(|peak| {
        json!({
            "subject": peak.subject, "workload": peak.workload, "at_least_rps": peak.most_rps,
            "steps": peak.open,
        })
    });
    let evidence = json!({"peaks": evidence.collect::<Vec<Value>>()});
    Some(Caveat::new(Code::PeakLowerBound, Severity::Warning, message, evidence))
}

/// Advice for peaks that are lower bounds, by the reasons of their steps.
fn remedy(open: &[&Peak<'_>]) -> String {
    const QUIET: &str = "end the other programs, or have dyno wait for them (`--wait-quiet 5m`)";
    const CPUS: &str = "give the generator more CPUs and the servers fewer: `cpuset` under \
                        `[limits]` names the servers' CPUs, and the generator gets the others, \
                        with a thread on each";
    let reasons = || open.iter().flat_map(|peak| peak.open).filter_map(|step| step.reason);
    let is_of_others = reasons().any(|code| code == Code::Contaminated);
    match (is_of_others, reasons().any(is_generator_limit)) {
        (true, true) => {
            format!("To measure them, {QUIET}. Where the generator was the limit, {CPUS}.")
        }
        (true, false) => format!("To measure them, {QUIET}."),
        (false, true) => format!("To measure them, {CPUS}."),
        (false, false) => "To measure them, finish the run (`--resume`) or raise `repeats`, so \
                           that at least three repeats per step count."
            .into(),
    }
}

/// `fast, ≥ 23000/s: at 16 connections 5 of 5 repeats do not count (the generator was the limit)`.
fn open_peak(peak: &Peak<'_>, has_workloads: bool) -> String {
    let step = |open: &OpenStep| {
        let at = open.at.in_words();
        let reason = open.reason.map_or("not run", other_programs::reason);
        match open.repeats {
            0 => format!("the step of {at} was not run"),
            all => format!("at {at} {} of {all} repeats do not count ({reason})", open.refused),
        }
    };
    let with = if has_workloads { format!(" with {}", peak.workload) } else { String::new() };
    let rate = peak.most_rps.map_or_else(String::new, |rps| format!(", ≥ {}/s", rate_text(rps)));
    let steps: Vec<String> = peak.open.iter().take(LISTED).map(step).collect();
    format!("{}{with}{rate}: {}", peak.subject, steps.join(", "))
}

/// Four or more servers whose peaks with a workload lie within 3 % of each other: something they
/// share may be what is measured. Variants of one server are expected to be alike.
fn same_numbers(peaks: &[Peak<'_>]) -> Option<Caveat> {
    let mut workloads: Vec<&str> = peaks.iter().map(|peak| peak.workload).collect();
    workloads.dedup();
    workloads.iter().find_map(|workload| {
        // A lower bound is the generator's number, or the machine's.
        let own = peaks.iter().filter(|peak| peak.workload == *workload && peak.open.is_empty());
        let names = alike(own.filter_map(|peak| Some((peak.rps?, peak))).collect())?;
        let with = if workloads.len() > 1 { format!(" with {workload}") } else { String::new() };
        let message = format!(
            "{} have nearly the same peak throughput{with}, which is rare for different servers. A \
             shared resource may be the limit: check the limiter of each.",
            names.join(", ")
        );
        Some(Caveat::new(Code::SameNumbers, Severity::Warning, message, json!({"subjects": names})))
    })
}

/// Subjects that every block starts in the same order.
fn fixed_order(plan: &Plan, design: Design) -> Option<Caveat> {
    let names: Vec<&str> = plan.arms.iter().map(|arm| &*arm.name).collect();
    let message = "Every block started the subjects in the same order (`order = \"fixed\"` under \
                   `[suite]`). A drift of the machine is part of every difference between them. \
                   This report ranks no subject and names no cause. Use `order = \"random\"` to \
                   compare subjects.";
    design.is_fixed().then(|| {
        Caveat::new(Code::FixedOrder, Severity::Warning, message.into(), json!({"order": names}))
    })
}

/// Consequence of a trend for comparisons of subjects.
const fn trend_consequence(design: Design) -> &'static str {
    match design {
        Design::Single => "Medians over repeats and their intervals contain this trend.",
        Design::Concurrent => {
            "Comparisons of pairs within a block do not contain this trend. Medians over repeats \
             and their intervals do."
        }
        Design::Balanced => {
            "Each pair of subjects ran in both orders equally often, so a steady trend cancels in \
             comparisons. Medians over repeats and their intervals contain it."
        }
        Design::Unbalanced => {
            "Some pairs of subjects ran in one order more often than in the other. Comparisons and \
             medians over repeats contain a part of this trend. Run the suite again: orders are \
             now balanced."
        }
        Design::Fixed => {
            "Subjects ran in the same order in each block. Comparisons and medians over repeats \
             contain a part of this trend. Use `order = \"random\"`."
        }
    }
}

/// A subject whose throughput rises or falls over the run. All subjects are corrected for together
/// (Holm), and the steepest is reported.
fn trend(peaks: &[Peak<'_>], design: Design) -> Option<Caveat> {
    let trends: Vec<(&Peak<'_>, Trend)> = peaks
        .iter()
        .filter(|p| p.is_complete)
        .filter_map(|p| Some((p, Trend::from_values(p.repeats)?)))
        .collect();
    let chances = holm(&trends.iter().map(|(_, trend)| trend.p).collect::<Vec<f64>>());
    let shown = trends.iter().zip(chances).filter(|(_, p)| *p < ALPHA).map(|(trend, _)| trend);
    let (peak, trend) =
        shown.max_by(|a, b| a.1.ratio.ln().abs().total_cmp(&b.1.ratio.ln().abs()))?;
    let did = if trend.ratio > 1.0 { "rose" } else { "fell" };
    let message = format!(
        "The throughput of {} with {} {did} over the run, by more than chance. In the last repeat \
         it was {:.3} times that in the first ({:.3} to {:.3}). {}",
        peak.subject,
        peak.workload,
        trend.ratio,
        trend.low,
        trend.high,
        trend_consequence(design)
    );
    let evidence =
        json!({"subject": peak.subject, "workload": peak.workload, "last_to_first": trend.ratio});
    Some(Caveat::new(Code::Trend, Severity::Warning, message, evidence))
}

/// Subjects of four different servers whose peaks lie within 3 % of the lowest; of several such
/// groups the one with the lowest peaks.
fn alike<'a>(mut peaks: Vec<(f64, &Peak<'a>)>) -> Option<Vec<&'a str>> {
    const ALIKE: f64 = 0.03;
    const ENOUGH: usize = 4;
    peaks.sort_by(|a, b| a.0.total_cmp(&b.0));
    peaks.iter().enumerate().find_map(|(i, (lowest, _))| {
        let mut servers: Vec<&str> = Vec::new();
        let mut names = Vec::new();
        for (_, peak) in peaks[i..].iter().take_while(|(rps, _)| *rps <= lowest * (1.0 + ALIKE)) {
            if !servers.contains(&peak.server) && names.len() < ENOUGH {
                servers.push(peak.server);
                names.push(peak.subject);
            }
        }
        (names.len() == ENOUGH).then_some(names)
    })
}
