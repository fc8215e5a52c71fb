//! Tests calibrations: their archives, their interrupts, and the use of their results.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::drive::{DYNO, Sandbox, Server, only_in, send_signal, soon, text};
use crate::known_bottlenecks::calibrate;

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
    let archive = only_in(&sandbox.path().join("kept"));
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
    let archive = only_in(&sandbox.path().join("calibrations"));
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

/// Returns the process ID of the null responder that this dyno process started.
fn responder_pid(dyno: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{dyno}/task/{dyno}/children")).ok()?;
    let is_null = |pid: &&str| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.windows(10).any(|part| part == b"serve-null"))
    };
    children.split_whitespace().find(is_null)?.parse().ok()
}

/// Starts a calibration, calls `end` until it returns true, and returns the calibration's output.
fn ended_calibration(sandbox: &Sandbox, mut end: impl FnMut(u32) -> bool) -> Output {
    let mut dyno = sandbox.command(Path::new(DYNO));
    dyno.args(["calibrate", "-d", "1s", "--save", "kept"]);
    let dyno = dyno.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let has_ended = soon(|| end(dyno.id()).then_some(()));
    let output = dyno.wait_with_output().unwrap();
    assert!(has_ended.is_some(), "{}", text(&output));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(!sandbox.path().join("cache/calibration.json").exists());
    output
}

#[test]
fn ended_calibration_saves_loads_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    assert_loads_are_saved(&sandbox);
    interrupt_test_of_verdicts(&sandbox);
}

/// The user interrupts a calibration after its first load, and the responder of another is killed.
fn assert_loads_are_saved(sandbox: &Sandbox) {
    let kept = sandbox.path().join("kept");
    let first_trial = || {
        let archive = fs::read_dir(&kept).ok()?.next()?.unwrap().path();
        archive.join("trials/0000.json").is_file().then_some(())
    };
    let output = ended_calibration(sandbox, |dyno| {
        first_trial().map(|()| send_signal(dyno, libc::SIGINT)).is_some()
    });
    let unsaved = "limits of the load generator were not saved";
    assert!(text(&output).contains(unsaved), "{}", text(&output));
    let archive = only_in(&kept);
    let output = sandbox.dyno(&["report", archive.to_str().unwrap(), "--format", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let trials = report["trials"].as_array().unwrap().len();
    assert!(output.status.code() == Some(3) && (1..18).contains(&trials), "{trials} trials");
    sandbox.assert_nothing_is_left_soon();

    fs::remove_dir_all(&kept).unwrap();
    let output = ended_calibration(sandbox, |dyno| {
        responder_pid(dyno).map(|pid| send_signal(pid, libc::SIGKILL)).is_some()
    });
    assert!(text(&output).contains("null responder"), "{}", text(&output));
    let command = format!("dyno report kept/{}", only_in(&kept).file_name().unwrap().display());
    assert!(text(&output).contains(&command), "{}", text(&output));
}

/// In this test the machine is filled by another program, which must end, too.
fn interrupt_test_of_verdicts(sandbox: &Sandbox) {
    let only = ["--only", "other-programs,backend-serial"];
    let mut command = calibrate(sandbox, &only);
    command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let pid = child.id();
    let companion = || {
        let burns = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains("testkit --burn") && line.contains(sandbox.path().to_str().unwrap())
        };
        dyno_observer::proc::all_pids().into_iter().find(burns)
    };
    assert!(soon(companion).is_some(), "no other program was started");
    send_signal(pid, libc::SIGINT);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(3));
    sandbox.assert_nothing_is_left_soon();
    assert_eq!(companion(), None, "the other program still runs");
}
