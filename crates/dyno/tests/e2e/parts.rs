//! Tests starts with a back end, which is started, seeded, reset, monitored, killed and stopped.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use dyno_archive::Party;
use dyno_archive::dir::Run;
use dyno_archive::start::FailureKind;
use dyno_launch::supervision::Interrupts;
use dyno_runner::run::RunEvent;

use crate::drive::not_run;
use crate::walk::{self, define};

/// A suite of short trials.
const LOAD: &str = "[load]\nconnections = 4\nwarmup = \"100ms\"\nduration = \"500ms\"\n";

/// Writes the definition of a back end that records its events in `journal`.
fn define_store(sandbox: &Path, more: &str) {
    let folder = sandbox.join("backends/store");
    fs::create_dir_all(&folder).unwrap();
    let journal = sandbox.join("journal").display().to_string();
    let dyno = env!("CARGO_BIN_EXE_dyno");
    let text = format!(
        "title = \"The store\"\n[version]\ncommand = \"echo store 1.0\"\n\
         [build]\ncommand = \"echo data > {{out}}/data\"\ninputs = []\n\
         [start]\ncommand = [\"sh\", \"-c\", \"echo start $$ >> {journal}; trap 'echo stop >> \
         {journal}; kill $!; exit 0' TERM; {dyno} serve-null --port {{port}} & wait\"]\n\
         [seed]\ncommand = \"cat {{out}}/data >> {journal}\"\n[reset]\n\
         command = \"echo reset >> {journal}\"\n{more}"
    );
    fs::write(folder.join("backend.toml"), text).unwrap();
}

/// Events of the store, without process numbers.
fn journal(sandbox: &Path) -> Vec<String> {
    let text = fs::read_to_string(sandbox.join("journal")).unwrap();
    text.lines().map(|line| line.split(' ').next().unwrap().to_string()).collect()
}

