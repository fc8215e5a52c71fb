//! Archives from other people: an inconsistent archive is refused with the reason, and hostile text
//! in an archive is escaped in all output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dyno_archive::RunDir;
use dyno_engine::rng::Rng;
use dyno_model::run::Run;
use dyno_report::Format;
use serde_json::{Value, json};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run")
}

/// A copy of the golden run whose files can be changed.
struct Copy {
    folder: tempfile::TempDir,
}

impl Copy {
    fn new() -> Copy {
        let folder = tempfile::tempdir().unwrap();
        for part in ["", "starts", "trials"] {
            fs::create_dir_all(folder.path().join(part)).unwrap();
            for entry in fs::read_dir(golden().join(part)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    fs::copy(&path, folder.path().join(part).join(path.file_name().unwrap()))
                        .unwrap();
                }
            }
        }
        Copy { folder }
    }

    /// Changes a file. Ids of a header that the change keeps are removed, because they belong to
    /// the plan and the facts before the change.
    fn change(&self, file: &str, change: impl FnOnce(&mut Value)) {
        let path = self.folder.path().join(file);
        let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let ids = value.get("ids").cloned();
        change(&mut value);
        if ids.is_some() && value.get("ids") == ids.as_ref() {
            value.as_object_mut().unwrap().remove("ids");
        }
        fs::write(&path, serde_json::to_vec(&value).unwrap()).unwrap();
    }

    fn read(&self) -> Result<Run, dyno_archive::ArchiveError> {
        RunDir::open(self.folder.path()).and_then(|dir| dir.read())
    }
}

