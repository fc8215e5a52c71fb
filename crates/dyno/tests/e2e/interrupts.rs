//! Tests one and two Ctrl-C, and SIGKILL: no process remains, and finished trials are saved.

use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::json;

use crate::drive::{DYNO, Sandbox, send_signal, soon, text};

/// Starts a long run, and waits until its first trial is in the archive.
fn long_run(sandbox: &Sandbox) -> Child {
    sandbox.add_unruly("good", &[], "");
    sandbox.write_suite(&["good", "null"], "");
    let mut command = sandbox.command(Path::new(DYNO));
    command
        .args(["run", "suite.toml", "--repeats", "20"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
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
    let before = finished(&sandbox);
    assert!((1..80).contains(&before), "{before} trials");
    let report = sandbox.report();
    assert_eq!(report["run"]["trials_done"].as_u64().unwrap() as usize, before);
    // An interrupt by the user is not a failure of a server.
    for subject in report["subjects"].as_array().unwrap() {
        assert_eq!(subject["failures"].as_array().unwrap().len(), 0, "{}", subject["failures"]);
    }

    let run = sandbox.run_folder().unwrap();
    let child = {
        let mut command = sandbox.command(Path::new(DYNO));
        command
            .args(["run", "--resume", run.to_str().unwrap()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let _ = soon(|| (finished(&sandbox) > before + 3).then_some(()));
    signal(&child, libc::SIGINT);
    child.wait_with_output().unwrap();
    assert!(finished(&sandbox) > before + 3, "the run is resumed");
    let report = sandbox.report();
    assert!(report["caveats"].as_array().unwrap().iter().any(|c| c["code"] == "resumed"));
    sandbox.assert_nothing_is_left();
}

#[test]
fn two_ctrl_c_stop_at_once_without_remains() {
    let sandbox = Sandbox::new();
    let child = long_run(&sandbox);
    signal(&child, libc::SIGINT);
    signal(&child, libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    sandbox.assert_nothing_is_left();
}

#[test]
fn killed_dyno_preserves_trials_without_remains() {
    let sandbox = Sandbox::new();
    let mut child = long_run(&sandbox);
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    sandbox.assert_nothing_is_left_soon();
    assert!(finished(&sandbox) >= 1);
    let run = sandbox.run_folder().unwrap();
    let output = sandbox.dyno(&["report", run.to_str().unwrap(), "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["trials"].as_array().unwrap().len(), finished(&sandbox));
}

/// A subject that lacked only a back end's build takes part once that succeeds, and the experiment
/// stays the same.
#[test]
fn resume_includes_subject_whose_build_succeeds_now() {
    let sandbox = Sandbox::new();
    let store = sandbox.path().join("backends/store");
    std::fs::create_dir_all(&store).unwrap();
    let compiler = sandbox.path().join("compiler");
    let file = format!(
        "[build]\ncommand = \"[ -e {} ]\"\ninputs = []\n[start]\ncommand = [\"{{dyno}}\", \
         \"serve-null\", \"--port\", \"{{port}}\"]\n",
        compiler.display()
    );
    std::fs::write(store.join("backend.toml"), file).unwrap();
    sandbox.add_unruly("front", &[], "[start.env]\nSTORE = \"{store.port}\"\n");
    let (status, report) = sandbox.run(&["front", "null"], "");
    assert_eq!(status, 3, "a planned subject could not be built");
    let reason = report["subjects"][0]["skipped"].as_str().unwrap();
    assert!(reason.starts_with("its back end store could not be built"), "{reason}");
    assert_eq!(report["run"]["trials_done"], 2);
    std::fs::write(compiler, "").unwrap();
    let run = sandbox.run_folder().unwrap();
    let output = sandbox.dyno(&["run", "--resume", run.to_str().unwrap()]);
    assert!(output.status.code().is_some_and(|c| c <= 1), "{}", text(&output));
    let report = sandbox.report();
    assert_eq!(
        (&report["run"]["trials_done"], &report["subjects"][0]["skipped"]),
        (&json!(4), &json!(null))
    );
    assert_eq!(report["subjects"][0]["backends"][0]["name"], "store");
}

/// The server accepts the connection of the trial request, and never responds.
#[test]
fn signal_before_load_ends_with_status_3_and_reason() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let sandbox = Sandbox::new();
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
