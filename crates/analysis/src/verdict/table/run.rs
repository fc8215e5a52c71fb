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

/// Returns a case about a run.
const fn case(
    code: (Code, Severity),
    message: &'static str,
    trigger: fn(&mut RunWorld),
    near_miss: fn(&mut RunWorld),
) -> Case<RunWorld> {
    Case::new(code, message, trigger, near_miss)
}

/// Caveats of a run of three starts with one trial each.
pub(super) const CASES: &[Case<RunWorld>] = &[
    case(
        (Code::SHARED_CPUS, Severity::Warning),
        "Server and generator share CPUs",
        |w| w.run.header.plan.arms[0].conditions.placement.generator = vec![1],
        |_| {},
    )
    .evidence(r#"{"subject": [0, 1], "generator": [1]}"#),
    case(
        (Code::NEW_FILES, Severity::Warning),
        "results (since the build): s (cache.json; 2 starts). If a server",
        |w| {
            for start in &mut w.run.starts[1..] {
                let first = "cache.json".into();
                start.parts[0].new_files = Some(NewFiles { count: 1, first });
            }
        },
        |_| {},
    )
    .evidence(r#"{"parts": ["s"]}"#),
    case(
        (Code::SERVER_NOT_OBSERVED, Severity::Info),
        "this server, so its start-up, CPU time, memory and checks are",
        |w| w.run.starts[1].parts.clear(),
        // A start that failed has no trials.
        |w| {
            w.run.starts[1].parts.clear();
            w.run.trials.remove(1);
        },
    ),
    case(
        (Code::CUT_SHORT, Severity::Info),
        "The user ended this load early. The measured window covers only 0.4 s of the planned 1.0 \
         s.",
        |w| {
            let load = &mut w.run.trials[0].load;
            (load.cut_short, load.window_ns) = (true, (100_000_000, 500_000_000));
        },
        |w| w.run.trials[0].load.window_ns = (100_000_000, 500_000_000),
    ),
    case(
        (Code::CUT_SHORT, Severity::Info),
        "The user ended this load after its window, while dyno waited for 3 responses.",
        |w| {
            let load = &mut w.run.trials[0].load;
            (load.cut_short, load.books.in_flight_at_end) = (true, 3);
        },
        |w| w.run.trials[0].load.books.in_flight_at_end = 3,
    ),
    case(
        (Code::DONE_AGAIN, Severity::Info),
        "One step was measured again, because during the first measurement another program used \
         the machine, heat slowed a CPU, or the generator did not run. The second measurement is \
         used, even if it was disturbed as well. The first measurement is in the archive",
        |w| w.run.contaminated.push(w.run.trials[0].clone()),
        |_| {},
    )
    .given(|w| {
        w.run.header.plan.trials.push(Trial { launch: 0, arm: 0, workload: 0, step: 0, seed: 0 });
    })
    .evidence(
        r#"{"trials": [{"subject": "a", "workload": "w", "step": 0, "block": 0, "trial": 0}],
            "failed": 0}"#,
    ),
    case(
        (Code::DONE_AGAIN, Severity::Warning),
        "(`contaminated/`). In the first measurement, 2 requests failed or got an incorrect \
         response.",
        |w| {
            let mut first = w.run.trials[0].clone();
            first.load.intervals[0].outcomes.count(Outcome::UnexpectedBody);
            first.load.intervals[0].outcomes.count(Outcome::Timeout);
            w.run.contaminated.push(first);
        },
        |_| {},
    )
    .given(|w| {
        w.run.header.plan.trials.push(Trial { launch: 0, arm: 0, workload: 0, step: 0, seed: 0 });
    })
    .evidence(r#"{"failed": 2}"#),
    case(
        (Code::MACHINE_CHANGED, Severity::Warning),
        "a fixed piece of work took 20.0 ms before one server start and 23.0 ms before another",
        |w| w.set_canaries([2000, 2300]),
        |w| w.set_canaries([2000, 2299]),
    )
    .evidence(r#"{"slowest_to_fastest": 1.15}"#),
    case(
        (Code::FEW_REPEATS, Severity::Info),
        "4 repeats are too few for confidence intervals, so ranges over the repeats are shown \
         instead. A difference between two subjects counts only if it has the same direction",
        |w| w.run.header.plan.repeats = 4,
        |_| {},
    ),
    case(
        (Code::FEW_REPEATS, Severity::Info),
        "3 repeats are too few for confidence intervals, so ranges over the repeats are shown \
         instead. A difference between two subjects counts only if it has the same direction",
        |w| w.run.header.plan.repeats = 3,
        |_| {},
    ),
    case(
        (Code::FEW_REPEATS, Severity::Info),
        "2 repeats are too few for confidence intervals, so ranges over the repeats are shown \
         instead. This run cannot show that one subject",
        |w| w.run.header.plan.repeats = 2,
        |_| {},
    ),
    case(
        (Code::FEW_REPEATS, Severity::Info),
        "One repeat is too few for confidence intervals, so ranges over the repeats are shown \
         instead. This run cannot show that one subject",
        |w| w.run.header.plan.repeats = 1,
        |_| {},
    ),
    case(
        (Code::STARTED_FOR_PROFILES, Severity::Info),
        "may lower throughput in this run.",
        |w| w.run.profiles = vec![ProfileRecord::default()],
        |w| {
            w.run.profiles = vec![ProfileRecord {
                failure: Some("it ended".into()),
                ..ProfileRecord::default()
            }];
        },
    ),
    case(
        (Code::RESUMED, Severity::Info),
        "measured after a restart of the server",
        |w| w.run.starts[1].resumed = true,
        |_| {},
    ),
    case(
        (Code::MIXED, Severity::Warning),
        "Its parts (2 and 1 trials) were measured under different conditions, but the report \
         combines them in one row per subject. Changes: kernel from 6.1 to 6.2; dyno from 1 to 2.",
        |w| {
            w.resume(&[("kernel", "6.1", "6.2"), ("dyno", "1", "2")]);
            // A second resumption had no trial left to run.
            w.resume(&[("kernel", "6.1", "6.3")]);
            w.run.header.resumptions[1].from_start = 3;
        },
        |w| {
            w.resume(&[("kernel", "6.1", "6.3")]);
            w.run.header.resumptions[0].from_start = 3;
        },
    )
    .evidence(
        r#"{"differences": ["kernel from 6.1 to 6.2", "dyno from 1 to 2"],
            "parts": [{"started": "then", "trials": [0, 1],
            "versions": {"a": "1"}}, {"started": "later", "trials": [2],
            "versions": {"a": "2"}}]}"#,
    ),
    case(
        (Code::LIMITS_NOT_SET, Severity::Warning),
        "Limits could not be set: memory (1 GiB): no group. `dyno doctor`",
        |w| w.add_limit(None, Some("no group")),
        |w| w.add_limit(Some("1073741824"), None),
    )
    .evidence(r#"{"limits": ["memory"]}"#),
    case(
        (Code::LIMITS_NOT_SET, Severity::Warning),
        "(1 GiB): for an unknown reason.",
        |w| w.add_limit(None, None),
        |w| w.run.starts.clear(),
    ),
    case(
        (Code::NOT_SERVED, Severity::Info),
        "a, a were not loaded with w: each speaks no h2. a was not loaded with w: because.",
        |w| {
            w.omit_workload("it speaks no h2");
            w.omit_workload("because");
            w.omit_workload("it speaks no h2");
        },
        |_| {},
    ),
    case(
        (Code::FIXED_ORDER, Severity::Warning),
        "If the speed of the machine drifts, every difference between subjects is biased. This \
         report therefore ranks no subjects and names no causes of differences. Use `order = \
         \"random\"`",
        |w| w.set_fixed_order(2),
        |w| w.set_fixed_order(1),
    )
    .evidence(r#"{"order": ["a", "a"]}"#),
    case(
        (Code::TREND, Severity::Warning),
        "Subjects ran in the same order in each block (one pass over all subjects). This trend \
         therefore affects comparisons and medians over repeats.",
        |w| {
            w.add_peaks(&[("a", 1.0)]);
            w.repeats = vec![100.0, 104.0, 108.0, 113.0, 117.0];
        },
        |_| {},
    )
    .given(|w| w.set_fixed_order(2)),
    // Throughput rises by 4 % per repeat. In the near miss noise is as large.
    case(
        (Code::TREND, Severity::Warning),
        "The throughput of a with w rose over the run, more than chance explains. In the last \
         repeat it was 1.172",
        |w| w.repeats = vec![100.0, 104.0, 108.0, 113.0, 117.0],
        |w| w.repeats = vec![100.0, 104.0, 98.0, 113.0, 107.0],
    )
    .given(|w| w.add_peaks(&[("a", 1.0)]))
    .evidence(r#"{"subject": "a", "workload": "w"}"#),
    case(
        (Code::PEAK_LOWER_BOUND, Severity::Warning),
        "Some peaks are lower bounds (≥), because some repeats are excluded (the generator was the \
         limit): a ≥ 8160/s (3 of 5 repeats at 16 connections).",
        |w| w.open = vec![open_step(3)],
        |_| {},
    )
    .given(|w| w.add_peaks(&[("a", 8160.0), ("b", 100.0)]))
    .evidence(
        r#"{"peaks": [{"subject": "a", "workload": "w", "at_least_rps": 8160.0,
            "steps": [{"step": 1, "at": {"connections": 16, "streams": 1, "pipeline": 1,
            "rate": null, "schedule": null, "pass": 1}, "refused": 3, "repeats": 5,
            "reason": "generator_busy"}]}]}"#,
    ),
    // If other programs take the CPUs, the advice is not more CPUs for the generator.
    case(
        (Code::PEAK_LOWER_BOUND, Severity::Warning),
        "some repeats are excluded (other programs used the CPUs): a ≥ 81.6/s (2 of 5 repeats at \
         16 connections). These servers may reach more, so they are not ranked below any other. To \
         find their real peaks, stop the other programs",
        |w| w.open = vec![OpenStep { reason: Some(Code::CONTAMINATED), ..open_step(2) }],
        |_| {},
    )
    .given(|w| w.add_peaks(&[("a", 81.6)])),
    case(
        (Code::PEAK_LOWER_BOUND, Severity::Warning),
        "(`--wait-quiet 5m`). Where the generator was the limit, give the generator more CPUs",
        |w| {
            let disturbed = OpenStep { reason: Some(Code::CONTAMINATED), ..open_step(2) };
            w.open = vec![disturbed, open_step(3)];
        },
        |_| {},
    )
    .given(|w| w.add_peaks(&[("a", 81.6)])),
    case(
        (Code::PEAK_LOWER_BOUND, Severity::Warning),
        "a ≥ 81.6/s (the step at 16 connections was not run).",
        |w| w.open = vec![OpenStep { repeats: 0, reason: None, ..open_step(0) }],
        |_| {},
    )
    .given(|w| w.add_peaks(&[("a", 81.6)])),
    // A finished run has no trial left for `--resume`, so the advice is more repeats.
    case(
        (Code::PEAK_LOWER_BOUND, Severity::Warning),
        "To find their real peaks, raise `repeats`, so that",
        |w| {
            w.open = vec![OpenStep { repeats: 0, reason: None, ..open_step(0) }];
            let trials = &mut w.run.header.plan.trials;
            trials.truncate(w.run.trials.len());
        },
        |_| {},
    )
    .given(|w| w.add_peaks(&[("a", 81.6)])),
    // Peaks that are lower bounds are not compared.
    case(
        (Code::SAME_NUMBERS, Severity::Warning),
        "a, b, c, d have",
        |w| w.add_peaks(&[("a", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]),
        |w| {
            w.add_peaks(&[("a", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]);
            w.open = vec![open_step(1)];
        },
    ),
    // Four peaks within 3 % of the lowest.
    case(
        (Code::SAME_NUMBERS, Severity::Warning),
        "a, b, c, d have nearly the same peak throughput, which",
        |w| w.add_peaks(&[("d", 103.0), ("a", 100.0), ("b", 101.0), ("c", 102.0)]),
        |w| w.add_peaks(&[("d", 103.01), ("a", 100.0), ("b", 101.0), ("c", 102.0)]),
    )
    .evidence(r#"{"subjects": ["a", "b", "c", "d"]}"#),
    case(
        (Code::SAME_NUMBERS, Severity::Warning),
        "b, c, d, e have",
        |w| {
            w.add_peaks(&[
                ("a", 90.0),
                ("b", 100.0),
                ("c", 100.0),
                ("d", 100.0),
                ("e", 100.0),
                ("f", 100.0),
            ]);
        },
        |w| w.add_peaks(&[("a", 90.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]),
    ),
    // Variants of one server are one server.
    case(
        (Code::SAME_NUMBERS, Severity::Warning),
        "a/x, b, c, d have",
        |w| {
            w.add_peaks(&[("a/x", 99.0), ("a/y", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]);
        },
        |w| {
            w.add_peaks(&[("a/x", 99.0), ("a/y", 100.0), ("a", 100.0), ("c", 100.0), ("d", 100.0)]);
        },
    ),
    // Peaks are compared within one workload.
    case(
        (Code::SAME_NUMBERS, Severity::Warning),
        "a, b, c, d have nearly the same peak throughput with v, which",
        |w| {
            w.add_peaks(&[("a", 1.0), ("b", 9.0)]);
            w.add_workload_peaks("v", &[("a", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]);
        },
        |w| {
            w.add_peaks(&[("a", 100.0), ("b", 100.0)]);
            w.add_workload_peaks("v", &[("c", 100.0), ("d", 100.0)]);
        },
    ),
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
    OpenStep { step: 1, at, refused, repeats: 5, reason: Some(Code::GENERATOR_BUSY) }
}

fn subject(version: &str) -> Subject {
    Subject { name: "a".into(), version: Some(version.into()), ..Subject::default() }
}
