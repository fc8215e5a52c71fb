//! Records made by hand, for tests of rules: one second in which so many requests were scheduled and answered.

use std::collections::BTreeMap;

use dyno_archive::interval::Interval;
use dyno_archive::outcome::Outcome;
use dyno_archive::plan::{Arrivals, DriverKind, Load, Request, Step, Workload};
use dyno_archive::times::Recording;
use dyno_archive::trial::{Books, ClientUse, Connections, Edges, Unanswered};
use dyno_archive::{Phase, Protocol, TrialRecord};

use crate::load::{self, Config, LoadResult};

const S: u64 = 1_000_000_000;

/// 64 connections, each answered after 1 ms; one request in flight on average.
pub fn record(answers: u64) -> TrialRecord {
    let mut times = Recording::new();
    (0..answers).for_each(|_| times.record(1_000_000));
    let mut interval = Interval::new(Phase::Measured, 0, S);
    (0..answers).for_each(|_| interval.outcomes.count(Outcome::Ok));
    interval.times.response = times.seal();
    interval.times.service = interval.times.response.clone();
    interval.started = answers;
    interval.in_flight_ns = answers * 1_000_000;
    TrialRecord {
        trial: 0,
        start: 0,
        began_ns: 0,
        window_ns: (0, S),
        books: Books { scheduled: answers, started: answers, completed: answers, ..Books::default() },
        connections: Connections { asked: 64, established: 64, opened: 64, ..Connections::default() },
        tcp: None,
        client: ClientUse {
            threads: Vec::new(),
            rss_peak_bytes: None,
            driver: DriverKind::Epoll,
            ground: None,
        },
        intervals: vec![interval],
        edges: Some(Edges::default()),
        unanswered: Unanswered::default(),
        protocol_errors: BTreeMap::new(),
        tls: None,
        http2: None,
        unexpected: BTreeMap::new(),
        connection_failures: BTreeMap::new(),
        samples: Vec::new(),
        checks: Vec::new(),
        subject_failure: None,
        cut_short: false,
    }
}

/// What a record comes to in a closed loop, or at a rate.
pub fn result(record: &TrialRecord, rate: Option<f64>) -> LoadResult {
    let arrivals = rate.map_or(Arrivals::Closed, |rate| Arrivals::Poisson { rate });
    let step = Step { connections: 64, streams: 1, pipeline: 1, arrivals };
    let plan: Load = serde_json::from_value(serde_json::json!({
        "warmup_ns": 0, "duration_ns": S, "interval_ns": S, "timeout_ns": S, "connect_timeout_ns": S,
        "requests_per_connection": null, "threads": 1, "driver": "epoll", "steps": []
    }))
    .expect("a plan");
    let request = Request { method: "GET".into(), path: "/".into(), ..Request::default() };
    let workload = Workload { name: "w".into(), protocol: Protocol::H1, requests: vec![request], page: None };
    load::result(record, Config::new(&workload, &plan, &step, 1))
}
