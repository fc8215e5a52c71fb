//! Tests exit statuses, refused options, and files of the user that dyno must not change.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};

use crate::drive::{
    DYNO, Sandbox, Server, closed_pipe, free_port, not_run, send_signal, soon, text, unruly,
};

/// Starts a server that responds to every request with 200. The receiver gets the first request.
fn recorder() -> (u16, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (to, from) = mpsc::channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut received = vec![0; 64 * 1024];
            let mut length = 0;
            // Requests of these tests fit into one read.
            while let Ok(n @ 1..) = stream.read(&mut received[length..]) {
                length += n;
                let _ = to.send(received[..length].to_vec());
                length = 0;
                if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                    break;
                }
            }
        }
    });
    (port, from)
}

fn har(port: u16, body: &str, status: u16) -> String {
    let request = json!({
        "method": "POST",
        "url": format!("http://127.0.0.1:{port}/{{seq}}?u={{uuid}}"),
        "headers": [{"name": "X-Text", "value": "{rand} {rand:1..9}"}],
        "postData": {"mimeType": "text/plain", "text": body},
    });
    json!({"log": {"entries": [{"request": request, "response": {"status": status}}]}}).to_string()
}

#[test]
fn har_requests_are_sent_as_recorded() {
    let sandbox = Sandbox::new();
    let (port, received) = recorder();
    let body = "{csv:/etc/passwd:1} {seq} {uuid} {rand} {{seq}}";
    fs::write(sandbox.path().join("x.har"), har(port, body, 200)).unwrap();
    let output =
        sandbox.dyno(&["load", "--import", "x.har", "-c", "1", "-n", "3", "--format", "json"]);
    // With three requests it is random whether the load is valid.
    let result: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    assert_eq!(result["outcomes"]["ok"], 3);
    let sent = String::from_utf8(received.recv().unwrap()).unwrap();
    assert!(sent.starts_with("POST /{seq}?u={uuid} HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains("X-Text: {rand} {rand:1..9}\r\n"), "{sent}");
    assert!(sent.ends_with(&format!("\r\n\r\n{body}")), "{sent}");

    // With the option there are placeholders, but still no files.
    fs::write(sandbox.path().join("t.har"), har(port, "{seq}", 200).replace("{rand} ", ""))
        .unwrap();
    let arguments = ["load", "--import", "t.har", "--import-templates", "-c", "1", "-n", "1"];
    assert!(sandbox.dyno(&arguments).status.code().is_some_and(|code| code <= 1));
    let requests: Vec<_> =
        received.try_iter().map(|bytes| String::from_utf8(bytes).unwrap()).collect();
    assert!(requests.last().unwrap().starts_with("POST /0?u="), "{requests:?}");
    fs::write(sandbox.path().join("x.har"), har(port, body, 200).replace("{rand}", "")).unwrap();
    let output = sandbox.dyno(&["load", "--import", "x.har", "--import-templates", "-n", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("--files FOLDER"), "{}", text(&output));
    assert_eq!(received.try_iter().count(), 0);
}

#[test]
fn load_reads_only_files_named_by_user() {
    let sandbox = Sandbox::new();
    let url = format!("http://127.0.0.1:{}/", free_port());
    let home = sandbox.path().join("home");
    fs::create_dir_all(&home).unwrap();
    fs::write(sandbox.path().join("secret"), "s\n").unwrap();
    fs::write(home.join("targets.txt"), format!("POST {url}\n@body.json\n")).unwrap();
    fs::write(home.join("body.json"), "{}").unwrap();
    let template = format!("{url}{{csv:../secret:1}}");
    for (arguments, message) in [
        (vec!["load", &template], "leads out of the folder"),
        (vec!["load", "--import", "targets.txt"], "--files FOLDER"),
        (
            vec!["load", "--curl", "curl -d @../secret http://127.0.0.1:1/"],
            "leads out of the folder",
        ),
        (vec!["load", "--import", "curls.sh"], "must not choose a Unix socket"),
    ] {
        fs::write(home.join("curls.sh"), "curl --unix-socket /run/x.sock http://a/\n").unwrap();
        let output =
            sandbox.command(Path::new(DYNO)).args(&arguments).current_dir(&home).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output).contains(message), "{arguments:?}: {}", text(&output));
    }
    let mut allowed = sandbox.command(Path::new(DYNO));
    let output = allowed.current_dir(&home).args([
        "load",
        "--import",
        "targets.txt",
        "--files",
        ".",
        "-n",
        "1",
    ]);
    let output = output.output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(1),
        "the port is closed, but the file was read: {}",
        text(&output)
    );
}

