//! Runs a calibration: loads of the null responder (a minimal built-in server) that measure the
//! generator's capacity and lateness on this machine. Reports compare results with these limits of
//! the generator.

mod archive;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use dyno_analysis::calibration::{MeasuredLoad, Measurement, MeasurementPurpose};
use dyno_archive::RunDir;
use dyno_archive::dir::ArchiveError;
use dyno_contract::listener::Listener;
use dyno_contract::ports;
use dyno_driver::best_driver;
use dyno_launch::OwnProcess;
use dyno_launch::supervision::Interrupts;
use dyno_model::plan::{Arrivals, DriverKind, Load, Placement, Spin, Step, Workload};
use dyno_model::probe::{Probe, ProbePrice};
use dyno_model::{LoadRecord, Outcome, Phase, Protocol};
use dyno_observer::probes::Probes;
use dyno_observer::proc;
use dyno_suite::defaults::{default_load, drain_ns, polling};
use dyno_suite::observe;
use dyno_workload::workloads::plaintext;

use self::archive::CalibrationArchive;
use crate::limits::{CONNECT_ATTEMPTS, CONNECT_PAUSE};
use crate::load::{self, LoadSpec, StopWhen};
use crate::load_at::LoadPoint;
use crate::price::PricedServer;

pub use archive::plan;

const S: u64 = 1_000_000_000;

/// Seed of every measurement. No measurement is random, but a record must have a seed.
const SEED: u64 = 1;

/// Number of requests to a closed port.
const REFUSED_REQUESTS: u64 = 100;

/// Protocols without a measured ceiling (highest throughput of the generator), each with the
/// reason.
pub const NOT_MEASURED: [(&str, &str); 2] = [
    ("h1 over TLS", "the null responder (dyno's built-in server) does not support TLS"),
    (
        "h2",
        "`h2` is HTTP/2 over TLS, and the null responder (dyno's built-in server) does not support \
         TLS",
    ),
];

/// An event of a calibration, for the screen.
#[derive(Debug)]
pub enum CalibrationEvent<'a> {
    Begins(&'a Measurement),
    Ended(&'a MeasuredLoad),
}

/// Reason why a calibration failed.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The user interrupted the calibration. `archive_error`: reason why the archive lacks earlier
    /// measurements. `None`: the archive has the earlier measurements, or no archive was requested.
    #[error("calibration: interrupted, so the limits of the load generator were not saved")]
    Interrupted { archive_error: Option<ArchiveError> },
    #[error("null responder (dyno's built-in server): cannot be started")]
    NotStarted(#[source] io::Error),
    /// Any other failure on this machine.
    #[error("{0}")]
    Machine(String),
}

impl From<String> for CalibrationError {
    fn from(message: String) -> CalibrationError {
        CalibrationError::Machine(message)
    }
}

/// Returns the placement: the null responder on one CPU, and the generator on another.
#[must_use]
pub fn placement(allowed: &[u32]) -> Placement {
    match allowed {
        [first, .., last] => Placement { subject: vec![*first], generator: vec![*last] },
        few => Placement { subject: few.to_vec(), generator: few.to_vec() },
    }
}

/// Returns all measurements in order, each of the given length.
#[must_use]
pub fn measurements(duration_ns: u64) -> Vec<Measurement> {
    let best = best_driver().0;
    // On a machine without io_uring, epoll is the only driver.
    let usable_drivers = || {
        DriverKind::ALL
            .into_iter()
            .filter(move |driver| *driver == DriverKind::Epoll || *driver == best)
    };
    // Protocol, pipeline depth, and streams per connection.
    let shapes = [
        (Protocol::H1, 1, 1),
        (Protocol::H1, 16, 1),
        (Protocol::H2c, 1, 1),
        (Protocol::H2c, 1, 10),
    ];
    let ceilings =
        usable_drivers().flat_map(|driver| shapes.map(|shape| ceiling(driver, shape, duration_ns)));
    let schedules = |shows, driver, spins: &'static [Spin]| {
        let at_rate = move |rate| {
            spins
                .iter()
                .map(move |spin| scheduled_measurement(shows, driver, rate, *spin, duration_ns))
        };
        [1000.0, 20_000.0].into_iter().flat_map(at_rate)
    };
    let pacing =
        schedules(MeasurementPurpose::Pacing, best, &[Spin::Never, Spin::Auto, Spin::Always]);
    // Only the epoll driver reads the kernel's timestamps.
    let stamps =
        schedules(MeasurementPurpose::Stamps, DriverKind::Epoll, &[Spin::Never, Spin::Auto]);
    ceilings.chain(pacing).chain(stamps).chain([refusals(best)]).collect()
}

