//! Reads the golden run `hello` from archives of earlier versions of the format.

use dyno_archive::dir::Run;
use dyno_archive::probe::RequestedProbes;
use dyno_archive::{Outcome, Phase, RunDir, Times};

use super::{plan, stored_output, stored_run};

/// Returns the golden run without probes inside servers, as before version 6.
fn run_without_probes() -> Run {
    let mut run = stored_run();
    for load in run.trials.iter_mut().map(|trial| &mut trial.load) {
        load.probes = RequestedProbes::default();
        load.runtime.clear();
        for used in load.samples.iter_mut().flat_map(|sample| &mut sample.parties) {
            (used.calls, used.ended) = (None, None);
            for thread in &mut used.threads {
                (thread.faults_minor, thread.faults_major, thread.seen) = (None, None, None);
            }
        }
    }
    run
}

/// Returns a run as read from an archive of a version without silences.
fn without_silences(mut run: Run) -> Run {
    run.trials.iter_mut().for_each(|trial| trial.load.silences = None);
    run
}

/// Returns a run without the lags of workers, because workers now wake at other intervals, and
/// without the number of open connections after the window, which was not recorded.
fn without_lags(mut run: Run) -> Run {
    for interval in run.trials.iter_mut().flat_map(|trial| &mut trial.load.intervals) {
        (interval.loop_lag, interval.wake_lag) = (Times::new(), Times::new());
        if interval.phase == Phase::Drain {
            interval.connections_open = 0;
        }
    }
    run
}

/// A run of an earlier version of the format.
fn earlier(folder: &str, schema: &str) -> Run {
    let run = RunDir::open(stored_output::folder(folder)).unwrap().read().unwrap();
    assert_eq!(run.header.schema, schema);
    without_lags(run)
}

/// Reads the golden run as earlier versions of the format recorded it.
#[test]
fn archives_of_earlier_formats_are_read() {
    let now = dyno_analysis::report::report(&without_lags(run_without_probes()));
    let reports =
        [("archive-v1", "dyno.run/1"), ("archive-v2", "dyno.run/2")].map(|(name, schema)| {
            let run = earlier(name, schema);
            assert_eq!(run.header.plan.workloads, plan().workloads);
            let report = dyno_analysis::report::report(&run);
            for (then, now) in report.trials.iter().zip(&now.trials) {
                assert_eq!(then.load.throughput_rps, now.load.throughput_rps);
                // Every counted exchange without a correct response is unanswered, as in the
                // present format.
                let due = then.load.exchanges.scheduled;
                let times = &then.load.response_time_us;
                assert_eq!(times.count + times.unanswered, due);
                assert_eq!(times.count, then.load.outcomes.get(Outcome::Ok));
                assert_eq!(then.load.in_flight.by_littles_law, None);
            }
            assert_eq!(report.trials.len(), now.trials.len());
            report
        });
    let third = dyno_analysis::report::report(&earlier("archive-v3", "dyno.run/3"));
    assert_eq!(third.trials, now.trials, "nothing was lost with it");
    for (then, now) in third.subjects.iter().zip(&now.subjects) {
        let detail = |s: &dyno_analysis::subject::SubjectResult| -> Vec<(String, bool, String)> {
            s.checks.iter().map(|c| (c.name.clone(), c.ok, c.detail.clone())).collect()
        };
        // Parts had no names, so the owner of a log is unknown.
        let failures = |s: &dyno_analysis::subject::SubjectResult| -> Vec<_> {
            s.failures.iter().map(|f| (f.repeat, f.failure.clone(), f.log_tail.clone())).collect()
        };
        assert_eq!(
            (detail(then), &then.startup_ms, failures(then)),
            (detail(now), &now.startup_ms, failures(now))
        );
    }
    // Checks of the version before had no request and no expectation.
    let fourth = dyno_analysis::report::report(&earlier("archive-v4", "dyno.run/4"));
    assert!(
        fourth.trials == now.trials && fourth.subjects.len() == now.subjects.len(),
        "nothing was lost with it"
    );
    // The version before had no probes inside servers.
    let fifth = earlier("archive-v5", "dyno.run/5");
    let actual = without_lags(without_silences(run_without_probes()));
    assert!(Run { header: actual.header.clone(), ..fifth } == actual, "nothing was lost with it");
    // The version before had no turns.
    let sixth = earlier("archive-v6", "dyno.run/6");
    let stored = without_lags(without_silences(stored_run()));
    assert!(Run { header: stored.header.clone(), ..sixth } == stored, "nothing was lost with it");
    for (first, second) in reports[0].trials.iter().zip(&reports[1].trials) {
        assert_eq!(first.load.response_time_us, second.load.response_time_us);
    }
}
