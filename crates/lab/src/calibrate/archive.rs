//! Records a calibration as a run, so that it can be read like any other run. Each configuration of
//! the generator becomes an arm (a configuration under test) of the null responder.

use dyno_analysis::calibration::{Measurement, MeasurementPurpose};
use dyno_archive::RunDir;
use dyno_archive::dir::ArchiveError;
use dyno_model::plan::{
    Arm, Conditions, DriverKind, Launch, Load, LoadChanges, Placement, Plan, Step, Subject, Trial,
    Workload,
};
use dyno_model::probe::Probe;
use dyno_model::start::PartStart;
use dyno_model::{LoadRecord, Party, StartRecord, TrialRecord};
use dyno_observer::monotonic_ns;
use dyno_suite::defaults::default_load;

use crate::single::empty_plan;

/// The null responder's name in archives, as in suites.
const NULL: &str = "null";

const DESCRIPTION: &str = "Limits of the load generator on this machine, measured with the null \
                           responder (dyno's built-in server)";

/// Returns whether a measurement is a trial of the plan. The measurement of refused connections is
/// not a trial, because its requests never reach the null responder.
fn is_trial(measurement: &Measurement) -> bool {
    measurement.shows != MeasurementPurpose::Refusals
}

/// Returns the plan of a calibration: a trial for each measurement of the null responder, in the
/// order of the measurements.
#[must_use]
pub fn plan(measurements: &[Measurement], placement: &Placement) -> Plan {
    let mut entries = PlanEntries::default();
    for measurement in measurements.iter().filter(|measurement| is_trial(measurement)) {
        entries.add(measurement, placement);
    }
    let PlanEntries { arms, workloads, steps, trials } = entries;
    let seed = measurements.first().map_or(0, |first| first.seed);
    let load = measurements
        .first()
        .map_or_else(|| default_load(DriverKind::Epoll), |first| first.load.clone());
    Plan {
        subjects: vec![Subject {
            name: NULL.into(),
            title: "null responder".into(),
            language: "Rust".into(),
            description: "dyno's built-in server, the smallest that passes the checks of the \
                          contract `hello`"
                .into(),
            control: true,
            ..Subject::default()
        }],
        workloads,
        launches: (0..arms.len()).map(|arm| Launch::with_arm(arm, 0)).collect(),
        arms,
        trials,
        // Settings that differ between arms are part of each arm.
        ..empty_plan("calibration", DESCRIPTION, Load { steps, ..load }, seed)
    }
}

/// The different workloads, steps and arms of the measurements, and the trials.
#[derive(Default)]
struct PlanEntries {
    arms: Vec<Arm>,
    workloads: Vec<Workload>,
    steps: Vec<Step>,
    trials: Vec<Trial>,
}

impl PlanEntries {
    /// Adds the trial of a measurement, with its arm, workload and step.
    fn add(&mut self, measurement: &Measurement, placement: &Placement) {
        let arm = index_of(&mut self.arms, arm(measurement, placement));
        let trial = Trial {
            // Each arm has one launch, with the same index.
            launch: arm,
            arm,
            workload: index_of(&mut self.workloads, measurement.workload.clone()),
            step: index_of(&mut self.steps, measurement.step().clone()),
            seed: measurement.seed,
        };
        self.trials.push(trial);
    }
}

/// Returns the index of an entry in a list. A new entry is appended.
fn index_of<T: PartialEq>(list: &mut Vec<T>, entry: T) -> usize {
    list.iter().position(|existing| *existing == entry).unwrap_or_else(|| {
        list.push(entry);
        list.len() - 1
    })
}

/// Returns the arm of a measurement: its driver, its polling, and its source of timestamps.
pub(super) fn arm(measurement: &Measurement, placement: &Placement) -> Arm {
    let (driver, spin) = (measurement.load.driver, measurement.load.spin);
    let observe: Vec<Probe> = [Probe::KernelStamps]
        .into_iter()
        .filter(|_| measurement.shows == MeasurementPurpose::Stamps)
        .collect();
    let stamps = if observe.is_empty() { "" } else { ", kernel stamps" };
    Arm {
        backends: Vec::new(),
        name: format!("{}, spin {}{stamps}", driver.name(), spin.name()),
        level: None,
        subject: 0,
        conditions: Conditions {
            placement: placement.clone(),
            load: LoadChanges { driver: Some(driver), spin: Some(spin), ..LoadChanges::default() },
            observe: observe.into_iter().collect(),
            ..Conditions::default()
        },
    }
}

