//! Tests the orders of subjects: running together and loaded in turns, or started in a fixed order.

use std::fs;

use serde_json::Value;

use crate::drive::{Sandbox, text};

/// Runs two subjects in turns of 100 ms, with one step of 800 ms each.
fn run(sandbox: &Sandbox, subjects: &[&str], repeats: u32) -> (i32, Value) {
    run_ordered(sandbox, subjects, repeats, "order = \"interleaved\"\nslice = \"100ms\"")
}

/// Runs two subjects in an order, one step of 800 ms each.
fn run_ordered(sandbox: &Sandbox, subjects: &[&str], repeats: u32, order: &str) -> (i32, Value) {
    let suite = format!(
        "subjects = {subjects:?}\n[suite]\nrepeats = {repeats}\n{order}\nseed = 7\n\
         [[workloads]]\npath = \"/plaintext\"\n\
         expect = {{ status = 200, body = \"Hello, World!\" }}\n\
         [load]\nconnections = [4]\nwarmup = \"400ms\"\nduration = \"800ms\"\ntimeout = \"5s\"\n"
    );
    fs::write(sandbox.path().join("turns.toml"), suite).unwrap();
    let output = sandbox.dyno(&["run", "turns.toml"]);
    assert!(sandbox.run_folder().is_some(), "no run:\n{}", text(&output));
    sandbox.assert_nothing_is_left();
    (output.status.code().unwrap(), sandbox.report())
}

fn trials<'a>(report: &'a Value, subject: &str) -> Vec<&'a Value> {
    report["trials"].as_array().unwrap().iter().filter(|t| t["subject_id"] == subject).collect()
}

#[test]
fn servers_in_turns_are_idle_between() {
    let sandbox = Sandbox::new();
    sandbox.add_unruly("other", &[], "");
    let (_, report) = run(&sandbox, &["null", "other"], 2);
    for block in 0..2 {
        let pair = ["null", "other"].map(|subject| trials(&report, subject)[block]);
        let began = pair.map(|trial| trial["turns"]["began_ns"].as_u64().unwrap());
        assert_eq!(began[0], began[1], "both subjects began at the same instant");
        for trial in pair {
            assert_eq!(trial["load"]["duration_s"], 0.8, "each subject has as much time as alone");
            let rounds = trial["turns"]["rounds"].as_array().unwrap();
            assert_eq!(rounds.len(), 4, "rounds of two turns of 100 ms");
            assert!(
                rounds.iter().all(|round| round["throughput_rps"].as_f64().unwrap() > 0.0),
                "{rounds:?}"
            );
            let n = |key: &str| trial["load"]["exchanges"][key].as_u64().unwrap();
            assert_eq!(n("carried_in") + n("scheduled"), n("started") + n("dropped"));
            assert_eq!(
                n("started"),
                n("completed"),
                "requests in flight at the end of a turn had responses"
            );
        }
    }
}

/// In a fixed order, a difference between two subjects may be caused by their positions.
#[test]
fn fixed_order_starts_alike_and_ranks_no_subject() {
    let sandbox = Sandbox::new();
    sandbox.add_unruly("second", &[], "");
    sandbox.add_unruly("first", &[], "");
    let (_, report) = run_ordered(&sandbox, &["second", "first"], 5, "order = \"fixed\"");
    let all = report["trials"].as_array().unwrap();
    let order: Vec<&str> = all.iter().map(|t| t["subject_id"].as_str().unwrap()).collect();
    assert_eq!(order, ["second", "first"].repeat(5));
    let has_caveat =
        report["caveats"].as_array().unwrap().iter().any(|c| c["code"] == "fixed_order");
    assert!(has_caveat, "{}", report["caveats"]);
    for row in report["overview"].as_array().unwrap() {
        assert_eq!((&row["places"], &row["tie_group"]), (&Value::Null, &Value::Null), "{row}");
    }
}

