//! The result of one load: `dyno.load/1`.

use std::collections::BTreeMap;

use dyno_archive::interval::ExchangeTimes;
use dyno_archive::outcome::{Outcome, Outcomes};
use dyno_archive::plan::{Arrivals, Load, Step, Workload};
use dyno_archive::trial::{Connections, TcpCounters};
use dyno_archive::{Interval, Phase, Times, TrialRecord};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::caveat::{Caveat, Severity, info, percent};

pub const SCHEMA: &str = "dyno.load/1";

/// Utilisation of a generator thread above which a step is refused.
pub const GENERATOR_BUSY: f64 = 0.85;

/// How far Little's law may be off before a step is refused.
pub const LITTLE_TOLERANCE: f64 = 0.05;

/// Samples that must lie beyond a percentile for it to be given (harness rule: HdrHistogram practice).
pub const SAMPLES_BEYOND: f64 = 20.0;

/// What was asked, all defaults filled in.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Config {
    pub url: String,
    pub method: String,
    pub protocol: String,
    pub driver: String,
    pub threads: u32,
    pub connections: u32,
    pub streams: u32,
    pub pipeline: u32,
    pub model: &'static str,
    pub arrival: Option<&'static str>,
    /// Requests per second offered; `None` in a closed loop.
    pub rate: Option<f64>,
    pub requests: Option<u64>,
    pub requests_per_connection: Option<u64>,
    pub warmup_s: f64,
    pub duration_s: Option<f64>,
    pub interval_s: f64,
    pub timeout_s: f64,
    pub connect_timeout_s: f64,
    pub expect_status: Option<u16>,
    pub expect_body_bytes: Option<usize>,
    pub seed: u64,
}

impl Config {
    /// What a plan asks of one step.
    #[must_use]
    pub fn new(workload: &Workload, load: &Load, step: &Step, seed: u64) -> Config {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let (model, arrival) = match step.arrivals {
            Arrivals::Closed => ("closed", None),
            Arrivals::Constant { .. } => ("open", Some("constant")),
            Arrivals::Poisson { .. } => ("open", Some("poisson")),
        };
        Config {
            url: workload.path.clone(),
            method: workload.method.clone(),
            protocol: workload.protocol.clone(),
            driver: load.driver.clone(),
            threads: load.threads,
            connections: step.connections,
            streams: step.streams,
            pipeline: step.pipeline,
            model,
            arrival,
            rate: step.arrivals.rate(),
            requests: None,
            requests_per_connection: load.requests_per_connection,
            warmup_s: seconds(load.warmup_ns),
            duration_s: Some(seconds(load.duration_ns)),
            interval_s: seconds(load.interval_ns),
            timeout_s: seconds(load.timeout_ns),
            connect_timeout_s: seconds(load.connect_timeout_ns),
            expect_status: workload.expect_status,
            expect_body_bytes: workload.expect_body.as_ref().map(String::len),
            seed,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LoadResult {
    pub schema: &'static str,
    pub valid: bool,
    pub caveats: Vec<Caveat>,
    pub config: Config,
    pub duration_s: f64,
    pub exchanges: Exchanges,
    pub outcomes: BTreeMap<String, u64>,
    /// Answers that met every expectation and arrived within the window, per second.
    pub throughput_rps: f64,
    pub bytes: Bytes,
    pub response_time_us: Percentiles,
    pub service_time_us: Percentiles,
    pub send_lag_us: Percentiles,
    pub first_byte_us: Percentiles,
    pub connect_us: Percentiles,
    pub tls_handshake_us: Percentiles,
    pub connections: Connections,
    pub client: Client,
    pub tcp: Tcp,
    /// `null` for HTTP/1.1.
    pub http2: Option<()>,
    pub in_flight: InFlight,
    pub protocol_errors: BTreeMap<String, u64>,
    /// Response time by quantile, for drawing: `[quantile, µs]`, cut where samples end.
    pub spectrum_us: Vec<(f64, f64)>,
    pub intervals: Vec<IntervalResult>,
}

/// The books of the measured window: counts of exchanges that were intended in it (docs/terminology.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Exchanges {
    pub scheduled: u64,
    pub started: u64,
    pub completed: u64,
    pub failed: u64,
    pub dropped: u64,
    pub in_flight_at_end: u64,
    /// Answered but not measured: intended before the window.
    pub warmup_completed: u64,
}

/// Bytes on the wire within the window, heads included, and bytes of bodies alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Bytes {
    pub sent: u64,
    pub received: u64,
    pub body_received: u64,
}

/// A distribution of times in microseconds. A percentile with too few samples beyond it is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Percentiles {
    pub count: u64,
    pub min: Option<f64>,
    pub mean: Option<f64>,
    pub stdev: Option<f64>,
    pub p50: Option<f64>,
    pub p75: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub p99_9: Option<f64>,
    pub p99_99: Option<f64>,
    pub max: Option<f64>,
}