/// Runs `front`, which gets the address of the store, and `alone`, which does not.
fn run(sandbox: &Path, suite: &str, on_event: &mut dyn FnMut(RunEvent<'_>)) -> Run {
    let subjects = sandbox.join("subjects");
    define(&subjects, "front", &walk::null(), "STORE = \"{store.host}:{store.port}\"");
    define(&subjects, "alone", &walk::null(), "");
    walk::run_with(sandbox, &walk::planned_with(&subjects, &format!("{suite}{LOAD}")), on_event)
}

#[test]
fn back_end_is_run_with_its_subject() {
    let sandbox = tempfile::tempdir().unwrap();
    define_store(sandbox.path(), "[limits]\nfiles = 512\n");
    let suite = "subjects = [\"front\", \"alone\"]\n[suite]\nrepeats = 1\norder = \
                 \"fixed\"\n[[workloads]]\npath = \"/plaintext\"\n[[workloads]]\npath = \
                 \"/json\"\n";
    let run = run(sandbox.path(), suite, &mut |_| {});
    let [start, alone_start] = run.starts.as_slice() else { panic!("{:?}", run.starts) };
    assert_eq!((&start.failure, &alone_start.failure), (&None, &None));
    // Its data is loaded once per start, and restored before each trial.
    assert_eq!(journal(sandbox.path()), ["start", "data", "reset", "reset", "stop"]);
    let parts: Vec<(Party, &str)> =
        start.parts.iter().map(|p| (p.party, p.name.as_str())).collect();
    assert_eq!(parts, [(Party::Backend(0), "store"), (Party::SUBJECT, "front")]);
    assert_eq!(
        alone_start.parts.len(),
        1,
        "a subject that does not name the back end is started alone"
    );
    let [store, front] = start.parts.as_slice() else { unreachable!("seen above") };
    assert!(
        store.pid.is_some() && store.pid != front.pid && store.seeded_ns.is_some_and(|ns| ns > 0)
    );
    // It is ready once it listens, without a request.
    let startup = store.startup.unwrap();
    assert!(startup.listening_ns.is_some() && startup.first_response_ns.is_none());
    assert!(
        start.parts.iter().all(|part| part.stop.is_some_and(|stop| !stop.killed)),
        "{:?}",
        start.parts
    );
    let files = store.limits.iter().find(|l| l.kind.name() == "open files").unwrap();
    assert_eq!(files.read_back.as_deref(), Some("512"), "the back end has its own limits");
    // The subject gets the store's address, and only the subject is checked.
    assert!(front.environment["STORE"].starts_with("127.0.0.1:"), "{:?}", front.environment);
    assert!(store.checks_before.is_empty() && front.checks_before.iter().all(|check| check.ok));
    let planned = &run.header.plan.backends[0];
    assert_eq!(
        (planned.title.as_str(), planned.version.as_deref()),
        ("The store", Some("store 1.0"))
    );
    for trial in run.trials.iter().filter(|trial| trial.start == start.start) {
        for sample in &trial.load.samples {
            let mut watched: Vec<Party> = sample.parties.iter().map(|used| used.party).collect();
            watched.sort_unstable();
            assert_eq!(watched, [Party::SUBJECT, Party::Backend(0), Party::GENERATOR]);
        }
    }
}

/// Loads that close their connections use many source addresses in a network namespace as well.
#[test]
fn network_namespace_separates_counters() {
    if !walk::can_make_networks() {
        return;
    }
    let sandbox = tempfile::tempdir().unwrap();
    define_store(sandbox.path(), "");
    define(
        &sandbox.path().join("subjects"),
        "front",
        &walk::null(),
        "STORE = \"{store.host}:{store.port}\"",
    );
    let suite = "subjects = [\"front\"]\n[suite]\nrepeats = 1\nisolation = \
                 \"netns\"\n[load]\nconnections = 4\nwarmup = \"100ms\"\nduration = \
                 \"500ms\"\nrequests_per_connection = 7\n";
    let planned = walk::planned_with(&sandbox.path().join("subjects"), suite);
    let before = fs::read_link("/proc/thread-self/ns/net").unwrap();
    let run = walk::run(sandbox.path(), &planned);
    assert_eq!(fs::read_link("/proc/thread-self/ns/net").unwrap(), before);
    assert_eq!(run.starts[0].failure, None);
    assert_eq!(journal(sandbox.path()), ["start", "data", "reset", "stop"]);
    let trial = &dyno_analysis::report::report(&run).trials[0];
    assert!(trial.load.exchanges.completed > 100, "{:?}", trial.load.exchanges);
    // Only the store sends on that path: each response once, and the packets that open and close
    // connections.
    let sent = trial.server.network.as_ref().unwrap().segments_out.unwrap() as f64;
    let answered = trial.load.exchanges.completed as f64;
    assert!((1.0..3.0).contains(&(sent / answered)), "{sent} segments for {answered} responses");
    let listeners = &trial.server.sockets.as_ref().unwrap().listeners;
    assert_eq!(listeners.len(), 1, "{listeners:?}");
}

#[test]
fn back_end_cost_is_reported_separately() {
    let sandbox = tempfile::tempdir().unwrap();
    define_store(sandbox.path(), "");
    let run = run(sandbox.path(), "subjects = [\"front\"]\n[suite]\nrepeats = 1\n", &mut |_| {});
    let report = dyno_analysis::report::report(&run);
    let trial = &report.trials[0];
    let [behind] = trial.backends.as_slice() else { panic!("{:?}", trial.backends) };
    assert_eq!((behind.name.as_str(), behind.server.window_s), ("store", trial.server.window_s));
    let cpu_us = |server: &dyno_analysis::server::ServerUse| server.cpu_us_per_request.unwrap();
    assert!(
        cpu_us(&behind.server) < cpu_us(&trial.server),
        "{:?} {:?}",
        behind.server,
        trial.server
    );
    let page = dyno_report::html::FORMAT.render(&report);
    assert!(page.contains("Back ends") && page.contains(">store<"), "the page shows both costs");
}

#[test]
fn killed_back_end_does_not_affect_other_results() {
    let sandbox = tempfile::tempdir().unwrap();
    define_store(sandbox.path(), "");
    let suite = "subjects = [\"front\", \"alone\"]\n[suite]\nrepeats = 2\norder = \"fixed\"\n";
    let mut left = 1;
    let journal = sandbox.path().join("journal");
    let run = run(sandbox.path(), suite, &mut |event| {
        if left > 0 && matches!(event, RunEvent::Interval { .. }) {
            left -= 1;
            let text = fs::read_to_string(&journal).unwrap();
            let session = text.lines().find_map(|line| line.strip_prefix("start ")).unwrap();
            // The whole session: shell and server.
            assert!(Command::new("pkill").args(["-9", "-s", session]).status().unwrap().success());
        }
    });
    let failures: Vec<_> = run.starts.iter().map(|s| s.failure.as_ref().map(|f| f.kind)).collect();
    assert_eq!(failures, [Some(FailureKind::BackendFailed), None, None, None]);
    let message = &run.starts[0].failure.as_ref().unwrap().message;
    assert!(message.contains("back end store ended with signal: 9"), "{message}");
    let report = dyno_analysis::report::report(&run);
    let valid: Vec<bool> = report
        .trials
        .iter()
        .map(|t| t.caveats.iter().all(|c| c.code.name() != "backend_failed"))
        .collect();
    assert_eq!(valid, [false, true, true, true], "the other starts are not affected");
    assert_eq!(report.subjects[0].failures[0].failure.kind, FailureKind::BackendFailed);
}

#[test]
fn back_end_that_does_not_start_is_reported() {
    let sandbox = tempfile::tempdir().unwrap();
    define_store(sandbox.path(), "");
    let file = sandbox.path().join("backends/store/backend.toml");
    let dead = "[start]\ncommand = [\"sh\", \"-c\", \"echo no disk; exit 1\", \"{port}\"]\n";
    fs::write(file, dead).unwrap();
    let run = run(sandbox.path(), "subjects = [\"front\"]\n[suite]\nrepeats = 1\n", &mut |_| {});
    let [start] = run.starts.as_slice() else { panic!("{:?}", run.starts) };
    let failure = start.failure.as_ref().unwrap();
    assert_eq!(failure.kind, FailureKind::BackendFailed, "the failure is not the subject's");
    assert!(
        failure.message.starts_with(
            "back end store did not become ready: its process ended with exit status: 1"
        ),
        "{failure:?}"
    );
    assert_eq!((start.parts.len(), run.trials.len()), (1, 0), "the subject was not started");
    let reported = &dyno_analysis::report::report(&run).subjects[0].failures[0];
    assert_eq!(
        (reported.log_of.as_deref(), reported.log_tail.as_deref()),
        (Some("store"), Some("no disk"))
    );
}

#[test]
fn failed_seed_or_reset_is_back_end_failure() {
    for (broken, wanted) in [
        (
            "seed",
            "back end store could not load its data: its command for `seed` ended with exit \
             status: 3:\nno table",
        ),
        ("reset", "back end store: its command for `reset` ended with exit status: 3:\nno table"),
    ] {
        let sandbox = tempfile::tempdir().unwrap();
        let folder = sandbox.path().join("backends/store");
        fs::create_dir_all(&folder).unwrap();
        let text = format!(
            "[start]\ncommand = {}\n[{broken}]\ncommand = \"echo no table; exit 3\"\n",
            walk::null()
        );
        fs::write(folder.join("backend.toml"), text).unwrap();
        let run =
            run(sandbox.path(), "subjects = [\"front\"]\n[suite]\nrepeats = 1\n", &mut |_| {});
        let failure = run.starts[0].failure.as_ref().unwrap();
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::BackendFailed, wanted));
        assert_eq!(run.trials.len(), 0);
    }
}

