//! What is seen inside servers: their system calls, and what their threads wait for.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use aya::programs::loaded_programs;
use serde_json::Value;

use crate::drive::{DYNO, Place, not_run, text};

/// Why nothing can be seen here; `None`: it can.
fn refusal() -> Option<String> {
    dyno_observer::probes::refusal().map(|refusal| refusal.why)
}

/// Runs one server at so many connections, and returns its only trial.
fn trial_of(place: &Place, subject: &str, connections: u32, rest: &str) -> Value {
    let suite = format!(
        "subjects = [{subject:?}]\n[suite]\nrepeats = 1\nseed = 7\n[[workloads]]\npath = \"/plaintext\"\n\
         [load]\nconnections = {connections}\nwarmup = \"200ms\"\nduration = \"2s\"\n{rest}"
    );
    fs::write(place.path().join("suite.toml"), suite).unwrap();
    let output = place.dyno(&["run", "suite.toml"]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    place.assert_nothing_is_left();
    place.report()["trials"][0].clone()
}

fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer} in {value:#}"))
}

#[test]
fn h2o_makes_three_system_calls_per_request_and_writes_what_the_generator_gets() {
    if let Some(why) = refusal() {
        return not_run(&format!("the system calls of h2o: {why}"));
    }
    let place = Place::new();
    place.copy_subject("h2o");
    let trial = trial_of(&place, "h2o", 64, "[observe]\nevery_syscall = true\n");
    let calls = &trial["server"]["calls"];
    for call in ["read", "writev", "pread64"] {
        let each = number(calls, &format!("/by_name/{call}/per_response"));
        assert!((each - 1.0).abs() < 0.01, "{call}: {each}\n{calls:#}");
        assert_eq!(trial["server"]["per_request"]["syscalls"][call], each);
    }
    let all = number(calls, "/per_response");
    assert!((3.0..4.0).contains(&all), "{all}");
    let per_response =
        |key: &str| number(&trial, &format!("/load/bytes/{key}")) / number(&trial, "/load/bytes/responses");
    let (wrote, got) = (number(calls, "/writes/bytes_per_response"), per_response("received"));
    assert!((wrote / got - 1.0).abs() < 0.01, "it wrote {wrote} bytes per response, and {got} came");
    let read = number(calls, "/by_name/read/returned_mean");
    assert!((read - per_response("sent")).abs() < 1.0, "{read}");
    let sockets = &trial["server"]["sockets"];
    // The generator's, and at times one that checks the contract beside them.
    assert!((64.0..68.0).contains(&number(sockets, "/connections")), "{sockets:#}");
    assert!(number(sockets, "/nodelay") == 1.0, "{sockets:#}");
    assert!(number(sockets, "/listeners/0/backlog") > 0.0, "{sockets:#}");
    // Threads were somewhere all the time.
    let work = &trial["server"]["by_thread_role"]["work"];
    let states = work["states_s"].as_object().unwrap().values().filter_map(Value::as_f64).sum::<f64>();
    let lived = number(work, "/threads") * number(&trial, "/server/window_s");
    assert!((states / lived - 1.0).abs() < 0.01, "{states} s of {lived} s");
}

#[test]
fn what_threads_wait_for_tells_the_limit() {
    if let Some(why) = refusal() {
        return not_run(&format!("what threads wait for: {why}"));
    }
    for (mode, connections, limiter) in
        [("sleepy-workers", 64, "workers"), ("lock", 32, "lock"), ("good", 1, "concurrency")]
    {
        let place = Place::new();
        place.add_unruly(mode, &["--mode", mode], "");
        let trial = trial_of(&place, mode, connections, "");
        // With one connection a slow machine may be at its CPU.
        let seen = trial["limiter"]["resource"].as_str().unwrap();
        assert!(
            seen == limiter || (mode == "good" && seen == "server_cpu"),
            "{mode}: {:#}",
            trial["limiter"]
        );
    }
}

#[test]
fn nothing_is_looked_at_where_nobody_asks() {
    let place = Place::new();
    place.add_unruly("good", &[], "");
    let trial = trial_of(&place, "good", 4, "[observe]\nsyscalls = false\nstates = false\n");
    assert_eq!((&trial["server"]["calls"], &trial["server"]["working"]), (&Value::Null, &Value::Null));
    let caveats = trial["caveats"].as_array().unwrap();
    let told = caveats.iter().find(|c| c["code"] == "syscalls_not_measured").expect("a caveat");
    assert!(told["message"].as_str().unwrap().contains("nobody asked"), "{told}");
    let output = place.dyno(&["run", "suite.toml", "--observe", "stats"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("did you mean \"states\"?"), "{}", text(&output));
}

/// Programs of ours in the kernel.
fn attached() -> usize {
    let ours = |name: &str| name.starts_with("inside_");
    loaded_programs().filter_map(Result::ok).filter(|p| p.name_as_str().is_some_and(ours)).count()
}

#[test]
fn no_program_stays_in_the_kernel_when_dyno_is_killed() {
    if let Some(why) = refusal() {
        return not_run(&format!("programs in the kernel: {why}"));
    }
    let place = Place::new();
    place.add_unruly("good", &[], "");
    place.write_suite(&["good"], "");
    let mut command = place.command(DYNO.as_ref());
    command.args(["run", "suite.toml"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut dyno = command.spawn().unwrap();
    let wait_until = |holds: &dyn Fn() -> bool| {
        for _ in 0..2000 {
            if holds() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{} programs are attached", attached());
    };
    wait_until(&|| attached() > 0);
    dyno.kill().unwrap();
    dyno.wait().unwrap();
    wait_until(&|| attached() == 0);
    place.assert_nothing_is_left();
}