/// A file, a JSON pointer in it, the new value there, and a part of the expected error.
type Broken = (&'static str, &'static str, Value, &'static str);

fn broken() -> Vec<Broken> {
    [broken_loads(), broken_books(), broken_starts(), broken_indices(), broken_plans()].concat()
}

/// Trials with an impossible index in the plan, window or interval.
fn broken_loads() -> Vec<Broken> {
    vec![
        ("trials/0003.json", "/trial", json!(99_999), "refers to trial 99999, but only 12 exist"),
        ("trials/0003.json", "/trial", json!(2), "the load has 16 connections, but the plan has 4"),
        ("trials/0003.json", "/trial", json!(11), "belongs to launch"),
        (
            "trials/0003.json",
            "/start",
            json!(77),
            "start 77 of a server, but the run has no record",
        ),
        (
            "trials/0003.json",
            "/load/window_ns",
            json!([9, 5]),
            "begins at 9 ns, after its end at 5 ns",
        ),
        (
            "trials/0003.json",
            "/load/window_ns/1",
            json!(u64::MAX),
            "`window_ns` is 18446744073709551615",
        ),
        ("trials/0003.json", "/load/began_ns", json!(u64::MAX), "`began_ns` is"),
        ("trials/0003.json", "/load/intervals/1/end_ns", json!(0), "an interval begins at"),
        ("trials/0003.json", "/load/intervals/2/start_ns", json!(5), "intervals are not in order"),
        ("trials/0003.json", "/load/intervals/1/outcomes/ok", json!(u64::MAX), "`ok` is"),
        (
            "trials/0003.json",
            "/load/intervals/1/bytes_received",
            json!(1u64 << 60),
            "`bytes_received` is",
        ),
        (
            "trials/0003.json",
            "/load/samples/0/parties/1/party",
            json!({"subject": 0}),
            "the list of parties",
        ),
        ("trials/0003.json", "/load/samples/2/at_ns", json!(7), "samples are not in order"),
    ]
}

/// Trials with impossible counts or an impossible ceiling.
fn broken_books() -> Vec<Broken> {
    vec![
        ("trials/0003.json", "/load/books/scheduled", json!(1u64 << 63), "`scheduled` is"),
        (
            "trials/0003.json",
            "/load/books/scheduled",
            json!(-1),
            "`scheduled` is -1, but must be 0 to",
        ),
        ("trials/0003.json", "/load/books/completed", json!(1e300), "`completed` is"),
        (
            "trials/0003.json",
            "/ceiling",
            json!({"throughput_rps": 1e300, "measured": "2026-01-02"}),
            "`throughput_rps` is",
        ),
        (
            "trials/0003.json",
            "/ceiling",
            json!({"throughput_rps": 0.0, "measured": "2026-01-02"}),
            "`throughput_rps` of the trial's ceiling is 0",
        ),
    ]
}

fn broken_starts() -> Vec<Broken> {
    vec![
        ("starts/001.json", "/parts/0/party", json!({"backend": 4}), "refers to back end 4"),
        ("starts/001.json", "/launch", json!(99), "refers to launch 99, but only 9 exist"),
        ("starts/001.json", "/start", json!(0), "the list of starts has 0 twice"),
        ("starts/001.json", "/parts/0/stop/took_ns", json!(u64::MAX), "`took_ns` is"),
        (
            "starts/001.json",
            "/parts/0/limits",
            json!([{"name": "patience", "asked": "1", "read_back": "1", "reason": null}]),
            "not a valid file of a dyno run",
        ),
        (
            "starts/001.json",
            "/parts/0/party",
            json!({"subject": 1}),
            "refers to subject 1, but only 1 exist",
        ),
    ]
}

/// References to entries that do not exist.
fn broken_indices() -> Vec<Broken> {
    vec![
        (
            "run.json",
            "/plan/arms/0/subject",
            json!(9),
            "arm 0 refers to subject 9, but only 3 exist",
        ),
        ("run.json", "/plan/arms/1/name", json!("fast"), "the list of arms has \"fast\" twice"),
        (
            "run.json",
            "/plan/arms/0/conditions/load",
            json!({"threads": u32::MAX}),
            "`load.threads` of arm \"fast\"",
        ),
        (
            "run.json",
            "/plan/launches/0/arms",
            json!([9]),
            "launch 0 refers to arm 9, but only 3 exist",
        ),
        ("run.json", "/plan/launches/0/arms", json!([]), "launch 0 has no arm"),
        ("run.json", "/ids/machine", json!("0"), "`ids` does not belong to the plan"),
        ("run.json", "/ids/workloads", json!([]), "`ids` does not belong to the plan"),
        (
            "run.json",
            "/plan/launches/0/arms",
            json!([1, 1]),
            "the list of arms of launch 0 has 1 twice",
        ),
        (
            "run.json",
            "/plan/trials/0/arm",
            json!(2),
            "trial 0 of the plan loads arm (server variant) 2, but launch 0",
        ),
        (
            "run.json",
            "/plan/launches/0/block",
            json!(7),
            "belongs to block 7, but the plan has only 3 blocks",
        ),
        ("run.json", "/plan/trials/0/launch", json!(9), "refers to launch 9"),
        ("run.json", "/plan/trials/0/workload", json!(9), "refers to workload 9"),
        ("run.json", "/plan/trials/0/step", json!(9), "refers to step 9"),
    ]
}

fn broken_plans() -> Vec<Broken> {
    vec![
        ("run.json", "/plan/load/steps", json!([]), "no steps"),
        ("run.json", "/plan/workloads", json!([]), "no workloads"),
        ("run.json", "/plan/workloads/0/requests", json!([]), "no requests"),
        (
            "run.json",
            "/plan/workloads/0/protocol",
            json!("h3"),
            "is damaged, or an earlier version",
        ),
        (
            "run.json",
            "/plan/subjects/1/name",
            json!("fast"),
            "the list of subjects has \"fast\" twice",
        ),
        ("run.json", "/plan/repeats", json!(u32::MAX), "`repeats` is"),
        ("run.json", "/plan/load/driver", json!("kqueue"), "is damaged, or an earlier version"),
        ("run.json", "/plan/load/threads", json!(u32::MAX), "`load.threads` is"),
        (
            "run.json",
            "/plan/load/steps/0/streams",
            json!(u32::MAX),
            "step 0 has 4 connections × 4294967295",
        ),
        ("run.json", "/plan/load/steps/0/pipeline", json!(0), "step 0 has"),
        (
            "run.json",
            "/plan/load/steps/0/arrivals",
            json!({"model": "constant", "rate": -1.0}),
            "rate of step 0 is -1",
        ),
        (
            "run.json",
            "/plan/arms/0/conditions/limits/cpus",
            json!(0.0),
            "`limits.cpus` of arm \"fast\" is 0",
        ),
        ("run.json", "/plan/arms/0/level", json!(-1e300), "the level of arm \"fast\" is -1"),
        ("run.json", "/facts/cgroup", json!("v3"), "is damaged, or an earlier version"),
        ("run.json", "/plan/report/markers/0/connections", json!(-8.0), "of a marker is -8"),
        (
            "run.json",
            "/plan/not_served",
            json!([{"subject": 0, "workload": 9, "reason": ""}]),
            "entry 0 of `not_served` refers to workload 9",
        ),
    ]
}

#[test]
fn archive_with_inconsistent_records_is_refused() {
    for (file, place, value, said) in broken() {
        let copy = Copy::new();
        copy.change(file, |document| *document.pointer_mut(place).expect(place) = value.clone());
        let error = copy.read().map(drop).expect_err(place).to_string();
        assert!(error.contains(said), "{file} {place}: {error}");
        let named = if said.starts_with("the list of starts") {
            file.split('/').next().unwrap()
        } else {
            file
        };
        assert!(error.contains(named), "{file} {place}: {error}");
        let output = Command::new(env!("CARGO_BIN_EXE_dyno"))
            .arg("report")
            .arg(copy.folder.path())
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file} {place}: {printed}");
        assert!(printed.starts_with("dyno: ") && !printed.contains("panicked"), "{printed}");
    }
}

