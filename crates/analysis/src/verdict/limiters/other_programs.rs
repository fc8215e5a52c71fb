//! Programs outside of the run used the CPUs of the generator or the server, so that the step shows
//! neither side's limit.

#[cfg(test)]
mod cases;

use dyno_model::plan::LoadModel;
use serde_json::json;

use super::backend;
use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::load::LoadResult;
use crate::machine::MachineResult;
use crate::number_format::percent;
use crate::verdict::conditions::{
    MOSTLY_OTHERS, contended_share, is_generator_starved, starved_seconds,
};
use crate::verdict::polling::{busy_thread, is_full};
use crate::verdict::thresholds::{SERVER_BUSY, SERVER_IDLE, STEAL};

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "other programs",
    refutation: "Refuted if throughput stays the same while no other program runs.",
    queue: None,
    curve: CurveRule::Guess,
};

/// Other programs may be the limit if they use at least this many CPUs.
const MIN_OTHERS_CPUS: f64 = 0.1;

/// Number of programs that the sentence names.
const NAMED_PROGRAMS: usize = 3;

/// Share of the time for which a generator may sleep if its CPUs are the limit.
const MAX_SLEEP: f64 = 1.0 - SERVER_IDLE;

const REMEDY: &str = "The step therefore shows neither the server's limit nor the generator's. \
                      Stop these programs, or let dyno wait until they stop (`dyno run \
                      --wait-quiet 5m`).";

/// Other programs filled the generator's CPUs. `None`: the generator had headroom, the server was
/// full, or the generator or the server used most of those CPUs. The confidence is low if something
/// else explains the limit, too.
pub(super) fn on_generator_cpus(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, machine, .. } = *inputs;
    let headroom = &load.client.headroom;
    let others = contended_share(load, server)?;
    let used = server.cpu_utilisation;
    (!is_full(load, server) && others >= MOSTLY_OTHERS * headroom.busy?).then(|| {
        let server_text = used.map_or(String::new(), |used| {
            format!(" The server used {} of its CPU.", percent(used))
        });
        let sentence = format!(
            "Other programs{}: they used {} of the generator's CPUs, and the generator waited for \
             these CPUs.{server_text} {REMEDY}",
            program_names(machine),
            percent(others),
        );
        let evidence = json!({
            "generator_need": headroom.need, "generator_cpus_used_by_others": others,
            "others_cpu_s": server.others_cpu_s, "server_utilisation": used,
            "programs": names(machine),
        });
        let limiter = Limiter::new(Resource::OtherPrograms, Confidence::Medium, sentence, evidence);
        match other_explanation(inputs) {
            Some(doubt) => limiter.weaken(Confidence::Low, &format!(" {doubt}")),
            None => limiter,
        }
    })
}

/// Returns a sentence about a full thread of the server or a full back end, which may be the limit
/// of a step that has another explanation. `full_share`: use of a CPU at which the thread is full.
/// `None`: neither is full.
pub(super) fn full_part(inputs: &LimiterInputs<'_>, full_share: f64) -> Option<String> {
    let LimiterInputs { load, server, .. } = *inputs;
    if let Some(busiest) = busy_thread(load, server, full_share) {
        return Some(format!(
            "One thread of the server was busy for {} of the time, so it may be the limit.",
            percent(busiest)
        ));
    }
    let backend = backend::limiter(inputs)?;
    Some(format!("A back end may be the limit as well. {}", backend.claim()))
}

/// Returns a sentence about what else explains the limit of a step in which the generator waited
/// for its CPUs: a full thread of the server, a full back end, or a generator that slept. A
/// generator in a closed loop sleeps only while no response is ready, so it then waited for the
/// server, which may be at a limit that uses no CPU. `None`: nothing else explains it.
fn other_explanation(inputs: &LimiterInputs<'_>) -> Option<String> {
    full_part(inputs, SERVER_BUSY).or_else(|| idle_generator(inputs.load))
}

/// Returns a sentence about a generator that had nothing to do. `None`: it was busy.
fn idle_generator(load: &LoadResult) -> Option<String> {
    // In an open loop, the generator also sleeps until the next request is due.
    let is_closed = load.config.model == LoadModel::Closed;
    let headroom = Some(&load.client.headroom).filter(|_| is_closed)?;
    // If its waits for a CPU are unknown, the generator may have waited instead of slept.
    let slept = headroom.waiting.map(|_| 1.0 - headroom.need).filter(|slept| *slept > MAX_SLEEP)?;
    Some(format!(
        "The generator had nothing to do for {} of the time, because no response was ready. The \
         server, or a service that it needs, may be the limit.",
        percent(slept)
    ))
}

/// Other programs used CPUs while the server or the generator waited for one. This rule applies
/// only if no other rule names a limiter.
pub(super) fn on_server_cpus(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, machine, .. } = *inputs;
    let others_s =
        server.others_cpu_s.filter(|used_s| *used_s >= MIN_OTHERS_CPUS * server.window_s)?;
    let waited_s = starved_seconds(server);
    let has_waited = waited_s.is_some() || is_generator_starved(load);
    // Stolen time goes to other virtual machines, and not to programs of this machine.
    let is_stolen = server.steal_share.is_some_and(|share| share > STEAL);
    if !has_waited || is_stolen {
        return None;
    }
    let waits = match waited_s {
        Some(waited_s) => {
            format!(
                "in the window of {:.2} s, the server's threads together waited for a CPU for \
                 {waited_s:.2} s",
                server.window_s
            )
        }
        None => "the generator waited for a CPU".into(),
    };
    let sentence = format!(
        "Other programs{}: they used {others_s:.2} s of this machine's CPU time, and {waits}. \
         {REMEDY}",
        program_names(machine)
    );
    let used = server.cpu_utilisation;
    // The CPU time that the server would have used if it had not waited, as a share.
    let demand = used
        .zip(waited_s)
        .zip(server.cpu_allowed_s)
        .map(|((used, waited_s), allowed_s)| used + waited_s / allowed_s);
    let is_likely = demand.is_some_and(|demand| demand >= SERVER_BUSY);
    let confidence = if is_likely { Confidence::Medium } else { Confidence::Low };
    let evidence = json!({
        "others_cpu_s": others_s, "run_delay_s": server.run_delay_s, "server_utilisation": used,
        "generator_starved": is_generator_starved(load), "programs": names(machine),
    });
    Some(Limiter::new(Resource::OtherPrograms, confidence, sentence, evidence))
}

/// Returns the names of the programs that used most CPU time, without duplicates.
fn names(machine: &MachineResult) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for other in machine.others.iter().flatten() {
        if !names.contains(&&*other.name) {
            names.push(&other.name);
        }
    }
    names.truncate(NAMED_PROGRAMS);
    names
}

/// Formats the names as ` (rustc, python3)`, or states that they are not visible.
fn program_names(machine: &MachineResult) -> String {
    let names = names(machine);
    if names.is_empty() {
        " (names not visible from here)".into()
    } else {
        format!(" ({})", names.join(", "))
    }
}