#[test]
fn failed_back_end_build_excludes_subject() {
    let sandbox = tempfile::tempdir().unwrap();
    define_store(sandbox.path(), "");
    let file = sandbox.path().join("backends/store/backend.toml");
    let text = fs::read_to_string(&file)
        .unwrap()
        .replace("echo data > {out}/data", "echo no compiler; exit 1");
    fs::write(file, text).unwrap();
    let run = run(
        sandbox.path(),
        "subjects = [\"front\", \"alone\"]\n[suite]\nrepeats = 1\n",
        &mut |_| {},
    );
    assert_eq!((run.starts.len(), run.trials.len()), (1, 1), "the other subject is measured");
    let report = dyno_analysis::report::report(&run);
    let reason = report.subjects[0].skipped.as_deref().unwrap();
    assert!(
        reason.starts_with("its back end store could not be built: ")
            && reason.contains("no compiler"),
        "{reason}"
    );
}

/// The first process survives, so only the control group shows that others were killed.
#[test]
fn back_end_memory_limit_kill_is_reported() {
    if !dyno_observer::facts::may_make_groups(&dyno_observer::cgroup::Layout::read()) {
        not_run("this user cannot create control groups, so there is no memory limit");
        return;
    }
    let sandbox = tempfile::tempdir().unwrap();
    define_store(sandbox.path(), "[limits]\nmemory = \"64MiB\"\n");
    let folder = sandbox.path().join("backends/store");
    let eat = sandbox.path().join("eat");
    let file = folder.join("backend.toml");
    let text = fs::read_to_string(&file).unwrap();
    let hungry = format!(
        "while ! [ -e {} ]; do sleep 0.02; done; head -c 256M /dev/zero | tail",
        eat.display()
    );
    fs::write(&file, text.replace("& wait\"]", &format!("& ({hungry}) & wait\"]"))).unwrap();
    let run = run(sandbox.path(), "subjects = [\"front\"]\n[suite]\nrepeats = 1\n", &mut |event| {
        if matches!(event, RunEvent::TrialStarted { .. }) {
            fs::write(&eat, "").unwrap();
        }
    });
    let failure = run.starts[0].failure.as_ref().unwrap();
    assert_eq!(failure.kind, FailureKind::BackendFailed, "{failure:?}");
    assert!(failure.message.contains("because the memory limit was reached"), "{failure:?}");
    let has_event = failure.message.contains("back end store continues without these processes");
    assert!(has_event, "{failure:?}");
}

