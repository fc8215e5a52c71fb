//! Tests that no daemon of a server or a build remains, also after its minder or dyno was killed.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::drive::{DYNO, Sandbox, copy_program, is_running, soon, text, unruly};

/// Adds a server that a shell script starts. `SERVER` stands for a program that any user can run.
fn add(sandbox: &Sandbox, name: &str, script: &str, extra: &str) {
    let folder = sandbox.path().join("subjects").join(name);
    fs::create_dir_all(&folder).unwrap();
    let server = sandbox.path().join("server");
    if !server.exists() {
        copy_program(&unruly(), &server);
    }
    let script = script.replace("SERVER", &format!("{} --port {{port}}", server.display()));
    let text = format!(
        "language = \"C\"\nprotocols = [\"h1\"]\nchecks = [\"hello\"]\n{extra}\n[start]\n\
         command = [\"sh\", \"-c\", {script:?}]\n\
         [ready]\npath = \"/plaintext\"\ndeadline = \"60s\"\n"
    );
    fs::write(folder.join("subject.toml"), text).unwrap();
}

/// A daemon: it has no parent, a separate session, and an empty environment.
const DAEMON: &str = "(setsid env -i SERVER &)";

#[test]
fn daemons_of_servers_and_builds_are_ended() {
    let sandbox = Sandbox::without_load();
    let check = |name, is_ordinary: bool| {
        let arguments = ["subjects", "check", name];
        let output = match is_ordinary {
            true => sandbox.dyno_as_ordinary_user(&arguments),
            false => sandbox.dyno(&arguments),
        };
        sandbox.assert_nothing_is_left();
        output
    };
    let assert_failed = |output: Output, expected: &str| {
        assert_eq!(output.status.code(), Some(3), "{}", text(&output));
        assert!(text(&output).contains(expected), "{}", text(&output));
    };
    // The minder of a command takes the orphans of the command. Here the command kills it.
    let build = format!(
        "[build]\ncommand = {:?}\ninputs = []",
        "(setsid env -i sh -c 'echo >daemon; sleep 86400; true' &); until [ -e daemon ]; do sleep \
         0.01; done; kill -9 $PPID; sleep 86400"
    );
    add(&sandbox, "unbuilt", "exec SERVER", &build);
    assert_failed(sandbox.dyno(&["subjects", "build", "unbuilt"]), "unbuilt");
    sandbox.assert_nothing_is_left();
    assert_build_ends_with_killed_dyno(&sandbox);
    add(&sandbox, "foreground", &format!("{DAEMON}; exec sleep 86400"), "");
    let output = check("foreground", true);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    add(&sandbox, "background", &format!("{DAEMON}; exit 0"), "");
    let unminded = format!("{DAEMON}; sleep 1; kill -9 $PPID; exec sleep 86400");
    add(&sandbox, "unminded", &unminded, "");
    for is_ordinary in [true, false] {
        let hint = "hint: run the server in the foreground";
        assert_failed(check("background", is_ordinary), hint);
        let output = check("unminded", is_ordinary);
        assert_ne!(output.status.code(), None, "{}", text(&output));
    }
}

fn assert_build_ends_with_killed_dyno(sandbox: &Sandbox) {
    let build = "[build]\ncommand = \"setsid env -i sleep 86421 & sleep 86421\"\ninputs = []";
    add(sandbox, "long", "exec SERVER", build);
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(["subjects", "build", "long"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let wait_until_running =
        |expected| soon(|| (is_running(&["sleep", "86421"]) == expected).then_some(()));
    wait_until_running(true).expect("the build should start");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until_running(false).expect("the build should be ended");
    sandbox.assert_nothing_is_left_soon();
}
