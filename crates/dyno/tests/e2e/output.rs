//! Tests the additional output of `dyno load`: stream, histograms, metrics, CSV and plain lines.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use dyno_archive::Times;
use serde_json::{Value, json};

use crate::drive::{DYNO, Sandbox, Server, free_port, soon, text};

/// Options of a load of 500 requests in 1 s, after 100 in its warm-up, that writes every output.
#[rustfmt::skip]
const ALL_OUTPUTS: &[&str] = &[
    "-r", "500", "-d", "1s", "-w", "200ms", "--interval", "200ms",
    "--stream", "stream.ndjson", "--hgrm", "times.hgrm", "--hlog", "times.hlog",
    "--format", "csv", "-o", "intervals.csv",
];

#[test]
fn stream_and_histograms_are_complete() {
    let sandbox = Sandbox::new();
    let server = Server::broken(&[]);
    let url = format!("http://127.0.0.1:{}/only/good/1", server.port);
    let output = sandbox.dyno(&[&["load", &url][..], ALL_OUTPUTS].concat());
    // The status is 1 if the machine was too busy. The output is complete in that case as well.
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    let read = |name: &str| fs::read_to_string(sandbox.path().join(name)).unwrap();

    let stream: Vec<Value> =
        read("stream.ndjson").lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(
        (&stream[0]["schema"], &stream[0]["type"]),
        (&"dyno.stream/1".into(), &"begin".into())
    );
    assert_eq!(stream[0]["config"]["rate"], 500.0);
    let ok = |phase: &str| -> u64 {
        stream
            .iter()
            .filter(|line| line["phase"] == phase)
            .map(|line| line["ok"].as_u64().unwrap())
            .sum()
    };
    assert_eq!(ok("warmup") + ok("measured") + ok("drain"), 600);
    let histogram = Times::merge(
        &stream[1..]
            .iter()
            .filter(|line| line["phase"] != "warmup")
            .map(|line| serde_json::from_value(line["response_time_hdr"].clone()).unwrap())
            .collect::<Vec<Times>>(),
    );
    assert_eq!(histogram.count(), 500);

    let csv = read("intervals.csv");
    assert!(csv.starts_with("phase,start_s,end_s,ok,failed"), "{csv}");
    assert_eq!(csv.lines().filter(|line| line.starts_with("measured,")).count(), 5, "{csv}");

    let hgrm = read("times.hgrm");
    assert!(hgrm.contains("Total count    =          500]"), "{hgrm}");
    let logged: Vec<Times> = read("times.hlog")
        .lines()
        .filter(|line| !line.starts_with(['#', '"']) && !line.starts_with("Tag=warmup"))
        .map(|line| serde_json::from_value(line.rsplit(',').next().unwrap().into()).unwrap())
        .collect();
    assert_eq!(Times::merge(&logged), histogram, "the log and the stream have the same counts");
}

