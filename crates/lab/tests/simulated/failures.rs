//! Servers that fail: each failure has its kind, and the other server has results.

use std::fs;

use dyno_analysis::Report;
use dyno_analysis::load::Exchanges;
use dyno_analysis::run_status::{RunCompleteness, RunStatus};
use dyno_analysis::trial::TrialResult;
use dyno_engine::sim::Fault;
use dyno_model::run::Run;
use dyno_model::start::FailureKind;
use dyno_model::{Outcome, Protocol};

use crate::server::{LifecycleResult, Server, TroubleKind};
use crate::world::{World, codes, kinds, measured, message, report, status};

/// Two steps of one start.
const SUITE: &str = "[suite]\nrepeats = 1\norder = \"fixed\"\nseed = 7\n[load]\n\
                     connections = [2, 4]\nwarmup = \"50ms\"\nduration = \"400ms\"\n\
                     interval = \"200ms\"\ntimeout = \"1s\"\n";

fn trials<'a>(report: &'a Report, subject: &str) -> Vec<&'a TrialResult> {
    report.trials.iter().filter(|trial| trial.subject_id == subject).collect()
}

fn assert_books(n: &Exchanges) {
    assert_eq!(n.carried_in + n.scheduled, n.started + n.dropped);
    assert_eq!(n.started, n.completed + n.failed + n.in_flight_at_end);
}

/// Runs a server with trouble after a number of loads, and a server without trouble. Checks what
/// all such runs have in common.
fn walk(kind: TroubleKind, after_loads: usize) -> (Run, Report) {
    let mut world = World::new(&["bad", "good"], SUITE);
    let run = world.walk(&[("bad", Server::with_trouble(kind, after_loads))]).1;
    assert_eq!(status(&run).1, RunStatus::Failed);
    let report = report(&run);
    let rates: Vec<f64> =
        trials(&report, "good").iter().map(|trial| trial.load.throughput_rps).collect();
    assert_eq!(rates, [1960.0, 3920.0], "the other server has all its steps");
    assert!(trials(&report, "good").iter().all(|trial| trial.valid));
    report.trials.iter().for_each(|trial| assert_books(&trial.load.exchanges));
    (run, report)
}

#[test]
fn wrong_answers_before_load_are_reported() {
    let (run, report) = walk(TroubleKind::FailsCheck, 0);
    assert_eq!(kinds(&run)[0], Some(FailureKind::IncorrectResponses));
    let quoted = "check \"greeting\": asked GET /; expected status 200; got: 500";
    assert_eq!(message(&run, 0), quoted);
    assert!(trials(&report, "bad").is_empty(), "a server with incorrect responses is not loaded");
}

#[test]
fn wrong_answers_under_load_refuse_step() {
    let (run, report) = walk(TroubleKind::WrongBodies, 1);
    assert_eq!(kinds(&run)[0], Some(FailureKind::IncorrectResponses));
    let [first, second] = trials(&report, "bad")[..] else { panic!("two steps") };
    assert_eq!((first.valid, second.valid), (true, false));
    let outcomes = &second.load.exchanges;
    assert_eq!((outcomes.completed, second.load.throughput_rps), (1572, 0.0));
    let expected =
        ["wrong_answers", "checks_failed", "no_answers", "warmup_failures", "short_window"];
    assert_eq!(codes(&second.caveats), expected);
}

/// The requests in flight as the process exits get no response.
#[test]
fn crash_under_load_is_reported() {
    let (run, report) = walk(TroubleKind::Exits { at_ns: 250_000_000 }, 0);
    assert_eq!(kinds(&run)[0], Some(FailureKind::Crashed));
    assert_eq!(message(&run, 0), "its process ended with exit status: 9 under load");
    let failure = &report.subjects[0].failures[0];
    assert_eq!(failure.log_tail.as_deref(), Some("out of luck"));
    let [trial] = trials(&report, "bad")[..] else { panic!("one step") };
    let n = &trial.load.exchanges;
    assert_eq!((n.completed, n.failed), (392, 2));
    assert_eq!(codes(&trial.caveats), ["subject_failed", "errors", "short_window"]);
}

/// Only the checks after the last step find the fault.
#[test]
fn check_without_response_after_load_is_reported() {
    let (run, report) = walk(TroubleKind::FailsCheck, 2);
    assert_eq!(kinds(&run)[0], Some(FailureKind::IncorrectResponses));
    for trial in trials(&report, "bad") {
        assert_eq!((trial.valid, trial.error_share), (true, Some(0.0)));
    }
}

