//! Archives in which one number was changed: each kind of number that people read is tied to
//! another.

#![allow(clippy::disallowed_methods, reason = "tests may touch files")]

use std::fs;
use std::path::{Path, PathBuf};

use dyno_archive::{ArchiveError, RunDir, contradiction};
use dyno_model::load::{Books, Connections, UnansweredAges};
use dyno_model::search::{SearchLoad, SearchRecord};
use dyno_model::{LoadRecord, Outcome};
use serde_json::{Value, json};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run")
}

/// Returns why a copy of the golden run with a changed load of a trial is refused. `None`: the copy
/// is accepted.
fn refusal(change: &dyn Fn(&mut Value)) -> Option<String> {
    refusal_of("trials/0003.json", &|trial| change(&mut trial["load"]))
}

/// Returns why a copy of the golden run with a change in `file` is refused.
fn refusal_of(file: &str, change: &dyn Fn(&mut Value)) -> Option<String> {
    let folder = copied();
    let path = folder.path().join(file);
    let mut content: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut content);
    fs::write(&path, serde_json::to_vec(&content).unwrap()).unwrap();
    let read = RunDir::open(folder.path()).and_then(|dir| dir.read());
    read.err().map(|error| error.to_string())
}

/// Returns a copy of the golden run.
fn copied() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for part in ["", "starts", "trials"] {
        fs::create_dir_all(folder.path().join(part)).unwrap();
        for entry in fs::read_dir(golden().join(part)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::copy(&path, folder.path().join(part).join(path.file_name().unwrap())).unwrap();
            }
        }
    }
    folder
}

/// Changes a number of the load.
fn number(load: &mut Value, place: &str, change: impl Fn(u64) -> u64) {
    let value = load.pointer_mut(place).unwrap_or_else(|| panic!("{place}"));
    *value = json!(change(value.as_u64().unwrap_or(0)));
}

fn assert_refused(place: &str, said: &str, change: &dyn Fn(&mut Value)) {
    let refused = refusal(change).unwrap_or_else(|| panic!("{place} is read"));
    assert!(refused.contains(said), "{place}: {refused}");
    assert!(refused.contains("trials/0003.json"), "{place}: {refused}");
}

#[test]
fn golden_run_is_read() {
    assert_eq!(refusal(&|_| ()), None);
}

#[test]
fn one_changed_count_is_refused() {
    let cases = [
        ("/intervals/1/outcomes/ok", "response times in the interval that begins at 100000000 ns"),
        ("/intervals/0/outcomes/ok", "response times in the interval that begins at 0 ns"),
        ("/intervals/1/outcomes/status_2xx", "statuses in the interval"),
        ("/books/completed", "complete responses in the intervals"),
        ("/books/failed", "failures in the intervals"),
        ("/books/in_flight_at_end", "waiting times of requests in flight at the end"),
        ("/books/dropped", "dropped requests in the totals"),
        ("/connections/opened", "connect times"),
        ("/window_ns/0", "the measured window is from 100000001"),
        ("/window_ns/1", "the measured window is from 100000000 to 1100000001"),
        ("/intervals/1/end_ns", "an interval begins at 600000000 ns"),
        ("/intervals/2/end_ns", "the measured window is from"),
        ("/intervals/0/end_ns", "an interval begins at 100000000 ns"),
    ];
    for (place, said) in cases {
        assert_refused(place, said, &|load| number(load, place, |n| n + 1));
    }
}

/// Readers add up the numbers of a start, and use some as indices.
#[test]
fn impossible_number_of_start_is_refused() {
    let slice = "/parts/0/warmup/slices/1";
    for (place, n, expected) in [
        ("/start".into(), u64::MAX, "`start` is 18446744073709551615"),
        ("/parts/0/startup/ready_ns".into(), u64::MAX, "`ready_ns` is"),
        ("/parts/0/warmup/took_ns".into(), u64::MAX, "`took_ns` is"),
        (format!("{slice}/round"), u64::MAX, "`round` is 18446744073709551615"),
        (format!("{slice}/answers"), u64::MAX, "`answers` is"),
        (format!("{slice}/end_ns"), u64::MAX, "`end_ns` is"),
        (format!("{slice}/start_ns"), 1 << 52, "begins at 4503599627370496 ns, after its end"),
        (format!("{slice}/workload"), 99, "the warm-up refers to workload 99"),
        (format!("{slice}/step"), 99, "the warm-up refers to step 99"),
    ] {
        let change = |start: &mut Value| number(start, &place, |_| n);
        let refused = refusal_of("starts/003.json", &change).unwrap_or_else(|| panic!("{place}"));
        assert!(refused.contains(expected) && refused.contains("003.json"), "{place}: {refused}");
    }
    let change = |start: &mut Value| {
        start["parts"][0]["idle"] = json!({"length_ns": 1, "cpu_ns": u64::MAX, "wakeups": null});
    };
    assert!(refusal_of("starts/003.json", &change).unwrap().contains("`cpu_ns` is"));
}