#[test]
fn trial_of_other_run_is_refused() {
    let copy = Copy::new();
    copy.change("trials/0004.json", |trial| trial["trial"] = json!(40));
    let error = copy.read().map(drop).unwrap_err().to_string();
    assert!(error.contains("trials/0004.json") && error.contains("refers to trial 40"), "{error}");
}

/// Hostile text that replaces a name, a message or a response.
const HOSTILE: &str = "=<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script><!-- \
                       |`*_[a](javascript:b)\r\n\u{1b}]52;c;aGk=\u{7}\u{1b}[2J\u{9b}31m\u{202e}evil";

/// Inserts [`HOSTILE`] before every text that a person may see.
fn insert_hostile_text(copy: &Copy) {
    let put = |value: &mut Value| {
        if let Value::String(text) = value {
            *text = format!("{HOSTILE}{text}");
        }
    };
    copy.change("run.json", |run| {
        put(&mut run["id"]);
        put(&mut run["started"]);
        run["command"].as_array_mut().unwrap().iter_mut().for_each(put);
        for place in ["/facts/cpu_model", "/facts/kernel", "/facts/dyno_version"] {
            put(run.pointer_mut(place).unwrap());
        }
        run["facts"]["sysctls"] = json!([[HOSTILE, HOSTILE]]);
        run["facts"]["missing"] = json!([{"what": HOSTILE, "why": HOSTILE, "mend": HOSTILE}]);
        for key in ["name", "description", "source"] {
            put(&mut run["plan"]["suite"][key]);
        }
        for subject in run["plan"]["subjects"].as_array_mut().unwrap() {
            ["title", "name", "language", "description", "version", "skipped"]
                .into_iter()
                .for_each(|k| put(&mut subject[k]));
        }
        for workload in run["plan"]["workloads"].as_array_mut().unwrap() {
            put(&mut workload["name"]);
            ["name", "method", "path"]
                .into_iter()
                .for_each(|k| put(&mut workload["requests"][0][k]));
        }
        put(&mut run["plan"]["report"]["markers"][0]["label"]);
        put(&mut run["plan"]["report"]["baseline"]);
    });
    for entry in fs::read_dir(copy.folder.path().join("starts")).unwrap() {
        let name = format!("starts/{}", entry.unwrap().file_name().to_str().unwrap());
        copy.change(&name, |start| {
            for check in start["parts"][0]["checks_before"].as_array_mut().unwrap() {
                ["name", "detail"].into_iter().for_each(|k| put(&mut check[k]));
            }
            start["parts"][0]["checks_before"][0]["ok"] = false.into();
            start["parts"][0]["limits"] =
                json!([{"name": "memory", "asked": HOSTILE, "read_back": null, "reason": HOSTILE}]);
            put(&mut start["parts"][0]["log_tail"]);
            if let Some(failure) = start["failure"].as_object_mut() {
                put(&mut failure["message"]);
            }
        });
    }
    for entry in fs::read_dir(copy.folder.path().join("trials")).unwrap() {
        let name = format!("trials/{}", entry.unwrap().file_name().to_str().unwrap());
        copy.change(&name, |trial| {
            put(&mut trial["load"]["server_failure"]);
            trial["load"]["protocol_errors"] = json!({HOSTILE: 3});
            trial["load"]["unexpected"] = json!({HOSTILE: 3});
            trial["load"]["tls"] = json!({
                "version": HOSTILE, "cipher_suite": HOSTILE, "alpn": HOSTILE,
                "handshakes_full": 0, "handshakes_resumed": 0, "errors": {HOSTILE: 1}
            });
            trial["load"]["samples"][1]["parties"][0]["threads"][0]["name"] = HOSTILE.into();
        });
    }
}

