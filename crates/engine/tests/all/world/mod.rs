//! Helpers for tests in simulated worlds.
#![allow(dead_code, reason = "each test uses some of them")]

pub mod observed;
pub mod tls;
mod trust;

use std::sync::Arc;

use dyno_engine::schedule::Stripe;
use dyno_engine::sim::SimulationResult;
use dyno_engine::{
    CompiledRequest, Draws, Expectation, Http2, Policy, Protocol, Schedule, SpinPolicy, Traffic,
    Window, WorkerConfig, limits,
};
use dyno_model::interval::{Interval, Phase};
use dyno_model::load::UnansweredAges;
use dyno_model::outcome::{Outcome, Outcomes};
use dyno_model::plan::Arrivals;
use dyno_model::times::Times;
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
        schedule: Schedule::new(arrivals, &Arc::from([]), 42, Stripe { worker: 0, workers: 1 }),
        total: None,
        traffic: Arc::new(Traffic::single(CompiledRequest::from_bytes(
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
        policy: Policy { timeout_ns: 10 * SECOND, connect_timeout_ns: SECOND, ..Policy::default() },
        window: Window {
            warmup_ns: 0,
            duration_ns: Some(seconds * SECOND),
            interval_ns: SECOND,
            drain_ns: limits::DRAIN_NS,
        },
    }
}

pub fn count_outcomes(result: &SimulationResult, phases: &[Phase]) -> Outcomes {
    let mut sum = Outcomes::default();
    for interval in result.intervals.iter().filter(|i| phases.contains(&i.phase)) {
        sum.add(&interval.outcomes);
    }
    sum
}

pub fn times(result: &SimulationResult, pick: impl Fn(&Interval) -> &Times) -> Times {
    Times::merge(result.intervals.iter().filter(|i| i.phase != Phase::Warmup).map(pick))
}

pub fn response(result: &SimulationResult) -> Times {
    times(result, |i| &i.times.response)
}

/// Returns the ages of exchanges that ended with this outcome.
pub fn ages(result: &SimulationResult, outcome: Outcome) -> Times {
    result.report.unanswered.ages.get(outcome.name()).cloned().unwrap_or_default()
}

/// Returns the ages of exchanges that had not ended when the load did.
pub fn at_end(result: &SimulationResult) -> Times {
    result.report.unanswered.ages.get(UnansweredAges::AT_END).cloned().unwrap_or_default()
}

/// Returns the relative error of a measured time.
pub fn relative_error(measured: Option<u64>, truth: f64) -> f64 {
    (measured.expect("the distribution has samples") as f64 / truth - 1.0).abs()
}

/// Asserts that half a million response times of a long M/M/1 run are exponential with this mean,
/// nanoseconds.
pub fn assert_exponential(response: &Times, mean: f64) {
    assert!(response.count() > 450_000);
    for q in [0.25, 0.5, 0.75, 0.9, 0.99] {
        let truth = -mean * (1.0f64 - q).ln();
        // Response times within a busy period are correlated: half a million are worth some
        // thousands of independent ones.
        assert!(
            relative_error(response.quantile(q), truth) < 0.05,
            "quantile {q}: {:?}, expected {truth}",
            response.quantile(q)
        );
    }
}
