//! Caveats about the machine.

#[cfg(test)]
mod cases;

use dyno_model::plan::Plan;
use dyno_model::run::Run;
use dyno_model::{Phase, TrialRecord};
use serde_json::{Value, json};

use super::TrialInputs;
use crate::canary::canary;
use crate::caveat::{Caveat, Code, Severity};
use crate::design::Design;
use crate::number_format::{percent, plural};
use crate::server::ServerUse;
use crate::verdict::thresholds::{OTHERS_CPUS, STEAL};

caveats! {
    /// Server and generator share CPUs, so each slows the other.
    SHARED_CPUS = "shared_cpus" in Machine {
        more: "placement.md#placement",
        rules: [Run(|r| shared_cpus(r.plan()))],
    }

    /// Processes outside of the run used this machine's CPUs.
    CONTAMINATED = "contaminated" in Machine {
        more: "validity.md#trials-that-are-re-run",
        properties: [CausesRerun, LowersThroughput],
        rules: [Trial(contamination)],
    }

    /// The machine failed during the step and stopped processes of the server, for example because
    /// it ran out of memory.
    MACHINE_FAILED = "machine_failed" in Machine {
        reason: "the machine failed",
        more: "validity.md#when-a-step-is-not-valid",
        properties: [OtherProgramFailed, OutsideCause, ExcusesLosses, QuotesOthers],
        // The rule of `subject_failed` finds it.
    }

    /// Trials were re-run because during the first measurement another program used the machine,
    /// heat slowed it, or the generator did not run. Both measurements are kept.
    DONE_AGAIN = "done_again" in Machine {
        more: "validity.md#trials-that-are-re-run",
        rules: [Run(|r| second_measurements(r.run))],
    }

    /// The speed of the machine changed: a fixed piece of work took longer before some starts than
    /// before others.
    MACHINE_CHANGED = "machine_changed" in Machine {
        more: "experiments.md#twin-noise-floor-and-canary",
        rules: [Run(|r| machine_speed_change(r.run, r.design))],
    }

    /// The hypervisor gave the machine's CPUs to other virtual machines for part of the time.
    STEAL = "steal" in Machine {
        more: "validity.md#trials-that-are-re-run",
        properties: [CausesRerun],
        rules: [Server(|s| stolen_time(s.server))],
    }

    /// A CPU of this machine was slowed for part of the time because it was too hot.
    THERMAL_THROTTLING = "thermal_throttling" in Machine {
        more: "validity.md#trials-that-are-re-run",
        properties: [CausesRerun],
        rules: [Trial(thermal_throttling)],
    }

    /// Programs read the clock of this machine with a system call that reads a slow device.
    SLOW_CLOCK = "slow_clock" in Machine {
        rules: [Run(|r| slow_clock(r.run))],
    }
}

/// Server and generator share CPUs.
fn shared_cpus(plan: &Plan) -> Option<Caveat> {
    let mut placements = plan.arms.iter().map(|arm| &arm.conditions.placement);
    let shared = placements.find(|placement| !placement.is_disjoint())?;
    let message = "Server and generator share CPUs, because this machine has too few of them. Each \
                   slows the other, and the numbers of different subjects are only roughly \
                   comparable. Use a machine with two CPUs or more.";
    let evidence = json!({"subject": shared.subject, "generator": shared.generator});
    Some(Caveat::new(Code::SHARED_CPUS, Severity::Warning, message.into(), evidence))
}