impl Percentiles {
    #[must_use]
    pub fn new(times: &Times) -> Percentiles {
        let us = |ns: u64| ns as f64 / 1e3;
        let at = |q: f64| {
            let beyond = times.count() as f64 * (1.0 - q);
            // The comparison allows for the rounding of 1 − q.
            if beyond + 1e-6 < SAMPLES_BEYOND { None } else { times.at(q).map(us) }
        };
        Percentiles {
            count: times.count(),
            min: times.min().map(us),
            mean: times.mean().map(|ns| ns / 1e3),
            stdev: times.stdev().map(|ns| ns / 1e3),
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: times.max().map(us),
        }
    }
}

/// The generator's own cost within the measured window.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Client {
    pub cpu_user_s: f64,
    pub cpu_sys_s: f64,
    pub cpu_us_per_exchange: Option<f64>,
    /// Of a whole CPU.
    pub busiest_thread_utilisation: f64,
    pub loop_lag_us: Percentiles,
    pub wake_lag_us: Percentiles,
    pub rss_peak_bytes: Option<u64>,
    pub driver: String,
    pub threads: usize,
    pub run_delay_s: Option<f64>,
}

/// Segments over the measured window, `None` where the kernel does not count them for us.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Tcp {
    pub data_segments_in: Option<u64>,
    pub segments_in: Option<u64>,
    pub segments_out: Option<u64>,
    pub retransmits: Option<u64>,
    pub data_segments_per_response: Option<f64>,
}

/// Both sides of Little's law over the measured window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InFlight {
    /// Time integral of the number in flight, divided by the window.
    pub mean: f64,
    /// The times of all exchanges inside the window, summed and divided by its length (throughput × mean time).
    pub by_littles_law: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct IntervalResult {
    pub phase: Phase,
    pub start_s: f64,
    pub end_s: f64,
    pub ok: u64,
    pub failed: u64,
    pub throughput_rps: f64,
    pub in_flight_mean: f64,
    pub response_time_us: Percentiles,
    pub service_time_us: Percentiles,
}

/// Computes the result of one load.
#[must_use]
pub fn result(record: &TrialRecord, config: Config) -> LoadResult {
    let sums = Sums::new(record);
    let mut result = LoadResult {
        schema: SCHEMA,
        valid: true,
        caveats: Vec::new(),
        duration_s: sums.window_s,
        exchanges: exchanges(record),
        outcomes: sums.measured.by_name(),
        throughput_rps: per_second(sums.ok, sums.window_s),
        bytes: sums.bytes,
        response_time_us: Percentiles::new(&sums.response),
        service_time_us: Percentiles::new(&sums.times.service),
        send_lag_us: Percentiles::new(&sums.times.send_lag),
        first_byte_us: Percentiles::new(&sums.times.first_byte),
        connect_us: Percentiles::new(&Times::merged(record.intervals.iter().map(|i| &i.connect))),
        tls_handshake_us: Percentiles::new(&Times::merged(record.intervals.iter().map(|i| &i.tls_handshake))),
        connections: record.connections,
        client: client(record, &sums),
        tcp: tcp(record.tcp.as_ref(), sums.answers),
        http2: None,
        in_flight: sums.in_flight,
        protocol_errors: record.protocol_errors.clone(),
        spectrum_us: spectrum(&sums.response),
        intervals: record.intervals.iter().map(interval_result).collect(),
        config,
    };
    result.caveats = caveats(&result, record);
    result.valid = !result.caveats.iter().any(|c| c.severity == Severity::Invalid);
    result
}

