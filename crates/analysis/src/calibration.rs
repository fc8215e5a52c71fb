//! Computes the result of `dyno calibrate`: what the generator reaches on this machine. The format
//! is `dyno.calibration/1`.

use std::collections::BTreeMap;

use dyno_model::plan::{DriverKind, Load, Placement, Spin, Step, Workload};
use dyno_model::{LoadRecord, Outcome, Protocol};
use serde::Serialize;

use crate::caveat::{Code, Severity};
use crate::load::{LoadConfig, LoadResult, Percentiles};
use crate::verdict::{self, Context};

pub const SCHEMA: &str = "dyno.calibration/1";

/// Purpose of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasurementPurpose {
    /// Highest throughput of one generator thread with the smallest correct response.
    Ceiling,
    /// Send lag of requests on a schedule.
    Pacing,
    /// Response times by dyno's timestamps, compared with the kernel's timestamps.
    Stamps,
    /// Requests to a closed port. Each of them must be counted as refused.
    Refusals,
}

/// One planned load of a calibration.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    pub shows: MeasurementPurpose,
    pub workload: Workload,
    /// Load with one step.
    pub load: Load,
    pub seed: u64,
}

impl Measurement {
    /// Returns the only step of the load.
    #[must_use]
    pub fn step(&self) -> &Step {
        &self.load.steps[0]
    }

    /// Returns the requests in flight on each connection.
    #[must_use]
    pub fn in_flight_each(&self) -> u32 {
        self.step().pipeline * self.step().streams
    }
}

/// A load of a calibration with its record.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredLoad {
    pub measurement: Measurement,
    pub record: LoadRecord,
}

impl MeasuredLoad {
    /// Returns the result of the load by its own record, without comparison with a ceiling.
    #[must_use]
    pub fn result(&self) -> LoadResult {
        let Measurement { workload, load, seed, .. } = &self.measurement;
        let config = LoadConfig::new(workload, load, self.measurement.step(), *seed);
        verdict::load(&self.record, config, &Context::default())
    }

    /// Whether the kernel gave no timestamps although they were requested. Without timestamps of
    /// the kernel, dyno's timestamps cannot be checked.
    #[must_use]
    pub fn lacks_stamps(&self) -> bool {
        self.measurement.shows == MeasurementPurpose::Stamps
            && self.result().kernel_response_time_us.is_none()
    }
}

/// The result of `dyno calibrate`. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    pub schema: &'static str,
    pub machine: String,
    /// Whether server and generator had to share a CPU. If so, all ceilings are lower bounds.
    pub shared_cpus: bool,
    pub ceilings: Vec<CeilingRow>,
    /// Protocols without a ceiling, each with the reason.
    pub not_measured: BTreeMap<String, String>,
    pub pacing: Vec<PacingRow>,
    pub stamps: Vec<StampsRow>,
    pub refused: RefusedConnections,
}

impl Calibration {
    /// Computes the result; rows are in the order of the measurements. `machine`: the machine that
    /// was calibrated. `not_measured`: protocols without a ceiling, each with the reason.
    #[must_use]
    pub fn new(
        machine: String,
        placement: &Placement,
        not_measured: BTreeMap<String, String>,
        loads: &[MeasuredLoad],
    ) -> Calibration {
        let results = |shows: MeasurementPurpose| {
            loads.iter().filter(move |m| m.measurement.shows == shows).map(MeasuredLoad::result)
        };
        Calibration {
            schema: SCHEMA,
            machine,
            shared_cpus: !placement.is_disjoint(),
            ceilings: results(MeasurementPurpose::Ceiling)
                .map(|result| CeilingRow::new(&result))
                .collect(),
            not_measured,
            pacing: results(MeasurementPurpose::Pacing)
                .map(|result| PacingRow::new(&result))
                .collect(),
            stamps: results(MeasurementPurpose::Stamps)
                .filter_map(|result| StampsRow::new(&result))
                .collect(),
            refused: RefusedConnections::from_results(results(MeasurementPurpose::Refusals)),
        }
    }