#[test]
fn impossible_length_of_planned_load_is_refused() {
    for key in ["warmup_ns", "duration_ns", "timeout_ns", "drain_ns"] {
        let change = |run: &mut Value| run["plan"]["load"][key] = json!(u64::MAX);
        let refused = refusal_of("run.json", &change).unwrap_or_else(|| panic!("{key}"));
        assert!(refused.contains(&format!("`load.{key}` is 18446744073709551615")), "{refused}");
    }
}

/// Values that were not planned, or are impossible on any machine.
#[test]
fn contradiction_of_plan_or_machine_is_refused() {
    assert_refused("asked", "connections, but the plan has", &|load| {
        number(load, "/connections/asked", |n| n + 63);
    });
    assert_refused("asked_again_idle", "requests sent again after an idle connection", &|load| {
        load["connections"]["asked_again_idle"] = json!(1);
    });
    let last = |load: &Value| load["samples"].as_array().unwrap().len() - 1;
    assert_refused("cpu_ns", "ns of CPU time, but all CPUs of the machine", &|load| {
        let last = last(load);
        number(load, &format!("/samples/{last}/parties/0/cgroup/cpu_ns"), |n| n * 100);
    });
    assert_refused("memory_bytes", "bytes of memory, but the machine has only", &|load| {
        let last = last(load);
        number(load, &format!("/samples/{last}/parties/0/cgroup/memory_bytes"), |_| 100 << 40);
    });
    assert_refused("slices_ns", "beyond the measured window, which ends at", &|load| {
        let closes = load["window_ns"][1].as_u64().unwrap();
        load["slices_ns"] = json!([[0, closes + 1]]);
    });
}

/// More responses without a stored body than responses.
#[test]
fn impossible_number_of_unstored_bodies_is_refused() {
    for (key, refusal) in [
        ("unchecked", "responses that were to be checked in full"),
        ("unextracted", "responses without extracted values"),
    ] {
        assert_refused(key, refusal, &|load| {
            let mut unstored = json!({"unchecked": 0, "unextracted": 0});
            unstored[key] = json!(1u64 << 40);
            load["intervals"][1]["unstored_bodies"] = unstored;
        });
    }
}

/// The load of a trial belongs to another trial, or was in another trial's turn.
#[test]
fn trials_that_were_not_measured_apart_are_refused() {
    let read_error = |change: &dyn Fn(&mut Value, &Value)| {
        let folder = copied();
        let trial = |n: usize| folder.path().join(format!("trials/000{n}.json"));
        // Two trials of one step.
        const BOTH: [usize; 2] = [0, 2];
        let mut both =
            BOTH.map(|n| serde_json::from_slice::<Value>(&fs::read(trial(n)).unwrap()).unwrap());
        let [first, second] = &mut both;
        first["load"]["slices_ns"] = json!([[0, 5], [10, 15]]);
        change(&mut second["load"], &first["load"]);
        for (n, changed) in BOTH.into_iter().zip(&both) {
            fs::write(trial(n), serde_json::to_vec(changed).unwrap()).unwrap();
        }
        RunDir::open(folder.path()).and_then(|dir| dir.read()).err().map(|error| error.to_string())
    };
    let copy = read_error(&|second, first| *second = first.clone()).unwrap();
    assert!(copy.contains("trials 0 and 2 have identical results"), "{copy}");
    let overlaps =
        read_error(&|second, _| second["slices_ns"] = json!([[4, 9], [15, 20]])).unwrap();
    assert!(overlaps.contains("the turns (time slices with load) of trials 0, 2"), "{overlaps}");
    assert_eq!(read_error(&|second, _| second["slices_ns"] = json!([[5, 10], [15, 20]])), None);
}

