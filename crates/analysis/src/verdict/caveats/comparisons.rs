//! Caveats about repeats and comparisons.

#[cfg(test)]
mod cases;

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::TrialRecord;
use dyno_model::plan::{NotServed, Plan, Subject, Trial};
use dyno_model::resumption::ResumptionDifference;
use dyno_model::run::Run;
use serde_json::{Map, Value, json};

use super::Peak;
use crate::caveat::{Caveat, Code, Severity, info};
use crate::design::Design;
use crate::duet;
use crate::load::LoadResult;
use crate::load::offered::rate_text;
use crate::other_programs;
use crate::peak::OpenStep;
use crate::stats::{ALPHA, PAIRS_TO_TELL_APART, REPEATS_FOR_INTERVAL, Trend, holm};
use crate::turns::TurnsResult;

caveats! {
    /// A server does not speak the protocol of a workload, so it has no numbers for that workload.
    NOT_SERVED = "not_served" in Comparisons { rules: [Run(|r| omitted_workloads(r.plan()))] }

    /// Every block (one pass over all subjects) started the subjects in the same order, so a drift
    /// of the machine biases every difference between them.
    FIXED_ORDER = "fixed_order" in Comparisons {
        more: "order-and-turns.md#order-of-starts",
        rules: [Run(|r| fixed_order(r.plan(), r.design))],
    }

    /// A subject's throughput rose or fell from repeat to repeat.
    TREND = "trend" in Comparisons {
        more: "order-and-turns.md#what-differs-between-starts",
        rules: [Run(|r| trend(r.peaks, r.design, recorded_blocks(r.run)))],
    }

    /// Servers were loaded in turns, and this server kept using CPU time during the turns of other
    /// servers.
    BUSY_IN_OTHERS_TURNS = "busy_in_others_turns" in Comparisons {
        more: "order-and-turns.md#work-outside-of-own-turns",
        rules: [Trial(|t| cpu_use_in_others_turns(t.context.turns?))],
    }

    /// Servers were loaded in turns. Requests took so long that many began in their own server's
    /// turn and ended in another server's turn.
    LONGER_THAN_TURNS = "longer_than_turns" in Comparisons {
        more: "order-and-turns.md#work-outside-of-own-turns",
        rules: [Trial(|t| requests_longer_than_turns(t.load, t.context.turns?))],
    }

    /// Other servers were loaded, or were planned to be loaded, at the same time on the same CPUs.
    /// Throughput and times include the waits of the servers for each other.
    CONCURRENT_LOADS = "at_once" in Comparisons {
        reason: "the servers that were loaded at the same time were not those of most repeats",
        more: "duets.md#both-at-once",
        rules: [Trial(|t| t.context.duet.map(duet::duet_caveat))],
    }

    /// Servers were loaded at the same time on the same CPUs. These CPUs were idle at times, and
    /// this server made many context switches.
    IDLE_DUET = "idle_duet" in Comparisons {
        reason: "the CPUs that the server shared with other servers were idle at times",
        more: "duets.md#both-at-once",
        rules: [Trial(|t| duet::idle_cpus_caveat(t.context.duet?, t.server?))],
    }

    /// The server was loaded alone here, but in turns with other servers in other repeats of this
    /// step.
    OUT_OF_TURN = "out_of_turn" in Comparisons {
        reason: "the server was loaded alone, while other repeats alternated between servers",
        more: "order-and-turns.md#turns",
        rules: [Trial(|t| t.context.is_out_of_turn.then(out_of_turn))],
    }

    /// With fewer than five repeats there are no confidence intervals. Ranges over the repeats are
    /// shown instead.
    FEW_REPEATS = "few_repeats" in Comparisons {
        more: "statistics.md#intervals-over-repeats",
        rules: [Run(|r| few_repeats(r.plan()))],
    }

    /// The run was resumed although subjects, machine or dyno had changed, so its parts are not one
    /// experiment.
    MIXED = "mixed" in Comparisons { rules: [Run(|r| mixed_parts(r.run))] }

    /// The run was resumed. Some steps were measured after a restart of the server, or long after
    /// the other steps of their repeat, or dyno could not compare some environment variables.
    RESUMED = "resumed" in Comparisons { rules: [Run(|r| resumption(r.run))] }

    /// Files appeared in a server's folder during the run, or the folder of its build's results has
    /// files that the build did not make. The server's starts may have read them.
    NEW_FILES = "new_files" in Comparisons { rules: [Run(|r| new_files(r.run))] }

    /// Some peaks are lower bounds: the server may have reached more at steps that are not valid
    /// for reasons outside of the server.
    PEAK_LOWER_BOUND = "peak_lower_bound" in Comparisons {
        more: "ranks.md#peaks-that-are-lower-bounds",
        rules: [Run(|r| peak_lower_bound(r.peaks, can_be_resumed(r.run)))],
    }

    /// Subjects of different kinds have nearly the same throughput: a shared resource may limit
    /// them.
    SAME_NUMBERS = "same_numbers" in Comparisons { rules: [Run(|r| similar_peaks(r.peaks))] }
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
    (!sentences.is_empty()).then(|| info(Code::NOT_SERVED, format!("{}.", sentences.join(". "))))
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
        Caveat::new(Code::FIXED_ORDER, Severity::Warning, message.into(), json!({"order": names}))
    })
}