#[test]
fn crash_in_turns_preserves_other_trial() {
    let sandbox = Sandbox::new();
    sandbox.add_unruly("bad", &["--mode", "crash", "--after", "300"], "");
    let (status, report) = run(&sandbox, &["bad", "null"], 1);
    assert_eq!(status, 3, "the exit status of a run with a failed subject");
    let [null] = trials(&report, "null")[..] else { panic!("{report:#}") };
    assert_eq!((null["load"]["duration_s"].as_f64(), &null["turns"]), (Some(0.8), &Value::Null));
    let bad = report["subjects"].as_array().unwrap().iter().find(|s| s["name"] == "bad").unwrap();
    assert_eq!(bad["failures"][0]["kind"], "crashed");
}

/// Two subjects of a duet and a control, with one step of 600 ms each.
const DUET: &str = "subjects = [\"one\", \"null\", \"other\"]\n[suite]\nrepeats = 2\n\
    order = \"duet\"\nseed = 7\ncontaminated = \"counts\"\n\
    [[workloads]]\npath = \"/plaintext\"\n\
    expect = { status = 200, body = \"Hello, World!\" }\n\
    [load]\nconnections = [4]\nwarmup = \"200ms\"\nduration = \"600ms\"\n\
    interval = \"100ms\"\ntimeout = \"5s\"\n";

#[test]
fn duet_run_reports_cost_per_request() {
    let sandbox = Sandbox::new();
    sandbox.add_unruly("one", &[], "");
    sandbox.add_unruly("other", &[], "");
    fs::write(sandbox.path().join("duet.toml"), DUET).unwrap();
    let output = sandbox.dyno(&["run", "duet.toml"]);
    assert!(sandbox.run_folder().is_some(), "no run:\n{}", text(&output));
    sandbox.assert_nothing_is_left();
    let report = sandbox.report();
    for block in 0..2 {
        let pair = ["one", "other"].map(|subject| trials(&report, subject)[block]);
        let began = pair.map(|trial| trial["duet"]["began_ns"].as_u64().unwrap());
        assert_eq!(began[0], began[1], "both subjects began at the same instant");
        pair.into_iter().for_each(assert_loaded_at_once);
        let alone = trials(&report, "null")[block];
        assert_eq!(
            (&alone["duet"], alone["load"]["duration_s"].as_f64()),
            (&Value::Null, Some(0.6))
        );
    }
    let summary = |subject: &str| {
        report["summaries"].as_array().unwrap().iter().find(|s| s["subject"] == subject).unwrap()
    };
    for subject in ["one", "other"] {
        let metrics = &summary(subject)["metrics"];
        assert!(
            metrics.get("throughput_rps").is_none() && metrics.get("response_p99_us").is_none(),
            "{metrics:#}"
        );
        // A busy machine may stop the generator, which makes a trial invalid.
        let valid = trials(&report, subject).iter().filter(|trial| trial["valid"] == true).count();
        let values = metrics["server_cpu_us_per_request"]["values"].as_array().map_or(0, Vec::len);
        assert_eq!(values, valid, "{metrics:#}");
    }
    let duets = report["duets"].as_array().unwrap();
    let [only] = &duets[..] else { panic!("{duets:#?}") };
    assert_eq!((&only["from"], &only["to"]), (&Value::from("one"), &Value::from("other")));
    let compared: Vec<&str> = only["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["metric"].as_str().unwrap())
        .collect();
    assert_eq!(compared, ["server_cpu_us_per_request", "server_memory_bytes"]);
    let page = fs::read_to_string(sandbox.run_folder().unwrap().join("report.html")).unwrap();
    assert!(page.contains("Twins and duets"));
}

/// Asserts that a trial of [`DUET`] shared its time with the other subject.
fn assert_loaded_at_once(trial: &Value) {
    assert_eq!(
        (&trial["duet"]["loads"], &trial["load"]["duration_s"]),
        (&Value::from(2), &Value::from(1.2))
    );
    let rounds = trial["duet"]["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 2, "rounds of half a second or more");
    let caveats = trial["caveats"].as_array().unwrap();
    let codes: Vec<&str> = caveats.iter().map(|c| c["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"at_once") && !codes.contains(&"generator_starved"), "{codes:?}");
}
