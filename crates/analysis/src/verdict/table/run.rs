//! Test cases: caveats of a whole run.

use dyno_archive::outcome::Outcome;
use dyno_archive::plan::{NotServed, Order, Plan, Subject, Trial};
use dyno_archive::profile::ProfileRecord;
use dyno_archive::resumption::{Resumption, ResumptionDifference};
use dyno_archive::run::{Run, RunHeader};
use dyno_archive::start::{Canary, CanaryPiece, LimitKind, LimitReadBack, NewFiles, WarmUpEnd};
use dyno_archive::{Facts, TrialRecord};

use super::{Case, CaveatSource};
use crate::caveat::{Caveat, Code, Severity};
use crate::cell::Shape;
use crate::fixture;
use crate::peak::OpenStep;
use crate::verdict::{self, Peak};

/// Caveats of a run of three starts with one trial each.
pub(super) const CASES: &[Case<RunWorld>] = &[
    Case {
        code: Code::SharedCpus,
        severity: Severity::Warning,
        message: "Server and generator share CPUs",
        evidence: r#"{"subject": [0, 1], "generator": [1]}"#,
        trigger: |w| w.run.header.plan.arms[0].conditions.placement.generator = vec![1],
        near_miss: |_| {},
        near_miss_severity: None,
    },
    Case {
        code: Code::NewFiles,
        severity: Severity::Warning,
        message: "results (since the build): s (cache.json; 2 starts). If a server",
        evidence: r#"{"parts": ["s"]}"#,
        trigger: |w| {
            for start in &mut w.run.starts[1..] {
                let first = "cache.json".into();
                start.parts[0].new_files = Some(NewFiles { count: 1, first });
            }
        },
        near_miss: |_| {},
        near_miss_severity: None,
    },
    Case {
        code: Code::ServerNotObserved,
        severity: Severity::Info,
        message: "this server, so its start-up, CPU time, memory and checks are",
        evidence: "{}",
        trigger: |w| w.run.starts[1].parts.clear(),
        // A start that failed has no trials.
        near_miss: |w| {
            w.run.starts[1].parts.clear();
            w.run.trials.remove(1);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::CutShort,
        severity: Severity::Info,
        message: "The user ended this load early. The measured window covers only 0.4 s of the \
                  planned 1.0 s.",
        evidence: "{}",
        trigger: |w| {
            let load = &mut w.run.trials[0].load;
            (load.cut_short, load.window_ns) = (true, (100_000_000, 500_000_000));
        },
        near_miss: |w| w.run.trials[0].load.window_ns = (100_000_000, 500_000_000),
        near_miss_severity: None,
    },
    Case {
        code: Code::CutShort,
        severity: Severity::Info,
        message: "The user ended this load after its window, while dyno waited for 3 responses.",
        evidence: "{}",
        trigger: |w| {
            let load = &mut w.run.trials[0].load;
            (load.cut_short, load.books.in_flight_at_end) = (true, 3);
        },
        near_miss: |w| w.run.trials[0].load.books.in_flight_at_end = 3,
        near_miss_severity: None,
    },
    Case {
        code: Code::DoneAgain,
        severity: Severity::Info,
        message: "One step was measured again, because during the first measurement another \
                  program used the machine, heat slowed a CPU, or the generator did not run. The \
                  second measurement is used, even if it was disturbed as well. The first \
                  measurement is in the archive",
        evidence: r#"{"trials": [{"subject": "a", "workload": "w", "step": 0, "block": 0, "trial": 0}], "failed": 0}"#,
        trigger: |w| {
            w.run.header.plan.trials.push(Trial {
                launch: 0,
                arm: 0,
                workload: 0,
                step: 0,
                seed: 0,
            });
            w.run.contaminated.push(w.run.trials[0].clone());
        },
        near_miss: |w| {
            w.run.header.plan.trials.push(Trial {
                launch: 0,
                arm: 0,
                workload: 0,
                step: 0,
                seed: 0,
            });
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::DoneAgain,
        severity: Severity::Warning,
        message: "(`contaminated/`). In the first measurement, 2 requests failed or got an \
                  incorrect response.",
        evidence: r#"{"failed": 2}"#,
        trigger: |w| {
            w.run.header.plan.trials.push(Trial {
                launch: 0,
                arm: 0,
                workload: 0,
                step: 0,
                seed: 0,
            });
            let mut first = w.run.trials[0].clone();
            first.load.intervals[0].outcomes.count(Outcome::UnexpectedBody);
            first.load.intervals[0].outcomes.count(Outcome::Timeout);
            w.run.contaminated.push(first);
        },
        near_miss: |w| {
            w.run.header.plan.trials.push(Trial {
                launch: 0,
                arm: 0,
                workload: 0,
                step: 0,
                seed: 0,
            });
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::MachineChanged,
        severity: Severity::Warning,
        message: "a fixed piece of work took 20.0 ms before one server start and 23.0 ms before \
                  another",
        evidence: r#"{"slowest_to_fastest": 1.15}"#,
        trigger: |w| w.set_canaries([2000, 2300]),
        near_miss: |w| w.set_canaries([2000, 2299]),
        near_miss_severity: None,
    },
    Case {
        code: Code::FewRepeats,
        severity: Severity::Info,
        message: "4 repeats are too few for confidence intervals, so ranges over the repeats are \
                  shown instead. A difference between two subjects counts only if it has the same \
                  direction",
        evidence: "{}",
        trigger: |w| w.run.header.plan.repeats = 4,
        near_miss: |_| {},
        near_miss_severity: None,
    },
    Case {
        code: Code::FewRepeats,
        severity: Severity::Info,
        message: "3 repeats are too few for confidence intervals, so ranges over the repeats are \
                  shown instead. A difference between two subjects counts only if it has the same \
                  direction",
        evidence: "{}",
        trigger: |w| w.run.header.plan.repeats = 3,
        near_miss: |_| {},
        near_miss_severity: None,
    },
    Case {
        code: Code::FewRepeats,
        severity: Severity::Info,
        message: "2 repeats are too few for confidence intervals, so ranges over the repeats are \
                  shown instead. This run cannot show that one subject",
        evidence: "{}",
        trigger: |w| w.run.header.plan.repeats = 2,
        near_miss: |_| {},
        near_miss_severity: None,
    },
    Case {
        code: Code::FewRepeats,
        severity: Severity::Info,
        message: "One repeat is too few for confidence intervals, so ranges over the repeats are \
                  shown instead. This run cannot show that one subject",
        evidence: "{}",
        trigger: |w| w.run.header.plan.repeats = 1,
        near_miss: |_| {},
        near_miss_severity: None,
    },
    Case {
        code: Code::StartedForProfiles,
        severity: Severity::Info,
        message: "may lower throughput in this run.",
        evidence: "{}",
        trigger: |w| w.run.profiles = vec![ProfileRecord::default()],
        near_miss: |w| {
            w.run.profiles = vec![ProfileRecord {
                failure: Some("it ended".into()),
                ..ProfileRecord::default()
            }];
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::Resumed,
        severity: Severity::Info,
        message: "measured after a restart of the server",
        evidence: "{}",
        trigger: |w| w.run.starts[1].resumed = true,
        near_miss: |_| {},
        near_miss_severity: None,
    },
    Case {
        code: Code::Mixed,
        severity: Severity::Warning,
        message: "Its parts (2 and 1 trials) were measured under different conditions, but the \
                  report combines them in one row per subject. Changes: kernel from 6.1 to 6.2; \
                  dyno from 1 to 2.",
        evidence: r#"{"differences": ["kernel from 6.1 to 6.2", "dyno from 1 to 2"], "parts": [{"started": "then", "trials": [0, 1], "versions": {"a": "1"}}, {"started": "later", "trials": [2], "versions": {"a": "2"}}]}"#,
        trigger: |w| {
            w.resume(&[("kernel", "6.1", "6.2"), ("dyno", "1", "2")]);
            // A second resumption had no trial left to run.
            w.resume(&[("kernel", "6.1", "6.3")]);
            w.run.header.resumptions[1].from_start = 3;
        },
        near_miss: |w| {
            w.resume(&[("kernel", "6.1", "6.3")]);
            w.run.header.resumptions[0].from_start = 3;
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::LimitsNotSet,
        severity: Severity::Warning,
        message: "Limits could not be set: memory (1 GiB): no group. `dyno doctor`",
        evidence: r#"{"limits": ["memory"]}"#,
        trigger: |w| w.add_limit(None, Some("no group")),
        near_miss: |w| w.add_limit(Some("1073741824"), None),
        near_miss_severity: None,
    },
    Case {
        code: Code::LimitsNotSet,
        severity: Severity::Warning,
        message: "(1 GiB): for an unknown reason.",
        evidence: "{}",
        trigger: |w| w.add_limit(None, None),
        near_miss: |w| w.run.starts.clear(),
        near_miss_severity: None,
    },
    Case {
        code: Code::NotServed,
        severity: Severity::Info,
        message: "a, a were not loaded with w: each speaks no h2. a was not loaded with w: \
                  because.",
        evidence: "{}",
        trigger: |w| {
            w.omit_workload("it speaks no h2");
            w.omit_workload("because");
            w.omit_workload("it speaks no h2");
        },
        near_miss: |_| {},
        near_miss_severity: None,
    },
    Case {
        code: Code::FixedOrder,
        severity: Severity::Warning,
        message: "If the speed of the machine drifts, every difference between subjects is biased. \
                  This report therefore ranks no subjects and names no causes of differences. Use \
                  `order = \"random\"`",
        evidence: r#"{"order": ["a", "a"]}"#,
        trigger: |w| w.set_fixed_order(2),
        near_miss: |w| w.set_fixed_order(1),
        near_miss_severity: None,
    },
    Case {
        code: Code::Trend,
        severity: Severity::Warning,
        message: "Subjects ran in the same order in each block (one pass over all subjects). This \
                  trend therefore affects comparisons and medians over repeats.",
        evidence: "{}",
        trigger: |w| {
            w.set_fixed_order(2);
            w.add_peaks(&[("a", 1.0)]);
            w.repeats = vec![100.0, 104.0, 108.0, 113.0, 117.0];
        },
        near_miss: |w| w.set_fixed_order(2),
        near_miss_severity: None,
    },
    // Throughput rises by 4 % per repeat. In the near miss noise is as large.
    Case {
        code: Code::Trend,
        severity: Severity::Warning,
        message: "The throughput of a with w rose over the run, more than chance explains. In the \
                  last repeat it was 1.172",
        evidence: r#"{"subject": "a", "workload": "w"}"#,
        trigger: |w| {
            w.add_peaks(&[("a", 1.0)]);
            w.repeats = vec![100.0, 104.0, 108.0, 113.0, 117.0];
        },
        near_miss: |w| {
            w.add_peaks(&[("a", 1.0)]);
            w.repeats = vec![100.0, 104.0, 98.0, 113.0, 107.0];
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::PeakLowerBound,
        severity: Severity::Warning,
        message: "Some peaks are lower bounds (≥), because some repeats are excluded (the \
                  generator was the limit): a ≥ 8160/s (3 of 5 repeats at 16 connections).",
        evidence: r#"{"peaks": [{"subject": "a", "workload": "w", "at_least_rps": 8160.0, "steps": [{"step": 1, "at": {"connections": 16, "streams": 1, "pipeline": 1, "rate": null, "schedule": null, "pass": 1}, "refused": 3, "repeats": 5, "reason": "generator_busy"}]}]}"#,
        trigger: |w| {
            w.add_peaks(&[("a", 8160.0), ("b", 100.0)]);
            w.open = vec![open_step(3)];
        },
        near_miss: |w| w.add_peaks(&[("a", 8160.0), ("b", 100.0)]),
        near_miss_severity: None,
    },
    // If other programs take the CPUs, the advice is not more CPUs for the generator.
    Case {
        code: Code::PeakLowerBound,
        severity: Severity::Warning,
        message: "some repeats are excluded (other programs used the CPUs): a ≥ 81.6/s (2 of 5 \
                  repeats at 16 connections). These servers may reach more, so they are not ranked \
                  below any other. To find their real peaks, stop the other programs",
        evidence: "{}",
        trigger: |w| {
            w.add_peaks(&[("a", 81.6)]);
            w.open = vec![OpenStep { reason: Some(Code::Contaminated), ..open_step(2) }];
        },
        near_miss: |w| w.add_peaks(&[("a", 81.6)]),
        near_miss_severity: None,
    },
    Case {
        code: Code::PeakLowerBound,
        severity: Severity::Warning,
        message: "(`--wait-quiet 5m`). Where the generator was the limit, give the generator more \
                  CPUs",
        evidence: "{}",
        trigger: |w| {
            w.add_peaks(&[("a", 81.6)]);
            let disturbed = OpenStep { reason: Some(Code::Contaminated), ..open_step(2) };
            w.open = vec![disturbed, open_step(3)];
        },
        near_miss: |w| w.add_peaks(&[("a", 81.6)]),
        near_miss_severity: None,
    },
    Case {
        code: Code::PeakLowerBound,
        severity: Severity::Warning,
        message: "a ≥ 81.6/s (the step at 16 connections was not run).",
        evidence: "{}",
        trigger: |w| {
            w.add_peaks(&[("a", 81.6)]);
            w.open = vec![OpenStep { repeats: 0, reason: None, ..open_step(0) }];
        },
        near_miss: |w| w.add_peaks(&[("a", 81.6)]),
        near_miss_severity: None,
    },
    // A finished run has no trial left for `--resume`, so the advice is more repeats.
    Case {
        code: Code::PeakLowerBound,
        severity: Severity::Warning,
        message: "To find their real peaks, raise `repeats`, so that",
        evidence: "{}",
        trigger: |w| {
            w.add_peaks(&[("a", 81.6)]);
            w.open = vec![OpenStep { repeats: 0, reason: None, ..open_step(0) }];
            let trials = &mut w.run.header.plan.trials;
            trials.truncate(w.run.trials.len());
        },
        near_miss: |w| w.add_peaks(&[("a", 81.6)]),
        near_miss_severity: None,
    },
    // Peaks that are lower bounds are not compared.
    Case {
        code: Code::SameNumbers,
        severity: Severity::Warning,
        message: "a, b, c, d have",
        evidence: "{}",
        trigger: |w| w.add_peaks(&[("a", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]),
        near_miss: |w| {
            w.add_peaks(&[("a", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]);
            w.open = vec![open_step(1)];
        },
        near_miss_severity: None,
    },
    // Four peaks within 3 % of the lowest.
    Case {
        code: Code::SameNumbers,
        severity: Severity::Warning,
        message: "a, b, c, d have nearly the same peak throughput, which",
        evidence: r#"{"subjects": ["a", "b", "c", "d"]}"#,
        trigger: |w| w.add_peaks(&[("d", 103.0), ("a", 100.0), ("b", 101.0), ("c", 102.0)]),
        near_miss: |w| w.add_peaks(&[("d", 103.01), ("a", 100.0), ("b", 101.0), ("c", 102.0)]),
        near_miss_severity: None,
    },
    Case {
        code: Code::SameNumbers,
        severity: Severity::Warning,
        message: "b, c, d, e have",
        evidence: "{}",
        trigger: |w| {
            w.add_peaks(&[
                ("a", 90.0),
                ("b", 100.0),
                ("c", 100.0),
                ("d", 100.0),
                ("e", 100.0),
                ("f", 100.0),
            ]);
        },
        near_miss: |w| w.add_peaks(&[("a", 90.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]),
        near_miss_severity: None,
    },
    // Variants of one server are one server.
    Case {
        code: Code::SameNumbers,
        severity: Severity::Warning,
        message: "a/x, b, c, d have",
        evidence: "{}",
        trigger: |w| {
            w.add_peaks(&[("a/x", 99.0), ("a/y", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]);
        },
        near_miss: |w| {
            w.add_peaks(&[("a/x", 99.0), ("a/y", 100.0), ("a", 100.0), ("c", 100.0), ("d", 100.0)]);
        },
        near_miss_severity: None,
    },
    // Peaks are compared within one workload.
    Case {
        code: Code::SameNumbers,
        severity: Severity::Warning,
        message: "a, b, c, d have nearly the same peak throughput with v, which",
        evidence: "{}",
        trigger: |w| {
            w.add_peaks(&[("a", 1.0), ("b", 9.0)]);
            w.add_workload_peaks("v", &[("a", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]);
        },
        near_miss: |w| {
            w.add_peaks(&[("a", 100.0), ("b", 100.0)]);
            w.add_workload_peaks("v", &[("c", 100.0), ("d", 100.0)]);
        },
        near_miss_severity: None,
    },
];

/// A run, and the peaks of its subjects.
pub(super) struct RunWorld {
    run: Run,
    /// Workload, subject and correct responses per second.
    peaks: Vec<(&'static str, &'static str, f64)>,
    /// Throughput of each repeat, for all subjects.
    repeats: Vec<f64>,
    /// Steps at which subject `a` may have reached more.
    open: Vec<OpenStep>,
}

impl Default for RunWorld {
    /// A run in which three of five repeats ran.
    fn default() -> Self {
        let header = RunHeader {
            schema: dyno_archive::run::SCHEMA.into(),
            id: "1".into(),
            started: "then".into(),
            command: Vec::new(),
            plan: fixture::plan(vec![subject("1")]),
            facts: Facts::default(),
            resumptions: Vec::new(),
        };
        let template = fixture::warm_up(WarmUpEnd::Steady, 0, Some(1));
        let starts = (0..3).map(|start| dyno_archive::StartRecord {
            start,
            launch: start,
            ..template.clone()
        });
        let trials = (0..3).map(|trial| TrialRecord {
            start: trial,
            ..fixture::trial_record(trial, fixture::record(1))
        });
        let run = Run {
            header,
            starts: starts.collect(),
            trials: trials.collect(),
            profiles: Vec::new(),
            contaminated: Vec::new(),
            searches: Vec::new(),
        };
        RunWorld { run, peaks: Vec::new(), repeats: Vec::new(), open: Vec::new() }
    }
}

impl CaveatSource for RunWorld {
    fn caveats(&self) -> Vec<Caveat> {
        let peak = |&(workload, subject, rps)| Peak {
            workload,
            subject,
            server: subject.split('/').next().unwrap_or(subject),
            rps: Some(rps),
            repeats: &self.repeats,
            control: false,
            max_rps: Some(rps),
            open: if subject == "a" { &self.open } else { &[] },
            is_complete: true,
        };
        verdict::run(&self.run, &self.peaks.iter().map(peak).collect::<Vec<_>>())
    }
}

impl RunWorld {
    /// Adds a resumption before the third start, with these differences.
    fn resume(&mut self, differences: &[(&str, &str, &str)]) {
        let difference = |(name, before, now): &(&str, &str, &str)| ResumptionDifference {
            name: (*name).into(),
            before: (*before).into(),
            now: (*now).into(),
        };
        self.run.header.resumptions.push(Resumption {
            started: "later".into(),
            command: Vec::new(),
            from_start: 2,
            differences: differences.iter().map(difference).collect(),
            facts: Facts::default(),
            subjects: vec![subject("2")],
        });
    }

    /// Sets a plan in which each block starts the subjects in the suite's order.
    fn set_fixed_order(&mut self, subjects: usize) {
        let plan = fixture::plan(vec![subject("1"); subjects]);
        self.run.header.plan = Plan { order: Order::Fixed, ..plan };
    }

    /// Sets the times of the canary before the first two starts, in hundredths of a millisecond.
    fn set_canaries(&mut self, times: [u64; 2]) {
        for (start, time) in self.run.starts.iter_mut().zip(times) {
            let piece = CanaryPiece { wall_ns: time * 10_000, cpu_ns: time * 10_000 };
            start.canary = Some(Canary { steps: 1, pieces: vec![piece] });
        }
    }

    fn add_limit(&mut self, read_back: Option<&str>, reason: Option<&str>) {
        self.run.starts[1].parts[0].limits.push(LimitReadBack {
            kind: LimitKind::Memory,
            asked: "1 GiB".into(),
            read_back: read_back.map(Into::into),
            reason: reason.map(Into::into),
        });
    }

    fn omit_workload(&mut self, reason: &str) {
        let omission = NotServed { subject: 0, workload: 0, reason: reason.into() };
        self.run.header.plan.not_served.push(omission);
    }

    fn add_peaks(&mut self, peaks: &[(&'static str, f64)]) {
        self.add_workload_peaks("w", peaks);
    }

    fn add_workload_peaks(&mut self, workload: &'static str, peaks: &[(&'static str, f64)]) {
        self.peaks.extend(peaks.iter().map(|(subject, rps)| (workload, *subject, *rps)));
    }
}

/// A step of 16 connections. `refused`: number of its five repeats that are excluded.
fn open_step(refused: usize) -> OpenStep {
    let at =
        Shape { connections: 16, streams: 1, pipeline: 1, rate: None, schedule: None, pass: 1 };
    OpenStep { step: 1, at, refused, repeats: 5, reason: Some(Code::GeneratorBusy) }
}

fn subject(version: &str) -> Subject {
    Subject { name: "a".into(), version: Some(version.into()), ..Subject::default() }
}
