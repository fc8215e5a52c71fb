//! The limiter that is no part of a run: other programs, which had the CPUs.

use serde_json::json;

use super::limiter::{Limiter, is_generator_starved, verdict};
use super::polling::is_full;
use super::resource::{Confidence, Resource};
use super::room::Bound;
use super::server::{MAX_WAITING, starved_seconds};
use super::thresholds::{SERVER_BUSY, STEAL};
use crate::load::LoadResult;
use crate::machine::MachineResult;
use crate::number_format::percent;
use crate::server::ServerUse;

/// Share of what was used of the generator's CPUs from which on other programs filled them.
const MOSTLY_OTHERS: f64 = 0.5;

/// CPUs that other programs must have used to be named as a cause.
const WORTH_NAMING: f64 = 0.1;

/// Programs that are named.
const NAMED: usize = 3;

const REMEDY: &str = "Neither side shows its limit. Stop these programs, or use `dyno run \
                      --wait-quiet 5m`.";

/// Share of the generator's CPUs that other programs used. `None`: not known, or the server or dyno
/// itself used most of what others did.
fn share_of_generators_cpus(load: &LoadResult, server: &ServerUse) -> Option<f64> {
    let room = &load.client.room;
    let (others, cpus) = (room.others?, room.cpus.as_ref()?.len());
    // Where both sides share CPUs the server is what uses the generator's.
    let taken_s = others * cpus as f64 * server.window_s;
    (server.others_cpu_s? >= MOSTLY_OTHERS * taken_s).then_some(others)
}

/// The same, if the generator waited for these CPUs, so that it may have had room without those
/// programs.
pub(super) fn share_waited_for(load: &LoadResult, server: &ServerUse) -> Option<f64> {
    let is_by_waiting =
        matches!(Bound::from_result(load)?, Bound::Crowded { .. } | Bound::Waiting { .. });
    share_of_generators_cpus(load, server).filter(|others| is_by_waiting && *others > MAX_WAITING)
}

/// Other programs filled the generator's CPUs. `None`: the generator had room, the server was full,
/// or the generator or the server used most of those CPUs.
pub(super) fn generator_limiter(
    load: &LoadResult,
    server: &ServerUse,
    machine: &MachineResult,
) -> Option<Limiter> {
    let room = &load.client.room;
    let others = share_waited_for(load, server)?;
    let used = server.cpu_utilisation;
    (!is_full(load, server) && others >= MOSTLY_OTHERS * room.busy?).then(|| {
        let of_server = used.map_or(String::new(), |used| {
            format!(" The server used {} of its CPU.", percent(used))
        });
        let sentence = format!(
            "Other programs{}: they used {} of the generator's CPUs, and the generator waited for \
             them.{of_server} {REMEDY}",
            program_names(machine),
            percent(others),
        );
        let evidence = json!({
            "generator_need": room.need, "generator_cpus_used_by_others": others,
            "others_cpu_s": server.others_cpu_s, "server_utilisation": used,
            "programs": names(machine),
        });
        verdict(Resource::OtherPrograms, Confidence::Medium, sentence, evidence)
    })?
}

/// Other programs used CPUs while the server, or the generator, waited for one. Asked where nothing
/// else is known to be the limit.
pub(super) fn server_limiter(
    load: &LoadResult,
    server: &ServerUse,
    machine: &MachineResult,
) -> Option<Limiter> {
    let others_s =
        server.others_cpu_s.filter(|used_s| *used_s >= WORTH_NAMING * server.window_s)?;
    let waited_s = starved_seconds(server);
    let is_taken = waited_s.is_some() || is_generator_starved(load);
    // The hypervisor's other guests are no programs of this machine.
    let is_stolen = server.steal_share.is_some_and(|share| share > STEAL);
    if !is_taken || is_stolen {
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
    // With that time it would have been full.
    let demand = used
        .zip(waited_s)
        .zip(server.cpu_allowed_s)
        .map(|((used, waited), all)| used + waited / all);
    let is_likely = demand.is_some_and(|demand| demand >= SERVER_BUSY);
    let confidence = if is_likely { Confidence::Medium } else { Confidence::Low };
    let evidence = json!({
        "others_cpu_s": others_s, "run_delay_s": server.run_delay_s, "server_utilisation": used,
        "generator_starved": is_generator_starved(load), "programs": names(machine),
    });
    verdict(Resource::OtherPrograms, confidence, sentence, evidence)
}

/// Names of the programs that used most CPU time, each once.
fn names(machine: &MachineResult) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for other in machine.others.iter().flatten() {
        if !names.contains(&&*other.name) {
            names.push(&other.name);
        }
    }
    names.truncate(NAMED);
    names
}

/// ` (rustc, python3)`, or that none can be seen.
fn program_names(machine: &MachineResult) -> String {
    let names = names(machine);
    if names.is_empty() {
        " (names not visible from here)".into()
    } else {
        format!(" ({})", names.join(", "))
    }
}