/// Every outcome but a correct response, in the intervals alone, and in place of a correct one.
#[test]
fn additional_failure_is_refused() {
    for &outcome in Outcome::ALL.iter().filter(|outcome| **outcome != Outcome::Ok) {
        let place = outcome.name();
        let said = if outcome.is_completed() { "statuses in" } else { "failures in the intervals" };
        assert_refused(place, said, &|load| load["intervals"][1]["outcomes"][place] = json!(1));
        // A failure that the books have too still has no age.
        let count = if outcome.is_completed() { "completed" } else { "failed" };
        assert_refused(place, &format!("waiting times of {place:?}"), &|load| {
            load["intervals"][1]["outcomes"][place] = json!(1);
            number(load, &format!("/books/{count}"), |n| n + 1);
            if outcome.is_completed() {
                number(load, "/intervals/1/outcomes/status_2xx", |n| n + 1);
            }
        });
    }
}

#[test]
fn changed_distributions_and_bytes_are_refused() {
    for times in ["response", "service", "send_lag"] {
        assert_refused(times, "in the interval that begins at", &|load| {
            load["intervals"][1]["times"][times] = json!("");
        });
    }
    assert_refused("connect", "connect times", &|load| {
        load["intervals"][0]["connect"] = json!("");
    });
    let all = |load: &mut Value, key: &str, n: u64| {
        load["intervals"].as_array_mut().unwrap().iter_mut().for_each(|i| i[key] = json!(n));
    };
    assert_refused("body_received", "bytes of bodies", &|load| {
        all(load, "body_received", 1 << 40);
    });
    assert_refused("bytes_received", "fit into the bytes received", &|load| {
        all(load, "body_received", 0);
        all(load, "bytes_received", 1);
    });
    assert_refused("started", "that started", &|load| all(load, "started", 0));
    assert_refused("early", "early responses", &|load| {
        load["intervals"][1]["answered_early"] = json!({"responses": 1 << 30, "unsent_bytes": 1});
    });
    assert_refused("silences", "the silences", &|load| {
        load["silences"] = json!([{"start_ns": 9, "busy_ns": 9, "end_ns": 5, "in_flight": 1}]);
    });
}

/// The last sample of a counter is less than the one before.
#[test]
fn counter_that_falls_is_refused() {
    let subject = "/parties/0";
    let cases = [
        "/host/busy_ns",
        "/host/context_switches",
        "/parties/0/cgroup/cpu_ns",
        "/parties/0/cgroup/periods",
        "/parties/0/calls/counted_ns",
        "/parties/0/calls/by_name/read/count",
    ];
    for place in cases {
        let name = place.rsplit('/').next().unwrap();
        assert_refused(place, &format!("`{name}` of "), &|load| {
            let last = load["samples"].as_array().unwrap().len() - 1;
            // Well above the slack of clocks that are read in ticks.
            number(load, &format!("/samples/{}{place}", last - 1), |n| n + 1_000_000_000_000);
        });
    }
    for counter in ["run_ns", "user_ns", "switches_voluntary", "run_delay_ns", "faults_minor"] {
        let change = |load: &mut Value| {
            let samples = load["samples"].as_array_mut().unwrap();
            for sample in samples.iter_mut() {
                sample.pointer_mut(subject).unwrap()["threads"][0]["began_ticks"] = json!(77);
            }
            let last = samples.len() - 1;
            number(load, &format!("/samples/{last}{subject}/threads/0/{counter}"), |_| 0);
        };
        assert_refused(counter, &format!("`{counter}` of thread"), &change);
    }
}

/// Counters that the golden run need not have.
#[test]
fn falling_counter_of_machine_network_or_process_is_refused() {
    let process = |minor: u64| {
        json!([{
            "pid": 7, "began_ticks": 77, "user_ns": 5, "sys_ns": 5, "faults_minor": minor,
            "faults_major": 5,
            "children_user_ns": 5, "children_sys_ns": 5, "children_faults_minor": 5,
            "children_faults_major": 5,
        }])
    };
    let network = |drops: u64| {
        json!({
            "listen_overflows": null, "listen_drops": 5, "segments_out": 5,
            "segments_retransmitted": 5,
            "retransmit_timeouts": 5, "delayed_acks": 5, "syn_queue_drops": drops,
        })
    };
    let cases = [
        ("/host/births", json!(9), json!(8), "`births` of the machine"),
        ("/parties/0/network", network(9), network(8), "`syn_queue_drops` of the network"),
        ("/parties/0/each", process(9), process(8), "`faults_minor` of process 7"),
    ];
    for (place, before, now, said) in cases {
        let (parent, key) = place.rsplit_once('/').unwrap();
        let put = |load: &mut Value, [first, second]: [&Value; 2]| {
            let last = load["samples"].as_array().unwrap().len() - 1;
            for (index, value) in [(last - 1, first), (last, second)] {
                let parent = load["samples"][index].pointer_mut(parent).unwrap();
                parent[key] = value.clone();
            }
        };
        assert_refused(place, said, &|load| put(load, [&before, &now]));
        let error = refusal(&|load| put(load, [&now, &before]));
        assert!(error.is_none_or(|said| !said.contains(key)), "{place} that grows is refused");
    }
}