/// The subject works without the back end, so only the back end's own check shows the failure.
#[test]
fn hanging_back_end_is_reported_after_step() {
    let sandbox = tempfile::tempdir().unwrap();
    define_store(sandbox.path(), "[ready]\npath = \"/plaintext\"\n[stop]\ndeadline = \"100ms\"\n");
    let journal = sandbox.path().join("journal");
    let run = run(sandbox.path(), "subjects = [\"front\"]\n[suite]\nrepeats = 1\n", &mut |event| {
        if matches!(event, RunEvent::TrialStarted { .. }) {
            let text = fs::read_to_string(&journal).unwrap();
            let session = text.lines().find_map(|line| line.strip_prefix("start ")).unwrap();
            assert!(
                Command::new("pkill").args(["-STOP", "-s", session]).status().unwrap().success()
            );
        }
    });
    let failure = run.starts[0].failure.as_ref().unwrap();
    assert_eq!(failure.kind, FailureKind::BackendFailed, "{failure:?}");
    assert!(
        failure.message.starts_with("back end store: its process runs, but does not respond"),
        "{failure:?}"
    );
}

/// The front serves another protocol, but the dead back end may have broken the checks of this one.
#[test]
fn broken_checks_are_blamed_on_dead_back_end() {
    let sandbox = tempfile::tempdir().unwrap();
    define_store(sandbox.path(), "");
    let journal = sandbox.path().join("journal").display().to_string();
    let command = format!(
        "[\"sh\", \"-c\", \"pkill -9 -s $(sed -n 's/start //p' {journal}); exec {} serve-null \
         --port {{port}}\"]",
        env!("CARGO_BIN_EXE_dyno")
    );
    let folder = sandbox.path().join("subjects/front");
    fs::create_dir_all(&folder).unwrap();
    let text = format!(
        "language = \"Rust\"\nprotocols = [\"h1\", \"h2c\"]\nchecks = [\"own\"]\n[start]\n\
         command = {command}\nenv = {{ STORE = \"{{store.port}}\" }}\n"
    );
    fs::write(folder.join("subject.toml"), text).unwrap();
    fs::create_dir_all(sandbox.path().join("contracts")).unwrap();
    let contract = "[[checks]]\nname = \"parting\"\nprotocols = [\"h2c\"]\npath = \
                    \"/plaintext\"\nexpect = { body = \"Goodbye\" }\n";
    fs::write(sandbox.path().join("contracts/own.toml"), contract).unwrap();
    let suite = format!(
        "subjects = [\"front\"]\n[suite]\nrepeats = 1\n[[workloads]]\nname = \"one\"\npath = \
         \"/plaintext\"\n[[workloads]]\nname = \"two\"\nprotocol = \"h2c\"\npath = \
         \"/plaintext\"\n{LOAD}"
    );
    let plan = walk::planned_with(&sandbox.path().join("subjects"), &suite);
    let run = walk::run(sandbox.path(), &plan);
    let [start] = run.starts.as_slice() else { panic!("{:?}", run.starts) };
    let failure = start.failure.as_ref().unwrap();
    assert_eq!(failure.kind, FailureKind::BackendFailed, "{failure:?}");
    assert!(run.trials.is_empty(), "a resumed run measures both protocols");
    let broken = |check: &dyno_archive::trial::CheckResult| check.is_broken();
    assert!(start.subject().unwrap().checks_before.iter().any(broken));
    assert!(start.refused_protocols().is_empty());
    let kinds: Vec<FailureKind> = dyno_analysis::report::report(&run).subjects[0]
        .failures
        .iter()
        .map(|failure| failure.failure.kind)
        .collect();
    assert_eq!(kinds, [FailureKind::BackendFailed]);
}

