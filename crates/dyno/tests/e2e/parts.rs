//! Tests starts with a back end, which is started, seeded, reset, monitored and stopped, or fails.

use std::fs;
use std::path::Path;
use std::process::Command;

use dyno_lab::run::RunEvent;
use dyno_model::Party;
use dyno_model::start::FailureKind;

use crate::drive::not_run;
use crate::walk::{self, UNOBSERVED, define};

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

#[test]
fn back_end_is_run_with_its_subject() {
    let sandbox = tempfile::tempdir().unwrap();
    define_store(sandbox.path(), "[limits]\nfiles = 512\n");
    let suite = format!(
        "subjects = [\"front\", \"alone\"]\n[suite]\nrepeats = 1\norder = \"fixed\"\n\
         {UNOBSERVED}[[workloads]]\npath = \"/plaintext\"\n[[workloads]]\npath = \"/json\"\n{LOAD}"
    );
    let subjects = sandbox.path().join("subjects");
    define(&subjects, "front", &walk::null(), "STORE = \"{store.host}:{store.port}\"");
    define(&subjects, "alone", &walk::null(), "");
    let run = walk::run(sandbox.path(), &walk::planned_with(&subjects, &suite));
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
    let suite = format!(
        "subjects = [\"front\"]\n[suite]\nrepeats = 1\nisolation = \"netns\"\n\
         {UNOBSERVED}{LOAD}requests_per_connection = 7\n"
    );
    let planned = walk::planned_with(&sandbox.path().join("subjects"), &suite);
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

/// A back end that fails, the begin of its reported failure, and a part of its end.
struct FailingBackEnd {
    name: &'static str,
    definition: String,
    failure: &'static str,
    end: &'static str,
}

/// Returns the back ends. `journal` is for the session of one, and another fills its memory once
/// `eat` exists.
fn failing_back_ends(journal: &Path, eat: &Path) -> [FailingBackEnd; 5] {
    let (null, dyno) = (walk::null(), env!("CARGO_BIN_EXE_dyno"));
    let broken = |command| {
        format!("[start]\ncommand = {null}\n[{command}]\ncommand = \"echo no table; exit 3\"\n")
    };
    let shell = |script: &str| {
        format!("[start]\ncommand = [\"sh\", \"-c\", {:?}]\n", script.replace("DYNO", dyno))
    };
    let back_end =
        |name, definition, failure, end| FailingBackEnd { name, definition, failure, end };
    let hungry = format!(
        "DYNO serve-null --port {{port}} & (while ! [ -e {} ]; do sleep 0.02; done; head -c 256M \
         /dev/zero | tail) & wait",
        eat.display()
    );
    let killed = format!("echo $$ >{}; DYNO serve-null --port {{port}} & wait", journal.display());
    [
        back_end(
            "gone",
            shell("echo no disk; exit 1 # {port}"),
            "back end gone did not become ready: its process ended with exit status: 1",
            "",
        ),
        back_end(
            "unseeded",
            broken("seed"),
            "back end unseeded could not load its data: its command for `seed` ended with exit \
             status: 3:\nno table",
            "",
        ),
        back_end(
            "unreset",
            broken("reset"),
            "back end unreset: its command for `reset` ended with exit status: 3:\nno table",
            "",
        ),
        back_end(
            "killed",
            shell(&killed),
            "back end killed ended with signal: 9 (SIGKILL)",
            "its back end killed ended with signal: 9 (SIGKILL) under load",
        ),
        // The first process survives, so only the control group shows that others were killed.
        back_end(
            "hungry",
            shell(&hungry) + "[limits]\nmemory = \"64MiB\"\n",
            "the kernel killed processes",
            "because the memory limit was reached: back end hungry continues without these \
             processes, or with new ones",
        ),
    ]
}

/// Adds a back end, and a subject that names it.
fn add_back_end(sandbox: &Path, name: &str, definition: &str) {
    let folder = sandbox.join("backends").join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("backend.toml"), definition).unwrap();
    let port = format!("STORE = \"{{{name}.port}}\"");
    define(&sandbox.join("subjects"), &format!("on-{name}"), &walk::null(), &port);
}

