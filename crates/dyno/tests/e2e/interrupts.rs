//! Tests Ctrl-C, SIGSTOP and SIGKILL: no process remains, and finished work is saved.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::thread;
use std::time::Duration;

use aya::programs::{ProgramInfo, loaded_programs};
use serde_json::Value;

use crate::drive::{DYNO, Sandbox, Server, is_running, not_run, only_in, send_signal, soon, text};

/// Starts dyno with its outputs in pipes.
fn start(sandbox: &Sandbox, arguments: &[&str]) -> Child {
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, signal: i32) {
    send_signal(child.id(), signal);
}

/// Number of trials in the archive.
fn finished(sandbox: &Sandbox) -> usize {
    let Some(folder) = sandbox.run_folder() else { return 0 };
    let trials = fs::read_dir(folder.join("trials")).into_iter().flatten();
    trials
        .filter(|e| e.as_ref().is_ok_and(|e| e.path().extension().is_some_and(|x| x == "json")))
        .count()
}

/// Waits for an event of a run, which is ended if the event does not happen.
fn wait_for<T>(child: &mut Child, event: &str, look: impl FnMut() -> Option<T>) -> T {
    soon(look).unwrap_or_else(|| {
        let _ = child.kill();
        let messages = child.stderr.take().map(std::io::read_to_string);
        panic!("{event} did not happen: {messages:?}")
    })
}

/// Asserts that the report has the finished trials, and that no server failed.
fn assert_finished_trials_are_reported(sandbox: &Sandbox) {
    let finished = finished(sandbox);
    assert!((1..80).contains(&finished), "{finished} trials");
    let report = sandbox.report();
    assert_eq!(report["run"]["trials_done"], finished);
    // An interrupt by the user is not a failure of a server.
    for subject in report["subjects"].as_array().unwrap() {
        assert_eq!(subject["failures"].as_array().unwrap().len(), 0, "{}", subject["failures"]);
    }
}

/// A long run of a control, and of a server that ignores SIGTERM, is interrupted once, killed,
/// interrupted twice, and killed with its guard. Each time but the first it is resumed.
#[test]
fn ended_run_keeps_its_trials_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    sandbox.add_unruly("stubborn", &["--mode", "stubborn"], "");
    sandbox.write_suite(&["null", "stubborn"], "");
    interrupt_once(&sandbox, start(&sandbox, &["run", "suite.toml", "--repeats", "20"]));
    let folder = sandbox.run_folder().unwrap();
    let resume = || start(&sandbox, &["run", "--resume", folder.to_str().unwrap()]);
    kill(&sandbox, resume());
    interrupt_twice(&sandbox, resume());
    kill_with_guard(&sandbox, resume());
}

fn interrupt_once(sandbox: &Sandbox, mut dyno: Child) {
    wait_for(&mut dyno, "a first trial", || (finished(sandbox) > 0).then_some(()));
    signal(&dyno, libc::SIGINT);
    let output = dyno.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let message = text(&output);
    assert!(message.contains("dyno run --resume"), "{message}");
    sandbox.assert_nothing_is_left();
    assert_finished_trials_are_reported(sandbox);
}

/// The server that is loaded may take a minute to stop.
fn interrupt_twice(sandbox: &Sandbox, mut dyno: Child) {
    let before = finished(sandbox).max(2);
    let trial = "a trial of the second server";
    wait_for(&mut dyno, trial, || (finished(sandbox) > before).then_some(()));
    let mut stderr = BufReader::new(dyno.stderr.take().unwrap());
    let mut line = String::new();
    signal(&dyno, libc::SIGINT);
    while !line.contains("at most 5 s each") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "the message was not printed");
    }
    signal(&dyno, libc::SIGINT);
    std::io::copy(&mut stderr, &mut std::io::sink()).unwrap();
    assert_eq!(dyno.wait().unwrap().code(), Some(3));
    sandbox.assert_nothing_is_left();
    assert_finished_trials_are_reported(sandbox);
}