    /// Whether all numbers are valid: no load was disturbed, server and generator had separate
    /// CPUs, and each request to the closed port was counted as refused.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let disturbed = [
            self.ceilings.iter().any(|row| row.disturbed.is_some()),
            self.pacing.iter().any(|row| row.disturbed.is_some()),
            self.stamps.iter().any(|row| row.disturbed.is_some()),
        ];
        !self.shared_cpus
            && !disturbed.contains(&true)
            && self.refused.counted == self.refused.asked
    }

    /// Returns the ceilings with which later loads can be compared.
    pub fn valid_ceilings(&self) -> impl Iterator<Item = &CeilingRow> {
        self.ceilings.iter().filter(|row| !self.shared_cpus && row.disturbed.is_none())
    }
}

/// Returns why a load of a calibration is not valid; `None`: the load is valid. A busy or late
/// generator is expected in a calibration, so these two caveats are ignored.
fn disturbance(result: &LoadResult) -> Option<String> {
    let expected = [Code::GENERATOR_BUSY, Code::GENERATOR_LATE];
    // A generator that waited for a CPU is never expected, whatever the severity of the caveat.
    let is_disturbance = |severity: Severity, code: Code| {
        code == Code::GENERATOR_STARVED
            || severity == Severity::Invalid && !expected.contains(&code)
    };
    let mut caveats = result.caveats.iter();
    caveats.find(|c| is_disturbance(c.severity, c.code)).map(|caveat| caveat.message.clone())
}

/// Highest throughput of one generator thread against the null responder.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CeilingRow {
    pub driver: DriverKind,
    pub protocol: Protocol,
    pub connections: u32,
    /// Pipelined requests in flight per connection.
    pub pipeline: u32,
    /// Streams per connection.
    pub streams: u32,
    pub throughput_rps: f64,
    pub cpu_us_per_exchange: Option<f64>,
    pub busiest_thread_utilisation: f64,
    /// Sentence on why the load is not valid, so that its ceiling is not stored; `None`: valid.
    pub disturbed: Option<String>,
}

impl CeilingRow {
    fn new(result: &LoadResult) -> CeilingRow {
        let LoadConfig { driver, protocol, connections, pipeline, streams, .. } = result.config;
        CeilingRow {
            driver,
            protocol,
            connections,
            pipeline,
            streams,
            throughput_rps: result.throughput_rps,
            cpu_us_per_exchange: result.client.cpu_us_per_exchange,
            busiest_thread_utilisation: result.client.busiest_thread_utilisation,
            disturbed: disturbance(result),
        }
    }

    /// Returns the requests in flight on each connection.
    #[must_use]
    pub const fn in_flight_each(&self) -> u32 {
        self.pipeline * self.streams
    }
}

/// Send lag of requests on a schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PacingRow {
    /// Requests per second on the schedule.
    pub rate: f64,
    pub spin: Spin,
    pub send_lag_us: Percentiles,
    pub wake_lag_us: Percentiles,
    pub response_time_us: Percentiles,
    /// Coefficient of variation of the gaps between requests when they were sent; `None`: no gaps.
    pub achieved_cv: Option<f64>,
    /// CPU seconds of the generator per second, including polling.
    pub cpu_s_per_s: f64,
    /// CPU seconds per second spent on polling.
    #[serde(rename = "spun_s_per_s")]
    pub polling_s_per_s: f64,
    /// Sentence on why the load is not valid; `None`: valid.
    pub disturbed: Option<String>,
}

impl PacingRow {
    fn new(result: &LoadResult) -> PacingRow {
        let client = &result.client;
        PacingRow {
            rate: result.config.rate.unwrap_or_default(),
            spin: result.config.spin,
            send_lag_us: result.send_lag_us.clone(),
            wake_lag_us: client.wake_lag_us.clone(),
            response_time_us: result.response_time_us.clone(),
            achieved_cv: result.gaps.as_ref().and_then(|gaps| gaps.achieved_cv),
            cpu_s_per_s: (client.cpu_user_s + client.cpu_sys_s) / result.duration_s,
            polling_s_per_s: client.cpu_polling_s / result.duration_s,
            disturbed: disturbance(result),
        }
    }
}

