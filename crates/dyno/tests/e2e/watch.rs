//! Tests `dyno watch` with a running server under load from another program.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::drive::{DYNO, Sandbox, Server, free_port, not_run, send_signal, soon, text};

fn samples(output: &[u8]) -> Vec<Value> {
    let text = String::from_utf8(output.to_vec()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

#[test]
fn watch_by_port_observes_server_until_it_ends() {
    let (sandbox, server) = (Sandbox::new(), Server::null());
    assert_loaded_server_is_observed(&sandbox, &server);
    assert_metrics_are_served_until_end(&sandbox, server);
}

fn assert_loaded_server_is_observed(sandbox: &Sandbox, server: &Server) {
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

fn assert_metrics_are_served_until_end(sandbox: &Sandbox, server: Server) {
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

/// Starts a script in a separate session, and in a separate network if this user may create one.
/// Returns whether the network is separate.
fn start_apart(script: &str) -> (Child, bool) {
    let has_network = Command::new("unshare")
        .args(["--net", "ip", "link", "set", "lo", "up"])
        .status()
        .is_ok_and(|status| status.success());
    if !has_network {
        not_run("a watched server in another network: no unshare, no ip, or no permission");
    }
    let network: &[&str] = if has_network { &["unshare", "--net"] } else { &[] };
    let mut command = Command::new("setsid");
    command.args(network).args(["sh", "-c", script]).stdout(Stdio::null()).stderr(Stdio::null());
    (command.spawn().unwrap(), has_network)
}

/// A shell starts a server and another shell, which ends after two seconds while its child
/// continues. Then the first shell starts an orphan: its parent ends immediately, so that no sample
/// shows the parent, and only probes find it.
#[test]
fn watch_includes_orphans_and_sockets_of_other_network() {
    let has_probes = match dyno_observer::probes::refusal() {
        None => true,
        Some(refusal) => {
            not_run(&format!("orphans of a watched server: {}", refusal.reason));
            false
        }
    };
    let (sandbox, port) = (Sandbox::without_load(), free_port());
    let script = format!(
        "ip link set lo up; {DYNO} serve-null --port {port} & sh -c 'sleep 60 & sleep 2'; (sleep \
         60 &); sleep 60"
    );
    let (mut server, has_network) = start_apart(&script);
    let pid = server.id().to_string();
    // 0A: it listens.
    let row = format!(":{port:04X} 00000000:0000 0A ");
    let listens = soon(|| {
        let sockets = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).ok()?;
        sockets.contains(&row).then_some(())
    });
    assert!(listens.is_some(), "the server did not listen");
    let args = ["watch", "--pid", &pid, "-d", "4s", "-i", "250ms", "--format", "json"];
    let options: &[&str] = if has_probes { &[] } else { &["--outside"] };
    let output = sandbox.dyno(&[&args, options].concat());
    let by_port = sandbox.dyno(&["watch", "--port", &port.to_string(), "-d", "300ms"]);
    assert!(Command::new("pkill").args(["-9", "-s", &pid]).status().unwrap().success());
    server.wait().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let last = samples(&output.stdout).pop().unwrap();
    // The shell, the server, the last sleep, the child of the ended shell, and the orphan.
    assert_eq!(last["processes"], if has_probes { 5 } else { 4 }, "{last:#}");
    assert_eq!(last["sockets"]["listeners"][0]["port"], port, "{last:#}");
    if has_network {
        assert_eq!(by_port.status.code(), Some(2), "{}", text(&by_port));
        assert!(text(&by_port).contains("another network namespace"), "{}", text(&by_port));
    }
}

/// A watch may end before its first sample, after its output, or by a signal.
#[test]
fn page_of_ended_watch_is_complete_or_absent() {
    let sandbox = Sandbox::without_load();
    assert_no_page_without_samples(&sandbox);
    assert_page_outlives_output(&sandbox);
    assert_page_is_written_after_signal(&sandbox);
}

fn assert_no_page_without_samples(sandbox: &Sandbox) {
    let mut server = Command::new("sleep").arg("0.5").spawn().unwrap();
    let (pid, page) = (server.id().to_string(), sandbox.path().join("no-samples.html"));
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
fn assert_page_outlives_output(sandbox: &Sandbox) {
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

/// A watch that is ended before its duration has the status 3.
fn assert_page_is_written_after_signal(sandbox: &Sandbox) {
    let pid = std::process::id().to_string();
    let watch = ["watch", "--pid", &pid, "-i", "200ms", "--outside"];
    for (more, status) in [(&["-d", "1h", "--report", "after-signal.html"][..], 3), (&[], 0)] {
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
    let page = std::fs::read_to_string(sandbox.path().join("after-signal.html")).unwrap();
    assert!(page.contains("All readings"), "{page}");
}
