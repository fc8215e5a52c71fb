//! Tests exit statuses of mistakes, and closed or full outputs of the program.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use crate::drive::{
    DYNO, Sandbox, Server, closed_pipe, control_characters, copy_program, soon, text,
};
use crate::walk::define;

/// Runs a command that must fail with the status 2 and without control characters. Returns its
/// output.
fn refuse(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(2), "{printed}");
    assert_eq!(control_characters(&printed), [], "{printed:?}");
    printed
}

/// Most mistakes are tested where they are found: `src/cmd/load/tests/refusals.rs`.
#[test]
fn mistakes_exit_with_2_and_hint() {
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
    sandbox.write_suite(&["null"], "");
    fs::write(sandbox.path().join("misspelt.toml"), "subjects = [\"nul\"]\n").unwrap();
    let odd = "subjects = [\"\u{9b}2J\u{202e}x\"]\n";
    fs::write(sandbox.path().join("odd.toml"), odd).unwrap();
    for (arguments, parts) in [
        (&["run", "misspelt.toml"][..], &["misspelt.toml:1:", "did you mean \"null\"?", "^^^"][..]),
        (&["run", "odd.toml"], &["\\u{9b}2J"]),
        (&["run", "absent.toml"], &[]),
        (&["run", "suite.toml", "--observe", "stats"], &["did you mean \"states\"?"]),
        (
            &["calibrate", "--verdicts", "--only", "lock-sleep,nothing"],
            &["--only nothing: unknown behaviour\nhint: choose one of cpu, "],
        ),
    ] {
        let printed = refuse(sandbox.command(Path::new(DYNO)).args(arguments));
        assert!(parts.iter().all(|part| printed.contains(part)), "{parts:?}: {printed}");
    }
    let outside_of_sources = sandbox.path().join("dyno");
    copy_program(Path::new(DYNO), &outside_of_sources);
    let printed = refuse(sandbox.command(&outside_of_sources).args(["calibrate", "--verdicts"]));
    let expected = "servers with known bottlenecks were not found\nhint: ";
    assert!(printed.contains(expected), "{printed}");
}

#[test]
fn closed_and_full_outputs_stop_no_work() {
    let sandbox = Sandbox::new();
    sandbox.write_suite(&["null"], "");
    assert_closed_output_fails_command(&sandbox);
    assert_closed_output_ends_no_build_and_no_check(&sandbox);
    assert_closed_progress_output_does_not_stop_work(&sandbox);
    assert_full_progress_output_does_not_stop_run(&sandbox);
    sandbox.assert_nothing_is_left();
}

/// Runs dyno with a closed standard output, and returns its exit status.
fn status_with_closed_output(sandbox: &Sandbox, arguments: &[&str]) -> Option<i32> {
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(arguments).stdout(closed_pipe()).stderr(Stdio::null());
    command.status().unwrap().code()
}

fn assert_closed_output_fails_command(sandbox: &Sandbox) {
    let server = Server::start();
    let url = server.url("/nothing");
    for arguments in [
        &["load", &url, "-n", "10"][..],
        &["subjects", "list"],
        &["doctor"],
        &["explain"],
        &["plan", "suite.toml", "--format", "json"],
    ] {
        assert_eq!(status_with_closed_output(sandbox, arguments), Some(141), "{arguments:?}");
    }
}

/// `dyno subjects build … | head -1`
fn assert_closed_output_ends_no_build_and_no_check(sandbox: &Sandbox) {
    let subjects = sandbox.path().join("subjects");
    let names = ["one", "two", "three"];
    for name in names {
        define(&subjects, name, &crate::walk::null(), "");
        let build = "[build]\ncommand = \"echo 1 > {out}/data\"\ninputs = []\n[start]";
        sandbox.replace(&format!("subjects/{name}/subject.toml"), "[start]", build);
    }
    define(&subjects, "wrong", &crate::walk::null(), "");
    let answer = "\"serve-null\", \"--answer=no\"";
    sandbox.replace("subjects/wrong/subject.toml", "\"serve-null\"", answer);
    let status = |arguments: &[&str]| status_with_closed_output(sandbox, arguments);
    assert_eq!(status(&["subjects", "build", "one", "two", "three"]), Some(141));
    for name in names {
        let builds = fs::read_dir(sandbox.path().join("cache").join(name)).unwrap();
        let has_data = |folder: fs::DirEntry| folder.path().join("out/data").exists();
        assert!(builds.map(Result::unwrap).any(has_data), "{name} was built");
    }
    assert_eq!(status(&["subjects", "check", "one", "null"]), Some(141));
    // The first one passes, and the status is that of the last one.
    assert_eq!(status(&["subjects", "check", "one", "wrong"]), Some(1));
}

fn assert_closed_progress_output_does_not_stop_work(sandbox: &Sandbox) {
    let server = Server::start();
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
    let mut command = sandbox.command(Path::new(DYNO));
    let status =
        command.args(["run", "suite.toml"]).stdout(Stdio::null()).stderr(closed_pipe()).status();
    assert!(status.unwrap().code().is_some_and(|code| code <= 1));
    assert_eq!(sandbox.report()["run"]["trials_done"], 2, "the run was completed");
    fs::remove_dir_all(sandbox.path().join("runs")).unwrap();
}

/// A full pipe blocks like a stopped terminal (Ctrl-S).
fn assert_full_progress_output_does_not_stop_run(sandbox: &Sandbox) {
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
