//! Experiments on real servers, and the search for a capacity.

use std::fs;

use serde_json::Value;

use crate::drive::{Place, Server, text};

/// dyno's own responder, with twenty microseconds of work more per answer: several times what an answer costs.
#[test]
fn a_toggle_is_told_with_its_reason_and_a_twin_is_no_change() {
    let place = Place::new();
    let suite = "subjects = [\"null\"]\n[suite]\nrepeats = 5\ntwin = \"null, DYNO_NULL_WORK 0\"\n\
                 [experiment]\nkind = \"toggle\"\nfactor = \"work\"\nvary = { \"env.DYNO_NULL_WORK\" = [\"0\", \"20000\"] }\n\
                 [[workloads]]\npath = \"/plaintext\"\n\
                 [load]\nconnections = [4]\nwarmup = \"400ms\"\nduration = \"800ms\"\ntimeout = \"5s\"\n";
    fs::write(place.path().join("toggle.toml"), suite).unwrap();
    let output = place.dyno(&["run", "toggle.toml"]);
    assert!(place.run_folder().is_some(), "no run:\n{}", text(&output));
    place.assert_nothing_is_left();
    let report = place.report();
    assert!(
        report["trials"].as_array().unwrap().iter().all(|trial| !trial["turns"].is_null()),
        "they took turns"
    );
    let [effect] = report["experiment"]["effects"].as_array().unwrap().as_slice() else {
        panic!("{report:#}")
    };
    assert_eq!(effect["to"], "null, DYNO_NULL_WORK 20000");
    let because = effect["because"].as_str().unwrap();
    assert!(because.starts_with("work"), "{because}");
    // A machine that others use may spoil trials; from those that are left nothing is concluded then.
    let are_valid = report["trials"].as_array().unwrap().iter().all(|trial| trial["valid"] == true);
    let throughput = &effect["rows"][0];
    assert_eq!(throughput["metric"], "throughput_rps");
    if are_valid {
        assert_eq!(throughput["verdict"], "lower", "{throughput:#}");
        assert!(throughput["estimate"]["high"].as_f64().unwrap() < 0.9, "{throughput:#}");
    } else {
        assert!(
            ["lower", "too_few", "missing"].contains(&throughput["verdict"].as_str().unwrap()),
            "{throughput:#}"
        );
    }
    let [twin] = report["twins"].as_array().unwrap().as_slice() else { panic!("one twin: {report:#}") };
    assert_eq!((&twin["from"], &twin["changed"]), (&"null, DYNO_NULL_WORK 0".into(), &Value::Array(vec![])));
    assert_eq!(report["canary"]["starts"].as_array().unwrap().len(), 15);
    let page = fs::read_to_string(place.run_folder().unwrap().join("report.html")).unwrap();
    let reason = if throughput["verdict"] == "lower" { "Because of work" } else { "They differ in work" };
    assert!(page.contains("What changes what") && page.contains(reason));
}

/// A server with a millisecond of work per answer serves fewer than a thousand requests a second, whatever the machine.
#[test]
fn a_capacity_is_a_bracket_that_loads_decided() {
    let place = Place::new();
    let server = Server::null_that_works(1_000_000);
    let url = server.url("/plaintext");
    let output = place.dyno(&[
        "load",
        &url,
        "--find",
        "p50<200ms,errors<1%",
        "-d",
        "400ms",
        "-w",
        "100ms",
        "--width",
        "30",
        "-r",
        "50",
        "-c",
        "8",
        "--format",
        "json",
    ]);
    let status = output.status.code().unwrap();
    assert!([0, 1].contains(&status), "{}", text(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&found["schema"], &found["objective"]),
        (&"dyno.find/1".into(), &"p50<200ms,errors<1%".into())
    );
    let (kept, missed) = (found["kept_rps"].as_f64(), found["missed_rps"].as_f64());
    assert_eq!(found["settled"] == true, status == 0);
    assert!(missed.is_some_and(|missed| missed < 20_000.0), "{found:#}");
    assert!(kept.is_none_or(|kept| kept < missed.unwrap()), "{found:#}");
    let loads = found["trials"].as_array().unwrap().len() as u64;
    assert!(loads >= 3 && found["missed_by"]["loads"].as_u64().unwrap() >= 1, "{found:#}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("missed: ").count() + said.matches("  kept").count(), loads as usize, "{said}");
}

#[test]
fn what_a_search_cannot_have_is_refused() {
    let place = Place::new();
    for (arguments, says) in [
        (&["--find", "p42<1ms"][..], "cannot be an objective"),
        (&["--find", "p99<1ms", "-n", "100"], "-n is for one"),
        (&["--find", "p99<1ms", "-r", "1k..5k"], "the rate to begin at"),
        (&["--width", "3"], "--find"),
        (&["--arrival", "poisson"], "--rate or --find"),
    ] {
        let output = place.dyno(&[&["load", "http://127.0.0.1:1/"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains(says), "{arguments:?}: {}", text(&output));
    }
}
