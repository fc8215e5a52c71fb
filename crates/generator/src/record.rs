//! Combines the results of a load's workers and of its controller into the record for the archive.

use std::collections::BTreeMap;

use dyno_engine::WorkerReport;
use dyno_model::load::{Books, ClientUse, Connections, Edges, Timeouts, UnansweredAges};
use dyno_model::plan::Priority;
use dyno_model::probe::RequestedProbes;
use dyno_model::silence;
use dyno_model::{Interval, LoadRecord, Sample};

use super::instrument::GeneratorReadings;
use super::messages::WorkerResult;
use super::spec::LoadSpec;

/// The results of a load that has ended, as the controller has them.
#[derive(Debug)]
pub(super) struct EndedLoad {
    /// Begin of the load on the samples' clock, nanoseconds. 0: the load never began.
    pub(super) began_ns: u64,
    pub(super) intervals: Vec<Interval>,
    pub(super) samples: Vec<Sample>,
    /// Of each worker.
    pub(super) results: Vec<WorkerResult>,
    /// Failure of the server under the load; `None`: the server did not fail.
    pub(super) failure: Option<String>,
    /// `None`: the load was not cut short.
    pub(super) cut: Option<CutPhase>,
}

/// Phase in which a load was cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CutPhase {
    /// The warm-up or the measured window.
    Window,
    /// The wait for the last responses.
    Drain,
}

/// Joins all results of one load into its record.
pub(super) fn assemble(
    spec: &LoadSpec,
    ended: EndedLoad,
    readings: GeneratorReadings,
) -> LoadRecord {
    let EndedLoad { began_ns, intervals, samples, results, failure, cut } = ended;
    let had_priority = results.iter().all(|result| result.priority == spec.load.priority);
    let is_measured = readings != GeneratorReadings::Unsupported;
    let (rss_peak_bytes, machine) = match readings {
        GeneratorReadings::Read { rss_peak_bytes, machine } => {
            (rss_peak_bytes, machine.map(|machine| *machine))
        }
        GeneratorReadings::Unsupported => (None, None),
    };
    let threads = results.iter().filter(|_| is_measured).map(|r| r.report.cpu.clone()).collect();
    let client = ClientUse {
        threads,
        rss_peak_bytes,
        driver: spec.load.driver,
        priority: if had_priority { spec.load.priority } else { Priority::Normal },
        machine,
    };
    let mut record = LoadRecord {
        began_ns,
        window_ns: (0, 0),
        slices_ns: None,
        concurrent_loads: spec.sharing.concurrent_loads(),
        books: Books::default(),
        connections: Connections::default(),
        tcp: None,
        client,
        intervals,
        edges: Some(Edges::default()),
        unanswered: UnansweredAges::default(),
        protocol_errors: BTreeMap::new(),
        tls: None,
        http2: None,
        unexpected: BTreeMap::new(),
        connection_failures: BTreeMap::new(),
        samples,
        runtime: Vec::new(),
        probes: RequestedProbes::default(),
        server_failure: failure,
        cut_short: false,
        silences: None,
        address: None,
        timeouts: Timeouts::default(),
        continues: None,
    };
    add_results(&mut record, results);
    let (slices, window_ns) = (spec.sharing.slices(), record.window_ns);
    record.slices_ns = slices.map(|slices| slices.slices_between(0, window_ns.1));
    record.silences = record.silences.map(|silences| silence::long_silences(&silences, window_ns));
    record.cut_short = match cut {
        Some(CutPhase::Window) => true,
        // If all responses had arrived, the early end changed nothing.
        Some(CutPhase::Drain) => record.books.in_flight_at_end > 0,
        None => false,
    };
    record
}

/// Adds the results of all workers to the record.
fn add_results(record: &mut LoadRecord, results: Vec<WorkerResult>) {
    let http1_chosen: u64 = results.iter().map(|result| result.report.http1_chosen).sum();
    results.into_iter().for_each(|result| add_report(record, result.report));
    // Connections on which ALPN chose HTTP/1.1 are fallbacks only if another connection uses
    // HTTP/2.
    if let Some(http2) = &mut record.http2 {
        http2.fallen_back += http1_chosen;
    }
}

/// Adds a worker's report to the record.
fn add_report(record: &mut LoadRecord, report: WorkerReport) {
    // The windows of all workers begin at the same instant, except if the load ends in its warm-up.
    // In this case all windows are empty, and the latest one is the window of the load.
    record.window_ns.0 = record.window_ns.0.max(report.window_ns.0);
    record.window_ns.1 = record.window_ns.1.max(report.window_ns.1);
    record.books.add(&report.books);
    record.connections.add(&report.connections);
    record.silences = Some(match record.silences.take() {
        Some(others) => silence::common(&others, &report.silences),
        None => report.silences,
    });
    if let Some(tcp) = &report.tcp {
        record.tcp.get_or_insert_default().add(tcp);
    }
    record.edges.get_or_insert_default().add(&report.edges);
    record.unanswered.add(&report.unanswered);
    record.timeouts.add(&report.timeouts);
    if let Some(continues) = &report.continues {
        record.continues.get_or_insert_default().add(continues);
    }
    if let Some(tls) = &report.tls {
        record.tls.get_or_insert_default().add(tls);
    }
    if let Some(http2) = &report.http2 {
        record.http2.get_or_insert_default().add(http2);
    }
    add_kinds(&mut record.protocol_errors, report.protocol_errors);
    add_kinds(&mut record.unexpected, report.unexpected);
    add_kinds(&mut record.connection_failures, report.connection_failures);
}

fn add_kinds(to: &mut BTreeMap<String, u64>, from: BTreeMap<String, u64>) {
    for (name, n) in from {
        *to.entry(name).or_default() += n;
    }
}
