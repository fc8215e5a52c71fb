//! Tests `dyno watch` with a running server under load from another program.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::drive::{DYNO, Sandbox, Server, free_port, not_run, send_signal, soon, text};

fn samples(output: &[u8]) -> Vec<Value> {
    let text = String::from_utf8(output.to_vec()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

#[test]
fn watch_by_port_observes_loaded_server() {
    let (server, sandbox) = (Server::null(), Sandbox::new());
    let mut load = sandbox.command(DYNO.as_ref());
    load.args(["load", &server.url("/plaintext"), "-c", "8", "-d", "6s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut load = load.spawn().unwrap();
    let (port, report) = (server.port.to_string(), sandbox.path().join("watch.html"));
    let report = report.to_str().unwrap();
    let output = sandbox.dyno(&[
        "watch", "--port", &port, "-d", "2s", "-i", "500ms", "--format", "json", "--report", report,
    ]);
    assert!(output.status.success(), "{}", text(&output));
    let samples = samples(&output.stdout);
    assert!((3..=4).contains(&samples.len()), "{samples:#?}");
    for (sample, next) in samples.iter().zip(&samples[1..]) {
        assert_eq!(sample["schema"], "dyno.watch/1");
        assert_eq!(
            sample["end_s"], next["start_s"],
            "each sample begins at the end of the last one"
        );
    }
    let last = samples.last().unwrap();
    assert!(last["cpus"].as_f64().is_some_and(|cpus| cpus > 0.0), "{last:#}");
    assert!(last["sockets"]["connections"].as_u64().is_some_and(|n| n >= 8), "{last:#}");
    let calls = &last["syscalls"]["by_name_per_s"];
    match dyno_observer::probes::refusal() {
        None => assert!(calls.as_object().is_some_and(|calls| !calls.is_empty()), "{last:#}"),
        Some(_) => assert!(last["syscalls"].is_null(), "{last:#}"),
    }
    let page = std::fs::read_to_string(report).unwrap();
    assert!(page.contains("All readings") && page.contains("Threads by role"));
    load.kill().unwrap();
    load.wait().unwrap();
}

#[test]
fn watch_ends_with_openmetrics_and_reports_server_exit() {
    let (server, sandbox) = (Server::null(), Sandbox::without_load());
    let (port, metrics) = (server.port.to_string(), free_port());
    let mut watch: Command = sandbox.command(DYNO.as_ref());
    watch.args([
        "watch",
        "--port",
        &port,
        "-i",
        "200ms",
        "--outside",
        "--metrics",
        &format!("127.0.0.1:{metrics}"),
    ]);
    let watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let page = soon(|| {
        let mut stream = TcpStream::connect(("127.0.0.1", metrics)).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
        let mut page = String::new();
        stream.read_to_string(&mut page).ok()?;
        page.contains("dyno_watch_cpus ").then_some(page)
    });
    let page = page.expect("a look is on the page");
    assert!(
        page.ends_with("# EOF\n") && page.contains("dyno_watch_role_cpu_seconds{role="),
        "{page}"
    );
    drop(server);
    let output = watch.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("has ended"), "{}", text(&output));
}

/// A shell starts another shell, which ends after a second while its child continues. Then the
/// shell starts an orphan: its parent ends immediately, so that no sample shows the parent, and
/// only probes find it.
#[test]
fn watch_includes_processes_with_ended_parents() {
    let has_probes = match dyno_observer::probes::refusal() {
        None => true,
        Some(refusal) => {
            not_run(&format!("orphans of a watched server: {}", refusal.reason));
            false
        }
    };
    let sandbox = Sandbox::without_load();
    let script = "sh -c 'sleep 60 & sleep 1'; (sleep 60 &); sleep 60";
    let mut server = Command::new("setsid").args(["sh", "-c", script]).spawn().unwrap();
    let pid = server.id().to_string();
    let args = ["watch", "--pid", &pid, "-d", "3s", "-i", "250ms", "--format", "json"];
    let options: &[&str] = if has_probes { &[] } else { &["--outside"] };
    let output = sandbox.dyno(&[&args, options].concat());
    assert!(Command::new("pkill").args(["-9", "-s", &pid]).status().unwrap().success());
    server.wait().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let last = samples(&output.stdout).pop().unwrap();
    // The shell, its last sleep, the child of the ended shell, and the orphan.
    assert_eq!(last["processes"], if has_probes { 4 } else { 3 }, "{last:#}");
}

#[test]
fn watch_without_samples_leaves_no_page() {
    let sandbox = Sandbox::without_load();
    let mut server = Command::new("sleep").arg("0.5").spawn().unwrap();
    let (pid, page) = (server.id().to_string(), sandbox.path().join("page.html"));
    let page_name = page.to_str().unwrap();
    let reaped = std::thread::spawn(move || server.wait().unwrap());
    let output = sandbox.dyno(&[
        "watch",
        "--pid",
        &pid,
        "-i",
        "20s",
        "-d",
        "2s",
        "--outside",
        "--report",
        page_name,
    ]);
    reaped.join().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(
        !page.exists() && text(&output).contains("the observation ended before the first sample"),
        "{}",
        text(&output)
    );
    let output = sandbox.dyno(&["watch", "--pid", "1", "--report", "-"]);
    assert!(
        output.status.code() == Some(2) && text(&output).contains("name a file"),
        "{}",
        text(&output)
    );
}

/// `dyno watch … --report page.html | head -1`
#[test]
fn watch_with_closed_output_completes_its_page() {
    let sandbox = Sandbox::without_load();
    let pid = std::process::id().to_string();
    let watch = ["watch", "--pid", &pid, "-i", "200ms", "-d", "1400ms", "--outside"];
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(watch).args(["--format", "json", "--report", "page.html"]);
    let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first_line = String::new();
    BufReader::new(watch.stdout.take().unwrap()).read_line(&mut first_line).unwrap();
    assert!(first_line.contains("start_s"), "{first_line}");
    let output = watch.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141), "{}", text(&output));
    let page = std::fs::read_to_string(sandbox.path().join("page.html")).unwrap();
    let (_, watched) = page.split_once("<td>watched</td><td>").expect("the page has the length");
    let (seconds, _) = watched.split_once(" s<").expect("the length is in seconds");
    assert!(seconds.parse::<f64>().unwrap() >= 1.4, "the page covers the whole time: {seconds}");
}

#[test]
fn watch_ended_before_its_duration_exits_with_3() {
    let sandbox = Sandbox::without_load();
    let pid = std::process::id().to_string();
    let watch = ["watch", "--pid", &pid, "-i", "200ms", "--outside"];
    for (more, status) in [(&["-d", "1h", "--report", "page.html"][..], 3), (&[], 0)] {
        let mut command = sandbox.command(Path::new(DYNO));
        command.args(watch).args(more);
        let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().contains("CPUs"));
        send_signal(watch.id(), libc::SIGTERM);
        assert!(lines.map(Result::unwrap).any(|line| line.contains("watched")), "a summary");
        let output = watch.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{more:?}: {}", text(&output));
    }
    let page = std::fs::read_to_string(sandbox.path().join("page.html")).unwrap();
    assert!(page.contains("All readings"), "{page}");
}