#[test]
fn suite_reads_only_files_in_its_folder() {
    let sandbox = Sandbox::without_load();
    let suites = sandbox.path().join("suites");
    fs::create_dir_all(&suites).unwrap();
    fs::write(suites.join("body.json"), "{}").unwrap();
    fs::write(sandbox.path().join("secret"), "s\n").unwrap();
    let plan = |workload: &str| {
        let suite = format!(
            "subjects = [\"null\"]\n[[workloads]]\nmethod = \"POST\"\npath = \
             \"/plaintext\"\n{workload}\n"
        );
        fs::write(suites.join("s.toml"), suite).unwrap();
        sandbox.dyno(&["plan", "suites/s.toml"])
    };
    let inside_folder = plan("body_file = \"body.json\"");
    assert_eq!(inside_folder.status.code(), Some(0), "{}", text(&inside_folder));
    for (workload, message) in [
        ("body_file = \"../secret\"", "leads out of the folder of this file"),
        ("body_file = \"/etc/passwd\"", "hint: write the path relative to the folder of this file"),
        ("body = \"{csv:../secret:1}\"", "put the file into the folder of the suite, or below it"),
    ] {
        let output = plan(workload);
        assert_eq!(output.status.code(), Some(2), "{workload}");
        assert!(text(&output).contains(message), "{}", text(&output));
    }
    let framing = plan("headers = { Content-Length = \"5\" }");
    assert_eq!(framing.status.code(), Some(2));
    assert!(text(&framing).contains("dyno writes this header itself"), "{}", text(&framing));
}

#[test]
fn plan_reports_detectable_differences() {
    let sandbox = Sandbox::without_load();
    sandbox.add_unruly("one", &[], "");
    sandbox.add_unruly("two", &[], "");
    let suite = |repeats: u32, order: &str| {
        let suite = format!(
            "subjects = [\"one\", \"two\"]\n[suite]\nrepeats = {repeats}\norder = \"{order}\"\n\
             [[workloads]]\npath = \"/plaintext\"\n\
             [load]\nconnections = 2\nrate = 100\nwarmup = \"100ms\"\nduration = \"500ms\"\n\
             timeout = \"5s\"\n"
        );
        fs::write(sandbox.path().join("suite.toml"), suite).unwrap();
        let planned = text(&sandbox.dyno(&["plan", "suite.toml"]));
        planned
            .lines()
            .find_map(|line| line.trim().strip_prefix("finds"))
            .unwrap_or_default()
            .trim()
            .to_string()
    };
    assert_eq!(suite(5, "fixed"), "", "a fixed order compares nothing");
    assert!(suite(1, "random").starts_with("no differences, because one repeat shows no variance"));
    let unknown = suite(3, "random");
    assert!(unknown.contains("standard deviation between pairs of repeats"), "{unknown}");
    let output = sandbox.dyno(&["run", "suite.toml"]);
    let report = sandbox.report();
    let id = report["run"]["id"].as_str().unwrap();
    // On a busy machine some of the trials are invalid.
    let all_count = report["trials"].as_array().unwrap().iter().all(|trial| trial["valid"] == true);
    let description = if all_count { "in CPU time per request" } else { id };
    let known = suite(5, "random");
    assert!(known.contains(id) && known.contains(description), "{known}\n{}", text(&output));
}