#[test]
fn metrics_are_served_during_load() {
    let sandbox = Sandbox::new();
    let server = Server::broken(&[]);
    let url = format!("http://127.0.0.1:{}/only/good/1", server.port);
    let addr = format!("127.0.0.1:{}", free_port());
    let mut dyno = sandbox.command(std::path::Path::new(DYNO));
    dyno.args(["load", &url, "-r", "200", "-d", "300s", "--interval", "100ms", "--metrics", &addr]);
    let dyno = dyno.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ok = |page: &str| -> f64 {
        let line = page
            .lines()
            .find(|l| l.starts_with("dyno_exchanges_total") && l.contains("outcome=\"ok\""))
            .unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let first = soon(|| fetch(&addr));
    let has_grown = |page: &String| ok(page) > first.as_deref().map_or(f64::INFINITY, ok);
    // A quantile needs 20 responses above it.
    let has_median = |page: &String| page.contains("quantile=\"0.5\"");
    let page = soon(|| fetch(&addr).filter(|page| has_grown(page) && has_median(page)));
    // After Ctrl-C the load still prints its result.
    let status =
        std::process::Command::new("kill").args(["-INT", &dyno.id().to_string()]).status().unwrap();
    assert!(status.success());
    let output = dyno.wait_with_output().unwrap();
    let page =
        page.unwrap_or_else(|| panic!("no counter that grows after {first:?}: {}", text(&output)));
    assert!(page.ends_with("# EOF\n") && page.contains("dyno_response_time_seconds{"), "{page}");
    assert!(!page.contains("quantile=\"0.9999\""), "{page}");
    assert!(text(&output).contains("This load was ended early"), "{}", text(&output));
}

fn fetch(addr: &str) -> Option<String> {
    let stream = std::net::TcpStream::connect(addr).ok()?;
    let answer = dyno_contract::client::get(stream, "/metrics", Duration::from_secs(60)).ok()?;
    (answer.status == 200).then(|| String::from_utf8(answer.body).unwrap())
}

#[test]
#[ignore = "long: runs in make nightly"]
fn calibration_is_quoted_in_later_results() {
    let sandbox = Sandbox::new();
    let output =
        sandbox.dyno(&["calibrate", "-d", "1s", "--format", "json", "--save", "calibrations"]);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["schema"], "dyno.calibration/1");
    assert_stored(&sandbox, &result, output.status.code());
    assert_eq!(result["refused"]["counted"], 100);
    assert_eq!(result["ceilings"].as_array().unwrap().len(), 8);
    assert!(
        result["ceilings"]
            .as_array()
            .unwrap()
            .iter()
            .all(|c| c["throughput_rps"].as_f64().unwrap() > 0.0)
    );
    assert_eq!(result["pacing"].as_array().unwrap().len(), 6);
    for row in result["stamps"].as_array().unwrap() {
        let (ours, kernel) = (&row["ours_us"], &row["kernel_us"]);
        assert_eq!(ours["count"], kernel["count"], "every response has both timestamps");
        assert!(
            ours["p50"].as_f64().unwrap() >= kernel["p50"].as_f64().unwrap(),
            "the kernel receives the bytes first: {row}"
        );
    }
    assert_saved(&sandbox, &result);
    assert!(result["not_measured"]["h2"].as_str().unwrap().contains("not support TLS"));
    sandbox.assert_nothing_is_left_soon();
    let server = Server::broken(&[]);
    let url = format!("http://127.0.0.1:{}/only/good/1", server.port);
    let output = sandbox.dyno(&["load", &url, "-n", "100", "--save", "kept"]);
    assert!(text(&output).contains("of the highest rate that the generator"), "{}", text(&output));
    // The saved result quotes the ceiling at that time, not one that was measured later.
    fs::remove_dir_all(sandbox.path().join("cache")).unwrap();
    let archive =
        fs::read_dir(sandbox.path().join("kept")).unwrap().next().unwrap().unwrap().path();
    let output = sandbox.dyno(&["report", archive.to_str().unwrap(), "--format", "json"]);
    assert!(text(&output).contains("of the highest rate that the generator"), "{}", text(&output));
}

/// Asserts that the ceilings of valid loads were stored. Then stores those of disturbed loads, too:
/// a later load is compared with them, also if the machine was disturbed meanwhile.
fn assert_stored(sandbox: &Sandbox, result: &Value, status: Option<i32>) {
    let rows = ["ceilings", "pacing", "stamps"];
    let mut rows = rows.iter().flat_map(|key| result[key].as_array().unwrap());
    assert_eq!(status, Some(i32::from(rows.any(|row| !row["disturbed"].is_null()))), "{result:#}");
    let file = sandbox.path().join("cache/calibration.json");
    // Without a valid ceiling, no file is written.
    let mut stored = fs::read(&file).map_or_else(
        |_| json!({"machine": result["machine"], "ceilings": []}),
        |bytes| serde_json::from_slice(&bytes).unwrap(),
    );
    let ceilings = result["ceilings"].as_array().unwrap();
    let valid = ceilings.iter().filter(|row| row["disturbed"].is_null());
    let numbers = |rows: &[&Value]| -> Vec<f64> {
        rows.iter().map(|row| row["throughput_rps"].as_f64().unwrap()).collect()
    };
    let stored_rows: Vec<&Value> =
        stored["ceilings"].as_array().unwrap().iter().map(|kind| &kind["ceiling"]).collect();
    assert_eq!(numbers(&stored_rows), numbers(&valid.collect::<Vec<_>>()));
    stored["ceilings"] = ceilings
        .iter()
        .map(|row| {
            let in_flight_each =
                row["pipeline"].as_u64().unwrap() * row["streams"].as_u64().unwrap();
            json!({
                "driver": row["driver"], "protocol": row["protocol"],
                "pipelined": in_flight_each > 1, "in_flight_each": in_flight_each,
                "ceiling": {"throughput_rps": row["throughput_rps"], "measured": "2026-01-02"},
            })
        })
        .collect();
    fs::write(&file, stored.to_string()).unwrap();
}