/// Returns the measurement of the highest throughput with these settings.
fn ceiling(
    driver: DriverKind,
    (protocol, pipeline, streams): (Protocol, u32, u32),
    duration_ns: u64,
) -> Measurement {
    let step = Step { connections: 64, streams, pipeline, arrivals: Arrivals::Closed, pass: 1 };
    let load = Load { driver, spin: Spin::Never, ..calibration_load(step, duration_ns) };
    let workload = plaintext();
    let name = if protocol.is_h1() {
        workload.name.clone()
    } else {
        format!("{} over {protocol}", workload.name)
    };
    Measurement {
        shows: MeasurementPurpose::Ceiling,
        workload: Workload { name, protocol, ..workload },
        load,
        seed: SEED,
    }
}

/// Returns the measurement of an open loop at a rate, which shows how exactly requests are sent.
fn scheduled_measurement(
    shows: MeasurementPurpose,
    driver: DriverKind,
    rate: f64,
    spin: Spin,
    duration_ns: u64,
) -> Measurement {
    let step = Step {
        connections: 16,
        streams: 1,
        pipeline: 1,
        arrivals: Arrivals::Constant { rate },
        pass: 1,
    };
    let load = Load { driver, spin, ..calibration_load(step, duration_ns) };
    Measurement { shows, workload: plaintext(), load, seed: SEED }
}

/// Returns the measurement of requests to a closed port.
fn refusals(driver: DriverKind) -> Measurement {
    let step =
        Step { connections: 4, streams: 1, pipeline: 1, arrivals: Arrivals::Closed, pass: 1 };
    let load = Load {
        driver,
        spin: Spin::Never,
        warmup_ns: 0,
        requests: Some(REFUSED_REQUESTS),
        ..calibration_load(step, 0)
    };
    Measurement { shows: MeasurementPurpose::Refusals, workload: plaintext(), load, seed: SEED }
}

/// Returns a load with one step and the settings that all measurements share. Each measurement sets
/// its driver.
fn calibration_load(step: Step, duration_ns: u64) -> Load {
    Load {
        warmup_ns: S / 2,
        duration_ns,
        timeout_ns: 5 * S,
        drain_ns: drain_ns(5 * S),
        check_one_in: 1,
        steps: vec![step],
        ..default_load(DriverKind::Epoll)
    }
}

/// A calibration that was measured to its end.
#[derive(Debug)]
pub struct Calibrated {
    pub measured: Vec<MeasuredLoad>,
    /// Why the archive lacks measurements. `None`: the archive has all measurements, or no archive
    /// was requested.
    pub archive_error: Option<ArchiveError>,
}