/// Removes blocks and spans of code, in which Markdown has no markup.
fn without_code(markdown: &str) -> String {
    let outside_spans = |line: &str| {
        let (mut outside, mut is_code, mut is_escaped) = (String::new(), false, false);
        for c in line.chars() {
            match c {
                '`' if is_code || !is_escaped => is_code = !is_code,
                c if !is_code => outside.push(c),
                _ => {}
            }
            is_escaped = c == '\\' && !is_escaped;
        }
        assert!(!is_code, "a span of code has no end: {line}");
        outside + "\n"
    };
    markdown.split("```").step_by(2).flat_map(str::lines).map(outside_spans).collect()
}

#[test]
fn hostile_text_in_archive_is_escaped() {
    let copy = Copy::new();
    insert_hostile_text(&copy);
    let report = dyno_analysis::report::report(&copy.read().unwrap());

    let page = dyno_report::html::page(&report, "", "let viewer;");
    assert!(
        !page.contains("<img") && !page.contains("<!--"),
        "markup of others stands in the page"
    );
    assert_eq!(page.matches("<script").count(), 3, "the data, the intervals and the viewer");
    assert_eq!(page.matches("</script").count(), 3);
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"), "the text is shown");
    let script = page.split("script-src ").nth(1).unwrap().split(';').next().unwrap();
    assert!(script.starts_with("'sha256-") && !script.contains("unsafe"), "{script}");

    for format in [dyno_report::text::FORMAT, dyno_report::markdown::FORMAT] {
        let text = format.render(&report);
        let obeyed: Vec<char> = text.chars().filter(|c| c.is_control() && *c != '\n').collect();
        assert_eq!(obeyed, [], "{} holds control characters", format.name);
        assert!(
            text.contains("␛]52;c;aGk=") || text.contains("␛\\]52;c;aGk="),
            "{} shows them",
            format.name
        );
        assert!(!text.contains('\u{202e}'), "{} turns the direction of text", format.name);
    }
    let markdown = dyno_report::markdown::FORMAT.render(&report);
    let outside_code = without_code(&markdown);
    for markup in ["<img", "</script", "](javascript", "<!--"] {
        let bare =
            outside_code.match_indices(markup).filter(|(i, _)| !outside_code[..*i].ends_with('\\'));
        assert_eq!(bare.count(), 0, "{markup} is markup");
    }
    let table = dyno_report::csv::FORMAT.render(&report);
    let mut lines = csv::Reader::from_reader(table.as_bytes());
    for record in lines.records() {
        for cell in &record.unwrap() {
            assert!(!cell.starts_with(['=', '@', '\t', '\r']), "a formula: {cell}");
            assert!(
                !cell.starts_with(['+', '-']) || cell.parse::<f64>().is_ok(),
                "a formula: {cell}"
            );
        }
    }
    let json: Value = serde_json::from_str(&dyno_report::json::FORMAT.render(&report)).unwrap();
    assert!(
        json["run"]["suite"].as_str().unwrap().starts_with(HOSTILE),
        "programs get it as it is"
    );
}

