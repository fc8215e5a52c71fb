//! Derives the limiters of programs other than the server. `other_programs`: programs outside of
//! the run used the CPUs of the generator or the server, so that the step shows neither side's
//! limit. `backend`: a service that the server needs had no capacity left.

use dyno_archive::plan::LoadModel;
use serde_json::json;

use super::conditions::{is_generator_starved, is_quota_used, throttling_clause};
use super::headroom::GeneratorBound;
use super::polling::{busy_thread, is_full, is_mostly_idle, sleeps_without_work};
use super::resource::{Confidence, Limiter, Resource};
use super::server::starved_seconds;
use super::thresholds::{SERVER_BUSY, SERVER_IDLE, STEAL, THROTTLED};
use crate::backend_use::BackendUse;
use crate::load::LoadResult;
use crate::machine::MachineResult;
use crate::number_format::percent;
use crate::server::ServerUse;

/// Other programs may be the limit if they used at least this share of the CPU time that programs
/// other than dyno used on the generator's CPUs. The server may have used the rest.
const MOSTLY_OTHERS: f64 = 0.5;

/// Largest share of the generator's CPUs that other programs use without being the limit.
pub(super) const MAX_OTHERS_SHARE: f64 = 0.1;

/// Other programs may be the limit if they use at least this many CPUs.
const MIN_OTHERS_CPUS: f64 = 0.1;

/// Number of programs that the sentence names.
const NAMED_PROGRAMS: usize = 3;

/// Share of the time for which a generator may sleep if its CPUs are the limit.
const MAX_SLEEP: f64 = 1.0 - SERVER_IDLE;

const REMEDY: &str = "The step therefore shows neither the server's limit nor the generator's. \
                      Stop these programs, or let dyno wait until they stop (`dyno run \
                      --wait-quiet 5m`).";

/// Returns the share of the generator's CPUs that other programs used. `None`: it is unknown, or
/// most of that CPU time was used by the server or by dyno itself.
fn others_share(load: &LoadResult, server: &ServerUse) -> Option<f64> {
    let headroom = &load.client.headroom;
    let (others, cpus) = (headroom.others?, headroom.cpus.as_ref()?.len());
    // If server and generator share CPUs, `others` may be the server. The CPU time of programs
    // outside of the run shows whether it is.
    let taken_s = others * cpus as f64 * server.window_s;
    (server.others_cpu_s? >= MOSTLY_OTHERS * taken_s).then_some(others)
}

/// Returns the share of the generator's CPUs that other programs used, if the generator waited for
/// these CPUs. Without the other programs the generator may have had headroom.
pub(super) fn contended_share(load: &LoadResult, server: &ServerUse) -> Option<f64> {
    others_share(load, server).filter(|others| has_waited(load) && *others > MAX_OTHERS_SHARE)
}

/// Whether the generator waited for CPUs that other programs may have used. If it is unknown how
/// much CPU time the server or dyno used there, other programs may be the cause.
pub(crate) fn may_have_contended(load: &LoadResult, server: &ServerUse) -> bool {
    let is_unknown = server.others_cpu_s.is_none()
        && has_waited(load)
        && load.client.headroom.others.is_some_and(|others| others > MAX_OTHERS_SHARE);
    is_unknown || contended_share(load, server).is_some()
}

/// Whether the generator may have been the limit because it waited for its CPUs.
fn has_waited(load: &LoadResult) -> bool {
    matches!(
        GeneratorBound::from_result(load),
        Some(GeneratorBound::Crowded { .. } | GeneratorBound::Waiting { .. })
    )
}

/// Other programs filled the generator's CPUs. `None`: the generator had headroom, the server was
/// full, or the generator or the server used most of those CPUs. The confidence is low if something
/// else explains the limit, too.
pub(super) fn generator_limiter(
    load: &LoadResult,
    server: &ServerUse,
    backends: &[BackendUse],
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
        match other_explanation(load, server, backends) {
            Some(doubt) => limiter.weaken(Confidence::Low, &format!(" {doubt}")),
            None => limiter,
        }
    })
}

/// Returns a sentence about a full thread of the server or a full back end, which may be the limit
/// of a step that has another explanation. `full_share`: use of a CPU at which the thread is full.
/// `None`: neither is full.
pub(super) fn full_part(
    load: &LoadResult,
    server: &ServerUse,
    backends: &[BackendUse],
    full_share: f64,
) -> Option<String> {
    if let Some(busiest) = busy_thread(load, server, full_share) {
        return Some(format!(
            "One thread of the server was busy for {} of the time, so it may be the limit.",
            percent(busiest)
        ));
    }
    let backend = backend(server, backends)?;
    Some(format!("A back end may be the limit as well. {}", backend.claim()))
}