/// Sums over the measured window and its drain.
struct Sums {
    window_s: f64,
    /// Right answers that arrived within the window, whenever they were asked for.
    ok: u64,
    /// Complete answers, right or wrong, that arrived within the window.
    answers: u64,
    /// Outcomes of the exchanges that belong to the window.
    measured: Outcomes,
    times: ExchangeTimes,
    /// Response times with the ages of what was never answered.
    response: Times,
    bytes: Bytes,
    in_flight: InFlight,
}

impl Sums {
    fn new(record: &TrialRecord) -> Sums {
        let (opens, closes) = record.window_ns;
        let window_ns = closes.saturating_sub(opens) as f64;
        let mut sums = Sums {
            window_s: window_ns / 1e9,
            ok: 0,
            answers: 0,
            measured: Outcomes::default(),
            times: ExchangeTimes::default(),
            response: record.unanswered.clone(),
            bytes: Bytes { sent: 0, received: 0, body_received: 0 },
            in_flight: InFlight { mean: 0.0, by_littles_law: 0.0 },
        };
        for interval in record.intervals.iter().filter(|i| i.phase != Phase::Warmup) {
            sums.measured.add(&interval.outcomes);
            sums.times.add(&interval.times);
            if interval.phase == Phase::Measured {
                sums.add_window(interval);
            }
        }
        sums.response.add(&sums.times.response);
        if window_ns > 0.0 {
            sums.in_flight.mean /= window_ns;
            sums.in_flight.by_littles_law = record.residence_ns as f64 / window_ns;
        }
        sums
    }

    fn add_window(&mut self, interval: &Interval) {
        self.ok += interval.outcomes.of(Outcome::Ok) + interval.carried.of(Outcome::Ok);
        self.answers += interval.outcomes.completed() + interval.carried.completed();
        self.bytes.sent += interval.bytes_sent;
        self.bytes.received += interval.bytes_received;
        self.bytes.body_received += interval.body_received;
        self.in_flight.mean += interval.in_flight_ns as f64;
    }
}

/// Complete answers per second of the measured window, right or wrong: what the server did work for.
#[must_use]
pub fn answers_per_second(record: &TrialRecord) -> f64 {
    let sums = Sums::new(record);
    per_second(sums.answers, sums.window_s)
}

fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn exchanges(record: &TrialRecord) -> Exchanges {
    let books = record.books;
    let warmup = record.intervals.iter().map(|i| match i.phase {
        Phase::Warmup => i.outcomes.completed(),
        Phase::Measured | Phase::Drain => i.carried.completed(),
    });
    Exchanges {
        scheduled: books.scheduled,
        started: books.started,
        completed: books.completed,
        failed: books.failed,
        dropped: books.dropped,
        in_flight_at_end: books.in_flight_at_end,
        warmup_completed: warmup.sum(),
    }
}

fn client(record: &TrialRecord, sums: &Sums) -> Client {
    let threads = &record.client.threads;
    let sum = |pick: fn(&dyno_archive::sample::ThreadUse) -> u64| {
        threads.iter().map(pick).sum::<u64>() as f64 / 1e9
    };
    let run_s = sum(|t| t.run_ns);
    // The split is sampled; it is scaled to the exact sum.
    let (user, sys) = (sum(|t| t.user_ns), sum(|t| t.sys_ns));
    let user_share = if user + sys > 0.0 { user / (user + sys) } else { 0.0 };
    let busiest = threads.iter().map(|t| t.run_ns).max().unwrap_or(0) as f64 / 1e9;
    let measured = record.intervals.iter().filter(|i| i.phase == Phase::Measured);
    Client {
        cpu_user_s: run_s * user_share,
        cpu_sys_s: run_s * (1.0 - user_share),
        cpu_us_per_exchange: (sums.answers > 0).then(|| run_s * 1e6 / sums.answers as f64),
        busiest_thread_utilisation: if sums.window_s > 0.0 { busiest / sums.window_s } else { 0.0 },
        loop_lag_us: Percentiles::new(&Times::merged(measured.clone().map(|i| &i.loop_lag))),
        wake_lag_us: Percentiles::new(&Times::merged(measured.map(|i| &i.wake_lag))),
        rss_peak_bytes: record.client.rss_peak_bytes,
        driver: record.client.driver.clone(),
        threads: threads.len(),
        run_delay_s: threads.iter().map(|t| t.run_delay_ns).sum::<Option<u64>>().map(|ns| ns as f64 / 1e9),
    }
}