/// Each back end fails in another way. None of the failures is the subject's.
#[test]
fn failed_back_ends_are_reported_with_cause() {
    let has_groups = dyno_observer::facts::may_make_groups(&dyno_observer::cgroup::Layout::read());
    if !has_groups {
        not_run("this user cannot create control groups, so there is no memory limit");
    }
    let sandbox = tempfile::tempdir().unwrap();
    let [journal, eat] = ["journal", "eat"].map(|name| sandbox.path().join(name));
    let back_ends = failing_back_ends(&journal, &eat);
    let failing = || back_ends.iter().filter(|back_end| has_groups || back_end.name != "hungry");
    failing().for_each(|it| add_back_end(sandbox.path(), it.name, &it.definition));
    let unbuilt = "[build]\ncommand = \"echo no compiler; exit 1\"\ninputs = []\n[start]\n\
                   command = [\"x\", \"{port}\"]\n";
    add_back_end(sandbox.path(), "unbuilt", unbuilt);
    let subjects = sandbox.path().join("subjects");
    define(&subjects, "alone", &walk::null(), "");
    let names = failing().map(|back_end| format!("on-{}", back_end.name));
    let names: Vec<String> = names.chain(["on-unbuilt".into(), "alone".into()]).collect();
    let suite = format!(
        "subjects = {names:?}\n[suite]\nrepeats = 1\norder = \"fixed\"\n\
         {UNOBSERVED}{LOAD}"
    );
    let planned = walk::planned_with(&subjects, &suite);
    let arm = |trial: usize| &*planned.plan.arms[planned.plan.trials[trial].arm].name;
    let mut is_killed = false;
    let run = walk::run_with(sandbox.path(), &planned, &mut |event| match event {
        RunEvent::TrialStarted { trial } if arm(trial) == "on-hungry" => {
            fs::write(&eat, "").unwrap();
        }
        RunEvent::Interval { trial, .. } if arm(trial) == "on-killed" && !is_killed => {
            is_killed = true;
            let session = fs::read_to_string(&journal).unwrap();
            // The whole session: shell and server.
            let pkill = Command::new("pkill").args(["-9", "-s", session.trim()]).status();
            assert!(pkill.unwrap().success());
        }
        _ => {}
    });
    for (start, back_end) in run.starts.iter().zip(failing()) {
        let failure = start.failure.as_ref().unwrap();
        assert_eq!(failure.kind, FailureKind::BackendFailed, "{failure:?}");
        let message = &failure.message;
        assert!(message.starts_with(back_end.failure), "{message}");
        assert!(message.ends_with(back_end.end), "{message}");
    }
    assert_eq!(run.starts[0].parts.len(), 1, "the subject was not started");
    let report = dyno_analysis::report::report(&run);
    let reported = &report.subjects[0].failures[0];
    assert_eq!(
        (reported.log_of.as_deref(), reported.log_tail.as_deref()),
        (Some("gone"), Some("no disk"))
    );
    let reason = report.subjects[names.len() - 2].skipped.as_deref().unwrap();
    assert!(reason.starts_with("its back end unbuilt could not be built: "), "{reason}");
    assert!(reason.contains("no compiler"), "{reason}");
    let trials: Vec<&str> = report.trials.iter().map(|trial| &*trial.subject_id).collect();
    let loaded = ["on-killed", "on-hungry", "alone"];
    assert_eq!(trials, if has_groups { &loaded[..] } else { &["on-killed", "alone"] });
    let alone = report.trials.last().unwrap();
    assert!(alone.caveats.iter().all(|c| c.code.name() != "backend_failed"));
    assert_eq!(run.starts.last().unwrap().failure, None, "the others are not affected");
}