#[test]
fn recorded_status_is_default_expectation() {
    let sandbox = Sandbox::new();
    let server = Server::start(&[]);
    let entry = json!({
        "request": {"method": "GET", "url": server.url("/nothing")}, "response": {"status": 404},
    });
    fs::write(sandbox.path().join("x.har"), json!({"log": {"entries": [entry]}}).to_string())
        .unwrap();
    let load = |options: &[&str]| {
        let arguments =
            [&["load", "--import", "x.har", "-c", "1", "-n", "20", "--format", "json"], options]
                .concat();
        let output = sandbox.dyno(&arguments);
        serde_json::from_slice::<Value>(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", text(&output)))
    };
    assert_eq!(load(&[])["outcomes"]["ok"], 20);
    assert_eq!(load(&["--expect-status", "200"])["outcomes"]["unexpected_status"], 20);
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

#[test]
fn partial_run_with_skipped_subject_is_not_valid() {
    let sandbox = Sandbox::new();
    sandbox.add_unruly(
        "absent",
        &[],
        "[[requires]]\nname = \"unobtainium\"\ntest = \"false\"\nhint = \"Dig deeper.\"\n",
    );
    sandbox.write_suite(&["null", "absent"], "");
    let output = sandbox.dyno(&["run", "suite.toml"]);
    let whole = output.status.code().unwrap();
    assert!(whole <= 1, "{}", text(&output));
    let run = sandbox.run_folder().unwrap();
    let report = || sandbox.dyno(&["report", run.to_str().unwrap()]).status.code().unwrap();
    assert_eq!(report(), whole, "the report has the exit status of its run");
    fs::remove_file(run.join("trials/0001.json")).unwrap();
    assert_eq!(report(), 3);
}

#[test]
fn options_without_effect_are_refused() {
    let sandbox = Sandbox::without_load();
    sandbox.run(&["null"], "");
    let run = sandbox.run_folder().unwrap();
    let run = run.to_str().unwrap();
    let header = &*format!("{run}/run.json");
    fs::write(sandbox.path().join("urls"), "https://127.0.0.1:1/\n").unwrap();
    for (arguments, messages) in [
        (&["run", "--resume", run, "--driver", "epoll"][..], "--driver"),
        (&["run", "--resume", run, "--runs", "x"], "--runs"),
        (&["run", "--resume", run, "--subjects", "subjects"], "--subjects"),
        (&["run", "suite.toml", "--repeats", "0"], "--repeats"),
        (&["load", URL, "-o", "x", "--hgrm", "./x"], "x: would be written by two outputs"),
        (&["load", URL, "--stream", "x", "--hlog", "x"], "x: would be written by two outputs"),
        (
            &["load", URL, "--body-file", "urls", "-o", "./urls"],
            "this output would overwrite an input (urls)",
        ),
        (
            &["load", "--import", "urls", "--hlog", "urls"],
            "this output would overwrite an input (urls)",
        ),
        (
            &["load", "--find", "p99<1s", URL, "--body-file", "urls", "-o", "urls"],
            "this output would overwrite an input",
        ),
        (
            &["report", run, "--format", "json", "-o", header],
            "this output would overwrite an input",
        ),
        (&["compare", run, run, "-o", header], "this output would overwrite an input"),
        (&["load", URL, "--hgrm", "-"], "--hgrm and --hlog: must be files"),
        (&["run", "--anyway", "suite.toml"], "--anyway"),
        (&["load", URL, "--trace", "urls", "--arrival", "poisson"], "--arrival"),
        (
            &["load", "--curl", "curl http://127.0.0.1:1/", "--page-connections", "3"],
            "--page-connections",
        ),
        (
            &["load", "--curl", "curl http://127.0.0.1:1/", "--import-format", "har"],
            "--import-format",
        ),
        (&["load", URL, "-b", "x", "--import-format", "har"], "--import-format"),
        (&["load", "http://me:secret@127.0.0.1:1/"], "Authorization"),
        (&["load", URL, "-p", "4000000000"], "at most"),
    ] {
        assert_refused(&sandbox, arguments, messages);
    }
}

#[test]
fn load_options_without_effect_are_refused() {
    let sandbox = Sandbox::without_load();
    fs::write(sandbox.path().join("urls"), "https://127.0.0.1:1/\n").unwrap();
    for (arguments, messages) in [
        (&["load", URL, "-k"][..], "--insecure (-k): is for TLS"),
        (&["load", URL, "--cacert", "/no/such"], "--cacert: is for TLS"),
        (&["load", URL, "--cert", "/no", "--key", "/no"], "--cert: is for TLS"),
        (&["load", URL, "--tls-resumption", "off"], "--tls-resumption: is for TLS"),
        (&["load", URL, "--window-bits", "20"], "--window-bits: needs HTTP/2"),
        (
            &["load", URL, "--connection-window-bits", "20"],
            "--connection-window-bits: needs HTTP/2",
        ),
        (&["load", URL, "--header-table-size", "0"], "--header-table-size: needs HTTP/2"),
        (&["load", URL, "--page-connections", "3"], "--resource"),
        (
            &["load", URL, "--protocol", "h2c", "--resource", "/a", "--page-connections", "3"],
            "one connection",
        ),
        (&["load", URL, "--check-one-in", "3"], "none is expected"),
        (&["load", URL, "--import-templates"], "needs --import or --curl"),
        (&["load", URL, "--first-byte-timeout", "20s"], "shorter than --timeout"),
        (&["load", URL, "-X", "HEAD", "--expect-body", "x"], "HEAD has no body"),
        (&["load", "--import", "urls", "-p", "16"], "--protocol h1"),
        (
            &["load", "--curl", "curl --http2-prior-knowledge http://127.0.0.1:1/", "-p", "8"],
            "--streams",
        ),
        (&["load", "--curl", "curl --http1.1 https://127.0.0.1:1/", "-m", "10"], "--pipeline"),
        (
            &["load", URL, "--resolve", "127.0.0.1:2:127.0.0.1"],
            "write --resolve 127.0.0.1:1:127.0.0.1",
        ),
        (
            &["load", URL, "-H", "Transfer-Encoding: chunked", "-b", "x"],
            "dyno writes this header itself",
        ),
        (&["load", URL, "-H", "content-length: 5"], "dyno writes this header itself"),
        (
            &["load", URL, "--stream", "-", "--format", "json"],
            "standard output already has the result",
        ),
    ] {
        assert_refused(&sandbox, arguments, messages);
    }
}

/// An address at which no server listens.
const URL: &str = "http://127.0.0.1:1/";

fn assert_refused(sandbox: &Sandbox, arguments: &[&str], messages: &str) {
    let output = sandbox.dyno(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output));
    assert!(text(&output).contains(messages), "{arguments:?}: {}", text(&output));
}

#[test]
fn plan_accepts_options_of_run() {
    let sandbox = Sandbox::without_load();
    sandbox.copy_subject("node-http");
    sandbox.write_suite(&["null", "node-http"], "");
    let options = [
        "--only",
        "null",
        "--repeats",
        "4",
        "--seed",
        "9",
        "--driver",
        "epoll",
        "--format",
        "json",
    ];
    let output = sandbox.dyno(&[&["plan", "suite.toml"], &options[..]].concat());
    let plan: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    assert_eq!(
        (&plan["repeats"], &plan["seed"], &plan["load"]["driver"]),
        (&4.into(), &9.into(), &"epoll".into())
    );
    assert_eq!(plan["subjects"].as_array().unwrap().len(), 1);
    let output = sandbox.dyno(&["plan", "suite.toml", "--only", "gin"]);
    assert_eq!(text(&output).matches("node-http").count(), 1, "{}", text(&output));
    // The position of the option makes no difference.
    let elsewhere = sandbox.path().join("elsewhere");
    fs::rename(sandbox.path().join("subjects"), &elsewhere).unwrap();
    for arguments in [
        ["subjects", "list", "--subjects", "elsewhere"],
        ["subjects", "--subjects", "elsewhere", "list"],
    ] {
        let output = sandbox.dyno(&arguments);
        assert!(text(&output).contains("node-http"), "{}", text(&output));
    }
}

#[test]
fn stream_to_stdout_has_no_other_output() {
    let sandbox = Sandbox::new();
    let server = Server::start(&[]);
    let output = sandbox.dyno(&[
        "load",
        &server.url("/plaintext"),
        "-d",
        "300ms",
        "--interval",
        "100ms",
        "--stream",
        "-",
    ]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
    assert!(String::from_utf8_lossy(&output.stderr).contains("requests/s"));
}

#[test]
fn load_of_closed_port_fails_at_once() {
    let sandbox = Sandbox::new();
    let url = format!("http://127.0.0.1:{}/", free_port());
    let output = sandbox.dyno(&["load", &url, "-d", "1h", "--interval", "100ms", "--no-tui"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("every connection was refused"), "{}", text(&output));
}

#[test]
fn more_threads_than_cpus_are_reported_before_load() {
    let sandbox = Sandbox::new();
    let server = Server::start(&[]);
    let url = server.url("/plaintext");
    let output = sandbox.dyno(&["load", &url, "-n", "100", "-t", "2", "--cpus", "0"]);
    assert!(text(&output).contains("-t 2: the threads share 1 CPU"), "{}", text(&output));
    let output = sandbox.dyno(&["load", &url, "-n", "100", "--format", "json"]);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cpus = dyno_launch::allowed_cpus().len() as u64;
    assert_eq!(
        result["config"]["threads"],
        (cpus / 2).clamp(1, 64),
        "a server on this machine needs the other CPUs"
    );
}

fn is_running(program: &Path) -> bool {
    let wanted = program.display().to_string();
    let command_line = |pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    dyno_observer::proc::all_pids().into_iter().any(|pid| command_line(pid).starts_with(&wanted))
}

#[test]
fn interrupted_checks_do_not_pass() {
    let sandbox = Sandbox::without_load();
    sandbox.add_unruly("slow", &["--mode", "never"], "");
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(["subjects", "check", "slow"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // The signal handler is set before the first subject starts.
    while !is_running(&unruly()) {
        thread::sleep(std::time::Duration::from_millis(5));
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("Interrupted"), "{}", text(&output));
    sandbox.assert_nothing_is_left();
}

/// Restores the default action of SIGINT, because a shell that runs the tests in the background may
/// ignore it for them and their children.
fn restore_ctrl_c(command: &mut Command) {
    let restore = || {
        // SAFETY: an async-signal-safe system call without pointers.
        #[allow(unsafe_code)]
        let before = unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: the closure makes one such call.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(restore);
    }
}

fn interrupt(child: &Child) {
    send_signal(child.id(), libc::SIGINT);
}

/// Returns the lines of a child's standard error, as they arrive.
fn stderr_lines(child: &mut Child) -> mpsc::Receiver<String> {
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let (to, from) = mpsc::channel();
    thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| to.send(line)));
    from
}

#[test]
fn output_pipe_is_opened_once() {
    let sandbox = Sandbox::new();
    let server = Server::start(&[]);
    let pipe = sandbox.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    let output = sandbox.dyno(&[
        "load",
        &server.url("/plaintext"),
        "-n",
        "10",
        "--stream",
        pipe.to_str().unwrap(),
    ]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    assert!(reader.join().unwrap().lines().count() > 1);
}

#[test]
fn ctrl_c_stops_waiting_for_pipe_reader() {
    let sandbox = Sandbox::new();
    let pipe = sandbox.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(["load", "http://127.0.0.1:1/", "--stream", pipe.to_str().unwrap()]);
    restore_ctrl_c(&mut command);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let messages = stderr_lines(&mut child);
    let note = soon(|| messages.try_iter().find(|line| line.contains("waiting for a reader")));
    interrupt(&child);
    let status = soon(|| child.try_wait().unwrap());
    // Unless it has already ended, it would wait forever.
    let _ = child.kill();
    assert!(note.is_some_and(|line| line.contains("/pipe: waiting")));
    assert_eq!(status.and_then(|status| status.code()), Some(3));
    let reason = messages.iter().find(|line| line.starts_with("dyno: "));
    assert_eq!(
        reason.as_deref(),
        Some("dyno: interrupted: the load had not begun, so there is no result")
    );
}

#[test]
fn unwritable_output_is_reported_before_load() {
    let sandbox = Sandbox::new();
    let at = |name: &str| sandbox.path().join(name).to_str().unwrap().to_string();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    for option in ["-o", "--hgrm", "--hlog", "--stream"] {
        let output = sandbox.dyno(&["load", "http://127.0.0.1:1/", option, &at("socket")]);
        assert_eq!(output.status.code(), Some(2), "{option}: {}", text(&output));
        assert!(
            text(&output).contains("socket: cannot be written: the path is a socket"),
            "{}",
            text(&output)
        );
    }
    assert!(Command::new("mkfifo").args(["--mode=400", &at("pipe")]).status().unwrap().success());
    if dyno_launch::may_write(Path::new(&at("pipe"))).is_ok() {
        return not_run("this user can write to every pipe");
    }
    let output = sandbox.dyno(&["load", "http://127.0.0.1:1/", "-o", &at("pipe")]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(
        text(&output).contains("pipe: cannot be written: Permission denied"),
        "{}",
        text(&output)
    );
}

#[test]
fn three_ctrl_c_preserve_load_result() {
    let sandbox = Sandbox::new();
    let server = Server::start(&[]);
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(["load", &server.url("/plaintext"), "-d", "1h", "--format", "json"]);
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
}

/// Accepts this number of connections, reads a request on each, and reports each read. It sends no
/// response.
fn unresponsive_server(connections: usize) -> (u16, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (to, from) = mpsc::channel();
    for _ in 0..connections {
        let (listener, to) = (listener.try_clone().unwrap(), to.clone());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = [0; 4096];
            if stream.read(&mut bytes).is_ok_and(|n| n > 0) {
                let _ = to.send(());
            }
            // Reads until the client closes the connection.
            while let Ok(1..) = stream.read(&mut bytes) {}
        });
    }
    (port, from)
}

#[test]
fn requests_limit_waits_for_last_response() {
    let sandbox = Sandbox::new();
    let (port, reads) = unresponsive_server(4);
    let url = format!("http://127.0.0.1:{port}/");
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(["load", &url, "-n", "4", "-c", "4", "--timeout", "1h", "--format", "json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let messages = stderr_lines(&mut child);
    (0..4).for_each(|_| reads.recv().unwrap());
    interrupt(&child);
    // After the first response, the second request is not counted.
    assert!(soon(|| messages.try_iter().find(|line| line.contains("ending early"))).is_some());
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let exchanges = &result["exchanges"];
    assert_eq!((&exchanges["scheduled"], &exchanges["in_flight_at_end"]), (&json!(4), &json!(4)));
    assert_eq!(output.status.code(), Some(3), "{result:#}");
}