fn tcp(counters: Option<&TcpCounters>, answers: u64) -> Tcp {
    let Some(c) = counters else { return Tcp::default() };
    Tcp {
        data_segments_in: Some(c.data_segments_in),
        segments_in: Some(c.segments_in),
        segments_out: Some(c.segments_out),
        retransmits: Some(c.retransmits),
        data_segments_per_response: (answers > 0).then(|| c.data_segments_in as f64 / answers as f64),
    }
}

/// Quantiles whose distance from 1 falls by a constant factor, as far as samples reach.
fn spectrum(times: &Times) -> Vec<(f64, f64)> {
    const POINTS_PER_DECADE: i32 = 12;
    let reach = times.count() as f64 / SAMPLES_BEYOND;
    let points = (reach.max(1.0).log10() * f64::from(POINTS_PER_DECADE)) as i32;
    (0..=points)
        .filter_map(|i| {
            let q = 1.0 - 10f64.powf(-f64::from(i) / f64::from(POINTS_PER_DECADE));
            Some((q, times.at(q)? as f64 / 1e3))
        })
        .collect()
}

fn interval_result(interval: &Interval) -> IntervalResult {
    let seconds = (interval.end_ns - interval.start_ns) as f64 / 1e9;
    let ok = interval.outcomes.of(Outcome::Ok) + interval.carried.of(Outcome::Ok);
    let all = interval.outcomes.total() + interval.carried.total();
    let mean_in_flight = if seconds > 0.0 { interval.in_flight_ns as f64 / 1e9 / seconds } else { 0.0 };
    IntervalResult {
        phase: interval.phase,
        start_s: interval.start_ns as f64 / 1e9,
        end_s: interval.end_ns as f64 / 1e9,
        ok,
        failed: all - ok,
        throughput_rps: per_second(ok, seconds),
        in_flight_mean: mean_in_flight,
        response_time_us: Percentiles::new(&interval.times.response),
        service_time_us: Percentiles::new(&interval.times.service),
    }
}

/// Every reason to distrust this result, the gravest first.
fn caveats(result: &LoadResult, record: &TrialRecord) -> Vec<Caveat> {
    let mut all: Vec<Caveat> = [
        books(record),
        subject_failed(record),
        littles_law(result),
        generator_busy(result),
        wrong_answers(result),
        no_answers(result),
        checks_failed(record),
        errors(result),
        unanswered(result),
        dropped(result),
        rate_not_reached(result),
        connections(result),
        unsolicited(result),
        queueing(result),
        generator_late(result),
        record
            .cut_short
            .then(|| info("cut_short", "You ended this load early: the window is shorter than planned.")),
        tcp_not_measured(result),
        short_window(result),
    ]
    .into_iter()
    .flatten()
    .collect();
    all.sort_by_key(|c| std::cmp::Reverse(c.severity));
    all
}

fn books(record: &TrialRecord) -> Option<Caveat> {
    let evidence = serde_json::to_value(record.books).expect("numbers only");
    (!record.books.balance()).then(|| {
        let message = "The books do not balance, which is a fault of dyno: do not use this result, and please report it.";
        Caveat::new("books", Severity::Invalid, message.into(), evidence)
    })
}

fn littles_law(result: &LoadResult) -> Option<Caveat> {
    let InFlight { mean, by_littles_law } = result.in_flight;
    let off = (by_littles_law - mean).abs() / mean;
    (mean > 0.0 && off > LITTLE_TOLERANCE).then(|| {
        let message = format!(
            "By their times in the window {by_littles_law:.2} requests were in flight on average, by their count {mean:.2}: the times or counts of this step are wrong. Repeat it on a quieter machine, and report it if it happens again."
        );
        Caveat::new("littles_law", Severity::Invalid, message, json!({"in_flight": mean, "by_law": by_littles_law}))
    })
}