/// Response times of the same exchanges by dyno's timestamps and by the kernel's timestamps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StampsRow {
    /// Requests per second on the schedule.
    pub rate: f64,
    pub spin: Spin,
    pub ours_us: Percentiles,
    pub kernel_us: Percentiles,
    /// dyno's response time minus the kernel's: the time that the generator adds.
    pub difference_p50_us: Option<f64>,
    pub difference_p99_us: Option<f64>,
    /// Sentence on why the load is not valid; `None`: valid.
    pub disturbed: Option<String>,
}

impl StampsRow {
    /// Compares the timestamps of a load; `None`: the kernel gave none.
    fn new(result: &LoadResult) -> Option<StampsRow> {
        let (ours, kernel) = (&result.response_time_us, result.kernel_response_time_us.as_ref()?);
        Some(StampsRow {
            rate: result.config.rate.unwrap_or_default(),
            spin: result.config.spin,
            difference_p50_us: difference(ours, kernel, |p| p.p50),
            difference_p99_us: difference(ours, kernel, |p| p.p99),
            ours_us: ours.clone(),
            kernel_us: kernel.clone(),
            disturbed: disturbance(result),
        })
    }
}

/// Returns the difference of one percentile of two distributions; `None`: one is unknown.
fn difference(
    ours: &Percentiles,
    kernel: &Percentiles,
    pick: fn(&Percentiles) -> Option<f64>,
) -> Option<f64> {
    Some(pick(ours)? - pick(kernel)?)
}

/// Results of the requests to a closed port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RefusedConnections {
    pub asked: u64,
    /// Requests with the outcome `connect_refused`.
    pub counted: u64,
    /// Requests that failed in any way.
    pub failed: u64,
}

impl RefusedConnections {
    /// Adds up the requests of all loads to a closed port.
    fn from_results(results: impl Iterator<Item = LoadResult>) -> RefusedConnections {
        results.fold(RefusedConnections::default(), |sum, result| RefusedConnections {
            asked: sum.asked + result.config.requests.unwrap_or_default(),
            counted: sum.counted + result.outcomes.get(Outcome::ConnectRefused),
            failed: sum.failed + result.exchanges.failed,
        })
    }
}

#[cfg(test)]
mod tests {
    use dyno_model::interval::WorkerUse;
    use dyno_model::load::Books;
    use dyno_model::plan::Arrivals;
    use dyno_model::sample::ThreadUse;
    use dyno_model::times::Recording;
    use dyno_model::{Interval, Phase, Times};

    use super::*;
    use crate::fixture;

    const S: u64 = 1_000_000_000;

    fn measured_load(
        shows: MeasurementPurpose,
        arrivals: Arrivals,
        record: LoadRecord,
    ) -> MeasuredLoad {
        let load =
            Load { steps: vec![fixture::step(arrivals)], spin: Spin::Auto, ..fixture::load() };
        MeasuredLoad {
            measurement: Measurement { shows, workload: fixture::workload(), load, seed: 1 },
            record,
        }
    }

    fn calibration(loads: &[MeasuredLoad]) -> Calibration {
        let placement = Placement { subject: vec![0], generator: vec![1] };
        Calibration::new("here".into(), &placement, BTreeMap::new(), loads)
    }

    fn times(n: u64, ns: u64) -> Times {
        let mut times = Recording::new();
        (0..n).for_each(|_| times.record(ns));
        times.seal()
    }

    #[test]
    fn ceiling_row_has_throughput_and_shape() {
        let mut control =
            measured_load(MeasurementPurpose::Ceiling, Arrivals::Closed, fixture::record(5000));
        control.measurement.load.steps[0].pipeline = 16;
        assert_eq!(control.measurement.in_flight_each(), 16);
        let loads = calibration(&[control]);
        let row = &loads.ceilings[0];
        assert_eq!((row.throughput_rps, row.connections, row.in_flight_each()), (5000.0, 64, 16));
        assert!(loads.pacing.is_empty() && loads.stamps.is_empty() && !loads.shared_cpus);
    }