#[test]
fn report_withholds_secrets_and_reports_it() {
    let copy = Copy::new();
    copy.change("run.json", |run| {
        run["command"] =
            json!(["dyno", "run", "my suite.toml", "-H", "Authorization: Bearer tell-no-one"]);
        run["plan"]["workloads"][0]["requests"][0]["headers"] =
            json!([["Cookie", "session=tell-no-one-2"], ["Accept", "text/html"]]);
        run["plan"]["suite"]["source"] = "headers = { Cookie = \"session=tell-no-one-2\" }\nenv = \
                                          { API_KEY = \"tell-no-one-3\" }\nProxy-Authorization = \
                                          \"\"\"Basic \\\n  tell-no-one-4\"\"\"\n"
            .into();
        run["plan"]["workloads"][0]["requests"][0]["path"] = "/a?access_token=tell-no-one-5".into();
        run["plan"]["subjects"][0]["title"] = "a.test/hooks/tell-no-one-5".into();
        run["plan"]["report"]["markers"] =
            json!([{"connections": 2, "label": "pool of db --password=tell-no-one-6"}]);
    });
    // Servers may log the requests that they receive.
    copy.change("starts/000.json", |start| {
        start["failure"] = json!({"kind": "crashed", "message": "it said session=tell-no-one-2"});
        start["parts"][0]["log_tail"] =
            "GET /a?access_token=tell-no-one-5\nCookie: session=tell-no-one-2\n".into();
    });
    let report = dyno_analysis::report::report(&copy.read().unwrap());
    for format in Format::ALL {
        let text = format.render(&report);
        assert!(!text.contains("tell-no-one"), "{} holds a secret", format.name);
    }
    let page = dyno_report::html::page(&report, "", "");
    assert!(page.contains("6 values that look like secrets are removed"), "{page}");
    assert!(
        page.contains("dyno run &#39;my suite.toml&#39; -H &#39;Authorization: (withheld)&#39;")
            || page.contains("dyno run 'my suite.toml' -H 'Authorization: (withheld)'"),
        "{page}"
    );
    assert!(page.contains("text/html"));
    let stored = fs::read_to_string(copy.folder.path().join("run.json")).unwrap();
    assert!(stored.contains("tell-no-one"), "the archive can repeat the run");
}

#[test]
fn secret_is_withheld_in_addresses_and_quotations() {
    let copy = Copy::new();
    insert_secrets(&copy);
    let report = dyno_analysis::report::report(&copy.read().unwrap());
    let json: Value = serde_json::from_str(&dyno_report::json::FORMAT.render(&report)).unwrap();
    let workload = &json["run"]["workloads"][0];
    assert_eq!(workload["requests"][1]["path"], "/b/(withheld)");
    assert_eq!(workload["requests"][0]["body"], "{\"key\":\"(withheld)\"}");
    let names =
        [&workload["name"], &workload["requests"][1]["name"], &json["trials"][0]["workload"]];
    let row_names = [&json["summaries"][0]["workload"], &json["overview"][0]["workload"]];
    for name in names.into_iter().chain(row_names) {
        assert_eq!(name, "b-(withheld)");
    }
    let load = &json["trials"][0]["load"];
    assert_eq!(load["unexpected"]["header X-Echo is not \"(withheld)\""], 2);
    assert_eq!(load["protocol_errors"]["the status line is (withheld)"], 1);
    let config = &load["config"];
    assert_eq!(config["requests_mixed"][0]["path"], "/a?k=(withheld)");
    assert_eq!(config["requests_mixed"][1]["path"], "/b/(withheld)");
    let mut absent = json["overview"].as_array().unwrap().iter().map(|row| row["absent"].as_str());
    assert!(
        absent.any(|reason| reason == Some("in some repeats: crashed: it said (withheld)")),
        "{:#}",
        json["overview"]
    );
    let printed = json["trials"][0]["caveats"].to_string();
    let verdict = json["trials"][0]["limiter"]["sentence"].as_str().unwrap();
    assert!(verdict.ends_with("(withheld)."), "{verdict}");
    for said in ["\"plaintext\\\": got (withheld)", "the last words were: (withheld)"] {
        assert!(printed.contains(said), "{printed}");
    }
    for format in Format::ALL {
        let text = format.render(&report);
        assert!(
            !text.contains(TOKEN) && !text.contains("swordfish"),
            "{} holds a secret",
            format.name
        );
    }
}

