//! Derives the limiters of programs other than the server. `other_programs`: programs outside of
//! the run used the CPUs of the generator or the server, so that the step shows neither side's
//! limit. `backend`: a service that the server needs had no capacity left.

use serde_json::json;

use super::headroom::GeneratorBound;
use super::limiter::{Limiter, is_generator_starved, is_quota_used, throttling_clause};
use super::polling::{asks_in_vain, is_full};
use super::resource::{Confidence, Resource};
use super::server::{MAX_WAITING, starved_seconds};
use super::thresholds::{SERVER_BUSY, SERVER_IDLE, STEAL, THROTTLED};
use crate::backend::BackendUse;
use crate::load::LoadResult;
use crate::machine::MachineResult;
use crate::number_format::percent;
use crate::server::{CallRates, ServerUse};

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

/// A back end is full, or it and the server together fill the CPUs that they share.
pub(super) fn backend(server: &ServerUse, backends: &[BackendUse]) -> Option<Limiter> {
    full_backend(server, backends)
        .or_else(|| throttled_backend(server, backends))
        .or_else(|| backend_thread(server, backends))
        .or_else(|| waiting_backend(backends))
        .or_else(|| shared_cpus(server, backends))
}

/// Returns the back end with the highest value. `None`: the value of each is unknown.
fn highest<'a>(
    backends: impl IntoIterator<Item = &'a BackendUse>,
    value: impl Fn(&ServerUse) -> Option<f64>,
) -> Option<(&'a BackendUse, f64)> {
    backends
        .into_iter()
        .filter_map(|backend| Some((backend, value(&backend.server)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Formats the server's CPU utilisation as the end of a sentence.
fn while_server(server: &ServerUse) -> String {
    let text = |used| format!(", while the server used {}", percent(used));
    server.cpu_utilisation.map_or(String::new(), text)
}

/// Returns the confidence that a busy back end works, and does not poll. It is known only if the
/// results of its calls were observed.
fn work_confidence(backend: &BackendUse) -> Confidence {
    let has_results = backend.server.calls.as_ref().is_some_and(CallRates::has_results);
    if has_results { Confidence::High } else { Confidence::Medium }
}

/// A back end used nearly all of its allowed CPU time, and does not poll.
fn full_backend(server: &ServerUse, backends: &[BackendUse]) -> Option<Limiter> {
    let working = |backend: &ServerUse| backend.cpu_utilisation.filter(|_| !asks_in_vain(backend));
    let (backend, used) = highest(backends, working)?;
    (used >= SERVER_BUSY).then(|| {
        let sentence = format!(
            "The back end {}: it used {} of its allowed CPU time{}.",
            backend.name,
            percent(used),
            while_server(server)
        );
        let evidence = json!({
            "backend": backend.name, "backend_utilisation": used,
            "server_utilisation": server.cpu_utilisation,
        });
        Limiter::new(Resource::Backend, work_confidence(backend), sentence, evidence)
    })
}

/// The CPU quota of a back end throttled it. Bursts throttle a back end that is mostly idle too, so
/// these do not count.
fn throttled_backend(server: &ServerUse, backends: &[BackendUse]) -> Option<Limiter> {
    let throttled_share = |backend: &ServerUse| {
        let throttling = backend.throttling.filter(|t| t.share() > THROTTLED)?;
        is_quota_used(backend, throttling).then(|| throttling.share())
    };
    let (backend, _) = highest(backends, throttled_share)?;
    let throttling = backend.server.throttling?;
    let sentence = format!(
        "The CPU quota of the back end {}: it was {}{}.",
        backend.name,
        throttling_clause(throttling),
        while_server(server)
    );
    let evidence = json!({
        "backend": backend.name, "backend_utilisation": backend.server.cpu_utilisation,
        "throttled_periods": throttling.throttled_periods, "periods": throttling.periods,
        "server_utilisation": server.cpu_utilisation,
    });
    Some(Limiter::new(Resource::Backend, Confidence::High, sentence, evidence))
}

/// One thread of a back end that may use several CPUs was always busy, and does not poll.
fn backend_thread(server: &ServerUse, backends: &[BackendUse]) -> Option<Limiter> {
    let busiest_thread = |backend: &ServerUse| {
        backend.busiest_serving_utilisation.filter(|_| !asks_in_vain(backend))
    };
    let (backend, busiest) =
        highest(backends, busiest_thread).filter(|(_, busiest)| *busiest >= SERVER_BUSY)?;
    let used = backend.server.cpu_utilisation;
    let used_text = used.map_or(String::new(), |used| {
        format!(", and the whole back end used {} of its CPU", percent(used))
    });
    let sentence = format!(
        "One thread of the back end {}: it was busy for {} of the time{used_text}{}.",
        backend.name,
        percent(busiest),
        while_server(server)
    );
    let evidence = json!({
        "backend": backend.name, "backend_utilisation": used,
        "busiest_serving_utilisation": busiest, "server_utilisation": server.cpu_utilisation,
    });
    Some(Limiter::new(Resource::Backend, work_confidence(backend), sentence, evidence))
}

/// A back end would fill its CPUs if no other program used them. The time for which its threads
/// waited for CPUs that other programs used counts as used.
fn waiting_backend(backends: &[BackendUse]) -> Option<Limiter> {
    let demand = |backend: &BackendUse| {
        let (used, allowed_s) = (backend.server.cpu_utilisation?, backend.server.cpu_allowed_s?);
        let waited = starved_seconds(&backend.server)? / allowed_s;
        (used + waited >= SERVER_BUSY).then_some((used, waited))
    };
    let (backend, (used, waited)) =
        backends.iter().find_map(|backend| Some((backend, demand(backend)?)))?;
    let sentence = format!(
        "The CPUs of the back end {}: it used {} of their time and waited for a CPU for {}, while \
         other programs used them. Give the back end CPUs of its own (`cpuset` in \
         `[[backends]]`), or more CPUs.",
        backend.name,
        percent(used),
        percent(waited)
    );
    let evidence =
        json!({"backend": backend.name, "backend_utilisation": used, "backend_waiting": waited});
    Some(Limiter::new(Resource::Backend, Confidence::Medium, sentence, evidence))
}

/// Returns the utilisation of the CPUs that the server shares with back ends. `None`: it shares
/// none, or the use by one of them is unknown.
fn shared_utilisation(server: &ServerUse, backends: &[BackendUse]) -> Option<f64> {
    let sharing = || backends.iter().filter(|backend| backend.shares_cpus);
    sharing().next()?;
    sharing().map(|b| b.server.cpu_utilisation).chain([server.cpu_utilisation]).sum()
}

/// Weakens a limiter that needs an idle server CPU, if back ends left little time of that CPU.
pub(super) fn weaken_by_shared_cpus(
    limiter: Limiter,
    server: &ServerUse,
    backends: &[BackendUse],
) -> Limiter {
    match shared_utilisation(server, backends).filter(|used| *used >= SERVER_IDLE) {
        None => limiter,
        Some(used) => {
            let doubt = format!(
                " The server and its back ends used {} of the CPUs that they share.",
                percent(used)
            );
            limiter.weaken(Confidence::Medium, &doubt)
        }
    }
}

/// The server and its back ends together fill the CPUs that they share.
fn shared_cpus(server: &ServerUse, backends: &[BackendUse]) -> Option<Limiter> {
    let together = shared_utilisation(server, backends)?;
    let sharing = backends.iter().filter(|backend| backend.shares_cpus);
    let (backend, used) = highest(sharing, |backend| backend.cpu_utilisation)?;
    let server_used = server.cpu_utilisation;
    (together >= SERVER_BUSY).then(|| {
        let sentence = format!(
            "The CPUs that the server and its back end {} share: together they used {} of them, \
             the server {} and {} {}. Give the back end CPUs of its own (`cpuset` in \
             `[[backends]]`).",
            backend.name,
            percent(together),
            server_used.map_or_else(|| "an unknown part".into(), percent),
            backend.name,
            percent(used)
        );
        let evidence = json!({
            "backend": backend.name, "backend_utilisation": used, "server_utilisation": server_used,
            "together": together,
        });
        Limiter::new(Resource::Backend, Confidence::High, sentence, evidence)
    })
}