/// Counters of another thread of the same number, or of an older archive without start ticks, begin
/// anew.
#[test]
fn counter_that_begins_anew_is_read() {
    let anew = |began: Option<[u64; 2]>| {
        refusal(&|load| {
            let samples = load["samples"].as_array_mut().unwrap();
            let last = samples.len() - 1;
            for (turn, index) in [last - 1, last].into_iter().enumerate() {
                let thread = &mut samples[index].pointer_mut("/parties/0").unwrap()["threads"][0];
                if let Some(began) = began {
                    thread["began_ticks"] = json!(began[turn]);
                }
                if turn == 1 {
                    for counter in [
                        "run_ns",
                        "user_ns",
                        "sys_ns",
                        "run_delay_ns",
                        "switches_voluntary",
                        "faults_minor",
                    ] {
                        thread[counter] = json!(1);
                    }
                    thread["switches_involuntary"] = json!(0);
                    thread["seen"] = Value::Null;
                }
            }
        })
    };
    assert_eq!(anew(None), None);
    assert_eq!(anew(Some([7, 8])), None);
    assert!(anew(Some([7, 7])).is_some());
}

/// A thread that calls execve(2) takes the TID of the first thread, whose counters are lost.
#[test]
fn counter_of_first_thread_may_fall_after_execve() {
    let executed = |tid: u32, total_user_ns: [u64; 2]| {
        refusal(&|load| {
            let samples = load["samples"].as_array_mut().unwrap();
            let last = samples.len() - 1;
            for (turn, index) in [last - 1, last].into_iter().enumerate() {
                let party = samples[index].pointer_mut("/parties/0").unwrap();
                party["each"] = json!([{
                    "pid": 99, "began_ticks": 7, "user_ns": total_user_ns[turn], "sys_ns": 5,
                    "faults_minor": 5, "faults_major": 5,
                    "children_user_ns": 5, "children_sys_ns": 5, "children_faults_minor": 5,
                    "children_faults_major": 5,
                }]);
                let thread = &mut party["threads"][0];
                (thread["pid"], thread["tid"]) = (json!(99), json!(tid));
                (thread["began_ticks"], thread["seen"]) = (json!(7), Value::Null);
                thread["run_ns"] = json!([900, 1][turn]);
            }
        })
    };
    assert_eq!(executed(99, [8, 9]), None);
    assert!(executed(100, [8, 9]).unwrap().contains("`run_ns` of thread 100"));
    assert!(executed(99, [9, 8]).unwrap().contains("`user_ns` of process 99"));
}

/// Pairs of repeats are formed block by block, so that each block must start and load each arm.
#[test]
fn plans_whose_blocks_differ_are_refused() {
    for (said, change) in [
        (
            "starts arm",
            &(|plan: &mut Value| plan["launches"][0]["block"] = json!(1)) as &dyn Fn(&mut Value),
        ),
        ("block 3 (one pass over all servers) does not start arm 0", &|plan: &mut Value| {
            plan["repeats"] = json!(4);
        }),
        ("the same as an earlier trial", &|plan: &mut Value| {
            let again = plan["trials"][0].clone();
            plan["trials"].as_array_mut().unwrap().push(again);
        }),
        ("has different workloads or steps", &|plan: &mut Value| {
            let trials = plan["trials"].as_array_mut().unwrap();
            let arm = trials[0]["arm"].clone();
            let launch = trials[0]["launch"].clone();
            trials.retain(|trial| trial["arm"] != arm || trial["launch"] == launch);
        }),
    ] {
        let refused = refusal_of("run.json", &|run| change(&mut run["plan"])).expect(said);
        assert!(refused.contains(said) && refused.contains("run.json"), "{said}: {refused}");
    }
}