#[test]
fn hanging_server_differs_from_crashed_server() {
    let (run, report) = walk(TroubleKind::Deaf { at_ns: 250_000_000 }, 0);
    assert_eq!(kinds(&run)[0], Some(FailureKind::Deaf));
    let silence = "its process runs, but did not respond to a request after the step: no response \
                   in time";
    assert_eq!(message(&run, 0), silence);
    let [trial] = trials(&report, "bad")[..] else { panic!("one step") };
    let expected = ["subject_failed", "outage", "errors", "stalled", "short_window"];
    assert_eq!((trial.valid, codes(&trial.caveats)), (false, expected.into()));
}

const FULL_TABLE: &str = "the machine dropped packets: 3 by connection tracking, with 64 of 64 \
                          table entries in use. The server ";

/// The server seems to stop responding in its first step.
#[test]
fn silence_during_drops_is_machine_failure() {
    let mut world = World::new(&["bad"], SUITE);
    world.surroundings.drops_packets = true;
    let bad = Server::with_trouble(TroubleKind::Deaf { at_ns: 250_000_000 }, 0);
    let run = world.walk(&[("bad", bad)]).1;
    assert_eq!(kinds(&run), [Some(FailureKind::Harness)]);
    let silence = "stopped responding: its process runs, but did not respond to a request after \
                   the step: no response in time\nhint: ";
    assert!(message(&run, 0).starts_with(&format!("{FULL_TABLE}{silence}")), "{run:?}");
    let report = report(&run);
    let [trial] = report.trials.as_slice() else { panic!("one step") };
    assert_eq!((trial.valid, trial.limiter.resource.name()), (false, "dropped_packets"));
    let dropped = trial.caveats.iter().find(|caveat| caveat.code.name() == "dropped_packets");
    assert_eq!(dropped.unwrap().evidence["tracking"], 3);
    assert!(!codes(&trial.caveats).contains(&"subject_failed"), "{:?}", trial.caveats);
}

#[test]
fn start_during_drops_is_machine_failure() {
    let mut world = World::new(&["bad"], SUITE);
    world.surroundings.drops_packets = true;
    let bad =
        Server { never_ready: Some("connections to port 8080 timed out"), ..Server::default() };
    let run = world.walk(&[("bad", bad)]).1;
    assert_eq!(kinds(&run), [Some(FailureKind::Harness)]);
    let reason = format!(
        "{FULL_TABLE}did not become ready: connections to port 8080 timed out\nhint: Exempt \
         loopback from connection tracking"
    );
    assert!(message(&run, 0).starts_with(&reason), "{}", message(&run, 0));
}

#[test]
fn subject_with_unmet_needs_is_skipped_with_reason() {
    let needy = "language = \"C\"\nprotocols = [\"h1\"]\ndescription = \"needs unobtainium\"\n\
                 [start]\ncommand = [\"x\", \"{port}\"]\n";
    let suite = format!("subjects = [\"needy\", \"good\"]\n{SUITE}");
    let good = needy.replace("needs unobtainium", "");
    let mut world = World::with_definitions(&[("needy", needy), ("good", &good)], &suite);
    let run = world.walk(&[]).1;
    assert_eq!(world.journal, ["start good", "stop good"]);
    assert_eq!(status(&run), (RunCompleteness::Complete, RunStatus::Valid));
    assert_eq!(report(&run).subjects[0].skipped.as_deref(), Some("needs unobtainium"));
    // A trial of the other subject is missing.
    let last = measured(&run).pop().unwrap();
    fs::remove_file(world.file(&format!("trials/{last:04}.json"))).unwrap();
    assert_eq!(status(&world.read()), (RunCompleteness::Incomplete, RunStatus::Failed));
}

/// The control has no server, so refusals are expected.
#[test]
fn refusals_do_not_fail_run() {
    let suite = format!("subjects = [\"closed-port\"]\n{SUITE}");
    let closed = Server { is_closed: true, ..Server::default() };
    // In a closed loop and at low rates, each request is refused. At high rates, some wait for
    // the next attempt to connect.
    let started = [[10, 20], [80, 80], [2000, 2000]];
    for (rate, started) in ["", "rate = [200]\n", "rate = [5000]\n"].into_iter().zip(started) {
        let mut world = World::with_definitions(&[], &format!("{suite}{rate}"));
        let run = world.walk(&[("closed-port", closed.clone())]).1;
        assert_eq!(status(&run).1, RunStatus::Valid, "{rate}");
        for (trial, started) in report(&run).trials.iter().zip(started) {
            let n = &trial.load.exchanges;
            assert_eq!((trial.valid, trial.refused, n.started), (false, true, started), "{rate}");
            assert_eq!((trial.limiter.resource.name(), n.completed), ("refusal", 0));
            assert_books(n);
        }
    }
}

