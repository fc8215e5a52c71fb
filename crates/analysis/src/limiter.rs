//! What bound a step, and how sure that is.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::caveat::percent;
use crate::load::{GENERATOR_BUSY, LoadResult};
use crate::server::ServerUse;
use crate::warming;

/// Share of its allowed CPU time above which a server counts as bound by it.
pub(crate) const SERVER_BUSY: f64 = 0.9;

/// Share above which the server was at its limit for certain, whatever else was busy too.
pub const SERVER_FULL: f64 = 0.95;

/// Below this share a server has room, so something else limits it.
const SERVER_IDLE: f64 = 0.75;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// The server failed.
    Failure,
    /// The load generator.
    Generator,
    /// The server's CPU, much of which its compiler used.
    Jit,
    /// The server's CPU quota.
    CpuQuota,
    ServerCpu,
    /// One thread of a server that may use several CPUs.
    ServerThread,
    /// The server kept up with an open loop: the offered rate is the limit.
    OfferedRate,
    /// Too few requests are in flight to keep anything busy: each waits for its round trip.
    Concurrency,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    High,
    Medium,
    Low,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Limiter {
    pub resource: Resource,
    pub confidence: Confidence,
    pub sentence: String,
    pub evidence: Value,
}

/// Names what limited a step, from the first rule that holds.
#[must_use]
pub fn limiter(load: &LoadResult, server: &ServerUse) -> Limiter {
    let rules = [failure, generator, jit, cpu_quota, offered_rate, server_cpu, server_thread, concurrency];
    rules.iter().find_map(|rule| rule(load, server)).unwrap_or_else(|| unknown(load, server))
}

fn verdict(resource: Resource, confidence: Confidence, sentence: String, evidence: Value) -> Option<Limiter> {
    Some(Limiter { resource, confidence, sentence, evidence })
}

fn failure(load: &LoadResult, _: &ServerUse) -> Option<Limiter> {
    let of = |code: &str| load.caveats.iter().find(|c| c.code == code);
    let failed = of("subject_failed").or_else(|| of("no_answers"))?;
    verdict(Resource::Failure, Confidence::High, failed.message.clone(), failed.evidence.clone())
}

fn generator(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let busy = load.client.busiest_thread_utilisation;
    let server_share = server.cpu_utilisation;
    let server_full = server_share.is_some_and(|s| s >= SERVER_FULL);
    (busy > GENERATOR_BUSY && !server_full).then(|| {
        let of_server = server_share.map_or("unknown".into(), percent);
        let sentence = format!(
            "The generator: its busiest thread was busy for {} of the time, while the server used {of_server} of its CPU.",
            percent(busy)
        );
        let confidence = if server_share.is_some_and(|s| s < SERVER_BUSY) { Confidence::High } else { Confidence::Medium };
        let evidence = json!({"generator_utilisation": busy, "server_utilisation": server_share});
        verdict(Resource::Generator, confidence, sentence, evidence)
    })?
}

fn jit(_: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    warming::limiter(server)
}

fn cpu_quota(_: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let throttled = server.throttled_s?;
    let share = throttled / server.window_s;
    (share > 0.02).then(|| {
        let sentence = format!(
            "The server's CPU quota: it was throttled for {throttled:.2} s of {:.2} s.",
            server.window_s
        );
        verdict(Resource::CpuQuota, Confidence::High, sentence, json!({"throttled_s": throttled}))
    })?
}

fn offered_rate(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let rate = load.config.rate?;
    (load.throughput_rps >= rate * 0.98).then(|| {
        let sentence = format!(
            "The offered rate: the server answered all of {rate:.0} requests per second{}.",
            server.cpu_utilisation.map_or(String::new(), |u| format!(" with {} of its CPU", percent(u)))
        );
        let evidence = json!({"offered": rate, "answered": load.throughput_rps});
        verdict(Resource::OfferedRate, Confidence::High, sentence, evidence)
    })?
}

fn server_cpu(_: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let used = server.cpu_utilisation?;
    (used >= SERVER_BUSY).then(|| {
        let allowed = server.cpu_allowed_s.unwrap_or(0.0) / server.window_s;
        let sentence =
            format!("The server's CPU: it used {} of the {} it may use.", percent(used), cpus(allowed));
        verdict(Resource::ServerCpu, Confidence::High, sentence, json!({"cpu_utilisation": used}))
    })?
}

fn cpus(n: f64) -> String {
    if (n - 1.0).abs() < 0.01 { "one CPU".into() } else { format!("{n:.1} CPUs") }
}

fn server_thread(_: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let busiest = server.busiest_thread_utilisation?;
    let used = server.cpu_utilisation?;
    (busiest >= SERVER_BUSY).then(|| {
        let sentence = format!(
            "One thread of the server: it was busy for {} of the time, while the server used {} of its CPU in all.",
            percent(busiest),
            percent(used)
        );
        let evidence = json!({"busiest_thread_utilisation": busiest, "cpu_utilisation": used});
        verdict(Resource::ServerThread, Confidence::High, sentence, evidence)
    })?
}

fn concurrency(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let used = server.cpu_utilisation?;
    let busy = load.client.busiest_thread_utilisation;
    (load.config.model == "closed" && used < SERVER_IDLE && busy < SERVER_IDLE).then(|| {
        let round_trip = load.response_time_us.mean.unwrap_or(0.0);
        let sentence = format!(
            "Too few requests in flight: with {:.0} at a time each waits for a round trip of {round_trip:.0} µs, and the server used {} of its CPU.",
            load.in_flight.mean,
            percent(used)
        );
        let evidence = json!({"in_flight": load.in_flight.mean, "server_utilisation": used, "generator_utilisation": busy});
        // With few in flight this is how a closed loop must behave; with many, something may lie hidden.
        let confidence = if load.in_flight.mean < 32.0 { Confidence::High } else { Confidence::Low };
        verdict(Resource::Concurrency, confidence, sentence, evidence)
    })?
}

fn unknown(load: &LoadResult, server: &ServerUse) -> Limiter {
    let busy = load.client.busiest_thread_utilisation;
    let sentence = match server.cpu_utilisation {
        Some(used) => format!(
            "Unknown: the server used {} of its CPU and the generator's busiest thread {}; neither is full.",
            percent(used),
            percent(busy)
        ),
        None => "Unknown: the server's CPU could not be observed.".into(),
    };
    Limiter {
        resource: Resource::Unknown,
        confidence: Confidence::Low,
        sentence,
        evidence: json!({"server_utilisation": server.cpu_utilisation, "generator_utilisation": busy}),
    }
}