#[test]
fn watch_reads_sockets_in_other_network() {
    let (sandbox, port) = (Sandbox::without_load(), free_port().to_string());
    let within = format!("ip link set lo up && exec {DYNO} serve-null --port {port}");
    let mut server = Command::new("unshare");
    server.args(["--net", "sh", "-c", &within]).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut server) = server.spawn() else {
        return not_run("a separate network namespace: there is no unshare");
    };
    let pid = server.id().to_string();
    let listens = soon(|| {
        if server.try_wait().unwrap().is_some() {
            return Some(false);
        }
        // 0A: it listens.
        let sockets = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).ok()?;
        sockets.lines().any(|line| line.contains(" 0A ")).then_some(true)
    });
    if listens != Some(true) {
        return not_run(
            "a separate network namespace: this user cannot create one, or there is no ip",
        );
    }
    let output =
        sandbox.dyno(&["watch", "--pid", &pid, "-d", "300ms", "--format", "json", "--outside"]);
    let by_port = sandbox.dyno(&["watch", "--port", &port, "-d", "300ms"]);
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let last = samples(&output.stdout).pop().unwrap();
    assert_eq!(last["sockets"]["listeners"][0]["port"].to_string(), port, "{last:#}");
    assert_eq!(
        by_port.status.code(),
        Some(2),
        "the server is in another network namespace: {}",
        text(&by_port)
    );
    assert!(text(&by_port).contains("another network namespace"), "{}", text(&by_port));
}