/// The user ends the search for the cause of failed checks, so these must not count against the
/// server: a resumed run would never start it again.
#[test]
fn checks_of_unknown_cause_are_not_recorded() {
    let sandbox = tempfile::tempdir().unwrap();
    let again = sandbox.path().join("again");
    define_store(
        sandbox.path(),
        &format!(
            "[ready]\ncommand = \"if [ -e {{work}}/once ]; then touch {}; sleep 60; fi; touch \
             {{work}}/once\"\n",
            again.display()
        ),
    );
    let subjects = sandbox.path().join("subjects");
    define(&subjects, "front", &walk::null(), "STORE = \"{store.port}\"");
    let path = subjects.join("front/subject.toml");
    let definition = fs::read_to_string(&path).unwrap();
    fs::write(&path, definition.replace("[\"hello\"]", "[\"own\"]")).unwrap();
    fs::create_dir_all(sandbox.path().join("contracts")).unwrap();
    let contract = "[[checks]]\nname = \"parting\"\npath = \"/plaintext\"\nexpect = { body = \
                    \"Goodbye\" }\n";
    fs::write(sandbox.path().join("contracts/own.toml"), contract).unwrap();
    let suite = format!("subjects = [\"front\"]\n[suite]\nrepeats = 1\n{LOAD}");
    let plan = walk::planned_with(&subjects, &suite);
    let interrupts = Interrupts::new();
    let run = thread::scope(|scope| {
        scope.spawn(|| {
            // The start of the run has a deadline of its own, after which the file never appears.
            for _ in 0..6000 {
                if again.exists() {
                    interrupts.raise();
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            }
        });
        walk::run_until(sandbox.path(), &plan, &interrupts, &mut |_| {})
    });
    let [start] = run.starts.as_slice() else { panic!("{:?}", run.starts) };
    assert_eq!(start.failure.as_ref().unwrap().kind, FailureKind::Interrupted);
    assert!(start.subject().unwrap().checks_before.is_empty());
    assert!(start.refused_protocols().is_empty(), "a resumed run starts the server again");
}

/// The readiness command of the back end cannot be repeated, so its failure proves nothing.
#[test]
fn subject_exit_is_not_blamed_on_back_end() {
    let sandbox = tempfile::tempdir().unwrap();
    define_store(sandbox.path(), "[ready]\ncommand = \"mkdir {work}/once\"\n");
    let subjects = sandbox.path().join("subjects");
    let pid = sandbox.path().join("front");
    let command = format!(
        "[\"sh\", \"-c\", \"echo $$ > {}; exec {} serve-null --port {{port}}\"]",
        pid.display(),
        env!("CARGO_BIN_EXE_dyno")
    );
    define(&subjects, "front", &command, "STORE = \"{store.port}\"");
    let suite = format!("subjects = [\"front\"]\n[suite]\nrepeats = 1\n{LOAD}");
    let mut left = 1;
    let run =
        walk::run_with(sandbox.path(), &walk::planned_with(&subjects, &suite), &mut |event| {
            if left > 0 && matches!(event, RunEvent::TrialStarted { .. }) {
                left -= 1;
                let front = fs::read_to_string(&pid).unwrap();
                assert!(
                    Command::new("kill").args(["-9", front.trim()]).status().unwrap().success()
                );
            }
        });
    let failure = run.starts[0].failure.as_ref().unwrap();
    assert_eq!(failure.kind, FailureKind::Crashed, "{failure:?}");
    assert!(!failure.message.contains("store"), "{failure:?}");
}