fn generator_busy(result: &LoadResult) -> Option<Caveat> {
    let busy = result.client.busiest_thread_utilisation;
    (busy > GENERATOR_BUSY).then(|| {
        let message = format!(
            "The generator was busy for {} of one thread, so throughput is a lower bound of what the server can do. Give it another CPU: `--threads {}`.",
            percent(busy),
            result.config.threads + 1
        );
        Caveat::new("generator_busy", Severity::Invalid, message, json!({"busiest_thread_utilisation": busy}))
    })
}

fn wrong_answers(result: &LoadResult) -> Option<Caveat> {
    let of = |outcome: Outcome| result.outcomes.get(outcome.name()).copied().unwrap_or(0);
    let (status, body) = (of(Outcome::UnexpectedStatus), of(Outcome::UnexpectedBody));
    (status + body > 0).then(|| {
        let message = format!(
            "{status} answers had an unexpected status and {body} an unexpected body: the server did not do the work that is measured here. Ask for one answer by hand and mend the server, or the expectation."
        );
        let evidence = json!({"unexpected_status": status, "unexpected_body": body});
        Caveat::new("wrong_answers", Severity::Invalid, message, evidence)
    })
}

fn no_answers(result: &LoadResult) -> Option<Caveat> {
    let ok = result.outcomes.get(Outcome::Ok.name()).copied().unwrap_or(0);
    (ok == 0).then(|| {
        let message = match leading_failure(result) {
            Some(failure) => format!("No request was answered as expected; most ended as {failure}."),
            None => "No request was answered in the measured window.".into(),
        };
        Caveat::new("no_answers", Severity::Invalid, message, json!({}))
    })
}

fn leading_failure(result: &LoadResult) -> Option<&'static str> {
    let failures = Outcome::ALL.iter().filter(|o| **o != Outcome::Ok);
    let count = |o: &Outcome| result.outcomes.get(o.name()).copied().unwrap_or(0);
    failures.filter(|o| count(o) > 0).max_by_key(|o| count(o)).map(|o| o.name())
}

fn subject_failed(record: &TrialRecord) -> Option<Caveat> {
    let words = record.subject_failure.as_ref()?;
    let message = format!("The server failed during this step: {words}.");
    Some(Caveat::new("subject_failed", Severity::Invalid, message, json!({})))
}

fn checks_failed(record: &TrialRecord) -> Option<Caveat> {
    let failed: Vec<_> = record.checks.iter().filter(|c| !c.ok).collect();
    let first = failed.first()?;
    let message = format!(
        "{} of {} contract checks failed while the load ran; the first was {:?}: {}",
        failed.len(),
        record.checks.len(),
        first.name,
        first.detail
    );
    let names: Vec<&str> = failed.iter().map(|c| c.name.as_str()).collect();
    // A wrong answer is wrong work. None in time may only mean that the server was full.
    let severity = if failed.iter().any(|c| c.answered) { Severity::Invalid } else { Severity::Warning };
    Some(Caveat::new("checks_failed", severity, message, json!({"failed": names})))
}

fn errors(result: &LoadResult) -> Option<Caveat> {
    let failed = result.exchanges.failed;
    let share = failed as f64 / result.exchanges.started.max(1) as f64;
    (failed > 0).then(|| {
        let classes: Vec<String> = Outcome::ALL
            .iter()
            .filter(|o| !o.is_completed())
            .filter_map(|o| Some((o.name(), *result.outcomes.get(o.name())?)))
            .filter(|(_, n)| *n > 0)
            .map(|(name, n)| format!("{n} {name}"))
            .collect();
        let mut message = format!("{} of the requests failed ({}).", percent(share), classes.join(", "));
        if result.outcomes.get(Outcome::AddressExhausted.name()).is_some_and(|n| *n > 0) {
            message.push_str(
                " No local port was left to connect from: keep connections alive, or widen net.ipv4.ip_local_port_range.",
            );
        }
        Caveat::new("errors", Severity::Warning, message, json!({"failed": failed, "share": share}))
    })
}

fn unanswered(result: &LoadResult) -> Option<Caveat> {
    let n = result.exchanges.in_flight_at_end;
    (n > 0).then(|| {
        let message = format!(
            "{n} requests were still unanswered at the end. They are counted with the time they had waited by then, so high percentiles are lower bounds (≥). Load longer, or less, to see them end."
        );
        Caveat::new("unanswered", Severity::Warning, message, json!({"in_flight_at_end": n}))
    })
}