/// Processes that do not belong to the run used the machine's CPUs.
fn contamination(trial: &TrialInputs<'_>) -> Option<Caveat> {
    trial.server?;
    let machine = trial.context.machine;
    let others = machine.others.as_ref()?;
    let cpus = machine.others_cpus()?;
    (cpus >= OTHERS_CPUS).then(|| {
        let examples: Vec<String> = others
            .iter()
            .take(3)
            .map(|other| format!("{} (process {}) {:.2}", other.name, other.pid, other.cpus))
            .collect();
        let more = if others.len() > 3 { ", and others" } else { "" };
        let message = format!(
            "Other programs used {cpus:.2} CPUs of this machine while the step ran: {}{more}. The \
             measurements include their effect. Stop these programs, and repeat the step.",
            examples.join(", ")
        );
        let names: Vec<&String> = others.iter().map(|other| &other.name).collect();
        let evidence = json!({"cpus": cpus, "names": names});
        Caveat::new(Code::CONTAMINATED, Severity::Warning, message, evidence)
    })
}

/// Largest share of the time for which heat slows a CPU without a caveat.
const MAX_THERMAL_SHARE: f64 = 0.02;

/// A CPU was slowed because it was too hot.
fn thermal_throttling(trial: &TrialInputs<'_>) -> Option<Caveat> {
    trial.server?;
    let share =
        trial.context.machine.throttled_for_heat.filter(|share| *share > MAX_THERMAL_SHARE)?;
    let message = format!(
        "Heat made a CPU of this machine slower for up to {} of the step. Let the machine cool, or \
         fix its clock below the turbo frequency. Then repeat the step.",
        percent(share)
    );
    Some(Caveat::new(Code::THERMAL_THROTTLING, Severity::Warning, message, json!({"share": share})))
}

/// Clock sources of x86-64 that programs cannot read without a system call, because the vDSO does
/// not support them. They are devices, or counts of timer ticks. The clock of Xen is absent: its
/// support depends on the host.
const SLOW_CLOCKS: [&str; 6] =
    ["acpi_pm", "hpet", "hyperv_clocksource_msr", "jiffies", "pit", "refined-jiffies"];

/// The kernel uses a clock source that is slow to read.
fn slow_clock(run: &Run) -> Option<Caveat> {
    let slow_source = |record: &TrialRecord| {
        let source = run.facts_at(record.start).clock_source.as_deref();
        source.filter(|source| SLOW_CLOCKS.contains(source))
    };
    let sources: Vec<&str> = run.trials.iter().filter_map(slow_source).collect();
    let source = *sources.first()?;
    let (slow, all) = (sources.len(), run.trials.len());
    let observation = match slow == all {
        true => format!("The clock source of this machine is {source}"),
        // The other parts of the run were measured on another machine.
        false => format!("In {slow} of {all} steps the clock source of the machine was {source}"),
    };
    let message = format!(
        "{observation}, so each reading of the clock is a slow system call. Servers that read the \
         clock often, and dyno, use more CPU time than with a fast clock source. Set the clock \
         source to tsc, or use another machine."
    );
    let evidence = json!({"clock_source": source});
    Some(Caveat::new(Code::SLOW_CLOCK, Severity::Warning, message, evidence))
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
        Code::DONE_AGAIN,
        severity,
        message,
        json!({"trials": trials, "failed": failed}),
    ))
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
            Design::Interrupted =>
                "Starts of one block (one pass over all subjects) before and after a resumption of \
                 the run are not comparable. Other starts of one block are close in time, so they \
                 are still comparable.",
            Design::Unbalanced | Design::Fixed =>
                "The order of starts does not cancel this effect, so a part of each difference \
                 between subjects may come from the machine.",
        }
    );
    let evidence =
        json!({"slowest_to_fastest": canary.slowest_to_fastest, "piece_us": canary.piece_us});
    Some(Caveat::new(Code::MACHINE_CHANGED, Severity::Warning, message, evidence))
}

/// The hypervisor took CPU time.
fn stolen_time(server: &ServerUse) -> Option<Caveat> {
    let share = server.steal_share.filter(|share| *share > STEAL)?;
    let message = format!(
        "The hypervisor gave {} of this machine's CPU time to other virtual machines during the \
         step. All numbers include this effect. Repeat the step, or use a dedicated host.",
        percent(share)
    );
    Some(Caveat::new(Code::STEAL, Severity::Warning, message, json!({"share": share})))
}