/// Starts the null responder, and makes the measurements one after the other. Each measurement is
/// written to `archive`. The header of the archive has the [`plan`] of the measurements. An archive
/// that cannot be written does not end the calibration.
///
/// # Errors
/// The null responder does not start, a load cannot begin, or the user interrupted the calibration.
pub fn run(
    placement: &Placement,
    measurements: Vec<Measurement>,
    archive: Option<&RunDir>,
    interrupts: &Interrupts,
    on_event: &mut dyn FnMut(&CalibrationEvent<'_>),
) -> Result<Calibrated, CalibrationError> {
    let addr = free_port()?;
    let mut server = start_null(addr, &placement.subject)?;
    let mut archive = archive
        .map(|dir| CalibrationArchive::begin(dir, plan(&measurements, placement), server.pid()));
    let mut measured = Vec::new();
    for measurement in measurements {
        on_event(&CalibrationEvent::Begins(&measurement));
        let is_refused = measurement.shows == MeasurementPurpose::Refusals;
        let target = if is_refused { free_port()? } else { addr };
        let record = load::run(
            &spec(&measurement, target, placement)?,
            &mut StopWhen(|| interrupts.count() > 0),
        )?;
        if interrupts.count() > 0 {
            return Err(CalibrationError::Interrupted {
                archive_error: archive.and_then(CalibrationArchive::end),
            });
        }
        if server.has_ended() {
            return Err(
                "null responder (dyno's built-in server): ended during the calibration\nhint: run \
                 `dyno calibrate` again"
                    .to_string()
                    .into(),
            );
        }
        check_responses(&measurement, &record)?;
        if let Some(archive) = &mut archive {
            archive.write(&measurement, &record);
        }
        let load = MeasuredLoad { measurement, record };
        on_event(&CalibrationEvent::Ended(&load));
        measured.push(load);
    }
    Ok(Calibrated { measured, archive_error: archive.and_then(CalibrationArchive::end) })
}

/// Returns the sets of probes whose cost is reported: the default probes, and single probes, those
/// that are on by default first.
#[must_use]
pub fn priced_probes() -> Vec<BTreeSet<Probe>> {
    let mut alone: Vec<Probe> =
        Probe::ALL.iter().copied().filter(|probe| probe.is_attached()).collect();
    alone.sort_by_key(|probe| !probe.is_enabled_by_default());
    let alone = alone.into_iter().map(|probe| [probe].into());
    [observe::default_probes()].into_iter().chain(alone).collect()
}

/// Starts the null responder, and measures the cost of probes. If a probe is unavailable, the
/// result has the reason instead.
///
/// # Errors
/// The null responder does not start, a load cannot begin, or the user interrupted the measurement.
pub fn price(
    placement: &Placement,
    probes: &BTreeSet<Probe>,
    interrupts: &Interrupts,
) -> Result<ProbePrice, CalibrationError> {
    let price = ProbePrice { probes: probes.clone(), ..ProbePrice::default() };
    let loaded = Probes::load(probes);
    if let Some(refused) = loaded.probes_use(probes).refused.into_iter().next() {
        let failure = Some(format!("{}. {}", refused.reason, refused.hint));
        return Ok(ProbePrice { failure, ..price });
    }
    let addr = free_port()?;
    let server = start_null(addr, &placement.subject)?;
    let Some(attached_probes) = loaded.attach(probes, server.pid())? else {
        return Err("probes: cannot be attached to the null responder (dyno's built-in server)"
            .to_string()
            .into());
    };
    let step =
        Step { connections: 64, streams: 1, pipeline: 1, arrivals: Arrivals::Closed, pass: 1 };
    let measurement = Measurement {
        shows: MeasurementPurpose::Ceiling,
        workload: plaintext(),
        load: calibration_load(step, S),
        seed: SEED,
    };
    let pid = server.pid();
    let cpu_ns = || Some(proc::threads(pid).iter().map(|thread| thread.run_ns).sum());
    let spec = spec(&measurement, addr, placement)?;
    let slices = PricedServer {
        spec: &spec,
        attached_probes: &attached_probes,
        cpu_ns: &cpu_ns,
        interrupts,
    }
    .measure()?;
    if interrupts.count() > 0 {
        return Err(CalibrationError::Interrupted { archive_error: None });
    }
    Ok(ProbePrice { slices, ..price })
}

/// Returns the load of a measurement, sent to this address.
fn spec(
    measurement: &Measurement,
    addr: SocketAddr,
    placement: &Placement,
) -> Result<LoadSpec, String> {
    let listener = Listener { addr, protocol: measurement.workload.protocol, authority: None };
    let (load, step) = (measurement.load.clone(), measurement.step().clone());
    // Polling is measured even if generator and server share a CPU.
    let spin = polling(load.spin, &step.arrivals, true);
    let point = LoadPoint { workload: &measurement.workload, load, step, seed: measurement.seed };
    let conditions = archive::arm(measurement, placement).conditions;
    Ok(LoadSpec {
        spin,
        ..point.load_spec(&listener, &conditions, true, &|_| Err("no files".into()))?
    })
}

/// Checks that a measurement has responses. Only a measurement of refused connections has none.
fn check_responses(measurement: &Measurement, record: &LoadRecord) -> Result<(), String> {
    let measured = record.intervals.iter().filter(|interval| interval.phase == Phase::Measured);
    let ok: u64 = measured.map(|interval| interval.outcomes.get(Outcome::Ok)).sum();
    if ok > 0 || measurement.shows == MeasurementPurpose::Refusals {
        return Ok(());
    }
    Err("null responder (dyno's built-in server): no correct response in the measured time\nhint: \
         use a longer `--duration`, or stop other programs"
        .into())
}

/// Returns an unused port outside of the ephemeral range of dyno's own connections.
fn free_port() -> Result<SocketAddr, String> {
    let ports = ports::free_ports(1, dyno_observer::monotonic_ns())?;
    Ok(SocketAddr::from(([127, 0, 0, 1], ports[0])))
}

/// Starts the null responder, and waits until it accepts connections.
fn start_null(addr: SocketAddr, cpus: &[u32]) -> Result<OwnProcess, CalibrationError> {
    let arguments = ["serve-null", "--while-stdin", "--port", &addr.port().to_string()];
    let server = OwnProcess::start(&arguments, cpus).map_err(CalibrationError::NotStarted)?;
    for _ in 0..CONNECT_ATTEMPTS {
        if ports::connect_to_listener(addr, Duration::from_secs(1)).is_ok() {
            return Ok(server);
        }
        thread::sleep(CONNECT_PAUSE);
    }
    Err(format!("null responder (dyno's built-in server): does not listen at {addr}").into())
}

#[cfg(test)]
mod tests {
    use dyno_driver::Stamps;

    use super::*;

    #[test]
    fn placement_separates_generator_on_two_cpus() {
        for (allowed, subject, generator) in
            [(&[3][..], &[3][..], &[3][..]), (&[0, 1], &[0], &[1]), (&[2, 3, 5], &[2], &[5])]
        {
            let placement = placement(allowed);
            assert_eq!(
                (placement.subject.as_slice(), placement.generator.as_slice()),
                (subject, generator)
            );
            assert_eq!(placement.is_disjoint(), allowed.len() > 1);
        }
    }

    #[test]
    fn measurements_are_unique_and_have_given_length() {
        let measurements = measurements(3 * S);
        let with_purpose =
            |shows: MeasurementPurpose| measurements.iter().filter(move |m| m.shows == shows);
        assert_eq!(with_purpose(MeasurementPurpose::Pacing).count(), 6);
        assert_eq!(with_purpose(MeasurementPurpose::Stamps).count(), 4);
        assert!(
            with_purpose(MeasurementPurpose::Stamps).all(|m| m.load.driver == DriverKind::Epoll)
        );
        assert!(with_purpose(MeasurementPurpose::Ceiling).count() >= 4);
        for (i, measurement) in measurements.iter().enumerate() {
            assert!(!measurements[..i].contains(measurement), "listed twice: {measurement:?}");
            let is_timed = measurement.shows != MeasurementPurpose::Refusals;
            assert_eq!(measurement.load.set_duration_ns(), is_timed.then_some(3 * S));
            assert_eq!(measurement.load.requests.is_some(), !is_timed);
        }
    }

    #[test]
    fn spec_matches_its_measurement() {
        let addr = SocketAddr::from(([127, 0, 0, 1], 1));
        let placement = placement(&[0, 1]);
        for measurement in measurements(S) {
            let spec = spec(&measurement, addr, &placement).unwrap();
            assert_eq!(
                (&spec.load, &spec.step, spec.target.protocol),
                (&measurement.load, measurement.step(), measurement.workload.protocol)
            );
            assert_eq!(
                spec.target.endpoint.stamps == Stamps::Kernel,
                measurement.shows == MeasurementPurpose::Stamps
            );
            assert_eq!((spec.cpus.as_slice(), spec.threads()), (&[1][..], 1));
        }
    }
}
