//! A calibration as a run: a plan in which each configuration of the generator is an arm of the
//! null responder, and its archive.

use std::collections::BTreeMap;

use dyno_analysis::calibration::{Measurement, MeasurementPurpose};
use dyno_archive::dir::ArchiveError;
use dyno_archive::plan::{
    Arm, Conditions, Launch, Load, LoadChanges, Order, Placement, Plan, ReportOptions, Step,
    Subject, Suite, Trial, Workload,
};
use dyno_archive::probe::Probe;
use dyno_archive::start::PartStart;
use dyno_archive::{LoadRecord, Party, RunDir, StartRecord, TrialRecord};

/// The null responder's name in archives, as in suites.
const NULL: &str = "null";

/// Returns whether a measurement is a trial of the plan. Requests to a closed port are not: they
/// never reach the responder.
fn is_trial(of: &Measurement) -> bool {
    of.shows != MeasurementPurpose::Refusals
}

/// Returns the plan of a calibration: a trial for each measurement of the null responder, in their
/// order.
#[must_use]
pub fn plan(all: &[Measurement], placement: &Placement) -> Plan {
    let mut listed = Listed::default();
    for of in all.iter().filter(|of| is_trial(of)) {
        listed.add(of, placement);
    }
    let Listed { arms, workloads, steps, trials } = listed;
    let seed = all.first().map_or(0, |of| of.seed);
    let usual = all.first().map_or_else(crate::load::default_load, |of| of.load.clone());
    Plan {
        suite: Suite {
            name: "calibration".into(),
            description:
                "Most that the generator reaches on this machine, with the null responder as the \
                 server"
                    .into(),
            source: String::new(),
            profiles: Vec::new(),
            path: String::new(),
        },
        subjects_folders: Vec::new(),
        seed,
        repeats: 1,
        stop: None,
        again: 0,
        order: Order::Fixed,
        slice_ns: None,
        duet: [].into(),
        swaps_cpus: false,
        experiment: None,
        subjects: vec![Subject {
            name: NULL.into(),
            title: "null responder".into(),
            language: "Rust".into(),
            description: "The smallest server that meets the hello contract".into(),
            control: true,
            ..Subject::default()
        }],
        backends: Vec::new(),
        workloads,
        // Settings that differ between arms are part of each arm.
        load: Load { steps, ..usual },
        search: None,
        measured_first: None,
        launches: (0..arms.len()).map(|arm| Launch::alone(arm, 0)).collect(),
        arms,
        trials,
        not_served: Vec::new(),
        report: ReportOptions::default(),
        cost: None,
        probe_price: false,
        files: BTreeMap::new(),
        import_changes: Vec::new(),
    }
}

/// The workloads, steps and arms of the measurements, each once.
#[derive(Default)]
struct Listed {
    arms: Vec<Arm>,
    workloads: Vec<Workload>,
    steps: Vec<Step>,
    trials: Vec<Trial>,
}

impl Listed {
    fn add(&mut self, of: &Measurement, placement: &Placement) {
        let arm = place_of(&mut self.arms, arm(of, placement));
        let trial = Trial {
            // Each arm has a launch of its own.
            launch: arm,
            arm,
            workload: place_of(&mut self.workloads, of.workload.clone()),
            step: place_of(&mut self.steps, of.step().clone()),
            seed: of.seed,
        };
        self.trials.push(trial);
    }
}

/// Returns the index of an entry in a list. A new entry is appended.
fn place_of<T: PartialEq>(list: &mut Vec<T>, entry: T) -> usize {
    list.iter().position(|known| *known == entry).unwrap_or_else(|| {
        list.push(entry);
        list.len() - 1
    })
}

/// Returns the arm of a measurement: its driver, its polling, and its source of time stamps.
pub(super) fn arm(of: &Measurement, placement: &Placement) -> Arm {
    let (driver, spin) = (of.load.driver, of.load.spin);
    let observe: Vec<Probe> = [Probe::KernelStamps]
        .into_iter()
        .filter(|_| of.shows == MeasurementPurpose::Stamps)
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
    /// The first error.
    unkept: Option<ArchiveError>,
}

impl<'a> CalibrationArchive<'a> {
    /// Begins the archive. One process serves all arms, so each arm's start names it.
    pub(super) fn begin(dir: &'a RunDir, plan: Plan, pid: u32) -> CalibrationArchive<'a> {
        let mut starts = (0..plan.launches.len()).map(|launch| {
            let part = PartStart { pid: Some(pid), ..PartStart::new(Party::SUBJECT, NULL.into()) };
            StartRecord { start: launch, launch, parts: vec![part], ..StartRecord::default() }
        });
        let unkept = starts.try_for_each(|start| dir.write_start(&start)).err();
        CalibrationArchive { dir, trials: plan.trials.into_iter().enumerate(), unkept }
    }

    /// Writes the next measurement, if it is a trial.
    pub(super) fn write(&mut self, of: &Measurement, load: &LoadRecord) {
        if !is_trial(of) || self.unkept.is_some() {
            return;
        }
        let (trial, planned) = self.trials.next().expect("each has its trial");
        let (load, checks) = (load.clone(), Vec::new());
        let record = TrialRecord { trial, start: planned.launch, load, checks, ceiling: None };
        self.unkept = self.dir.write_trial(&record).err();
    }

    /// Returns why the archive lacks measurements, if it does.
    pub(super) fn end(self) -> Option<ArchiveError> {
        self.unkept
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::calibrate::{measurements, placement};

    #[test]
    fn each_measurement_of_the_null_responder_is_an_equal_trial() {
        let all = measurements(3_000_000_000);
        let plan = plan(&all, &placement(&[0, 1]));
        let asked: Vec<&Measurement> = all.iter().filter(|of| is_trial(of)).collect();
        assert_eq!((asked.len(), plan.trials.len()), (all.len() - 1, all.len() - 1));
        for (of, trial) in asked.iter().zip(&plan.trials) {
            let step = plan.load.steps[trial.step].clone();
            assert_eq!(Load { steps: vec![step], ..plan.load_of(trial.arm) }, of.load);
            assert_eq!((&plan.workloads[trial.workload], trial.seed), (&of.workload, of.seed));
            let observes = plan.arms[trial.arm].conditions.observe.contains(&Probe::KernelStamps);
            assert_eq!(observes, of.shows == MeasurementPurpose::Stamps);
            assert_eq!(plan.launches[trial.launch], Launch::alone(trial.arm, 0));
        }
    }

    #[test]
    fn nothing_in_the_plan_is_there_twice() {
        let plan = plan(&measurements(1_000_000_000), &placement(&[0, 1]));
        let cells: BTreeSet<_> = plan.trials.iter().map(|t| (t.arm, t.workload, t.step)).collect();
        assert_eq!(cells.len(), plan.trials.len(), "a cell has one trial");
        let names = |names: Vec<&str>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
        assert!(names(plan.arms.iter().map(|arm| arm.name.as_str()).collect()));
        assert!(
            names(plan.workloads.iter().map(|w| w.name.as_str()).collect()),
            "{:?}",
            plan.workloads
        );
        assert_eq!(plan.subjects.len(), 1);
    }
}
