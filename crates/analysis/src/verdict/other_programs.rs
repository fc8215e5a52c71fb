//! Derives the limiter `other_programs`: programs outside of the run used the CPUs of the generator
//! or the server. Such a step shows neither side's limit.

use serde_json::json;

use super::headroom::GeneratorBound;
use super::limiter::{Limiter, is_generator_starved};
use super::polling::is_full;
use super::resource::{Confidence, Resource};
use super::server::{MAX_WAITING, starved_seconds};
use super::thresholds::{SERVER_BUSY, STEAL};
use crate::load::LoadResult;
use crate::machine::MachineResult;
use crate::number_format::percent;
use crate::server::ServerUse;

/// Minimum share of the use of the generator's CPUs at which other programs count as the cause.
const MOSTLY_OTHERS: f64 = 0.5;

/// Minimum CPU use of other programs that counts as a cause, in CPUs.
const MIN_OTHERS_CPUS: f64 = 0.1;

/// Number of programs that the sentence names.
const NAMED_PROGRAMS: usize = 3;

const REMEDY: &str = "Neither side shows its limit. Stop these programs, or use `dyno run \
                      --wait-quiet 5m`.";

/// Returns the share of the generator's CPUs that other programs used. `None`: unknown, or most of
/// that use is by the server or by dyno itself.
fn others_share(load: &LoadResult, server: &ServerUse) -> Option<f64> {
    let headroom = &load.client.headroom;
    let (others, cpus) = (headroom.others?, headroom.cpus.as_ref()?.len());
    // If both sides share CPUs, the use by others may be the server's.
    let taken_s = others * cpus as f64 * server.window_s;
    (server.others_cpu_s? >= MOSTLY_OTHERS * taken_s).then_some(others)
}

/// Returns the same share if the generator waited for its CPUs. Without those programs it may have
/// had headroom.
pub(super) fn contended_share(load: &LoadResult, server: &ServerUse) -> Option<f64> {
    let has_waited = matches!(
        GeneratorBound::from_result(load)?,
        GeneratorBound::Crowded { .. } | GeneratorBound::Waiting { .. }
    );
    others_share(load, server).filter(|others| has_waited && *others > MAX_WAITING)
}

/// Other programs filled the generator's CPUs. `None`: the generator had headroom, the server was
/// full, or the generator or the server used most of those CPUs.
pub(super) fn generator_limiter(
    load: &LoadResult,
    server: &ServerUse,
    machine: &MachineResult,
) -> Option<Limiter> {
    let headroom = &load.client.headroom;
    let others = contended_share(load, server)?;
    let used = server.cpu_utilisation;
    (!is_full(load, server) && others >= MOSTLY_OTHERS * headroom.busy?).then(|| {
        let server_text = used.map_or(String::new(), |used| {
            format!(" The server used {} of its CPU.", percent(used))
        });
        let sentence = format!(
            "Other programs{}: they used {} of the generator's CPUs, and the generator waited for \
             them.{server_text} {REMEDY}",
            program_names(machine),
            percent(others),
        );
        let evidence = json!({
            "generator_need": headroom.need, "generator_cpus_used_by_others": others,
            "others_cpu_s": server.others_cpu_s, "server_utilisation": used,
            "programs": names(machine),
        });
        Limiter::new(Resource::OtherPrograms, Confidence::Medium, sentence, evidence)
    })
}

/// Other programs used CPUs while the server or the generator waited for one. This rule applies
/// only if no other rule names a limiter.
pub(super) fn server_limiter(
    load: &LoadResult,
    server: &ServerUse,
    machine: &MachineResult,
) -> Option<Limiter> {
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
                "the server's threads waited {waited_s:.2} s for CPUs in {:.2} s",
                server.window_s
            )
        }
        None => "the generator waited for CPUs".into(),
    };
    let sentence = format!(
        "Other programs{}: they used {others_s:.2} s of this machine's CPUs, and {waits}. {REMEDY}",
        program_names(machine)
    );
    let used = server.cpu_utilisation;
    // The utilisation if the server had not waited.
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