#[test]
fn incorrect_responses_and_refusals_are_not_valid() {
    let faulty = Server { faults: vec![(Fault::Status, 1.0)], ..Server::default() };
    let closed = Server { is_closed: true, ..Server::default() };
    for (server, outcome, count) in
        [(faulty, Outcome::UnexpectedStatus, 786), (closed, Outcome::ConnectRefused, 10)]
    {
        let mut world = World::new(&["web"], &SUITE.replace("[2, 4]", "2"));
        let run = world.walk(&[("web", server)]).1;
        assert_eq!(status(&run).1, RunStatus::Invalid);
        let report = report(&run);
        let [trial] = report.trials.as_slice() else { panic!("one step") };
        assert_eq!((trial.valid, trial.refused, trial.load.throughput_rps), (false, false, 0.0));
        let counted = trial.load.outcomes.iter().filter(|(counted, _)| *counted == outcome);
        assert_eq!(counted.map(|(_, n)| n).sum::<u64>(), count);
        assert_books(&trial.load.exchanges);
    }
}

/// Two workloads, over HTTP/1.1 and h2c.
const WORKLOADS: &str = "[[workloads]]\nname = \"one\"\npath = \"/\"\n[[workloads]]\n\
                         name = \"two\"\nprotocol = \"h2c\"\npath = \"/\"\n";

fn both_protocols() -> Server {
    Server { protocols: vec![Protocol::H1, Protocol::H2c], ..Server::default() }
}

#[test]
fn failed_check_excludes_only_its_protocol() {
    let mut world = World::new(&["own"], &format!("{SUITE}{WORKLOADS}"));
    let own = Server { wrong_protocols: vec![Protocol::H2c], ..both_protocols() };
    let run = world.walk(&[("own", own)]).1;
    assert_eq!(kinds(&run), [None], "a server that breaks its contract is ready and serves");
    let refused: Vec<Protocol> = run.starts[0].refused_protocols().into_keys().collect();
    assert_eq!(refused, [Protocol::H2c]);
    let report = report(&run);
    let workloads: Vec<&str> = report.trials.iter().map(|trial| &*trial.workload).collect();
    assert_eq!(workloads, ["one", "one"]);
    assert!(report.trials.iter().all(|trial| trial.valid));
    let [failure] = report.subjects[0].failures.as_slice() else { panic!("one failure") };
    assert_eq!(failure.failure.kind, FailureKind::IncorrectResponses);
    let reason = "no load was run over h2c, because the check \"greeting\" failed: asked GET /; \
                  expected status 200; got: 500";
    assert_eq!(failure.failure.message, reason);
    let absent: Vec<_> =
        report.overview.iter().map(|row| (&*row.workload, row.absent.clone())).collect();
    let absent_reason = Some(format!("responded incorrectly: {reason}"));
    assert_eq!(absent, [("one", None), ("two", absent_reason)]);
}

#[test]
fn waived_check_is_reported_at_every_row() {
    let mut world = World::new(&["own"], &format!("{SUITE}{WORKLOADS}"));
    let wrong_protocols = vec![Protocol::H2c];
    let own = Server { wrong_protocols, is_waived: true, ..both_protocols() };
    let run = world.walk(&[("own", own)]).1;
    assert_eq!((run.starts[0].refused_protocols().len(), status(&run).1), (0, RunStatus::Valid));
    let report = report(&run);
    let caveats: Vec<_> =
        report.trials.iter().map(|trial| (&*trial.workload, codes(&trial.caveats))).collect();
    let waived = vec!["checks_waived", "short_window"];
    let plain = vec!["short_window"];
    assert_eq!(
        caveats,
        [("one", plain.clone()), ("one", plain), ("two", waived.clone()), ("two", waived),]
    );
    assert!(report.overview.iter().all(|row| row.checks_waived == 1));
    assert!(dyno_report::html::FORMAT.render(&report).contains("✗ waived"));
    let text = dyno_report::text::FORMAT.render(&report);
    assert!(text.contains("1/2 ✗ 1 waived"), "{text}");
}

/// The server's responses over h2c are not HTTP/2.
#[test]
fn unsupported_protocol_fails_only_its_steps() {
    let suite = SUITE.replace("repeats = 1", "repeats = 2").replace("[2, 4]", "4");
    let mut world = World::new(&["own"], &format!("{suite}{WORKLOADS}"));
    let own = Server { unsupported_protocols: vec![Protocol::H2c], ..both_protocols() };
    let run = world.walk(&[("own", own)]).1;
    assert_eq!((kinds(&run), status(&run).1), (vec![None, None], RunStatus::Invalid));
    let report = report(&run);
    let results: Vec<_> = report
        .trials
        .iter()
        .map(|trial| (&*trial.workload, trial.valid, trial.load.throughput_rps))
        .collect();
    assert_eq!(results, [("one", true, 3920.0), ("two", false, 0.0)].repeat(2));
    for trial in report.trials.iter().filter(|trial| trial.workload == "two") {
        let errors = trial.load.outcomes.iter().filter(|(o, _)| *o == Outcome::ProtocolError);
        assert_eq!(errors.map(|(_, n)| n).sum::<u64>(), trial.load.exchanges.failed);
        assert!(!codes(&trial.caveats).contains(&"subject_failed"), "{:?}", trial.caveats);
    }
}

