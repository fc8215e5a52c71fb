//! Caveats about the generator.

#[cfg(test)]
mod cases;

use dyno_model::interval::UnstoredBodies;
use dyno_model::outcome::Outcome;
use dyno_model::plan::LoadModel;
use dyno_model::{LoadRecord, Phase};
use serde_json::json;

use super::responses::{errors, no_correct_response};
use super::{LoadInputs, pauses};
use crate::caveat::{Caveat, Code, Severity};
use crate::load::LoadResult;
use crate::number_format::{percent, plural};
use crate::verdict::thresholds::MAX_LOST;
use crate::verdict::{Context, headroom};

caveats! {
    /// The generator may have been the limit. For more than 85 % of the time, one of its threads
    /// was busy or waited for a CPU, or its threads together used a CPU.
    GENERATOR_BUSY = "generator_busy" in Generator {
        reason: "the generator was the limit",
        properties: [GeneratorLimit, ExcusesLosses, CausedByPrograms, AboutWaiting],
        rules: [Load(|l| headroom::generator_bound(l.result, l.context))],
    }

    /// The generator's CPUs were full and the generator waited for them, so it may have been the
    /// limit.
    GENERATOR_CROWDED = "generator_crowded" in Generator {
        reason: "the generator was the limit",
        properties: [GeneratorLimit, ExcusesLosses, CausedByPrograms, AboutWaiting],
        // The rule of `generator_busy` finds it.
    }

    /// The CPU quota of dyno's own control group throttled the generator, so it may have been the
    /// limit.
    GENERATOR_THROTTLED = "generator_throttled" in Generator {
        reason: "a CPU quota throttled the generator",
        properties: [GeneratorLimit, ExcusesLosses, CausedByPrograms, AboutWaiting],
        // The rule of `generator_busy` finds it.
    }

    /// No local port was left to connect from, so requests got no response. The server is not the
    /// cause.
    NO_LOCAL_PORT = "no_local_port" in Generator {
        reason: "no local port was left",
        more: "validity.md#when-a-step-is-not-valid",
        properties: [ExcusesLosses],
        rules: [Load(missing_ports)],
    }

    /// The bodies of some responses exceeded the generator's memory for bodies. These responses
    /// were not checked in full, or passed on no values to later requests. The server is not the
    /// cause.
    UNSTORED_BODIES = "unstored_bodies" in Generator {
        reason: "the generator could not store response bodies",
        more: "validity.md#when-a-step-is-not-valid",
        rules: [Load(|l| unstored_bodies(l.result, l.record))],
    }

    /// The control group of dyno has a CPU quota. The quota hardly throttled the generator here,
    /// but a larger load may reach it.
    GENERATOR_QUOTA = "generator_quota" in Generator {
        properties: [OwnCpuWait],
        rules: [Load(|l| headroom::generator_quota(l.result))],
    }

    /// The generator has more threads than CPUs to run them on, so they wait for each other.
    OVERSUBSCRIBED = "oversubscribed" in Generator {
        reason: "the generator was the limit",
        properties: [GeneratorLimit, ExcusesLosses, OwnCpuWait, CausedByPrograms, AboutWaiting],
        rules: [Load(|l| headroom::too_many_threads(l.result, l.context))],
    }

    /// The load asks for real-time priority of the generator, but the kernel refused it.
    PRIORITY_REFUSED = "priority_refused" in Generator {
        rules: [Load(|l| headroom::refused_priority(l.record, l.result))],
    }

    /// Another program, perhaps the server, also used the generator's CPUs.
    SHARED_GENERATOR = "shared_generator" in Generator {
        properties: [OwnCpuWait, AboutWaiting],
        rules: [Load(|l| headroom::shared_cpus(l.result, l.context))],
    }

    /// The generator did not run for part of the window: dyno or its machine was stopped, frozen or
    /// suspended.
    GENERATOR_STOPPED = "generator_stopped" in Generator {
        reason: "the generator did not run for a part of the window",
        more: "validity.md#when-a-step-is-not-valid",
        properties: [OutsideCause, ExcusesLosses, CausesRerun, CausedByPrograms],
        rules: [Load(|l| pauses::generator_pause(l.result, l.record))],
    }

    /// The generator woke late; response times include the delay.
    GENERATOR_LATE = "generator_late" in Generator {
        properties: [AboutWaiting],
        rules: [Load(|l| late_wakeups(l.result))],
    }

    /// The generator had to wait for a CPU that another program used.
    GENERATOR_STARVED = "generator_starved" in Generator {
        more: "validity.md#trials-that-are-re-run",
        properties: [LowersThroughput, AboutWaiting],
        rules: [Load(|l| generator_cpu_wait(l.result, l.context))],
    }

    /// The message compares the throughput with the highest throughput that the generator reached
    /// on this machine.
    CEILING = "ceiling" in Generator {
        properties: [AboutWaiting],
        rules: [Load(|l| ceiling(l.result))],
    }
}

