//! Tests the cleanup: no process or file of a run remains. Covers daemons, and killed cleanup
//! processes.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::drive::{
    DYNO, Sandbox, copy_program, not_run, runs_as_root, send_signal, stored_run, text, unruly,
};
use crate::interrupts::long_run;

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

#[test]
fn next_run_removes_folders_of_killed_dyno() {
    let sandbox = Sandbox::new();
    let mut dyno = long_run(&sandbox);
    let is_guard = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let parent = dyno_observer::proc::Stat::read(*pid).map(|stat| stat.parent);
        parent == Some(dyno.id())
            && String::from_utf8_lossy(&words).contains(dyno_launch::guard::ARGUMENT)
    };
    let guard = dyno_observer::proc::all_pids().into_iter().find(is_guard).unwrap();
    send_signal(dyno.id(), libc::SIGSTOP);
    send_signal(guard, libc::SIGKILL);
    send_signal(dyno.id(), libc::SIGKILL);
    dyno.wait().unwrap();
    let folders = || -> Vec<PathBuf> {
        let all =
            fs::read_dir(sandbox.path().join("tmp")).unwrap().map(|entry| entry.unwrap().path());
        all.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("dyno-"))
            .collect()
    };
    assert!(!folders().is_empty());
    let output = sandbox.dyno(&["run", "suite.toml", "--only", "null", "--runs", "next"]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    assert!(folders().is_empty(), "{:?}", folders());
    sandbox.assert_nothing_is_left_soon();
}

#[test]
fn full_disk_preserves_earlier_result() {
    if !runs_as_root() {
        return not_run("a full disk: only root may mount one");
    }
    let sandbox = Sandbox::without_load();
    let script = format!(
        "mkdir full; mount -t tmpfs -o size=64k none full; echo before >full/result; head -c \
         1000000 /dev/zero >full/rest; {DYNO} report {} --format html -o full/result; echo \
         \"status $?\"; cat full/result; ls -A full; umount full",
        stored_run().display()
    );
    let mut command = Command::new("unshare");
    command
        .args(["-m", "--propagation", "private", "sh", "-c", &script])
        .current_dir(sandbox.path());
    let output = command.output().unwrap();
    let message = text(&output);
    assert!(message.contains("status 3\nbefore\nrest\nresult\n"), "{message}");
    assert!(message.contains("full/result: cannot be written"), "{message}");
}

#[test]
fn load_that_cannot_begin_changes_no_files() {
    let sandbox = Sandbox::without_load();
    let server = crate::drive::Server::null();
    let url = format!("http://127.0.0.1:{}/", server.port);
    fs::write(sandbox.path().join("old"), "before").unwrap();
    // The server has this port: the load cannot begin.
    let taken = format!("127.0.0.1:{}", server.port);
    let arguments =
        ["load", &url, "-d", "100ms", "--metrics", &taken, "-o", "old", "--hgrm", "new"];
    let output = sandbox.dyno(&arguments);
    assert!(!output.status.success(), "{}", text(&output));
    assert_eq!(fs::read_to_string(sandbox.path().join("old")).unwrap(), "before");
    assert!(!sandbox.path().join("new").exists());
}