/// Returns a sentence about what else explains the limit of a step in which the generator waited
/// for its CPUs: a full thread of the server, a full back end, or a generator that slept. A
/// generator in a closed loop sleeps only while no response is ready, so it then waited for the
/// server, which may be at a limit that uses no CPU. `None`: nothing else explains it.
fn other_explanation(
    load: &LoadResult,
    server: &ServerUse,
    backends: &[BackendUse],
) -> Option<String> {
    full_part(load, server, backends, SERVER_BUSY).or_else(|| idle_generator(load))
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

/// A back end is full, or it and the server together fill the CPUs that they share.
pub(super) fn backend(server: &ServerUse, backends: &[BackendUse]) -> Option<Limiter> {
    full_backend(server, backends)
        .or_else(|| throttled_backend(server, backends))
        .or_else(|| backend_thread(server, backends))
        .or_else(|| waiting_backend(backends))
        .or_else(|| shared_cpus(server, backends))
}

/// Returns the back end with the highest value, and the value. `None`: no value is known.
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
    let text = |used| format!(", while the server used {} of its CPU", percent(used));
    server.cpu_utilisation.map_or(String::new(), text)
}

/// Returns the confidence that a busy back end works, and does not poll. It is high only if the
/// results of the back end's system calls show that few waits are empty.
fn work_confidence(backend: &BackendUse) -> Confidence {
    let calls = backend.server.calls.as_ref().filter(|calls| calls.has_results());
    if calls.is_some_and(sleeps_without_work) { Confidence::High } else { Confidence::Medium }
}

/// A back end used nearly all of its allowed CPU time, and does not poll.
fn full_backend(server: &ServerUse, backends: &[BackendUse]) -> Option<Limiter> {
    let working =
        |backend: &ServerUse| backend.cpu_utilisation.filter(|_| !is_mostly_idle(backend));
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

/// The CPU quota of a back end throttled it. Throttled bursts of a mostly idle back end are
/// excluded.
fn throttled_backend(server: &ServerUse, backends: &[BackendUse]) -> Option<Limiter> {
    let throttled_share = |backend: &ServerUse| {
        let throttling = backend.throttling.filter(|t| t.share() > THROTTLED)?;
        is_quota_used(backend, throttling).then(|| throttling.share())
    };
    let (backend, _) = highest(backends, throttled_share)?;
    let throttling = backend.server.throttling?;
    let sentence = format!(
        "The CPU quota of the back end {}: the back end was {}{}.",
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
        backend.busiest_serving_utilisation.filter(|_| !is_mostly_idle(backend))
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

/// A back end would fill its CPUs if no other program used them. The rule adds the time for which
/// its threads waited for these CPUs to its used time.
fn waiting_backend(backends: &[BackendUse]) -> Option<Limiter> {
    let demand = |backend: &BackendUse| {
        let (used, allowed_s) = (backend.server.cpu_utilisation?, backend.server.cpu_allowed_s?);
        let waited = starved_seconds(&backend.server)? / allowed_s;
        (used + waited >= SERVER_BUSY).then_some((used, waited))
    };
    let (backend, (used, waited)) =
        backends.iter().find_map(|backend| Some((backend, demand(backend)?)))?;
    let sentence = format!(
        "The CPUs of the back end {}: the back end used {} of their time. For another {} of that \
         time, it waited while other programs used these CPUs. Give the back end separate CPUs \
         (`cpuset` in `[[backends]]`), or more CPUs.",
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
                " The server and its back ends together used {} of the CPUs that they share.",
                percent(used)
            );
            limiter.weaken(Confidence::Medium, &doubt)
        }
    }
}

/// The server and its back ends together fill the CPUs that they share. The part that used more of
/// them is the limit. A back end that polls may use this time for nothing.
fn shared_cpus(server: &ServerUse, backends: &[BackendUse]) -> Option<Limiter> {
    let together = shared_utilisation(server, backends).filter(|used| *used >= SERVER_BUSY)?;
    let sharing = || backends.iter().filter(|backend| backend.shares_cpus);
    if sharing().any(|backend| is_mostly_idle(&backend.server)) {
        return None;
    }
    let (backend, used) = highest(sharing(), |backend| backend.cpu_utilisation)?;
    let server_used = server.cpu_utilisation?;
    let (resource, confidence) = match server_used > together - server_used {
        true => (Resource::ServerCpu, Confidence::Medium),
        false => (Resource::Backend, work_confidence(backend)),
    };
    let sentence = format!(
        "The CPUs that the server and its back end {} share: together they used {} of these CPUs \
         (the server {}, {} {}). Give the back end separate CPUs (`cpuset` in `[[backends]]`).",
        backend.name,
        percent(together),
        percent(server_used),
        backend.name,
        percent(used)
    );
    let evidence = json!({
        "backend": backend.name, "backend_utilisation": used, "server_utilisation": server_used,
        "together": together,
    });
    Some(Limiter::new(resource, confidence, sentence, evidence))
}
