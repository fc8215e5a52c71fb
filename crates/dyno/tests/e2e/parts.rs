//! Tests starts with a back end, which is started, seeded, reset, monitored, killed and stopped.

use std::fs;
use std::path::Path;
use std::process::Command;

use dyno_archive::Party;
use dyno_archive::dir::Run;
use dyno_archive::start::FailureKind;
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
