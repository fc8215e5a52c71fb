//! Helpers of the tests in simulated worlds.
#![allow(dead_code, reason = "each of them uses a part")]

pub mod secured;
mod trust;
pub mod watched;

use std::sync::Arc;

use dyno_archive::interval::{Interval, Phase};
use dyno_archive::load::UnansweredAges;
use dyno_archive::outcome::{Outcome, Outcomes};
use dyno_archive::plan::Arrivals;
use dyno_archive::times::Times;
use dyno_engine::schedule::Stripe;
use dyno_engine::sim::SimulationResult;
use dyno_engine::{
    CompiledRequest, Draws, Expectation, Http2, Policy, Protocol, Schedule, SpinPolicy, Traffic,
    Window, WorkerConfig, limits,
};
use dyno_wire::h1::response::RequestKind;

pub const SECOND: u64 = 1_000_000_000;
pub const MS: u64 = 1_000_000;

pub fn config(connections: u32, arrivals: &Arrivals, seconds: u64) -> WorkerConfig {
    WorkerConfig {
        connections,
        protocol: Protocol::H1,
        http2: Http2::default(),
        page_connections: None,
        pipeline: 1,
        streams: 1,
        schedule: Schedule::new(arrivals, &Arc::from([]), 42, Stripe { worker: 0, of: 1 }),
        total: None,
        traffic: Arc::new(Traffic::one(CompiledRequest::from_bytes(
            b"GET / HTTP/1.1\r\nHost: sim\r\n\r\n",
            RequestKind::Other,
            Expectation {
                status: Some(200),
                body: Some(Arc::from(&b"Hello, World!"[..])),
                ..Expectation::default()
            },
        ))),
        draws: Draws::new(1, 0, 1),
        check_one_in: 1,
        worker: 0,
        tls: None,
        spin: SpinPolicy::Near,
        policy: Policy {
            timeout_ns: 10 * SECOND,
            first_byte_timeout_ns: None,
            connect_timeout_ns: SECOND,
            requests_per_connection: None,
            ramp_ns: None,
            backs_off: true,
        },
        window: Window {
            warmup_ns: 0,
            duration_ns: Some(seconds * SECOND),
            interval_ns: SECOND,
            drain_ns: limits::DRAIN_NS,
        },
    }
}

pub fn count_outcomes(played: &SimulationResult, phases: &[Phase]) -> Outcomes {
    let mut sum = Outcomes::default();
    for interval in played.intervals.iter().filter(|i| phases.contains(&i.phase)) {
        sum.add(&interval.outcomes);
    }
    sum
}

pub fn times(played: &SimulationResult, pick: impl Fn(&Interval) -> &Times) -> Times {
    Times::merge(played.intervals.iter().filter(|i| i.phase != Phase::Warmup).map(pick))
}

pub fn response(played: &SimulationResult) -> Times {
    times(played, |i| &i.times.response)
}

/// How long those had waited that ended like this.
pub fn ages(played: &SimulationResult, outcome: Outcome) -> Times {
    played.report.unanswered.ages.get(outcome.name()).cloned().unwrap_or_default()
}

/// How long those had waited that had not ended when the load did.
pub fn at_end(played: &SimulationResult) -> Times {
    played.report.unanswered.ages.get(UnansweredAges::AT_END).cloned().unwrap_or_default()
}

/// Relative difference of a measured time to the true one.
pub fn off(measured: Option<u64>, truth: f64) -> f64 {
    (measured.expect("there are samples") as f64 / truth - 1.0).abs()
}

/// Half a million response times of a long M/M/1 are exponential with this mean, nanoseconds.
pub fn assert_exponential(response: &Times, mean: f64) {
    assert!(response.count() > 450_000);
    for q in [0.25, 0.5, 0.75, 0.9, 0.99] {
        let truth = -mean * (1.0f64 - q).ln();
        // Response times of one busy period are correlated: half a million are worth some
        // thousands.
        assert!(
            off(response.quantile(q), truth) < 0.05,
            "quantile {q}: {:?} against {truth}",
            response.quantile(q)
        );
    }
}