/// The archive of a calibration, written measurement by measurement until a write fails.
pub(super) struct CalibrationArchive<'a> {
    dir: &'a RunDir,
    trials: std::iter::Enumerate<std::vec::IntoIter<Trial>>,
    /// The first error, after which nothing more is written.
    archive_error: Option<ArchiveError>,
}

impl<'a> CalibrationArchive<'a> {
    /// Begins the archive. One process serves all arms, so the start of each arm names this
    /// process.
    pub(super) fn begin(dir: &'a RunDir, plan: Plan, pid: u32) -> CalibrationArchive<'a> {
        let mut starts = (0..plan.launches.len()).map(|launch| {
            let part = PartStart { pid: Some(pid), ..PartStart::new(Party::SUBJECT, NULL.into()) };
            let (parts, began_ns) = (vec![part], Some(monotonic_ns()));
            StartRecord { start: launch, launch, began_ns, parts, ..StartRecord::default() }
        });
        let archive_error = starts.try_for_each(|start| dir.write_start(&start)).err();
        CalibrationArchive { dir, trials: plan.trials.into_iter().enumerate(), archive_error }
    }

    /// Writes the next measurement, if it is a trial.
    pub(super) fn write(&mut self, measurement: &Measurement, load: &LoadRecord) {
        if !is_trial(measurement) || self.archive_error.is_some() {
            return;
        }
        let (trial, planned) = self.trials.next().expect("each measurement should have a trial");
        let (load, checks) = (load.clone(), Vec::new());
        let record = TrialRecord { trial, start: planned.launch, load, checks, ceiling: None };
        self.archive_error = self.dir.write_trial(&record).err();
    }

    /// Returns why the archive lacks measurements. `None`: the archive is complete.
    pub(super) fn end(self) -> Option<ArchiveError> {
        self.archive_error
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::calibrate::{measurements, placement};

    #[test]
    fn plan_trials_match_measurements() {
        let all = measurements(3_000_000_000);
        let plan = plan(&all, &placement(&[0, 1]));
        let in_plan: Vec<&Measurement> = all.iter().filter(|m| is_trial(m)).collect();
        assert_eq!((in_plan.len(), plan.trials.len()), (all.len() - 1, all.len() - 1));
        for (measurement, trial) in in_plan.iter().zip(&plan.trials) {
            let step = plan.load.steps[trial.step].clone();
            assert_eq!(Load { steps: vec![step], ..plan.load_of(trial.arm) }, measurement.load);
            assert_eq!(
                (&plan.workloads[trial.workload], trial.seed),
                (&measurement.workload, measurement.seed)
            );
            let observes = plan.arms[trial.arm].conditions.observe.contains(&Probe::KernelStamps);
            assert_eq!(observes, measurement.shows == MeasurementPurpose::Stamps);
            assert_eq!(plan.launches[trial.launch], Launch::with_arm(trial.arm, 0));
        }
    }

    #[test]
    fn plan_entries_are_unique() {
        let plan = plan(&measurements(1_000_000_000), &placement(&[0, 1]));
        let cells: BTreeSet<_> = plan.trials.iter().map(|t| (t.arm, t.workload, t.step)).collect();
        assert_eq!(cells.len(), plan.trials.len(), "a cell has one trial");
        let are_unique =
            |names: Vec<&str>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
        assert!(are_unique(plan.arms.iter().map(|arm| arm.name.as_str()).collect()));
        assert!(
            are_unique(plan.workloads.iter().map(|w| w.name.as_str()).collect()),
            "{:?}",
            plan.workloads
        );
        assert_eq!(plan.subjects.len(), 1);
    }
}
