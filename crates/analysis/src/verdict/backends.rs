//! Derives the limiter `backend`: a service that the server needs had no capacity left.

use serde_json::json;

use super::limiter::{Limiter, is_quota_used, throttling_clause};
use super::polling::asks_in_vain;
use super::resource::{Confidence, Resource};
use super::server::MAX_WAITING;
use super::thresholds::{SERVER_BUSY, THROTTLED};
use crate::backend::BackendUse;
use crate::number_format::percent;
use crate::server::ServerUse;

/// A back end is full, or it and the server together fill the CPUs that they share.
pub(super) fn backend(server: &ServerUse, backends: &[BackendUse]) -> Option<Limiter> {
    full_backend(server, backends)
        .or_else(|| throttled_backend(server, backends))
        .or_else(|| backend_thread(server, backends))
        .or_else(|| waiting_backend(backends))
        .or_else(|| shared_cpus(server, backends))
}

/// Returns the back end with the highest value. `None`: the value of each is unknown.
fn highest(
    backends: &[BackendUse],
    value: impl Fn(&ServerUse) -> Option<f64>,
) -> Option<(&BackendUse, f64)> {
    backends
        .iter()
        .filter_map(|backend| Some((backend, value(&backend.server)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Formats the server's CPU utilisation as the end of a sentence.
fn while_server(server: &ServerUse) -> String {
    let text = |used| format!(", while the server used {}", percent(used));
    server.cpu_utilisation.map_or(String::new(), text)
}

/// A back end used nearly all of its allowed CPU time.
fn full_backend(server: &ServerUse, backends: &[BackendUse]) -> Option<Limiter> {
    let (backend, used) = highest(backends, |backend| backend.cpu_utilisation)?;
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
        Limiter::new(Resource::Backend, Confidence::High, sentence, evidence)
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
    // If its calls were not counted, the thread may poll.
    let confidence =
        if backend.server.calls.is_some() { Confidence::High } else { Confidence::Medium };
    Some(Limiter::new(Resource::Backend, confidence, sentence, evidence))
}

/// A back end would fill its CPUs if no other program used them. The time for which its threads
/// waited for a CPU counts as used.
fn waiting_backend(backends: &[BackendUse]) -> Option<Limiter> {
    let demand = |backend: &BackendUse| {
        let (used, allowed_s) = (backend.server.cpu_utilisation?, backend.server.cpu_allowed_s?);
        let waited = backend.server.run_delay_s? / allowed_s;
        (waited > MAX_WAITING && used + waited >= SERVER_BUSY).then_some((used, waited))
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

/// The server and its back ends together fill the CPUs that they share.
fn shared_cpus(server: &ServerUse, backends: &[BackendUse]) -> Option<Limiter> {
    let (backend, used) = highest(backends, |backend| backend.cpu_utilisation)?;
    let server_used = server.cpu_utilisation;
    let shared = backends.iter().filter(|b| b.shares_cpus).map(|b| b.server.cpu_utilisation);
    let together = shared.chain([server_used]).sum::<Option<f64>>()?;
    (backend.shares_cpus && together >= SERVER_BUSY).then(|| {
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