/// Returns the number of dyno's programs in the kernel.
fn attached_programs() -> usize {
    let is_ours =
        |program: &ProgramInfo| program.name_as_str().is_some_and(|n| n.starts_with("inside_"));
    loaded_programs().filter_map(Result::ok).filter(is_ours).count()
}

fn kill(sandbox: &Sandbox, mut dyno: Child) {
    let before = finished(sandbox);
    wait_for(&mut dyno, "another trial", || (finished(sandbox) > before).then_some(()));
    match dyno_observer::probes::refusal() {
        Some(refusal) => not_run(&format!("programs in the kernel: {}", refusal.reason)),
        None => wait_for(&mut dyno, "probes", || (attached_programs() > 0).then_some(())),
    }
    signal(&dyno, libc::SIGKILL);
    dyno.wait().unwrap();
    sandbox.assert_nothing_is_left_soon();
    soon(|| (attached_programs() == 0).then_some(())).expect("the kernel removes the programs");
    let run = sandbox.run_folder().unwrap();
    let output = sandbox.dyno(&["report", run.to_str().unwrap(), "--format", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["trials"].as_array().unwrap().len(), finished(sandbox));
}

/// A later run removes the folders of a dyno that was killed with its guard. It is the next one,
/// unless a child of the killed dyno still holds a folder until its exec.
fn kill_with_guard(sandbox: &Sandbox, mut dyno: Child) {
    let pid = dyno.id();
    let folders = || -> Vec<PathBuf> {
        let all = fs::read_dir(sandbox.path().join("tmp")).unwrap();
        let all = all.map(|entry| entry.unwrap().path());
        all.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("dyno-"))
            .collect()
    };
    wait_for(&mut dyno, "a folder of a server", || (!folders().is_empty()).then_some(()));
    let is_guard = |other: &u32| {
        let words = fs::read(format!("/proc/{other}/cmdline")).unwrap_or_default();
        let parent = dyno_observer::proc::Stat::read(*other).map(|stat| stat.parent);
        parent == Some(pid)
            && String::from_utf8_lossy(&words).contains(dyno_launch::guard::ARGUMENT)
    };
    let guard = dyno_observer::proc::all_pids().into_iter().find(is_guard).unwrap();
    send_signal(pid, libc::SIGSTOP);
    send_signal(guard, libc::SIGKILL);
    send_signal(pid, libc::SIGKILL);
    dyno.wait().unwrap();
    assert!(!folders().is_empty());
    soon(|| {
        let output = sandbox.dyno(&["run", "suite.toml", "--only", "null", "--runs", "next"]);
        assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
        folders().is_empty().then_some(())
    })
    .unwrap_or_else(|| panic!("{:?}", folders()));
    sandbox.assert_nothing_is_left_soon();
}

/// The generator is stopped for a second, and then gets three Ctrl-C.
#[test]
fn stopped_and_interrupted_load_keeps_its_result() {
    let (sandbox, server) = (Sandbox::new(), Server::streams(&[]));
    let url = server.url("/plaintext");
    let load = ["load", &url, "--protocol", "h2c", "-c", "4", "-d", "1h", "--format", "json"];
    let dyno = start(&sandbox, &[&load[..], &["--no-tui", "--save", "kept"]].concat());
    let wait_for_responses = |count| {
        soon(|| (server.answered().0 >= count).then_some(())).expect("the server gets requests");
    };
    wait_for_responses(50);
    signal(&dyno, libc::SIGSTOP);
    thread::sleep(Duration::from_secs(1));
    signal(&dyno, libc::SIGCONT);
    wait_for_responses(server.answered().0 + 50);
    for _ in 0..3 {
        signal(&dyno, libc::SIGINT);
        // Two signals at the same time would count as one.
        thread::sleep(Duration::from_millis(1));
    }
    let output = dyno.wait_with_output().unwrap();
    let result: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    assert_eq!(output.status.code(), Some(3), "the load ended before the requested hour");
    assert!(result["exchanges"]["completed"].as_u64().unwrap() > 0);
    let caveats = result["caveats"].as_array().unwrap();
    let severity = |code: &str| caveats.iter().find(|c| c["code"] == code).map(|c| &c["severity"]);
    assert_eq!(severity("generator_stopped"), Some(&"invalid".into()), "{caveats:#?}");
    assert_eq!(result["valid"], false);
    assert_eq!(severity("stalled"), None, "the server is blamed: {caveats:#?}");
    let archive = only_in(&sandbox.path().join("kept"));
    let report = sandbox.dyno(&["report", archive.to_str().unwrap(), "--format", "json"]);
    assert_eq!(report.status.code(), Some(3), "the saved load is incomplete, too");
}

