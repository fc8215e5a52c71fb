//! Tests the cleanup: no process or file of a run remains, and the processes and files of other
//! runs are untouched. Covers daemons, PID namespaces, and killed cleanup processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::drive::{
    DYNO, Sandbox, copy_program, not_run, runs_as_root, send_signal, soon, text, unruly,
};

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
fn daemon_of_ordinary_user_is_monitored_and_stopped() {
    let sandbox = Sandbox::without_load();
    add(&sandbox, "x", &format!("{DAEMON}; exec sleep 86400"), "");
    let output = sandbox.dyno_as_ordinary_user(&["subjects", "check", "x"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    sandbox.assert_nothing_is_left();
}

#[test]
fn daemonizing_server_error_asks_for_foreground() {
    let sandbox = Sandbox::without_load();
    add(&sandbox, "x", &format!("{DAEMON}; exit 0"), "");
    let all = [
        sandbox.dyno_as_ordinary_user(&["subjects", "check", "x"]),
        sandbox.dyno(&["subjects", "check", "x"]),
    ];
    for output in all {
        assert_eq!(output.status.code(), Some(3), "{}", text(&output));
        assert!(
            text(&output).contains("hint: run the server in the foreground"),
            "{}",
            text(&output)
        );
        sandbox.assert_nothing_is_left();
    }
}

#[test]
fn server_outside_its_control_group_is_stopped() {
    let sandbox = Sandbox::new();
    if !runs_as_root() {
        return not_run("a server that leaves its control group: only root may");
    }
    let leave = "for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do echo $$ \
                 >$f; done 2>/dev/null";
    let script = format!("({leave}; setsid env -i SERVER &); exec sleep 86400");
    let script = script.replace("$$", "$(exec sh -c 'echo $PPID')");
    add(&sandbox, "x", &script, "");
    let (status, report) = sandbox.run(&["x"], "");
    assert!(status <= 1, "{report}");
    for trial in report["trials"].as_array().unwrap() {
        assert!(
            trial["server"]["cpu_us_per_request"].as_f64().unwrap() > 0.5,
            "{}",
            trial["server"]
        );
    }
}

/// A server mounts its data below its working folder, and leaves them mounted.
#[test]
fn files_of_mounted_folders_are_kept() {
    let sandbox = Sandbox::without_load();
    if !runs_as_root() {
        return not_run("a server that mounts a folder: only root may");
    }
    let data = sandbox.path().join("data of users");
    fs::create_dir_all(data.join("sub")).unwrap();
    fs::write(data.join("sub/file"), "precious").unwrap();
    let mount = format!("mkdir \"$W/a b\"; mount --bind {:?} \"$W/a b\"", data.display());
    add(&sandbox, "x", &format!("W='{{work}}'; {mount}; exec SERVER"), "");
    let output = sandbox.dyno(&["subjects", "check", "x"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(fs::read_to_string(data.join("sub/file")).unwrap(), "precious");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains("data\\040of\\040users"), "{mounts}");
    sandbox.assert_nothing_is_left();
}

#[test]
fn build_with_killed_minder_leaves_no_process() {
    let sandbox = Sandbox::without_load();
    let daemon = "(setsid env -i sh -c 'echo >daemon; sleep 86400; true' &); until [ -e daemon ]; \
                  do sleep 0.01; done";
    let build = format!(
        "[build]\ncommand = {:?}\ninputs = []",
        format!("{daemon}; kill -9 $PPID; sleep 86400")
    );
    add(&sandbox, "x", "exec SERVER", &build);
    let output = sandbox.dyno(&["subjects", "build", "x"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    sandbox.assert_nothing_is_left();
}

#[test]
fn server_with_killed_minder_leaves_no_process() {
    let sandbox = Sandbox::without_load();
    add(&sandbox, "x", &format!("{DAEMON}; sleep 1; kill -9 $PPID; exec sleep 86400"), "");
    for output in [
        sandbox.dyno_as_ordinary_user(&["subjects", "check", "x"]),
        sandbox.dyno(&["subjects", "check", "x"]),
    ] {
        assert_ne!(output.status.code(), None, "{}", text(&output));
        sandbox.assert_nothing_is_left();
    }
}

/// Starts a long run as a child of a program, and waits until its first trial is in the archive.
fn long_run(sandbox: &Sandbox, below: &[&str], repeats: &str) -> Child {
    sandbox.write_suite(&["null"], "");
    let mut words = below.to_vec();
    words.extend([DYNO, "run", "suite.toml", "--repeats", repeats]);
    let mut command = sandbox.command(Path::new(words[0]));
    command.args(&words[1..]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let trials = || fs::read_dir(sandbox.run_folder()?.join("trials")).ok()?.next();
    if soon(trials).is_none() {
        let _ = child.kill();
        panic!("no trial was finished:\n{}", text(&child.wait_with_output().unwrap()));
    }
    child
}

#[test]
#[ignore = "long: runs in make nightly"]
fn run_in_other_pid_namespace_is_not_cleaned_up() {
    if !runs_as_root() {
        return not_run("two PID namespaces: only root makes them");
    }
    let sandbox = Sandbox::new();
    // No process outside the namespace has the PID of the run inside it.
    let is_free =
        |pid: &u32| (0..20).all(|next| !Path::new(&format!("/proc/{}", pid + next)).exists());
    let last = (20_000..32_000).step_by(50).find(is_free).unwrap();
    let script = format!("echo {last} >/proc/sys/kernel/ns_last_pid; \"$@\"; exit $?");
    let below = ["unshare", "-pf", "--kill-child", "--mount-proc", "sh", "-c", &script, "sh"];
    let inner = long_run(&sandbox, &below, "6");
    let outer = sandbox.path().join("outer.toml");
    fs::copy(sandbox.path().join("suite.toml"), &outer).unwrap();
    let output = sandbox.dyno(&["run", "outer.toml", "--runs", "outer"]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    let output = inner.wait_with_output().unwrap();
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    sandbox.assert_nothing_is_left();
}

#[test]
fn next_run_removes_folders_of_killed_dyno() {
    let sandbox = Sandbox::new();
    let mut dyno = long_run(&sandbox, &[], "40");
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
    let output = sandbox.dyno(&["run", "suite.toml", "--runs", "next"]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    assert!(folders().is_empty(), "{:?}", folders());
    sandbox.assert_nothing_is_left_soon();
}

#[test]
fn ctrl_c_does_not_wait_for_unresponsive_server() {
    let sandbox = Sandbox::new();
    add(&sandbox, "x", "trap '' TERM; exec SERVER", "[stop]\ndeadline = \"1h\"");
    sandbox.write_suite(&["x"], "");
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(["run", "suite.toml"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut dyno = command.spawn().unwrap();
    let trials = || fs::read_dir(sandbox.run_folder()?.join("trials")).ok()?.next();
    assert!(soon(trials).is_some(), "no trial was finished");
    send_signal(dyno.id(), libc::SIGINT);
    let ended = soon(|| dyno.try_wait().unwrap());
    if ended.is_none() {
        dyno.kill().unwrap();
    }
    let output = dyno.wait_with_output().unwrap();
    assert!(ended.is_some() && text(&output).contains("at most 5 s"), "{}", text(&output));
    sandbox.assert_nothing_is_left_soon();
}

#[test]
fn full_disk_preserves_earlier_result() {
    if !runs_as_root() {
        return not_run("a full disk: only root may mount one");
    }
    let sandbox = Sandbox::new();
    sandbox.run(&["null"], "");
    let run = sandbox.run_folder().unwrap();
    let script = format!(
        "mkdir full; mount -t tmpfs -o size=64k none full; echo before >full/result; head -c \
         1000000 /dev/zero >full/rest; {DYNO} report {} --format html -o full/result; echo \
         \"status $?\"; cat full/result; ls -A full; umount full",
        run.display()
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
    let sandbox = Sandbox::new();
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
