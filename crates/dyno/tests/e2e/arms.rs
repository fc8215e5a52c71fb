//! Tests arms: one subject under several conditions in one run.

use dyno_model::plan::{Arm, Conditions, DriverKind, Launch, LoadChanges, Trial};
use dyno_model::probe::Probe;
use dyno_model::run::Run;
use dyno_model::start::LimitKind;
use dyno_suite::plan::Planned;

use crate::walk::{self, define};

/// Runs `front` as it is, and again in an arm with another environment, a limit, the other driver
/// and the kernel's stamps.
fn run(launches: Vec<Launch>) -> Run {
    let sandbox = tempfile::tempdir().unwrap();
    let subjects = sandbox.path().join("subjects");
    define(&subjects, "front", &walk::null(), "FLAVOUR = \"plain\"");
    let Planned { mut plan, definitions, .. } = walk::planned(&subjects, "front");
    let conditions = Conditions {
        env: [("FLAVOUR".to_string(), "stamped".to_string())].into(),
        load: LoadChanges { driver: Some(DriverKind::Epoll), ..LoadChanges::default() },
        observe: [Probe::KernelStamps].into(),
        ..plan.arms[0].conditions.clone()
    };
    plan.arms.push(Arm {
        name: "stamped".into(),
        level: Some(1.0),
        subject: 0,
        backends: Vec::new(),
        conditions,
    });
    plan.arms[1].conditions.limits.open_files = Some(500);
    plan.trials = (0..launches.len())
        .map(|launch| Trial {
            launch,
            arm: launches[launch].arms[0],
            workload: 0,
            step: 0,
            seed: 1,
        })
        .collect();
    plan.launches = launches;
    walk::run(sandbox.path(), &Planned::new(plan, definitions, Vec::new()).unwrap())
}

#[test]
fn subject_runs_under_conditions_of_each_arm() {
    let run = run(vec![Launch::with_arm(1, 0), Launch::with_arm(0, 0)]);
    let [stamped, plain] = run.starts.as_slice() else { panic!("{:?}", run.starts) };
    for (start, name, flavour) in [(stamped, "stamped", "stamped"), (plain, "front", "plain")] {
        assert_eq!(start.failure, None);
        let part = start.subject().unwrap();
        assert_eq!((part.name.as_str(), part.environment["FLAVOUR"].as_str()), (name, flavour));
        let files = part.limits.iter().find(|limit| limit.kind == LimitKind::OpenFiles).unwrap();
        assert_eq!(files.read_back.as_deref() == Some("500"), name == "stamped", "{files:?}");
    }
    let report = dyno_analysis::report::report(&run);
    let trial = |id: &str| report.trials.iter().find(|trial| trial.subject_id == id).unwrap();
    assert_eq!(trial("stamped").load.config.driver, DriverKind::Epoll);
    assert_eq!(trial("stamped").load.client.driver, DriverKind::Epoll);
    assert!(trial("stamped").load.kernel_response_time_us.is_some());
    assert!(trial("front").load.kernel_response_time_us.is_none());
    let mut rows: Vec<&str> = report.overview.iter().map(|row| row.subject.as_str()).collect();
    rows.sort_unstable();
    assert_eq!(rows, ["front", "stamped"]);
    let page = dyno_report::html::FORMAT.render(&report);
    assert!(page.contains("front, stamped"), "the page distinguishes the arms by name");
}
