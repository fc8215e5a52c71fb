//! A service that the server needs had no capacity left.

#[cfg(test)]
mod cases;

use serde_json::json;

use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::backend_use::BackendUse;
use crate::number_format::percent;
use crate::server::ServerUse;
use crate::verdict::conditions::starved_seconds;
use crate::verdict::conditions::{is_quota_used, throttling_clause};
use crate::verdict::polling::{is_mostly_idle, sleeps_without_work};
use crate::verdict::thresholds::{SERVER_BUSY, SERVER_IDLE, THROTTLED};

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "a back end",
    refutation: "Refuted if throughput stays the same with a faster back end.",
    queue: Some("The back end"),
    curve: CurveRule::FixedWidth,
};

/// A back end is full, or it and the server together fill the CPUs that they share.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { server, backends, .. } = *inputs;
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
