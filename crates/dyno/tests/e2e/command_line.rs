//! Tests exit statuses, signals, and closed or full outputs of the program.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;

use serde_json::Value;

use crate::drive::{DYNO, Sandbox, Server, closed_pipe, only_in, send_signal, soon, text};

/// Most errors are tested where they are found: `src/cmd/load/tests/refusals.rs`.
#[test]
fn usage_error_exits_with_2_and_hint() {
    let sandbox = Sandbox::without_load();
    for (arguments, message) in [
        (&["load"][..], "dyno: <URL>: required\n\nUsage: "),
        (&["load", "http://me:secret@127.0.0.1:1/"], "dyno: URL: must not contain a user"),
        (&["report", "absent"], "dyno: absent: no such run\nhint: "),
    ] {
        let output = sandbox.dyno(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout), (Some(2), Vec::new()), "{error}");
        assert!(error.starts_with(message), "{error}");
        assert!(error.contains("\nhint: ") || error.contains("--help"), "{error}");
    }
}

#[test]
fn closed_output_fails_run() {
    let sandbox = Sandbox::new();
    let server = Server::start(&[]);
    let url = server.url("/nothing");
    for arguments in [
        &["load", &url, "-n", "10"][..],
        &["subjects", "list"],
        &["doctor"],
        &["explain"],
        &["plan", "suite.toml", "--format", "json"],
    ] {
        sandbox.write_suite(&["null"], "");
        let mut command = sandbox.command(Path::new(DYNO));
        let status =
            command.args(arguments).stdout(closed_pipe()).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(141), "{arguments:?}");
    }
}

#[test]
fn closed_progress_output_does_not_stop_load() {
    let sandbox = Sandbox::new();
    let server = Server::start(&[]);
    let mut command = sandbox.command(Path::new(DYNO));
    // The address of the metrics is printed to standard error before the load begins.
    command.args(["load", &server.url("/nothing"), "-n", "10", "--metrics", "127.0.0.1:0"]);
    command.args(["--format", "json", "-o", "result.json"]).stderr(closed_pipe());
    assert_eq!(
        command.status().unwrap().code(),
        Some(1),
        "incorrect responses are not valid, even if standard output is closed"
    );
    let result = fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    assert!(result.contains("\"valid\": false"), "{result}");

    drop(server);
    sandbox.write_suite(&["null"], "");
    let mut command = sandbox.command(Path::new(DYNO));
    let status =
        command.args(["run", "suite.toml"]).stdout(Stdio::null()).stderr(closed_pipe()).status();
    assert!(status.unwrap().code().is_some_and(|code| code <= 1));
    assert_eq!(sandbox.report()["run"]["trials_done"], 2, "the run was completed");
    sandbox.assert_nothing_is_left();
}

/// A full pipe blocks like a stopped terminal (Ctrl-S).
#[test]
fn full_progress_output_does_not_stop_run() {
    let sandbox = Sandbox::new();
    sandbox.write_suite(&["null"], "");
    let (reader, mut writer) = io::pipe().unwrap();
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(["run", "suite.toml"]).stdout(Stdio::null()).stderr(writer.try_clone().unwrap());
    let mut dyno = command.spawn().unwrap();
    // The command holds a writing end.
    drop(command);
    // Warnings before the run may wait for their reader.
    assert!(soon(|| sandbox.run_folder()).is_some(), "the run begins");
    // The pipe stays full until its reading end is closed.
    let filler = thread::spawn(move || while writer.write_all(&[b'x'; 4096]).is_ok() {});
    let is_written = || sandbox.run_folder()?.join("report.json").exists().then_some(());
    assert!(soon(is_written).is_some(), "the run waits for its output");
    drop(reader);
    assert!(dyno.wait().unwrap().code().is_some_and(|code| code <= 1));
    filler.join().unwrap();
    assert_eq!(sandbox.report()["run"]["trials_done"], 2, "the run was completed");
}

/// Whether a program runs that has this word among its arguments.
fn is_running(word: &str) -> bool {
    let command_line = |pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut pids = dyno_observer::proc::all_pids().into_iter();
    pids.any(|pid| command_line(pid).split('\0').any(|argument| argument == word))
}

#[test]
fn interrupted_checks_do_not_pass() {
    let sandbox = Sandbox::without_load();
    // Other tests run the same program. Only this one has this argument, which has no effect.
    let own = "86425";
    sandbox.add_unruly("slow", &["--mode", "never", "--after", own], "");
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(["subjects", "check", "slow"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // The signal handler is set before the first subject starts.
    while !is_running(own) {
        thread::sleep(std::time::Duration::from_millis(5));
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("Interrupted"), "{}", text(&output));
    sandbox.assert_nothing_is_left();
}

fn interrupt(child: &Child) {
    send_signal(child.id(), libc::SIGINT);
}

#[test]
fn three_ctrl_c_preserve_load_result() {
    let sandbox = Sandbox::new();
    let server = Server::start(&[]);
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(["load", &server.url("/plaintext"), "-d", "1h", "--format", "json"]);
    command.args(["--save", "kept"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    while server.count() == 0 {
        thread::sleep(std::time::Duration::from_millis(5));
    }
    for _ in 0..3 {
        interrupt(&child);
        // Two signals at the same time would count as one.
        thread::sleep(std::time::Duration::from_millis(1));
    }
    let output = child.wait_with_output().unwrap();
    let result: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    assert_eq!(output.status.code(), Some(3), "the load ended before the requested hour");
    assert!(result["exchanges"]["completed"].as_u64().unwrap() > 0);
    let archive = only_in(&sandbox.path().join("kept"));
    let report = sandbox.dyno(&["report", archive.to_str().unwrap(), "--format", "json"]);
    assert_eq!(report.status.code(), Some(3), "the saved load is incomplete, too");
}