/// A server's own statistics may be any numbers.
#[test]
fn any_runtime_values_of_server_are_accepted() {
    let with = |value: Value| {
        refusal(&|load| {
            let at = load["began_ns"].clone();
            let values = json!({"last_gc_ns": value});
            load["runtime"] =
                json!([{"at_ns": at, "took_ns": 1, "processes": 1, "values": values}]);
        })
    };
    for value in [json!(1_795_752_142_926_000_000_u64), json!(-5), json!(1e300)] {
        assert_eq!(with(value.clone()), None, "{value}");
    }
}

/// Why a copy of the golden run is refused whose start of trial 3 has these instants, relative to
/// the beginning and to the end of the window of that trial; `None`: not refused.
fn refusal_of_instants(began: Option<i64>, ended: Option<i64>) -> Option<String> {
    let folder = copied();
    let read = |file: &str| -> Value {
        serde_json::from_slice(&fs::read(folder.path().join(file)).unwrap()).unwrap()
    };
    let trial = read("trials/0003.json");
    let began_ns = trial["load"]["began_ns"].as_u64().unwrap();
    let closed_ns = began_ns + trial["load"]["window_ns"][1].as_u64().unwrap();
    let file = format!("starts/{:03}.json", trial["start"].as_u64().unwrap());
    let mut start = read(&file);
    for (key, instant_ns) in [
        ("began_ns", began.map(|shift| began_ns.saturating_add_signed(shift))),
        ("ended_ns", ended.map(|shift| closed_ns.saturating_add_signed(shift))),
    ] {
        if let Some(instant_ns) = instant_ns {
            start[key] = json!(instant_ns);
        }
    }
    fs::write(folder.path().join(file), serde_json::to_vec(&start).unwrap()).unwrap();
    let read = RunDir::open(folder.path()).and_then(|dir| dir.read());
    read.err().map(|error| error.to_string())
}

/// A server may die while its connections are opened. No time of theirs is recorded then.
#[test]
fn load_that_ended_before_its_begin_is_consistent() {
    let mut complete = RunDir::open(golden()).unwrap().read().unwrap().trials.remove(0).load;
    assert_eq!(contradiction(&complete), None);
    complete.connections.opened += 1;
    assert!(contradiction(&complete).unwrap().contains(" connect times, but "));
    let load = LoadRecord {
        began_ns: 0,
        window_ns: (0, 0),
        books: Books::default(),
        connections: Connections { opened: 3, ..Connections::default() },
        intervals: Vec::new(),
        edges: None,
        unanswered: UnansweredAges::default(),
        ..complete
    };
    assert_eq!(contradiction(&load), None);
}

/// No way of writing a load makes the archive unreadable.
#[test]
fn load_that_contradicts_itself_is_not_written() {
    let folder = copied();
    let dir = RunDir::open(folder.path()).unwrap();
    let mut trial = dir.read().unwrap().trials.remove(0);
    let search = |load: &LoadRecord| SearchRecord {
        loads: vec![SearchLoad { rate: 1.0, load: load.clone(), confirms: false }],
        ..SearchRecord::default()
    };
    trial.load.connections.opened += 1;
    for refused in [
        dir.write_trial(&trial),
        dir.write_contaminated(&trial),
        dir.write_search(&search(&trial.load)),
    ] {
        assert!(matches!(refused, Err(ArchiveError::Contradiction { .. })), "{refused:?}");
    }
    let run = dir.read().unwrap();
    assert_eq!((run.contaminated.len(), run.searches.len()), (0, 0));
}

#[test]
fn trial_outside_of_its_start_is_refused() {
    for (began, ended) in [(None, None), (None, Some(S)), (Some(-S), None), (Some(-S), Some(S))] {
        assert_eq!(refusal_of_instants(began, ended), None, "{began:?} {ended:?}");
    }
    for (began, ended, said) in [
        (Some(1), None, "of its server began at"),
        (Some(1), Some(S), "of its server began at"),
        (None, Some(-1), "of its server ended at"),
        (Some(-S), Some(-1), "of its server ended at"),
        (Some(-S), Some(-100 * S), "`ended_ns` is"),
    ] {
        let refused = refusal_of_instants(began, ended).expect(said);
        assert!(refused.contains(said), "{refused}");
        let file = if said.starts_with("of its server") { "trials/" } else { "starts/" };
        assert!(refused.contains(file), "{refused}");
    }
}

/// A second.
const S: i64 = 1_000_000_000;