/// Asserts that the archive of a calibration has the loads of the null responder, in their order.
fn assert_saved(sandbox: &Sandbox, result: &Value) {
    let archive =
        fs::read_dir(sandbox.path().join("calibrations")).unwrap().next().unwrap().unwrap().path();
    let output = sandbox.dyno(&["report", archive.to_str().unwrap(), "--format", "json"]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut trials: Vec<&Value> = report["trials"].as_array().unwrap().iter().collect();
    trials.sort_by_key(|trial| trial["place"].as_u64());
    let rows = |key: &str| result[key].as_array().unwrap().clone();
    let (ceilings, pacing, stamps) = (rows("ceilings"), rows("pacing"), rows("stamps"));
    assert_eq!(
        trials.len(),
        8 + 6 + 4,
        "the load of a closed port is not a trial of the responder"
    );
    for (row, trial) in ceilings.iter().zip(&trials) {
        assert_eq!(row["throughput_rps"], trial["load"]["throughput_rps"]);
        for key in ["driver", "protocol", "connections", "pipeline", "streams"] {
            assert_eq!(row[key], trial["load"]["config"][key], "{key}");
        }
    }
    for (row, trial) in pacing.iter().zip(&trials[8..]) {
        for key in ["response_time_us", "send_lag_us"] {
            assert_eq!(row[key], trial["load"][key], "{key}");
        }
        assert_eq!(row["spin"], trial["load"]["config"]["spin"]);
    }
    let stamped: Vec<&Value> =
        trials[14..].iter().map(|t| &t["load"]["kernel_response_time_us"]).collect();
    let stamped: Vec<&Value> = stamped.into_iter().filter(|times| !times.is_null()).collect();
    assert_eq!(stamps.iter().map(|row| &row["kernel_us"]).collect::<Vec<_>>(), stamped);
    let arms: std::collections::BTreeSet<&str> =
        trials.iter().map(|t| t["subject_id"].as_str().unwrap()).collect();
    assert!(
        arms.contains("epoll, spin never") && arms.contains("epoll, spin auto, kernel stamps"),
        "{arms:?}"
    );
}

/// A port in use, and a source address of another machine.
#[test]
fn load_that_cannot_begin_leaves_its_stream_as_it_is() {
    let sandbox = Sandbox::new();
    let server = Server::null();
    let url = server.url("/plaintext");
    let path = sandbox.path().join("stream.ndjson");
    let taken = format!("127.0.0.1:{}", server.port);
    for (option, value, status) in [("--metrics", taken.as_str(), 2), ("--source", "192.0.2.1", 3)]
    {
        let arguments = ["load", &url, "-n", "10", "--stream", "stream.ndjson", option, value];
        for before in [None, Some("lines of an earlier load\n")] {
            before.inspect(|text| fs::write(&path, text).unwrap());
            let output = sandbox.dyno(&arguments);
            assert_eq!(output.status.code(), Some(status), "{}", text(&output));
            assert_eq!(fs::read_to_string(&path).ok().as_deref(), before, "{option}");
        }
        fs::remove_file(&path).unwrap();
    }
}

/// Standard output is a full pipe, as of a pager that waits for its user.
#[test]
fn stalled_reader_of_stream_does_not_stop_load() {
    let sandbox = Sandbox::new();
    let server = Server::null();
    let url = server.url("/plaintext");
    let messages = sandbox.path().join("messages");
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(["load", &url, "-w", "0s", "-d", "2s", "--interval", "10ms", "--stream", "-"]);
    command.args(["--format", "json", "-o", "result.json"]);
    command.stdout(Stdio::piped()).stderr(fs::File::create(&messages).unwrap());
    let mut child = command.spawn().unwrap();
    let unread = child.stdout.take();
    let status = soon(|| child.try_wait().unwrap());
    // Unless it has already ended, it would wait forever.
    let _ = child.kill();
    drop(unread);
    let messages = fs::read_to_string(&messages).unwrap();
    assert!(status.and_then(|status| status.code()).is_some_and(|code| code <= 1), "{messages}");
    assert!(messages.contains("missing, because the reader was too slow"), "{messages}");
    let result: Value =
        serde_json::from_slice(&fs::read(sandbox.path().join("result.json")).unwrap()).unwrap();
    let intervals = result["intervals"].as_array().unwrap();
    let measured = intervals.iter().filter(|interval| interval["phase"] != "drain").count();
    assert_eq!(measured, 200, "{messages}");
}

/// The text repeats a path that has the value of a secret header. In CI such a text is shared.
#[test]
fn plan_as_text_withholds_values_of_secret_headers() {
    let sandbox = Sandbox::without_load();
    let path = sandbox.write_suite(&["null"], "");
    let suite = fs::read_to_string(&path).unwrap().replace(
        "path = \"/plaintext\"\n",
        "path = \"/plaintext?page=abc125xyz\"\nheaders = { X-Api-Key = \"abc125xyz\" }\n",
    );
    fs::write(&path, suite).unwrap();
    let output = text(&sandbox.dyno(&["plan", "suite.toml"]));
    assert!(output.contains("/plaintext?page=(withheld) over"), "{output}");
    assert!(output.contains("1 value that may be secret: replaced by (withheld)"), "{output}");
    assert!(!output.contains("abc125xyz"), "{output}");
}

#[test]
fn load_as_text_withholds_values_of_secret_headers() {
    let sandbox = Sandbox::new();
    let server = Server::null();
    let url = server.url("/plaintext?page=abc125xyz");
    let arguments = ["load", &url, "-n", "10", "-H", "X-Api-Key: abc125xyz"];
    // The server knows no path with a query. An unexpected status ends the load with an error.
    for (status, more) in [
        ("404", &[][..]),
        ("404", &["-o", "result.txt"]),
        ("404", &["--stream", "-"]),
        ("200", &[]),
    ] {
        let arguments = [&arguments[..], &["--expect-status", status], more].concat();
        let output = sandbox.dyno(&arguments);
        let is_stream = more.first() == Some(&"--stream");
        // The first line of the stream has the whole URL.
        let result = if is_stream {
            String::from_utf8_lossy(&output.stderr).into_owned()
        } else {
            let file = fs::read_to_string(sandbox.path().join("result.txt"));
            text(&output) + &file.unwrap_or_default()
        };
        assert!(status == "200" || result.contains("page=(withheld)"), "{arguments:?}: {result}");
        assert!(!result.contains("abc125xyz"), "{arguments:?}: {result}");
    }
}

#[test]
fn other_histogram_is_written_if_one_fails() {
    let sandbox = Sandbox::new();
    let server = Server::null();
    let url = server.url("/plaintext");
    let files = ["--hgrm", "/dev/full", "--hlog", "times.hlog"];
    let output = sandbox.dyno(&[&["load", &url, "-n", "100"][..], &files].concat());
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(sandbox.path().join("times.hlog").exists(), "{}", text(&output));
}

/// The limit is that of `ulimit -f`. Without a handler, the kernel ends a program that exceeds it.
#[test]
fn result_above_file_size_limit_is_a_write_error() {
    let server = Server::null();
    let url = server.url("/plaintext");
    for output_option in ["-o", "--stream", "--save", ">"] {
        let sandbox = Sandbox::new();
        let script = format!(
            "ulimit -f 4; exec {DYNO} load {url} -d 1s -c 1 --interval 10ms --no-tui --format \
             json {output_option} out"
        );
        let output = sandbox.command(Path::new("sh")).args(["-c", &script]).output().unwrap();
        let message = text(&output);
        assert_eq!(output.status.code(), Some(3), "{output_option}: {message}");
        assert!(message.contains("File too large"), "{output_option}: {message}");
        let names = fs::read_dir(sandbox.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> =
            names.filter(|name| name.to_string_lossy().starts_with(".dyno")).collect();
        assert!(left.is_empty(), "{output_option}: {left:?}");
    }
}

/// Runs dyno with a file as standard output, as `>> results` does. The file keeps its content.
/// Returns the exit status, the added content, and the messages.
fn append_to_results(sandbox: &Sandbox, arguments: &[&str]) -> (i32, String, String) {
    let file = sandbox.path().join("results");
    fs::write(&file, "old\n").unwrap();
    let results = fs::File::options().append(true).open(&file).unwrap();
    let output = sandbox.command(Path::new(DYNO)).args(arguments).stdout(results).output().unwrap();
    let (content, messages) = (fs::read_to_string(&file).unwrap(), text(&output));
    let added = content.strip_prefix("old\n");
    let added = added.unwrap_or_else(|| panic!("{arguments:?}: {content}{messages}"));
    (output.status.code().unwrap(), added.into(), messages)
}

fn assert_json_lines(lines: &str) {
    assert!(lines.lines().count() > 1, "{lines}");
    for line in lines.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    }
}

#[test]
fn file_of_standard_output_keeps_its_content() {
    let (sandbox, server) = (Sandbox::new(), Server::null());
    let url = server.url("/plaintext");
    for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "results"] {
        let load = |options: &[&str]| {
            append_to_results(&sandbox, &[&["load", &url, "-n", "100"], options].concat())
        };
        let (status, added, messages) = load(&["--format", "json", "-o", name]);
        assert!(status <= 1, "{name}: {messages}");
        assert!(serde_json::from_str::<Value>(&added).is_ok(), "{name}: {added}");
        let (status, added, messages) = load(&["--stream", name]);
        assert!(status <= 1 && messages.contains("requests/s"), "{name}: {messages}");
        assert_json_lines(&added);
        // Two outputs in one file would mix.
        for options in [
            &["--hgrm", name][..],
            &["--hlog", name],
            &["--stream", name, "--format", "json", "-o", name],
        ] {
            let (status, added, messages) = load(options);
            assert_eq!((status, &*added), (2, ""), "{options:?}: {messages}");
        }
        let watch = ["watch", "--pid", "1", "--report", name];
        assert_eq!(append_to_results(&sandbox, &watch).0, 2, "{name}");
    }
    let output = sandbox.dyno(&["load", &url, "-n", "100", "--save", "kept"]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    let archive =
        fs::read_dir(sandbox.path().join("kept")).unwrap().next().unwrap().unwrap().path();
    let report = ["report", archive.to_str().unwrap(), "--format", "json", "-o"];
    let (_, added, _) = append_to_results(&sandbox, &[&report[..], &["/dev/stdout"]].concat());
    assert!(serde_json::from_str::<Value>(&added).is_ok(), "{added}");
}

/// dyno and its shell write to one open file, each after the other.
#[test]
fn open_file_of_shell_keeps_its_content() {
    let (sandbox, server) = (Sandbox::new(), Server::null());
    let url = server.url("/plaintext");
    for option in ["--stream", "--format json -o"] {
        let _ = fs::remove_file(sandbox.path().join("out"));
        let script = format!(
            "exec 3>>out; echo old >&3; {DYNO} load {url} -n 100 {option} /dev/fd/3; echo new >&3"
        );
        let output = sandbox.command(Path::new("sh")).args(["-c", &script]).output().unwrap();
        let content = fs::read_to_string(sandbox.path().join("out")).unwrap();
        let added = content.strip_prefix("old\n").and_then(|rest| rest.strip_suffix("new\n"));
        let added = added.unwrap_or_else(|| panic!("{option}: {content}{}", text(&output)));
        match option {
            "--stream" => assert_json_lines(added),
            _ => assert!(serde_json::from_str::<Value>(added).is_ok(), "{added}"),
        }
    }
}