/// A secret in a header of the requests.
const TOKEN: &str = "abc123xyz987";

/// Inserts [`TOKEN`] and a cookie into the requests, and into the texts that quote them.
fn insert_secrets(copy: &Copy) {
    const DETAIL: &str = "got swordfish";
    copy.change("run.json", |run| {
        let requests = &mut run["plan"]["workloads"][0]["requests"];
        requests[0]["headers"] = json!([
            ["X-Api-Key", TOKEN],
            ["Cookie", "swordfish"],
            ["X-Trace", format!("of-{TOKEN}")]
        ]);
        requests[0]["path"] = format!("/a?k={TOKEN}").into();
        requests[0]["body"] = format!("{{\"key\":\"{TOKEN}\"}}").into();
        requests[0]["expect"] = json!({
            "status": 200,
            "body": TOKEN,
            "headers": [["X-Echo", TOKEN]],
            "headers_match": [],
            "body_contains": format!("is {TOKEN}"),
            "json": [["/key", TOKEN], [format!("/{TOKEN}"), {"all": [TOKEN], TOKEN: 1}]],
            "json_match": [],
        });
        let mut second = requests[0].clone();
        // The default name of a request in a suite.
        (second["name"], second["path"]) =
            (format!("b-{TOKEN}").into(), format!("/b/{TOKEN}").into());
        requests.as_array_mut().unwrap().push(second);
        run["plan"]["workloads"][0]["name"] = format!("b-{TOKEN}").into();
    });
    copy.change("starts/000.json", |start| {
        start["failure"] = json!({"kind": "crashed", "message": "it said swordfish"});
    });
    copy.change("trials/0000.json", |trial| {
        trial["load"]["unexpected"] = json!({format!("header X-Echo is not {TOKEN:?}"): 2});
        trial["load"]["protocol_errors"] = json!({"the status line is swordfish": 1});
        trial["checks"] = json!([{
            "name": "plaintext", "protocol": "h1", "ok": false, "answered": true, "waived": false,
            "of_life": false, "asked": "", "expected": "", "got": DETAIL,
        }]);
        trial["load"]["server_failure"] = "the last words were: swordfish".into();
    });
}

#[test]
fn report_withholds_secrets_of_checks_and_logs() {
    let copy = Copy::new();
    copy.change("run.json", |run| {
        run["plan"]["subjects"][0]["version"] = "v1 --password=tell-no-one-1".into();
    });
    let check = |ok: bool| {
        json!({
            "name": "c", "protocol": "h1", "ok": ok, "answered": true, "waived": false,
            "of_life": false,
            "asked": "POST /c?token=tell-no-one-2, body \
                      \"{\\\"password\\\":\\\"tell-no-one-3\\\"}\"",
            "expected": "status 200, location: http://u:tell-no-one-4@h/, JSON /token \
                         \"tell-no-one-5\"",
            "got": "the status is 500\nSet-Cookie: id=tell-no-one-6\n\nauth=Bearer tell-no-one-7",
        })
    };
    let failure = "check \"c\": asked GET /c?token=tell-no-one-2; got X-Auth-Token: tell-no-one-8";
    copy.change("starts/000.json", |start| {
        start["failure"] = json!({"kind": "wrong_answers", "message": failure});
        start["parts"][0]["checks_before"] = json!([check(true), check(false)]);
        start["parts"][0]["log_tail"] = "to pg://app:tell-no-one-9@db\n".into();
    });
    copy.change("trials/0000.json", |trial| trial["checks"] = json!([check(false)]));
    let report = dyno_analysis::report::report(&copy.read().unwrap());
    let complete = serde_json::to_string(&report).unwrap();
    for n in 1..=9 {
        assert!(complete.contains(&format!("tell-no-one-{n}")), "{n} is nowhere");
    }
    for format in Format::ALL {
        let text = format.render(&report);
        let at = text
            .find("tell-no-one")
            .map(|at| text[..at + 20].chars().rev().take(99).collect::<String>());
        assert_eq!(at.map(|text| text.chars().rev().collect::<String>()), None, "{}", format.name);
    }
    // Standard output that is not a terminal may be a file or a log that is shared.
    let mut dyno = Command::new(env!("CARGO_BIN_EXE_dyno"));
    let output = dyno.arg("report").arg(copy.folder.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("(withheld)") && !text.contains("tell-no-one"), "{text}");
}

