//! Tests saved loads (`--save`): every command that reads archives reads theirs, with the numbers
//! of the load itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::drive::{DYNO, Sandbox, Server, soon, text};

/// Returns the only archive in a folder of this sandbox.
fn only_in(sandbox: &Sandbox, folder: &str) -> PathBuf {
    let mut entries = fs::read_dir(sandbox.path().join(folder)).unwrap();
    let archive = entries.next().expect("nothing is kept").unwrap().path();
    assert!(entries.next().is_none(), "the folder has more than one archive");
    archive
}

fn report(sandbox: &Sandbox, archive: &Path, form: &str) -> (Option<i32>, String) {
    let output = sandbox.dyno(&["report", archive.to_str().unwrap(), "--format", form]);
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

fn json_report(sandbox: &Sandbox, archive: &Path) -> (Option<i32>, Value) {
    let (status, report) = report(sandbox, archive, "json");
    (status, serde_json::from_str(&report).unwrap())
}

/// Returns the load of the only trial as `dyno load` reports it: with the complete address, which
/// plans do not have.
fn load_result(report: &Value, url: &str) -> Value {
    assert_eq!(report["trials"].as_array().unwrap().len(), 1);
    let mut load = report["trials"][0]["load"].clone();
    load["config"]["url"] = url.into();
    load
}

#[test]
fn report_of_saved_load_matches_load() {
    let sandbox = Sandbox::new();
    let server = Server::null();
    let url = server.url("/plaintext");
    let shapes: [&[&str]; 5] = [
        &["-c", "4", "-n", "2000"],
        &["-c", "4", "-d", "300ms", "--driver", "epoll", "--seed", "7"],
        &["-c", "8", "-r", "500..2k", "-d", "300ms", "-w", "100ms"],
        &["-c", "2", "-n", "500", "--protocol", "h2c", "-m", "4"],
        // A page of HTTP/2 has one connection.
        &["-c", "2", "-n", "500", "--protocol", "h2c", "--resource", "/plaintext*3"],
    ];
    for (i, shape) in shapes.into_iter().enumerate() {
        let archive_name = format!("kept-{i}");
        let mut arguments = vec!["load", &url, "--format", "json", "--save", &archive_name];
        arguments.extend(shape);
        let output = sandbox.dyno(&arguments);
        let printed: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{shape:?}: {error}: {}", text(&output)));
        let archive = only_in(&sandbox, &archive_name);
        assert!(
            text(&output).contains(&format!("dyno report {archive_name}/load-")),
            "{}",
            text(&output)
        );
        let (status, report) = json_report(&sandbox, &archive);
        assert_eq!(status, output.status.code(), "{shape:?}");
        assert_eq!(load_result(&report, &url), printed, "{shape:?}");
        let trial = &report["trials"][0];
        assert_eq!(
            (&trial["valid"], &trial["caveats"]),
            (&printed["valid"], &printed["caveats"]),
            "{shape:?}"
        );
        // The server was not monitored: its usage is unknown, not zero.
        assert!(
            trial["server"]["cpu_utilisation"].is_null() && trial["server"]["rss_bytes"].is_null()
        );
        assert_eq!(report["subjects"][0]["name"], server.url("").trim_start_matches("http://"));
    }
}

#[test]
fn every_report_form_says_server_was_not_monitored() {
    let sandbox = Sandbox::new();
    let server = Server::null();
    let output = sandbox.dyno(&[
        "load",
        &server.url("/plaintext"),
        "-c",
        "2",
        "-n",
        "200",
        "--save",
        "kept",
    ]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    let archive = only_in(&sandbox, "kept");
    for form in ["text", "html", "md", "json"] {
        let (_, page) = report(&sandbox, &archive, form);
        // The terminal form breaks lines.
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            page.contains("its start-up, CPU time, memory and checks are unknown"),
            "{form}: {page}"
        );
    }
    let (_, table) = report(&sandbox, &archive, "csv");
    let mut rows = csv::Reader::from_reader(table.as_bytes());
    let columns = rows.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    let cell = |name: &str| rows[0].get(columns.iter().position(|c| c == name).unwrap()).unwrap();
    assert_eq!((rows.len(), cell("server_cpu_utilisation"), cell("server_rss_bytes")), (1, "", ""));
}

#[test]
fn saved_secrets_are_withheld_from_reports() {
    let sandbox = Sandbox::new();
    let server = Server::null();
    let url = server.url("/plaintext?token=q1w2e3r4t5y6");
    let header = "Authorization: Bearer a1s2d3f4g5h6";
    let output =
        sandbox.dyno(&["load", &url, "-H", header, "-c", "1", "-n", "10", "--save", "kept"]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    let archive = only_in(&sandbox, "kept");
    let run = fs::read_to_string(archive.join("run.json")).unwrap();
    let secrets = ["q1w2e3r4t5y6", "a1s2d3f4g5h6"];
    assert!(
        secrets.iter().all(|secret| run.contains(secret)),
        "the archive needs the secrets for another load"
    );
    let run: Value = serde_json::from_str(&run).unwrap();
    let name_and_title = run["plan"]["subjects"].to_string();
    assert!(secrets.iter().all(|secret| !name_and_title.contains(secret)), "{name_and_title}");
    for form in ["text", "html", "md", "csv", "json"] {
        let (_, page) = report(&sandbox, &archive, form);
        assert!(secrets.iter().all(|secret| !page.contains(secret)), "{form}: {page}");
    }
}

#[test]
fn interrupted_load_is_saved() {
    let sandbox = Sandbox::new();
    let server = Server::null();
    let mut dyno = sandbox.command(Path::new(DYNO));
    let arguments =
        ["-c", "2", "-d", "300s", "--interval", "50ms", "--stream", "stream", "--save", "kept"];
    dyno.args(["load", &server.url("/plaintext")]).args(arguments);
    let dyno = dyno.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stream = || fs::read_to_string(sandbox.path().join("stream")).unwrap_or_default();
    let came = soon(|| stream().contains("\"type\":\"interval\"").then_some(()));
    let status = Command::new("kill").args(["-INT", &dyno.id().to_string()]).status().unwrap();
    assert!(status.success());
    let output = dyno.wait_with_output().unwrap();
    assert!(came.is_some(), "{}", text(&output));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let archive = only_in(&sandbox, "kept");
    let (status, report) = json_report(&sandbox, &archive);
    assert_eq!(status, Some(3));
    let trial = &report["trials"][0];
    assert!(trial["load"]["exchanges"]["completed"].as_u64().unwrap() > 0);
    assert!(
        trial["caveats"].as_array().unwrap().iter().any(|c| c["code"] == "cut_short"),
        "{trial}"
    );
    // An interrupt by the user is not a failure of the server.
    assert_eq!(report["subjects"][0]["failures"].as_array().unwrap().len(), 0);
}

#[test]
fn unwritable_archive_is_reported_before_load() {
    let sandbox = Sandbox::new();
    let server = Server::start(&[]);
    fs::write(sandbox.path().join("file"), "mine").unwrap();
    let output = sandbox.dyno(&["load", &server.url("/plaintext"), "-n", "10", "--save", "file"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("--save file: cannot be written"), "{}", text(&output));
    assert_eq!(server.count(), 0, "the server received no request");
    assert_eq!(fs::read_to_string(sandbox.path().join("file")).unwrap(), "mine");
}

#[test]
fn saved_load_that_cannot_begin_has_reason() {
    let sandbox = Sandbox::new();
    let output = sandbox.dyno(&["load", "http://127.0.0.1:1/", "-c", "4000000", "--save", "kept"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let (status, report) = json_report(&sandbox, &only_in(&sandbox, "kept"));
    assert_eq!(status, Some(3));
    let failure = &report["subjects"][0]["failures"][0];
    assert_eq!(failure["kind"], "harness");
    assert!(failure["message"].as_str().unwrap().contains("ulimit -n"), "{failure}");
}

#[test]
fn saved_load_with_incorrect_response_has_reason() {
    let sandbox = Sandbox::new();
    let server = Server::null();
    let arguments = ["-n", "10", "--expect-contains", "Goodbye", "--save", "kept"];
    let output = sandbox.dyno(&[&["load", &server.url("/plaintext")][..], &arguments].concat());
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let archive = only_in(&sandbox, "kept");
    let printed = text(&output);
    assert!(
        printed.contains("The load did not begin. The reason is saved.")
            && printed.contains("dyno report kept/load-"),
        "{printed}"
    );
    let (status, report) = json_report(&sandbox, &archive);
    assert_eq!((status, report["trials"].as_array().unwrap().len()), (Some(3), 0));
    let failure = &report["subjects"][0]["failures"][0];
    let message = failure["message"].as_str().unwrap();
    assert!(message.contains("a test request before the load"), "{failure}");
    assert!(printed.contains(message), "{failure}");
}

#[test]
fn killed_load_leaves_run_without_result() {
    let sandbox = Sandbox::new();
    let server = Server::null();
    let mut dyno = sandbox.command(Path::new(DYNO));
    dyno.args(["load", &server.url("/plaintext"), "-c", "2", "-d", "300s", "--save", "kept"]);
    let mut dyno = dyno.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = soon(|| {
        let mut entries = fs::read_dir(sandbox.path().join("kept")).ok()?;
        entries.next()?.unwrap().path().join("run.json").is_file().then_some(())
    });
    dyno.kill().unwrap();
    dyno.wait().unwrap();
    assert!(begun.is_some(), "no archive was created before the load");
    let (status, report) = report(&sandbox, &only_in(&sandbox, "kept"), "text");
    assert_eq!(status, Some(3), "{report}");
    assert!(report.contains("No results yet."), "{report}");
}

#[test]
fn interrupted_calibration_saves_loads_only() {
    let sandbox = Sandbox::new();
    let mut dyno = sandbox.command(Path::new(DYNO));
    dyno.args(["calibrate", "-d", "1s", "--save", "kept"]);
    let dyno = dyno.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let first = soon(|| {
        let archive = fs::read_dir(sandbox.path().join("kept")).ok()?.next()?.unwrap().path();
        archive.join("trials/0000.json").is_file().then_some(())
    });
    let status = Command::new("kill").args(["-INT", &dyno.id().to_string()]).status().unwrap();
    assert!(status.success());
    let output = dyno.wait_with_output().unwrap();
    assert!(first.is_some(), "{}", text(&output));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(
        text(&output).contains("limits of the load generator were not saved"),
        "{}",
        text(&output)
    );
    assert!(!sandbox.path().join("cache/calibration.json").exists());
    let (status, report) = json_report(&sandbox, &only_in(&sandbox, "kept"));
    let trials = report["trials"].as_array().unwrap().len();
    assert!(status == Some(3) && (1..18).contains(&trials), "{status:?}, {trials} trials");
    sandbox.assert_nothing_is_left_soon();
}

/// Returns the process ID of the null responder that this dyno process started.
fn responder_pid(dyno: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{dyno}/task/{dyno}/children")).ok()?;
    let is_null = |pid: &&str| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.windows(10).any(|part| part == b"serve-null"))
    };
    children.split_whitespace().find(is_null)?.parse().ok()
}

#[test]
fn calibration_without_responder_fails() {
    let sandbox = Sandbox::new();
    let mut dyno = sandbox.command(Path::new(DYNO));
    let dyno = dyno
        .args(["calibrate", "-d", "1s", "--save", "kept"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let null = soon(|| responder_pid(dyno.id()));
    let killed =
        null.map(|pid| Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap());
    let output = dyno.wait_with_output().unwrap();
    assert!(killed.is_some_and(|status| status.success()), "{}", text(&output));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("null responder"), "{}", text(&output));
    let archive = only_in(&sandbox, "kept");
    let command = format!("dyno report kept/{}", archive.file_name().unwrap().display());
    assert!(text(&output).contains(&command), "{}", text(&output));
    assert!(!sandbox.path().join("cache/calibration.json").exists());
}

#[test]
fn calibration_keeps_unreadable_file_of_ceilings() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path().join("cache")).unwrap();
    let file = sandbox.path().join("cache/calibration.json");
    fs::write(&file, "notes").unwrap();
    let output = sandbox.dyno(&["calibrate", "-d", "1s"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("calibration.json: is not a file of ceilings"));
    assert!(!text(&output).contains("ceiling,"), "before the measurements: {}", text(&output));
    assert_eq!(fs::read_to_string(&file).unwrap(), "notes");
}

#[test]
fn calibration_checks_outputs_first() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path().join("file"), "mine").unwrap();
    for arguments in [["-o", "file/x"], ["--cache", "file"], ["--save", "file"]] {
        let output = sandbox.dyno(&[&["calibrate"][..], &arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(
            text(&output).contains("file") && !text(&output).contains("ceiling,"),
            "{}",
            text(&output)
        );
    }
    assert_eq!(fs::read_to_string(sandbox.path().join("file")).unwrap(), "mine");
}

#[test]
fn every_failed_output_is_reported() {
    let sandbox = Sandbox::new();
    let server = Server::null();
    fs::create_dir(sandbox.path().join("out")).unwrap();
    let mut dyno = sandbox.command(Path::new(DYNO));
    dyno.args([
        "load",
        &server.url("/plaintext"),
        "-c",
        "2",
        "-d",
        "2s",
        "--stream",
        "stream",
        "--save",
        "kept",
    ]);
    dyno.args(["-o", "out/result", "--hlog", "out/log"]);
    let dyno = dyno.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stream = || fs::read_to_string(sandbox.path().join("stream")).unwrap_or_default();
    let began = soon(|| stream().contains("begin").then_some(()));
    fs::remove_dir_all(sandbox.path().join("out")).unwrap();
    fs::remove_dir_all(only_in(&sandbox, "kept")).unwrap();
    let output = dyno.wait_with_output().unwrap();
    assert!(began.is_some(), "{}", text(&output));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    for part in ["out/result", "out/log", "starts/000.json"] {
        assert!(
            text(&output)
                .lines()
                .any(|line| line.contains(part) && line.contains("cannot be written")),
            "{part}: {}",
            text(&output)
        );
    }
    assert!(!text(&output).contains("are saved"), "{}", text(&output));
}

#[test]
fn resume_of_saved_load_is_refused() {
    let sandbox = Sandbox::new();
    let server = Server::null();
    let output =
        sandbox.dyno(&["load", &server.url("/plaintext"), "-c", "1", "-n", "10", "--save", "kept"]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    let archive = only_in(&sandbox, "kept");
    let output = sandbox.dyno(&["run", "--resume", archive.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("is not the run of a suite"), "{}", text(&output));
}

#[test]
fn trial_of_another_archive_is_refused() {
    let sandbox = Sandbox::new();
    let server = Server::null();
    let url = server.url("/plaintext");
    let archives = ["one", "two"].map(|name| {
        let output = sandbox.dyno(&["load", &url, "-n", "200", "--seed", "7", "--save", name]);
        assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
        only_in(&sandbox, name)
    });
    for (from, to) in [(0, 1), (1, 0)] {
        let file = archives[to].join("trials/0000.json");
        let own = fs::read(&file).unwrap();
        fs::copy(archives[from].join("trials/0000.json"), &file).unwrap();
        for arguments in [&["report"][..], &["compare", archives[from].to_str().unwrap()]] {
            let output = sandbox.dyno(&[arguments, &[archives[to].to_str().unwrap()]].concat());
            assert_eq!(output.status.code(), Some(2), "{}", text(&output));
            assert!(text(&output).contains("trials/0000.json"), "{}", text(&output));
            assert!(text(&output).contains("but start 0 of its server "), "{}", text(&output));
        }
        fs::write(&file, own).unwrap();
    }
}