fn dropped(result: &LoadResult) -> Option<Caveat> {
    let n = result.exchanges.dropped;
    (n > 0).then(|| {
        let message = format!(
            "{n} arrivals were dropped because too many were waiting for a connection already. Offer less, or give more connections."
        );
        Caveat::new("dropped", Severity::Warning, message, json!({"dropped": n}))
    })
}

fn rate_not_reached(result: &LoadResult) -> Option<Caveat> {
    let rate = result.config.rate?;
    let got = result.throughput_rps;
    (got < rate * 0.98).then(|| {
        let message = format!(
            "{got:.0} requests per second were answered of {rate:.0} offered: the response times are those of an overloaded server or of too few connections. Offer less, or give more connections."
        );
        Caveat::new("rate_not_reached", Severity::Warning, message, json!({"offered": rate, "answered": got}))
    })
}

fn connections(result: &LoadResult) -> Option<Caveat> {
    let Connections { asked, established, .. } = result.connections;
    (established < asked).then(|| {
        let message = format!(
            "{established} of {asked} connections were open at the end of the window: fewer requests were in flight than asked for at times. Look at the errors and at who closed: `connections.closed_by_server`."
        );
        Caveat::new("connections", Severity::Warning, message, json!({"asked": asked, "established": established}))
    })
}

fn unsolicited(result: &LoadResult) -> Option<Caveat> {
    let n = result.connections.unsolicited;
    (n > 0).then(|| {
        let message = format!("The server sent bytes that answer no request on {n} connections. Look at its answers to HEAD and at its Content-Length.");
        Caveat::new("unsolicited", Severity::Warning, message, json!({"connections": n}))
    })
}

fn queueing(result: &LoadResult) -> Option<Caveat> {
    let (response, service) = (result.response_time_us.p99?, result.service_time_us.p99?);
    (result.config.model == "open" && response > 2.0 * service).then(|| {
        let message = format!(
            "Most of the response time's tail is waiting for a free connection: p99 is {response:.0} µs from the intended start, {service:.0} µs from the sending. More connections would show the server's own limit."
        );
        Caveat::new("queueing", Severity::Info, message, json!({"response_p99_us": response, "service_p99_us": service}))
    })
}

fn generator_late(result: &LoadResult) -> Option<Caveat> {
    let (late, median) = (result.client.wake_lag_us.p99?, result.response_time_us.p50?);
    (late > 0.1 * median && late > 100.0).then(|| {
        let message = format!(
            "The generator woke up to {late:.0} µs late (p99), against a median response time of {median:.0} µs: some of what looks like the server is this machine. Measure on a quieter one."
        );
        Caveat::new("generator_late", Severity::Warning, message, json!({"wake_lag_p99_us": late}))
    })
}

fn tcp_not_measured(result: &LoadResult) -> Option<Caveat> {
    let none = result.tcp.segments_in.is_none();
    none.then(|| {
        info(
            "tcp_not_measured",
            "TCP segments are not known: no connection was open, or the kernel does not count them.",
        )
    })
}

fn short_window(result: &LoadResult) -> Option<Caveat> {
    (result.duration_s < 1.0 && result.config.requests.is_none()).then(|| {
        info(
            "short_window",
            "The measured window is shorter than a second: expect noise. Use a longer duration.",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_need_samples_beyond_them() {
        let mut times = Times::new();
        (1..=2000u64).for_each(|i| times.record(i * 1000));
        let p = Percentiles::new(&times);
        assert_eq!(p.count, 2000);
        assert!((p.p99.unwrap() - 1980.0).abs() < 3.0);
        assert_eq!((p.p99_9, p.p99_99), (None, None));
        assert!(p.max.is_some());
        let none = Percentiles::new(&Times::new());
        assert_eq!(none, Percentiles::default());
    }

    #[test]
    fn a_spectrum_ends_where_samples_end() {
        let mut times = Times::new();
        (0..20_000).for_each(|_| times.record(5000));
        let spectrum = spectrum(&times);
        assert!(spectrum.iter().all(|(_, us)| (us - 5.0).abs() < 0.1));
        let last = spectrum.last().unwrap().0;
        assert!((0.998..=0.9991).contains(&last), "{last}");
    }
}