/// A failed lifecycle check excludes all rows of the server, and one without a result excludes
/// none. A check that did not pass is repeated at each start.
#[test]
fn lifecycle_is_checked_once_if_it_passes() {
    let suite = SUITE.replace("repeats = 1", "repeats = 2");
    let actions = |rehearsals: usize| {
        let start = ["rehearse own", "start own", "stop own"];
        [&start[..], if rehearsals == 2 { &start } else { &start[1..] }].concat()
    };
    for (result, is_waived, rehearsals, trials, expected) in [
        (LifecycleResult::Passed, false, 1, 4, RunStatus::Valid),
        (LifecycleResult::Failed, false, 2, 0, RunStatus::Failed),
        (LifecycleResult::Failed, true, 2, 4, RunStatus::Valid),
        (LifecycleResult::None, false, 2, 4, RunStatus::Valid),
    ] {
        let mut world = World::new(&["own"], &suite);
        let own = Server { lifecycle: Some(result), is_waived, ..Server::default() };
        let run = world.walk(&[("own", own)]).1;
        assert_eq!(world.journal, actions(rehearsals), "{result:?} {is_waived}");
        assert_eq!(
            (run.trials.len(), status(&run).1),
            (trials, expected),
            "{result:?} {is_waived}"
        );
        for trial in &report(&run).trials {
            let has_mark = codes(&trial.caveats).contains(&"checks_waived");
            assert_eq!(has_mark, is_waived, "{:?}", trial.caveats);
        }
    }
}

/// A workload over h2c with these keys of `[load]`.
fn h2c(load: &str) -> World {
    let suite = format!(
        "[suite]\nrepeats = 1\nseed = 7\n[[workloads]]\nprotocol = \"h2c\"\npath = \"/\"\n\
         [load]\nwarmup = \"200ms\"\n{load}"
    );
    World::new(&["web"], &suite)
}

fn pausing(at_ns: u64, for_ns: u64) -> Server {
    let protocols = vec![Protocol::H2c];
    Server { protocols, ..Server::with_trouble(TroubleKind::Pauses { at_ns, for_ns }, 0) }
}

#[test]
fn stalled_server_in_closed_loop_is_reported() {
    let mut world = h2c("connections = 4\nduration = \"2s\"\n");
    let run = world.walk(&[("web", pausing(700_000_000, 1_000_000_000))]).1;
    let report = report(&run);
    let [trial] = report.trials.as_slice() else { panic!("one trial") };
    let stalled = trial.caveats.iter().find(|caveat| caveat.code.name() == "stalled").unwrap();
    let number = |key: &str| stalled.evidence[key].as_f64().unwrap();
    assert_eq!((number("stalls"), number("longest_s"), number("in_flight")), (1.0, 1.00102, 4.0));
    assert_eq!(number("estimated_open_loop_p99_us"), 982_040.415);
    assert_eq!(trial.load.throughput_rps, 1960.0);
    // The stall is no level of throughput.
    let of_levels = ["speedup", "slowdown", "cyclic", "cost_levels"];
    let found = codes(&trial.caveats);
    assert!(!found.iter().any(|code| of_levels.contains(code)), "{found:?}");
}

/// A server is stopped for 1.2 s, with a time-out of 1 s. One request on each connection times out,
/// and the others on the connection are cancelled. More than a tenth of all requests get no
/// response, which percentiles must include.
#[test]
fn stall_above_timeout_is_in_percentiles() {
    let load = "connections = 16\nstreams = 100\nrate = 1000\nduration = \"8s\"\n\
                timeout = \"1s\"\n";
    let run = h2c(load).walk(&[("web", pausing(2_000_000_000, 1_200_000_000))]).1;
    let report = report(&run);
    let load = &report.trials[0].load;
    assert_eq!((load.exchanges.carried_in, load.exchanges.scheduled), (0, 8000));
    let count = |wanted: Outcome| -> u64 {
        load.outcomes.iter().filter(|(outcome, _)| *outcome == wanted).map(|(_, n)| n).sum()
    };
    let outcomes = [Outcome::Ok, Outcome::Timeout, Outcome::Cancelled].map(count);
    assert_eq!(outcomes, [6992, 16, 992]);
    for times in [&load.response_time_us, &load.service_time_us] {
        assert_eq!((times.count, times.unanswered), (6992, 1008));
        assert_eq!((times.p50, times.p90, times.p99), (Some(1020.415), None, None));
        assert!(times.longest_wait.is_some_and(|us| us >= 1e6), "{times:?}");
    }
    assert!(load.in_flight.by_littles_law.is_some());
}
