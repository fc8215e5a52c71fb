//! Simulates a load with the workers and the control of a real one, but without threads, sockets or
//! a clock. Tests use it for results that never vary.

use dyno_archive::{LoadRecord, Sample};
use dyno_engine::sim::{self, World};

use super::agent::config;
use super::control::Control;
use super::record::{ControlReport, assemble};
use super::{Edge, LoadSpec};

/// Reads the simulated server's counters at an instant of the simulated clock.
pub type CounterReader<'a> = dyn FnMut(u64, Edge) -> Option<Sample> + 'a;

/// Simulates a load to its end. Each worker has its own simulated world. The load begins at
/// `began_ns` on the clock of these worlds. `read_counters` is called for each instant at which a
/// real load would take a sample. `Err`: the specification cannot be simulated.
pub fn simulate(
    spec: &LoadSpec,
    began_ns: u64,
    world: impl Fn(u32) -> World,
    read_counters: &mut CounterReader<'_>,
) -> Result<LoadRecord, String> {
    if spec.load.set_duration_ns().is_none() {
        return Err("simulated load: needs a duration, because nothing else ends it".into());
    }
    let workers = spec.threads();
    let mut control = Control::new(spec.window(), workers);
    let mut reports = Vec::new();
    for k in 0..workers {
        let simulated = sim::simulate(world(k), config(spec, k, workers)?);
        simulated.intervals.iter().for_each(|interval| control.merge(k, interval, |_| ()));
        control.end_worker(k, |_| ());
        reports.push(simulated.report);
    }
    while let Some((due_ns, edge)) = control.next_sample() {
        control.record_sample(read_counters(began_ns + due_ns, edge));
    }
    let control_report = ControlReport {
        priority: dyno_archive::plan::Priority::Normal,
        began_ns,
        driver: spec.load.driver,
        rss_peak_bytes: None,
        machine: None,
        failure: None,
        cut: None,
    };
    Ok(assemble(control_report, control.finish(), reports))
}