/// No local port was left to connect from. If missing responses make the step invalid, and missing
/// ports explain them, this caveat makes it invalid too.
fn missing_ports(load: &LoadInputs<'_>) -> Option<Caveat> {
    let LoadInputs { result, record, context } = *load;
    let n = result.outcomes.get(Outcome::AddressExhausted);
    (n > 0).then(|| {
        let is_main_failure = 2 * n > result.exchanges.failed;
        let would_be_valid_with_ports = result.error_share_with_ports() <= MAX_LOST;
        let losses =
            [no_correct_response(result, context), errors(result), pauses::outage(result, record)];
        let is_invalid_by_loss =
            losses.into_iter().flatten().any(|caveat| caveat.severity == Severity::Invalid);
        let is_explained = is_main_failure && would_be_valid_with_ports && is_invalid_by_loss;
        let severity = if is_explained { Severity::Invalid } else { Severity::Warning };
        let message = format!(
            "No local port was left to connect from for {} (EADDRNOTAVAIL). The server is not the \
             cause. Keep connections alive, connect from more addresses (`--source \
             127.0.0.2,127.0.0.3`), or widen net.ipv4.ip_local_port_range.",
            plural(n, "request")
        );
        Caveat::new(Code::NO_LOCAL_PORT, severity, message, json!({"requests": n}))
    })
}

/// The generator could not store bodies. The step is not valid if too few responses were checked,
/// or if too many visits ended early, because the remaining responses say nothing about these.
fn unstored_bodies(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    let mut unstored = UnstoredBodies::default();
    let after_warmup = record.intervals.iter().filter(|i| i.phase != Phase::Warmup);
    after_warmup.filter_map(|i| i.unstored_bodies.as_ref()).for_each(|bodies| unstored.add(bodies));
    let UnstoredBodies { unchecked, unextracted } = unstored;
    if unstored == UnstoredBodies::default() {
        return None;
    }
    let to_check = result.checked.saturating_add(unchecked);
    let visits = result.exchanges.completed / result.config.requests_mixed.len().max(1) as u64;
    let exceeds = |n: u64, whole: u64| n as f64 > MAX_LOST * whole as f64;
    let is_invalid = exceeds(unchecked, to_check) || exceeds(unextracted, visits);
    let severity = if is_invalid { Severity::Invalid } else { Severity::Warning };
    let mut consequences = Vec::new();
    if unchecked > 0 {
        consequences.push(format!("{unchecked} of {to_check} responses were not checked in full"));
    }
    if unextracted > 0 {
        let visits = plural(unextracted, "visit");
        consequences.push(format!("{visits} ended early, because a value could not be extracted"));
    }
    let fewer_checks =
        if unchecked > 0 { "check fewer responses (`--check-one-in`), " } else { "" };
    let message = format!(
        "The response bodies that dyno had to store at the same time exceeded 256 MiB: {}. The \
         server is not the cause. Use fewer connections or streams, {fewer_checks}or request \
         smaller bodies.",
        consequences.join(", and ")
    );
    let evidence =
        json!({"unchecked": unchecked, "to_check": to_check, "unextracted": unextracted});
    Some(Caveat::new(Code::UNSTORED_BODIES, severity, message, evidence))
}

pub(super) fn late_wakeups(result: &LoadResult) -> Option<Caveat> {
    let median_us = result.response_time_us.p50?;
    // With few requests the higher percentiles are unknown. The highest known one is used.
    let lag = &result.client.wake_lag_us;
    let percentiles = [("p99", lag.p99), ("p90", lag.p90), ("p50", lag.p50)];
    let (name, lag_us) = percentiles.into_iter().find_map(|(name, lag)| Some((name, lag?)))?;
    (lag_us > 0.1 * median_us && lag_us > 100.0).then(|| {
        let message = format!(
            "The {name} of the generator's wake lag (the delay of its wake-ups) is {lag_us:.0} µs, \
             compared with a median response time of {median_us:.0} µs. The measured times include \
             this delay. Use a quieter machine."
        );
        let evidence = json!({(format!("wake_lag_{name}_us")): lag_us});
        Caveat::new(Code::GENERATOR_LATE, Severity::Warning, message, evidence)
    })
}

/// The generator waited for a CPU that other programs used. A generator that waits looks idle, and
/// its timestamps are late.
pub(super) fn generator_cpu_wait(result: &LoadResult, context: &Context<'_>) -> Option<Caveat> {
    let share = cpu_wait_share(result)?;
    (share > headroom::MAX_WAITING).then(|| {
        let message = format!(
            "For {} of the time the generator waited for a CPU that another program used{}. \
             Throughput is a lower bound, and response times include the wait. Give the generator \
             a separate CPU ({}), or use a quieter machine.",
            percent(share),
            result.client.headroom.processes_text(),
            context.cpus_setting()
        );
        let evidence = json!({"run_delay_share": share});
        Caveat::new(Code::GENERATOR_STARVED, Severity::Warning, message, evidence)
    })
}

/// Returns the mean share of the window for which a generator thread waited for a CPU. `None`:
/// unknown.
fn cpu_wait_share(result: &LoadResult) -> Option<f64> {
    Some(result.client.run_delay_s? / result.duration_s / result.client.threads.max(1) as f64)
}

/// Compares throughput with the highest throughput of the generator.
fn ceiling(result: &LoadResult) -> Option<Caveat> {
    let ceiling = result.ceiling.as_ref().filter(|_| result.config.model == LoadModel::Closed)?;
    if result.throughput_rps == 0.0 || ceiling.throughput_rps <= 0.0 {
        return None;
    }
    Some(Caveat::new(
        Code::CEILING,
        Severity::Info,
        format!(
            "The throughput is {} of the highest rate that the generator reached on this machine: \
             {:.0} requests per second (measured by `dyno calibrate`).",
            percent(result.throughput_rps / ceiling.throughput_rps),
            ceiling.throughput_rps
        ),
        json!({"ceiling_rps": ceiling.throughput_rps}),
    ))
}
