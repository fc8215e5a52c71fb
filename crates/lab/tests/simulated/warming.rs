//! Warm-up of starts until their servers are steady, and servers that never are.

use dyno_analysis::run_status::RunStatus;
use dyno_engine::sim::ServiceTime;
use dyno_lab::run::RunEvent;
use dyno_model::run::Run;
use dyno_model::start::{FailureKind, WarmUpEnd};
use dyno_testkit::resource_use::ServerCosts;

use crate::server::{Server, TroubleKind};
use crate::world::{World, codes, kinds, message, report, status};

/// Runs a server with these keys of `[load]`: two workloads at two steps. Returns the run and the
/// number of reported slices of its warm-up.
fn walk(server: Server, load: &str) -> (Run, usize) {
    let suite = format!(
        "[suite]\nrepeats = 1\nseed = 7\n[[workloads]]\nname = \"text\"\npath = \"/text\"\n\
         [[workloads]]\nname = \"json\"\npath = \"/json\"\n[load]\nconnections = [2, 4]\n\
         duration = \"400ms\"\ninterval = \"200ms\"\ntimeout = \"1s\"\n{load}"
    );
    let mut slices = 0;
    let run = World::new(&["web"], &suite).walk_with(&[("web", server)], &mut |_, event| {
        slices += usize::from(matches!(event, RunEvent::Warming { .. }));
    });
    (run.1, slices)
}

/// Returns a server whose compiler always uses 0.4 CPUs.
fn compiling() -> Server {
    let costs = ServerCosts { compiler_cpus: 0.4, ..Server::default().costs };
    Server { costs, ..Server::default() }
}

#[test]
fn warm_server_needs_shortest_warm_up() {
    let (run, slices) = walk(Server::default(), "");
    let report = report(&run);
    let [warm_up] = report.subjects[0].warm_ups.as_slice() else { panic!("one start") };
    assert_eq!((warm_up.ended, warm_up.took_s), (WarmUpEnd::Steady, 1.585));
    // Twelve rounds of the two workloads.
    assert_eq!((slices, warm_up.slices.len()), (24, 24));
    assert_eq!(status(&run).1, RunStatus::Valid);
}

/// The first requests take eight times as long as those after the first 6,000.
#[test]
fn cold_server_is_warmed_with_all_workloads() {
    let service =
        ServiceTime::Warming { cold_ns: 4_000_000, warm_ns: 500_000, requests: 6000, served: 0 };
    let (run, _) = walk(Server { service, ..Server::default() }, "");
    let report = report(&run);
    let [warm_up] = report.subjects[0].warm_ups.as_slice() else { panic!("one start") };
    assert_eq!((warm_up.ended, warm_up.slices.len()), (WarmUpEnd::Steady, 120));
    let of_workload = |workload| warm_up.slices.iter().filter(|s| s.workload == workload).count();
    assert_eq!((of_workload(0), of_workload(1)), (60, 60), "workloads take turns");
    let first = warm_up.slices[0].throughput_rps;
    let last = warm_up.slices[119].throughput_rps;
    assert_eq!((first, last), (1024.0, 7680.0));
    let trials: Vec<_> = report
        .trials
        .iter()
        .map(|trial| (&*trial.workload, trial.load.config.connections, trial.load.throughput_rps))
        .collect();
    assert_eq!(
        trials,
        [("text", 2, 3845.0), ("text", 4, 7690.0), ("json", 2, 3845.0), ("json", 4, 7690.0),]
    );
    assert!(report.trials.iter().all(|trial| codes(&trial.caveats) == ["short_window"]));
    let places: Vec<usize> = report.trials.iter().map(|trial| trial.place).collect();
    assert_eq!(places, [2, 3, 4, 1], "the workloads are measured in a random order");
}

#[test]
fn endless_compilation_ends_warm_up_at_limit() {
    let (run, _) = walk(compiling(), "warmup_limit = \"2s\"\n");
    assert_eq!(status(&run).1, RunStatus::Invalid);
    let report = report(&run);
    let [warm_up] = report.subjects[0].warm_ups.as_slice() else { panic!("one start") };
    assert_eq!((warm_up.ended, warm_up.took_s), (WarmUpEnd::Limit, 2.085));
    for trial in &report.trials {
        assert_eq!(codes(&trial.caveats), ["still_warming", "warmup_limit", "short_window"]);
        assert!(!trial.valid);
    }
}

#[test]
fn step_after_short_fixed_warm_up_is_invalid() {
    let (run, slices) = walk(compiling(), "warmup = \"50ms\"\n");
    assert_eq!((status(&run).1, slices), (RunStatus::Invalid, 0));
    let report = report(&run);
    assert!(report.subjects[0].warm_ups.is_empty());
    for trial in &report.trials {
        assert_eq!(codes(&trial.caveats), ["still_warming", "short_window"]);
    }
}

#[test]
fn server_failure_in_warm_up_is_reported() {
    let at_ns = 300_000_000;
    let exit = "its process ended with exit status: 9 under load";
    let silence = "its process runs, but did not respond to a request after the step: no response \
                   in time";
    for (trouble, kind, reason) in [
        (TroubleKind::Exits { at_ns }, FailureKind::Crashed, exit),
        (TroubleKind::Deaf { at_ns }, FailureKind::Deaf, silence),
    ] {
        let (run, slices) = walk(Server::with_trouble(trouble, 1), "");
        assert_eq!((kinds(&run), run.trials.len()), (vec![Some(kind)], 0));
        assert_eq!(message(&run, 0), format!("during its warm-up: {reason}"));
        assert_eq!(status(&run).1, RunStatus::Failed);
        let warm_up = &report(&run).subjects[0].warm_ups[0];
        assert_eq!((warm_up.ended, slices), (WarmUpEnd::CutShort, 8));
    }
}
