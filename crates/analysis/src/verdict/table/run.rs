//! Cases: a whole run.

use dyno_archive::outcome::Outcome;
use dyno_archive::plan::{NotServed, Order, Plan, Subject, Trial};
use dyno_archive::profile::ProfileRecord;
use dyno_archive::resumption::{Resumption, ResumptionDifference};
use dyno_archive::run::{Run, RunHeader};
use dyno_archive::start::{Canary, CanaryPiece, LimitKind, LimitReadBack, NewFiles, WarmUpEnd};
use dyno_archive::{Facts, TrialRecord};

use super::{Case, Judged};
use crate::caveat::{Caveat, Code, Severity};
use crate::cell::Shape;
use crate::fixture;
use crate::peak::OpenStep;
use crate::verdict::{self, Peak};

/// Cases on a run of three starts with one trial each.
pub(super) const CASES: &[Case<RunWorld>] = &[
    Case {
        code: Code::SharedCpus,
        severity: Severity::Warning,
        says: "Server and generator share CPUs",
        evidence: r#"{"subject": [0, 1], "generator": [1]}"#,
        trips: |w| w.run.header.plan.arms[0].conditions.placement.generator = vec![1],
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::NewFiles,
        severity: Severity::Warning,
        says: "during the run: s (cache.json; 2 starts). If these",
        evidence: r#"{"parts": ["s"]}"#,
        trips: |w| {
            for start in &mut w.run.starts[1..] {
                let first = "cache.json".into();
                start.parts[0].new_files = Some(NewFiles { count: 1, first });
            }
        },
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::ServerNotObserved,
        severity: Severity::Info,
        says: "this server. Its start-up, CPU time, memory and checks are",
        evidence: "{}",
        trips: |w| w.run.starts[1].parts.clear(),
        // A start that failed has no trials.
        just_not: |w| {
            w.run.starts[1].parts.clear();
            w.run.trials.remove(1);
        },
        otherwise: None,
    },
    Case {
        code: Code::CutShort,
        severity: Severity::Info,
        says: "The user ended this load after 0.4 s of 1.0 s of its window. Its numbers cover only \
               that part.",
        evidence: "{}",
        trips: |w| {
            let load = &mut w.run.trials[0].load;
            (load.cut_short, load.window_ns) = (true, (100_000_000, 500_000_000));
        },
        just_not: |w| w.run.trials[0].load.window_ns = (100_000_000, 500_000_000),
        otherwise: None,
    },
    Case {
        code: Code::DoneAgain,
        severity: Severity::Info,
        says: "One step was measured again: another program used the machine meanwhile, heat \
               slowed it, or the generator did not run. The second measurement counts in any case. \
               The first is in the archive",
        evidence: r#"{"trials": [{"subject": "a", "workload": "w", "step": 0, "block": 0, "trial": 0}], "failed": 0}"#,
        trips: |w| {
            w.run.header.plan.trials.push(Trial {
                launch: 0,
                arm: 0,
                workload: 0,
                step: 0,
                seed: 0,
            });
            w.run.contaminated.push(w.run.trials[0].clone());
        },
        just_not: |w| {
            w.run.header.plan.trials.push(Trial {
                launch: 0,
                arm: 0,
                workload: 0,
                step: 0,
                seed: 0,
            });
        },
        otherwise: None,
    },
    Case {
        code: Code::DoneAgain,
        severity: Severity::Warning,
        says: "(`contaminated/`). In the first measurement, 2 requests failed or got an incorrect \
               response.",
        evidence: r#"{"failed": 2}"#,
        trips: |w| {
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
        just_not: |w| {
            w.run.header.plan.trials.push(Trial {
                launch: 0,
                arm: 0,
                workload: 0,
                step: 0,
                seed: 0,
            });
        },
        otherwise: None,
    },
    Case {
        code: Code::MachineChanged,
        severity: Severity::Warning,
        says: "A fixed piece of work took 20.0 ms before one start and 23.0 ms before another",
        evidence: r#"{"slowest_to_fastest": 1.15}"#,
        trips: |w| w.canaries([2000, 2300]),
        just_not: |w| w.canaries([2000, 2299]),
        otherwise: None,
    },
    Case {
        code: Code::FewRepeats,
        severity: Severity::Info,
        says: "4 repeats are too few for confidence intervals, so ranges over the repeats are \
               shown. Subjects are distinguished only if all pairs",
        evidence: "{}",
        trips: |w| w.run.header.plan.repeats = 4,
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::FewRepeats,
        severity: Severity::Info,
        says: "3 repeats are too few for confidence intervals, so ranges over the repeats are \
               shown. Subjects are distinguished only if all pairs",
        evidence: "{}",
        trips: |w| w.run.header.plan.repeats = 3,
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::FewRepeats,
        severity: Severity::Info,
        says: "2 repeats are too few for confidence intervals, so ranges over the repeats are \
               shown. No subject is distinguished",
        evidence: "{}",
        trips: |w| w.run.header.plan.repeats = 2,
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::FewRepeats,
        severity: Severity::Info,
        says: "One repeat is too few for confidence intervals, so ranges over the repeats are \
               shown. No subject is distinguished",
        evidence: "{}",
        trips: |w| w.run.header.plan.repeats = 1,
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::StartedForProfiles,
        severity: Severity::Info,
        says: "may lower throughput in this run.",
        evidence: "{}",
        trips: |w| w.run.profiles = vec![ProfileRecord::default()],
        just_not: |w| {
            w.run.profiles = vec![ProfileRecord {
                failure: Some("it ended".into()),
                ..ProfileRecord::default()
            }];
        },
        otherwise: None,
    },
    Case {
        code: Code::Resumed,
        severity: Severity::Info,
        says: "served by a restarted process",
        evidence: "{}",
        trips: |w| w.run.starts[1].resumed = true,
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::Mixed,
        severity: Severity::Warning,
        says: "Its parts (2 and 1 trials) are not one experiment, and a subject's row joins them. \
               Changes: kernel: 6.1 then, 6.2 later; dyno: 1 then, 2 later.",
        evidence: r#"{"differences": ["kernel: 6.1 then, 6.2 later", "dyno: 1 then, 2 later"], "parts": [{"started": "then", "trials": [0, 1], "versions": {"a": "1"}}, {"started": "later", "trials": [2], "versions": {"a": "2"}}]}"#,
        trips: |w| {
            w.resume(&[("kernel", "6.1", "6.2"), ("dyno", "1", "2")]);
            // Resumed once more, with nothing left to do.
            w.resume(&[("kernel", "6.1", "6.3")]);
            w.run.header.resumptions[1].from_start = 3;
        },
        just_not: |w| {
            w.resume(&[("kernel", "6.1", "6.3")]);
            w.run.header.resumptions[0].from_start = 3;
        },
        otherwise: None,
    },
    Case {
        code: Code::LimitsNotSet,
        severity: Severity::Warning,
        says: "Limits could not be set: memory (1 GiB): no group. `dyno doctor`",
        evidence: r#"{"limits": ["memory"]}"#,
        trips: |w| w.limit(None, Some("no group")),
        just_not: |w| w.limit(Some("1073741824"), None),
        otherwise: None,
    },
    Case {
        code: Code::LimitsNotSet,
        severity: Severity::Warning,
        says: "(1 GiB): for an unknown reason.",
        evidence: "{}",
        trips: |w| w.limit(None, None),
        just_not: |w| w.run.starts.clear(),
        otherwise: None,
    },
    Case {
        code: Code::NotServed,
        severity: Severity::Info,
        says: "a, a were not loaded with w: each speaks no h2. a was not loaded with w: because.",
        evidence: "{}",
        trips: |w| {
            w.refuse("it speaks no h2");
            w.refuse("because");
            w.refuse("it speaks no h2");
        },
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::FixedOrder,
        severity: Severity::Warning,
        says: "A drift of the machine is part of every difference between them. This report ranks \
               no subject and names no cause. Use `order = \"random\"`",
        evidence: r#"{"order": ["a", "a"]}"#,
        trips: |w| w.fix_order(2),
        just_not: |w| w.fix_order(1),
        otherwise: None,
    },
    Case {
        code: Code::Trend,
        severity: Severity::Warning,
        says: "Subjects ran in the same order in each block. Comparisons and medians over repeats \
               contain a part of this trend.",
        evidence: "{}",
        trips: |w| {
            w.fix_order(2);
            w.peaks(&[("a", 1.0)]);
            w.repeats = vec![100.0, 104.0, 108.0, 113.0, 117.0];
        },
        just_not: |w| w.fix_order(2),
        otherwise: None,
    },
    // By 4 % at each repeat, once among repeats that differ as much by themselves.
    Case {
        code: Code::Trend,
        severity: Severity::Warning,
        says: "The throughput of a with w rose over the run, by more than chance. In the last \
               repeat it was 1.172",
        evidence: r#"{"subject": "a", "workload": "w"}"#,
        trips: |w| {
            w.peaks(&[("a", 1.0)]);
            w.repeats = vec![100.0, 104.0, 108.0, 113.0, 117.0];
        },
        just_not: |w| {
            w.peaks(&[("a", 1.0)]);
            w.repeats = vec![100.0, 104.0, 98.0, 113.0, 107.0];
        },
        otherwise: None,
    },
    Case {
        code: Code::PeakLowerBound,
        severity: Severity::Warning,
        says: "Some peaks are lower bounds (≥): a, ≥ 8160/s: at 16 connections 3 of 5 repeats do \
               not count (the generator was the limit).",
        evidence: r#"{"peaks": [{"subject": "a", "workload": "w", "at_least_rps": 8160.0, "steps": [{"step": 1, "at": {"connections": 16, "streams": 1, "pipeline": 1, "rate": null, "schedule": null, "pass": 1}, "refused": 3, "repeats": 5, "reason": "generator_busy"}]}]}"#,
        trips: |w| {
            w.peaks(&[("a", 8160.0), ("b", 100.0)]);
            w.open = vec![open_step(3)];
        },
        just_not: |w| w.peaks(&[("a", 8160.0), ("b", 100.0)]),
        otherwise: None,
    },
    // More CPUs for the generator do not help where others take them.
    Case {
        code: Code::PeakLowerBound,
        severity: Severity::Warning,
        says: "2 of 5 repeats do not count (other programs used the CPUs). These servers may reach \
               more, so none of them is ranked below another. To measure them, end the other \
               programs",
        evidence: "{}",
        trips: |w| {
            w.peaks(&[("a", 81.6)]);
            w.open = vec![OpenStep { reason: Some(Code::Contaminated), ..open_step(2) }];
        },
        just_not: |w| w.peaks(&[("a", 81.6)]),
        otherwise: None,
    },
    Case {
        code: Code::PeakLowerBound,
        severity: Severity::Warning,
        says: "(`--wait-quiet 5m`). Where the generator was the limit, give the generator more \
               CPUs",
        evidence: "{}",
        trips: |w| {
            w.peaks(&[("a", 81.6)]);
            let disturbed = OpenStep { reason: Some(Code::Contaminated), ..open_step(2) };
            w.open = vec![disturbed, open_step(3)];
        },
        just_not: |w| w.peaks(&[("a", 81.6)]),
        otherwise: None,
    },
    Case {
        code: Code::PeakLowerBound,
        severity: Severity::Warning,
        says: "a, ≥ 81.6/s: the step of 16 connections was not run.",
        evidence: "{}",
        trips: |w| {
            w.peaks(&[("a", 81.6)]);
            w.open = vec![OpenStep { repeats: 0, reason: None, ..open_step(0) }];
        },
        just_not: |w| w.peaks(&[("a", 81.6)]),
        otherwise: None,
    },
    // A lower bound is no number of the server's.
    Case {
        code: Code::SameNumbers,
        severity: Severity::Warning,
        says: "a, b, c, d have",
        evidence: "{}",
        trips: |w| w.peaks(&[("a", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]),
        just_not: |w| {
            w.peaks(&[("a", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]);
            w.open = vec![open_step(1)];
        },
        otherwise: None,
    },
    // Four within 3 % of the lowest.
    Case {
        code: Code::SameNumbers,
        severity: Severity::Warning,
        says: "a, b, c, d have nearly the same peak throughput, which",
        evidence: r#"{"subjects": ["a", "b", "c", "d"]}"#,
        trips: |w| w.peaks(&[("d", 103.0), ("a", 100.0), ("b", 101.0), ("c", 102.0)]),
        just_not: |w| w.peaks(&[("d", 103.01), ("a", 100.0), ("b", 101.0), ("c", 102.0)]),
        otherwise: None,
    },
    Case {
        code: Code::SameNumbers,
        severity: Severity::Warning,
        says: "b, c, d, e have",
        evidence: "{}",
        trips: |w| {
            w.peaks(&[
                ("a", 90.0),
                ("b", 100.0),
                ("c", 100.0),
                ("d", 100.0),
                ("e", 100.0),
                ("f", 100.0),
            ]);
        },
        just_not: |w| w.peaks(&[("a", 90.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]),
        otherwise: None,
    },
    // Variants of one server are expected to be alike.
    Case {
        code: Code::SameNumbers,
        severity: Severity::Warning,
        says: "a/x, b, c, d have",
        evidence: "{}",
        trips: |w| {
            w.peaks(&[("a/x", 99.0), ("a/y", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]);
        },
        just_not: |w| {
            w.peaks(&[("a/x", 99.0), ("a/y", 100.0), ("a", 100.0), ("c", 100.0), ("d", 100.0)]);
        },
        otherwise: None,
    },
    // Peaks are compared within one workload.
    Case {
        code: Code::SameNumbers,
        severity: Severity::Warning,
        says: "a, b, c, d have nearly the same peak throughput with v, which",
        evidence: "{}",
        trips: |w| {
            w.peaks(&[("a", 1.0), ("b", 9.0)]);
            w.peaks_of("v", &[("a", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]);
        },
        just_not: |w| {
            w.peaks(&[("a", 100.0), ("b", 100.0)]);
            w.peaks_of("v", &[("c", 100.0), ("d", 100.0)]);
        },
        otherwise: None,
    },
];

/// A run, and the peaks of its subjects.
pub(super) struct RunWorld {
    run: Run,
    /// Workload, subject and correct responses per second.
    peaks: Vec<(&'static str, &'static str, f64)>,
    /// Throughput of each repeat, of all of them.
    repeats: Vec<f64>,
    /// Steps at which subject a may have done more.
    open: Vec<OpenStep>,
}

impl Default for RunWorld {
    /// A run in which three of five repeats are done.
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
        let one = fixture::warm_up(WarmUpEnd::Steady, 0, Some(1));
        let starts =
            (0..3).map(|start| dyno_archive::StartRecord { start, launch: start, ..one.clone() });
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

impl Judged for RunWorld {
    fn caveats(&self) -> Vec<Caveat> {
        let peak = |&(workload, subject, rps)| Peak {
            workload,
            subject,
            server: subject.split('/').next().unwrap_or(subject),
            rps: Some(rps),
            repeats: &self.repeats,
            control: false,
            most_rps: Some(rps),
            open: if subject == "a" { &self.open } else { &[] },
            is_complete: true,
        };
        verdict::run(&self.run, &self.peaks.iter().map(peak).collect::<Vec<_>>())
    }
}

impl RunWorld {
    /// The run was resumed before its third start, with these differences.
    fn resume(&mut self, differences: &[(&str, &str, &str)]) {
        let difference = |(what, before, now): &(&str, &str, &str)| ResumptionDifference {
            what: (*what).into(),
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

    /// Each block starts so many subjects in the suite's order.
    fn fix_order(&mut self, subjects: usize) {
        let plan = fixture::plan(vec![subject("1"); subjects]);
        self.run.header.plan = Plan { order: Order::Fixed, ..plan };
    }

    /// A piece of work took so many hundredths of a millisecond before the first two starts.
    fn canaries(&mut self, took: [u64; 2]) {
        for (start, took) in self.run.starts.iter_mut().zip(took) {
            let piece = CanaryPiece { wall_ns: took * 10_000, cpu_ns: took * 10_000 };
            start.canary = Some(Canary { steps: 1, pieces: vec![piece] });
        }
    }

    fn limit(&mut self, read_back: Option<&str>, reason: Option<&str>) {
        self.run.starts[1].parts[0].limits.push(LimitReadBack {
            kind: LimitKind::Memory,
            asked: "1 GiB".into(),
            read_back: read_back.map(Into::into),
            reason: reason.map(Into::into),
        });
    }

    fn refuse(&mut self, reason: &str) {
        let not = NotServed { subject: 0, workload: 0, reason: reason.into() };
        self.run.header.plan.not_served.push(not);
    }

    fn peaks(&mut self, peaks: &[(&'static str, f64)]) {
        self.peaks_of("w", peaks);
    }

    fn peaks_of(&mut self, workload: &'static str, peaks: &[(&'static str, f64)]) {
        self.peaks.extend(peaks.iter().map(|(subject, rps)| (workload, *subject, *rps)));
    }
}

/// 16 connections, at which so many of five repeats do not count.
fn open_step(refused: usize) -> OpenStep {
    let at =
        Shape { connections: 16, streams: 1, pipeline: 1, rate: None, schedule: None, pass: 1 };
    OpenStep { step: 1, at, refused, repeats: 5, reason: Some(Code::GeneratorBusy) }
}

fn subject(version: &str) -> Subject {
    Subject { name: "a".into(), version: Some(version.into()), ..Subject::default() }
}