/// Returns the number of blocks in which any trial ran.
fn recorded_blocks(run: &Run) -> usize {
    let plan = &run.header.plan;
    let block =
        |record: &TrialRecord| Some(plan.launches[plan.trials.get(record.trial)?.launch].block);
    run.trials.iter().filter_map(block).collect::<BTreeSet<u32>>().len()
}

/// The throughput of a subject rises or falls over the run. Tests of several subjects are corrected
/// (Holm), and the steepest trend is reported. `blocks`: number of blocks in which any trial ran.
fn trend(peaks: &[Peak<'_>], design: Design, blocks: usize) -> Option<Caveat> {
    let lacks_repeats = peaks.iter().any(|peak| !peak.control && peak.repeats.len() < blocks);
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
        trend_consequence(design, peak.repeats.len(), lacks_repeats)
    );
    let evidence =
        json!({"subject": peak.subject, "workload": peak.workload, "last_to_first": trend.ratio});
    Some(Caveat::new(Code::TREND, Severity::Warning, message, evidence))
}

/// Returns the consequence of a trend for comparisons of subjects, by the run's design and its
/// number of repeats. `lacks_repeats`: whether a subject has no valid repeat in some blocks.
const fn trend_consequence(design: Design, repeats: usize, lacks_repeats: bool) -> &'static str {
    match design {
        Design::Single => "This trend affects medians over repeats and their intervals.",
        Design::Concurrent => {
            "Subjects ran at the same time or in turns, so this trend does not affect comparisons. \
             It affects medians over repeats and their intervals."
        }
        Design::Balanced if lacks_repeats => {
            "Each pair of subjects was planned in both orders equally often, but some repeats are \
             not valid or missing. A part of this trend may therefore affect comparisons. It \
             affects medians over repeats and their intervals."
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
        Design::Interrupted => {
            "Some repeats were measured partly before and partly after a resumption of the run, so \
             pairs of subjects may have one order more often than the other. This trend may \
             therefore affect comparisons. It affects medians over repeats and their intervals."
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

/// Minimum CPU time in other servers' turns for a caveat, as a share of the CPU time in the
/// server's own turns. It is above the few thousandths that dyno's checks cost a fast server.
const CARRIED_SHARE: f64 = 0.02;

/// A server used CPU time in the turns of other servers.
fn cpu_use_in_others_turns(turns: &TurnsResult) -> Option<Caveat> {
    let share = turns.carried_share.filter(|share| *share >= CARRIED_SHARE)?;
    let message = format!(
        "Servers were loaded in turns. This server also used CPU time while other servers were \
         loaded: {:.1} % of its CPU time in its own turns. Its throughput is therefore slightly \
         too high, and the other servers had less CPU time. Its CPU time per request includes the \
         time in other servers' turns. Load the subjects one after the other (`order = \
         \"random\"`), or use longer turns (`slice`).",
        share * 100.0
    );
    let evidence = json!({
        "carried_share": share, "idle_share": turns.idle_share, "idle_cpus": turns.idle_cpus,
    });
    Some(Caveat::new(Code::BUSY_IN_OTHERS_TURNS, Severity::Warning, message, evidence))
}

/// Minimum mean service time for a caveat, as a share of a turn.
const SERVICE_SHARE_OF_TURN: f64 = 0.02;

/// Many requests start in their server's turn and end in another server's turn.
fn requests_longer_than_turns(load: &LoadResult, turns: &TurnsResult) -> Option<Caveat> {
    let service_s = load.service_time_us.mean? / 1e6;
    let share = service_s / turns.slice_s;
    (share >= SERVICE_SHARE_OF_TURN).then(|| {
        let message = format!(
            "Servers were loaded in turns. Requests took {:.1} ms on average, which is {share:.1} \
             % of a turn. About {share:.1} % of the requests therefore got their response in \
             another server's turn, and that server's load affects their response times. Use \
             longer turns (`slice`) or fewer connections.",
            service_s * 1e3,
            share = share * 100.0
        );
        let evidence = json!({"service_time_mean_s": service_s, "slice_s": turns.slice_s});
        Caveat::new(Code::LONGER_THAN_TURNS, Severity::Warning, message, evidence)
    })
}

/// The caveat of a trial that ran alone instead of in turns: the other servers failed, or a resumed
/// run measured it alone.
fn out_of_turn() -> Caveat {
    let message = "This server was loaded alone. In other repeats of this step it was loaded in \
                   turns with other servers. Alone, its caches stay warm, so this repeat is not \
                   comparable. Run the suite again.";
    Caveat::new(Code::OUT_OF_TURN, Severity::Invalid, message.into(), json!({}))
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
    Some(info(Code::FEW_REPEATS, message))
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
    Some(Caveat::new(Code::MIXED, Severity::Warning, message, evidence))
}

/// The run was resumed.
fn resumption(run: &Run) -> Option<Caveat> {
    let mut sentences = vec!["This run was resumed.".to_owned()];
    if run.starts.iter().any(|start| start.resumed) {
        sentences.push("Some steps were measured after a restart of the server.".into());
    }
    let late = late_arms(run);
    if !late.is_empty() {
        sentences.push(format!("All steps of {} were measured after that.", late.join(", ")));
    }
    let split = run.interrupted_blocks();
    if !split.is_empty() {
        let numbers: Vec<String> = split.iter().map(|block| (block + 1).to_string()).collect();
        let repeats = match numbers.as_slice() {
            [repeat] => format!("Repeat {repeat} has"),
            _ if numbers.len() == run.header.plan.repeats as usize => "All repeats have".into(),
            _ => format!("Repeats {} have", numbers.join(", ")),
        };
        sentences.push(format!(
            "{repeats} steps before and after a resumption. These steps are not compared with each \
             other, because hours may lie between them."
        ));
    }
    let uncompared: BTreeSet<&str> =
        run.later_parts().iter().flat_map(|part| &part.uncompared).map(String::as_str).collect();
    if !uncompared.is_empty() {
        let names: Vec<&str> = uncompared.into_iter().collect();
        sentences.push(format!(
            "dyno could not check whether these environment variables have the same values before \
             and after the resumption: {}.",
            names.join(", ")
        ));
    }
    (sentences.len() > 1).then(|| info(Code::RESUMED, sentences.join(" ")))
}

/// Returns the names of the arms whose trials were all measured after a resumption, while trials of
/// other arms were measured before it. Empty if there are none.
fn late_arms(run: &Run) -> Vec<&str> {
    let plan = &run.header.plan;
    let arms = |is_late: bool| -> BTreeSet<usize> {
        let starts = run.starts_with_trials();
        let starts = starts.filter(|start| (run.part_of(start.start) > 0) == is_late);
        starts.flat_map(|start| &plan.launches[start.launch].arms).copied().collect()
    };
    let (early, late) = (arms(false), arms(true));
    let late = late.difference(&early).filter(|_| !early.is_empty());
    late.map(|arm| &*plan.arms[*arm].name).collect()
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
        Caveat::new(Code::NEW_FILES, Severity::Warning, message, json!({"parts": names}))
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
    Some(Caveat::new(Code::PEAK_LOWER_BOUND, Severity::Warning, message, evidence))
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
    let is_by_others = reasons().any(|code| code == Code::CONTAMINATED);
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
        Some(Caveat::new(
            Code::SAME_NUMBERS,
            Severity::Warning,
            message,
            json!({"subjects": names}),
        ))
    })
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
        let text = |repeats| trend_consequence(Design::Balanced, repeats, false);
        assert!(text(6).starts_with("Each pair of subjects ran in both orders equally often"));
        assert!(text(5).starts_with("Each pair of subjects ran in both orders nearly equally"));
    }

    /// The orders of the remaining repeats are not those of the plan.
    #[test]
    fn trend_with_lost_repeats_may_affect_comparisons() {
        let peak = |subject, repeats| Peak {
            workload: "w",
            subject,
            server: subject,
            rps: Some(1.0),
            repeats,
            control: false,
            max_rps: Some(1.0),
            open: &[],
            is_complete: true,
        };
        let rising: &[f64] = &[100.0, 104.0, 108.0, 113.0, 117.0, 122.0];
        let message = |repeats_of_b| {
            let peaks = [peak("a", rising), peak("b", repeats_of_b)];
            trend(&peaks, Design::Balanced, 6).unwrap().message
        };
        let cancels = "a steady trend cancels out";
        assert!(message(rising).contains(cancels), "{}", message(rising));
        let lost = message(&rising[..5]);
        assert!(!lost.contains(cancels) && lost.contains("may therefore affect comparisons"));
    }
}