    /// A ceiling of a stopped generator would be too low for each later load.
    #[test]
    fn disturbed_ceiling_is_not_stored() {
        let measured = |change: &dyn Fn(&mut LoadRecord)| {
            let mut record = fixture::record(5000);
            change(&mut record);
            let load = measured_load(MeasurementPurpose::Ceiling, Arrivals::Closed, record);
            calibration(&[load])
        };
        let valid = measured(&|_| ());
        assert_eq!((valid.is_valid(), valid.valid_ceilings().count()), (true, 1), "{valid:?}");
        let failing = measured(&|record| {
            (0..5000).for_each(|_| record.intervals[0].outcomes.count(Outcome::Timeout));
            record.books.failed += 5000;
        });
        let reason = failing.ceilings[0].disturbed.as_deref().unwrap();
        assert!(reason.contains("timeout"), "{reason}");
        assert_eq!((failing.is_valid(), failing.valid_ceilings().count()), (false, 0));
        let shared = Placement { subject: vec![0], generator: vec![0] };
        let load = measured_load(MeasurementPurpose::Ceiling, Arrivals::Closed, fixture::record(9));
        let shared = Calibration::new("here".into(), &shared, BTreeMap::new(), &[load]);
        assert_eq!((shared.is_valid(), shared.valid_ceilings().count()), (false, 0));
        let lost = RefusedConnections { asked: 100, counted: 97, failed: 100 };
        assert!(!Calibration { refused: lost, ..valid }.is_valid());
    }

    #[test]
    fn pacing_row_cpu_time_includes_polling() {
        let mut record = fixture::record(1000);
        // In two seconds the thread ran for one, half of which was polling.
        record.window_ns = (0, 2 * S);
        record.client.threads = vec![ThreadUse { run_ns: S, ..ThreadUse::default() }];
        record.intervals[0].workers.insert(0, WorkerUse { run_ns: S, spun_ns: S / 2 });
        let loads = calibration(&[measured_load(
            MeasurementPurpose::Pacing,
            Arrivals::Constant { rate: 500.0 },
            record,
        )]);
        let row = &loads.pacing[0];
        assert_eq!(
            (row.rate, row.spin, row.cpu_s_per_s, row.polling_s_per_s),
            (500.0, Spin::Auto, 0.5, 0.25)
        );
    }

    #[test]
    fn stamps_row_has_time_added_by_generator() {
        let mut record = fixture::record(1000);
        record.intervals[0].kernel_response = times(1000, 900_000);
        let stamped = measured_load(
            MeasurementPurpose::Stamps,
            Arrivals::Constant { rate: 1000.0 },
            record.clone(),
        );
        assert!(!stamped.lacks_stamps());
        let loads = calibration(&[stamped]);
        let row = &loads.stamps[0];
        let difference = row.difference_p50_us.unwrap();
        // Histograms keep three digits.
        assert!((difference - 100.0).abs() < 1.0, "{difference}");
        // With 1,000 samples, p99 is unknown, and so is its difference.
        assert_eq!(row.ours_us.p99.is_some(), row.difference_p99_us.is_some());
    }

    #[test]
    fn calibration_without_kernel_stamps_has_no_row() {
        let unstamped = measured_load(
            MeasurementPurpose::Stamps,
            Arrivals::Constant { rate: 1000.0 },
            fixture::record(1000),
        );
        assert!(unstamped.lacks_stamps());
        assert!(calibration(&[unstamped]).stamps.is_empty());
        // Other measurements need no stamps.
        assert!(
            !measured_load(MeasurementPurpose::Pacing, Arrivals::Closed, fixture::record(1))
                .lacks_stamps()
        );
    }

    #[test]
    fn refused_connections_are_counted() {
        let mut record = fixture::record(0);
        let mut interval = Interval::new(Phase::Measured, 0, S);
        (0..97).for_each(|_| interval.outcomes.count(Outcome::ConnectRefused));
        (0..3).for_each(|_| interval.outcomes.count(Outcome::ConnectTimeout));
        record.intervals = vec![interval];
        record.books = Books { scheduled: 100, started: 100, failed: 100, ..Books::default() };
        let mut control = measured_load(MeasurementPurpose::Refusals, Arrivals::Closed, record);
        control.measurement.load.requests = Some(100);
        let refused = calibration(&[control]).refused;
        assert_eq!(refused, RefusedConnections { asked: 100, counted: 97, failed: 100 });
    }

    #[test]
    fn shared_cpus_are_reported() {
        let shared = Placement { subject: vec![0], generator: vec![0] };
        assert!(Calibration::new("here".into(), &shared, BTreeMap::new(), &[]).shared_cpus);
    }
}