#[test]
fn interrupts_before_measurement_fail_with_reason() {
    let sandbox = Sandbox::without_load();
    interrupt_loads(&sandbox);
    let output = interrupt_check(&sandbox);
    assert_interrupted(&sandbox, &output);
    let output = interrupt_requirement_test(&sandbox);
    assert_interrupted(&sandbox, &output);
    let printed = text(&output);
    assert!(printed.contains("Interrupted: ") && !printed.contains("skipped: "), "{printed}");
}

fn assert_interrupted(sandbox: &Sandbox, output: &Output) {
    assert_eq!(output.status.code(), Some(3), "{}", text(output));
    assert!(text(output).contains("Interrupted"), "{}", text(output));
    sandbox.assert_nothing_is_left();
}

/// Interrupts the check of a server that never listens.
fn interrupt_check(sandbox: &Sandbox) -> Output {
    // Other tests run the same program. Only this one has this argument, which has no effect.
    let own = "86425";
    sandbox.add_unruly("slow", &["--mode", "never", "--after", own], "");
    let child = start(sandbox, &["subjects", "check", "slow"]);
    // The signal handler is set before the first subject starts.
    soon(|| is_running(&[own]).then_some(())).expect("the subject starts");
    signal(&child, libc::SIGINT);
    child.wait_with_output().unwrap()
}

/// Interrupts a build while it tests a requirement.
fn interrupt_requirement_test(sandbox: &Sandbox) -> Output {
    let folder = sandbox.path().join("subjects/unmet");
    fs::create_dir_all(&folder).unwrap();
    let asked = sandbox.path().join("asked");
    let test = format!("touch {}; sleep 98758", asked.display());
    let definition = format!(
        "language = \"C\"\nprotocols = [\"h1\"]\n[[requires]]\nname = \"moon\"\ntest = {test:?}\n\
         hint = \"Get it.\"\n[start]\ncommand = [\"x\", \"{{port}}\"]\n"
    );
    fs::write(folder.join("subject.toml"), definition).unwrap();
    let child = start(sandbox, &["subjects", "build", "unmet"]);
    soon(|| asked.exists().then_some(())).expect("the test of the requirement was started");
    signal(&child, libc::SIGINT);
    child.wait_with_output().unwrap()
}

/// The server accepts the connection of the trial request, and never responds.
fn interrupt_loads(sandbox: &Sandbox) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let inputs: [&[&str]; 4] = [
        &["-d", "1s"],
        &["--find", "p90<50ms"],
        &["--request", "1 GET /a", "--request", "2 GET /b", "-d", "1s"],
        &["--protocol", "h2c", "-d", "1s", "--save", "saved"],
    ];
    for signal_number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        for input in inputs {
            // `nohup`, under which tests may run, ignores SIGHUP, and dyno keeps that.
            let mut command = sandbox.command(Path::new("env"));
            command.args(["--default-signal", DYNO, "load", &url, "--expect-contains", "ok"]);
            command.arg("--no-tui").args(input);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let connection = soon(|| listener.accept().ok());
            signal(&child, signal_number);
            let output = child.wait_with_output().unwrap();
            let message = text(&output);
            assert!(connection.is_some(), "{input:?}: no trial request: {message}");
            assert_eq!(output.status.code(), Some(3), "{signal_number} {input:?}: {message}");
            let reasons = message.lines().filter(|line| line.contains("interrupted"));
            assert_eq!(reasons.count(), 1, "{signal_number} {input:?}: {message}");
            assert!(!message.contains("ending early"), "{message}");
        }
    }
}