#[test]
fn comparison_withholds_secrets() {
    let copies = ["swordfish-1", "swordfish-2"].map(|secret| {
        let copy = Copy::new();
        copy.change("run.json", |run| {
            run["id"] = secret.replace("swordfish", "run").into();
            run["run_id"] = run["id"].clone();
            let workload = &mut run["plan"]["workloads"][0];
            workload["requests"][0]["headers"] = json!([["Cookie", format!("id={secret}")]]);
            workload["name"] = "/a?token=tell-no-one-1".into();
        });
        copy.change("starts/000.json", |start| {
            let message = format!("it printed {secret} and password=tell-no-one-2");
            start["failure"] = json!({"kind": "crashed", "message": message});
        });
        copy
    });
    let compare = |more: &[&str]| {
        let mut dyno = Command::new(env!("CARGO_BIN_EXE_dyno"));
        let runs = copies.iter().map(|copy| copy.folder.path());
        let output = dyno.arg("compare").args(runs).arg("--anyway").args(more).output().unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    for format in ["text", "md", "json", "junit", "html"] {
        let text = compare(&["--format", format]);
        assert!(text.contains("/a?token=(withheld)"), "{format}: {text}");
        assert!(!text.contains("tell-no-one") && !text.contains("swordfish"), "{format}: {text}");
    }
}

/// Returns a value of the same kind that is unlikely to be valid, and sometimes one of another
/// kind.
fn unlikely_value(value: &Value, rng: &mut Rng) -> Value {
    let numbers =
        [0, 1, 2, 7, 1 << 20, u64::from(u32::MAX), 1 << 44, 1 << 61, u64::MAX].map(|n| json!(n));
    let texts = ["", "\u{0}<script>", "=1", "h2", "\u{1b}[2J"].map(|t| json!(t));
    let others =
        [json!(-1), json!(1e308), json!(-0.5), json!(null), json!([]), json!({}), json!(true)];
    let choose =
        |all: &[Value], rng: &mut Rng| all[rng.next_below(all.len() as u64) as usize].clone();
    if rng.next_below(10) == 0 {
        return choose(&others, rng);
    }
    match value {
        Value::Number(_) => choose(&numbers, rng),
        Value::String(_) => choose(&texts, rng),
        Value::Bool(flag) => json!(!flag),
        // Removes an element of a list, or repeats one.
        Value::Array(all) => {
            let mut all = all.clone();
            let last = all.pop();
            if rng.next_below(2) == 0 {
                all.extend(last.iter().chain(&last).cloned());
            }
            Value::Array(all)
        }
        Value::Null | Value::Object(_) => Value::Null,
    }
}

/// Replaces one value at a random position.
fn replace_random_value(value: &mut Value, rng: &mut Rng) {
    let children: Vec<&mut Value> = match value {
        Value::Array(all) => all.iter_mut().collect(),
        Value::Object(all) => all.values_mut().collect(),
        _ => Vec::new(),
    };
    let n = children.len() as u64;
    match children.into_iter().nth(rng.next_below(n.max(1)) as usize) {
        Some(child) if rng.next_below(20) > 0 => replace_random_value(child, rng),
        _ => *value = unlikely_value(value, rng),
    }
}

#[test]
fn changed_archive_never_panics() {
    let mut read = 0;
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let copy = Copy::new();
        for _ in 0..=rng.next_below(2) {
            let file =
                ["run.json", "starts/000.json", "trials/0003.json"][rng.next_below(3) as usize];
            copy.change(file, |document| replace_random_value(document, &mut rng));
        }
        if let Ok(run) = copy.read() {
            read += 1;
            let report = dyno_analysis::report::report(&run);
            for format in Format::ALL {
                assert!(!format.render(&report).contains("<script>\u{0}"), "seed {seed}");
            }
        }
    }
    assert!(
        (40..360).contains(&read),
        "{read} of 400 were read: the changes are too mild or too harsh"
    );
}
