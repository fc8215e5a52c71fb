//! Tests one and two Ctrl-C, and SIGKILL: no process remains, and finished trials are saved.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use aya::programs::{ProgramInfo, loaded_programs};

use crate::drive::{DYNO, Sandbox, not_run, send_signal, soon, text};

/// Starts a long run of a server that ignores SIGTERM and of a control, and waits until its first
/// trial is in the archive.
pub fn long_run(sandbox: &Sandbox) -> Child {
    sandbox.add_unruly("stubborn", &["--mode", "stubborn"], "");
    sandbox.write_suite(&["null", "stubborn"], "");
    let mut command = sandbox.command(Path::new(DYNO));
    let run = ["run", "suite.toml", "--repeats", "20"];
    let mut child =
        command.args(run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if soon(|| (finished(sandbox) > 0).then_some(())).is_none() {
        let _ = child.kill();
        panic!("no trial was finished:\n{}", text(&child.wait_with_output().unwrap()));
    }
    child
}

fn finished(sandbox: &Sandbox) -> usize {
    let Some(folder) = sandbox.run_folder() else { return 0 };
    let trials = std::fs::read_dir(folder.join("trials")).into_iter().flatten();
    trials
        .filter(|e| e.as_ref().is_ok_and(|e| e.path().extension().is_some_and(|x| x == "json")))
        .count()
}

fn signal(child: &Child, signal: i32) {
    send_signal(child.id(), signal);
}

#[test]
fn interrupted_requirement_test_fails_build() {
    let sandbox = Sandbox::without_load();
    let folder = sandbox.path().join("subjects/slow");
    std::fs::create_dir_all(&folder).unwrap();
    let asked = sandbox.path().join("asked");
    let test = format!("touch {}; sleep 98758", asked.display());
    let definition = format!(
        "language = \"C\"\nprotocols = [\"h1\"]\n[[requires]]\nname = \"moon\"\ntest = {test:?}\n\
         hint = \"Get it.\"\n[start]\ncommand = [\"x\", \"{{port}}\"]\n"
    );
    std::fs::write(folder.join("subject.toml"), definition).unwrap();
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(["subjects", "build", "slow"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    soon(|| asked.exists().then_some(())).expect("the test of the requirement was started");
    signal(&child, libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(3), "{printed}");
    assert!(printed.contains("Interrupted: ") && !printed.contains("skipped: "), "{printed}");
    sandbox.assert_nothing_is_left();
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

#[test]
fn ctrl_c_preserves_finished_trials_for_resume() {
    let sandbox = Sandbox::new();
    let child = long_run(&sandbox);
    signal(&child, libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let message = text(&output);
    assert!(message.contains("dyno run --resume"), "{message}");
    sandbox.assert_nothing_is_left();
    assert_finished_trials_are_reported(&sandbox);
}

/// The server that is loaded ignores SIGTERM, and may take a minute to stop.
#[test]
fn two_ctrl_c_stop_at_once_without_remains() {
    let sandbox = Sandbox::new();
    let mut child = long_run(&sandbox);
    soon(|| (finished(&sandbox) > 2).then_some(())).expect("a trial of the second server");
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    signal(&child, libc::SIGINT);
    while !line.contains("at most 5 s each") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "the message was not printed");
    }
    signal(&child, libc::SIGINT);
    std::io::copy(&mut stderr, &mut std::io::sink()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    sandbox.assert_nothing_is_left();
    assert_finished_trials_are_reported(&sandbox);
}

/// Returns the number of dyno's programs in the kernel.
fn attached_programs() -> usize {
    let is_ours =
        |program: &ProgramInfo| program.name_as_str().is_some_and(|n| n.starts_with("inside_"));
    loaded_programs().filter_map(Result::ok).filter(is_ours).count()
}

#[test]
fn killed_dyno_preserves_trials_without_remains() {
    let sandbox = Sandbox::new();
    let mut child = long_run(&sandbox);
    match dyno_observer::probes::refusal() {
        Some(refusal) => not_run(&format!("programs in the kernel: {}", refusal.reason)),
        None => {
            soon(|| (attached_programs() > 0).then_some(())).expect("the probes are attached");
        }
    }
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    sandbox.assert_nothing_is_left_soon();
    soon(|| (attached_programs() == 0).then_some(())).expect("the kernel removes the programs");
    assert!(finished(&sandbox) >= 1);
    let run = sandbox.run_folder().unwrap();
    let output = sandbox.dyno(&["report", run.to_str().unwrap(), "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["trials"].as_array().unwrap().len(), finished(&sandbox));
}

/// The server accepts the connection of the trial request, and never responds.
#[test]
fn signal_before_load_ends_with_status_3_and_reason() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let sandbox = Sandbox::without_load();
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
