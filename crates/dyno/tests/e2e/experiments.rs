//! Experiments on real servers, and the search for a capacity.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::drive::{Sandbox, Server, text, unruly};

/// dyno's own responder, with 20 µs of additional work per response, which is several times the
/// cost of a response.
#[test]
fn toggle_has_effect_with_reason_and_twin_has_none() {
    let sandbox = Sandbox::new();
    let suite = "subjects = [\"null\"]\n[suite]\nrepeats = 5\ntwin = \"null, DYNO_NULL_WORK 0\"\n\
                 [experiment]\nkind = \"toggle\"\nfactor = \"work\"\n\
                 vary = { \"env.DYNO_NULL_WORK\" = [\"0\", \"20000\"] }\n\
                 [[workloads]]\npath = \"/plaintext\"\n\
                 [load]\nconnections = [4]\nwarmup = \"400ms\"\nduration = \"800ms\"\n\
                 timeout = \"5s\"\n";
    fs::write(sandbox.path().join("toggle.toml"), suite).unwrap();
    let output = sandbox.dyno(&["run", "toggle.toml"]);
    assert!(sandbox.run_folder().is_some(), "no run:\n{}", text(&output));
    sandbox.assert_nothing_is_left();
    let report = sandbox.report();
    assert!(
        report["trials"].as_array().unwrap().iter().all(|trial| !trial["turns"].is_null()),
        "the subjects took turns"
    );
    let [effect] = report["experiment"]["effects"].as_array().unwrap().as_slice() else {
        panic!("{report:#}")
    };
    assert_eq!(effect["to"], "null, DYNO_NULL_WORK 20000");
    let because = effect["because"].as_str().unwrap();
    assert!(because.starts_with("work"), "{because}");
    // Other programs on the machine may invalidate trials. Then there may be too few for a verdict.
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
    let [twin] = report["twins"].as_array().unwrap().as_slice() else {
        panic!("one twin: {report:#}")
    };
    assert_eq!(
        (&twin["from"], &twin["changed"]),
        (&"null, DYNO_NULL_WORK 0".into(), &Value::Array(vec![]))
    );
    assert_eq!(report["canary"]["starts"].as_array().unwrap().len(), 15);
    let page = fs::read_to_string(sandbox.run_folder().unwrap().join("report.html")).unwrap();
    let reason =
        if throughput["verdict"] == "lower" { "The cause is work" } else { "differ only in work" };
    assert!(page.contains("Effects") && page.contains(reason));
}

/// Each arm sends request bodies of the size in its name.
#[test]
fn body_size_dose_is_measured() {
    let sandbox = Sandbox::new();
    let suite = "subjects = [\"null\"]\n[suite]\nrepeats = 1\ncontaminated = \"counts\"\n\
                 [experiment]\nkind = \"dose\"\n\
                 vary = { \"request.size\" = [64, 1000, \"16KiB\"] }\n\
                 [[workloads]]\nmethod = \"POST\"\npath = \"/plaintext\"\n\
                 body = \"{fill:{request.size}}\"\nexpect = { body = \"Hello, World!\" }\n\
                 [load]\nconnections = [2]\nwarmup = \"100ms\"\nduration = \"500ms\"\n\
                 timeout = \"5s\"\n";
    fs::write(sandbox.path().join("dose.toml"), suite).unwrap();
    let output = sandbox.dyno(&["run", "dose.toml"]);
    assert!(sandbox.run_folder().is_some(), "no run:\n{}", text(&output));
    sandbox.assert_nothing_is_left();
    let report = sandbox.report();
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 3);
    for (arm, min) in
        [("null, size 64", 64), ("null, size 1000", 1000), ("null, size 16KiB", 16_384)]
    {
        let trial = trials.iter().find(|trial| trial["subject_id"] == arm).expect(arm);
        let byte_count = |key: &str| trial["load"]["bytes"][key].as_u64().unwrap();
        // Each request has a head in addition to its body. Few of the many requests are in flight
        // at an edge of the window.
        let bytes_per_request = byte_count("sent") / byte_count("responses");
        assert!((min..min + 400).contains(&bytes_per_request), "{arm}: {bytes_per_request}");
        let caveats = trial["caveats"].as_array().unwrap();
        assert!(caveats.iter().all(|caveat| caveat["code"] != "wrong_answers"), "{trial:#}");
    }
    let effect = &report["experiment"]["effects"][1];
    assert_eq!(
        (&effect["to"], &effect["changed"][0]["what"]),
        (&"null, size 16KiB".into(), &"request.size".into())
    );
    assert_eq!(
        report["experiment"]["doses"][0]["doubling"],
        Value::Null,
        "a slope of one launch has no interval"
    );
}

/// Creates a repository in which the second commit adds about 32 µs of work per response. Its work
/// tree equals the first commit.
fn repository_of_two_commits(sandbox: &Sandbox) -> PathBuf {
    let repository = sandbox.path().join("repository");
    commit_twice(&repository, &repository.join("subjects/web"), &null_revisions());
    repository
}

/// Returns two definitions of a server: the null responder with little and with more work.
fn null_revisions() -> [String; 2] {
    [8_000, 40_000].map(|work| {
        let start = format!(
            "command = [\"sh\", \"-c\", \"exec {{dyno}} serve-null --port {{port}}\"]\n\
             env = {{ DYNO_NULL_WORK = \"{work}\" }}"
        );
        definition(&start)
    })
}

/// Returns the definition of the server `web` with this table `start`.
fn definition(start: &str) -> String {
    format!(
        "name = \"web\"\ntitle = \"Web\"\nlanguage = \"Rust\"\nprotocols = [\"h1\"]\n\
         checks = [\"hello\"]\n[start]\n{start}\n\
         [ready]\npath = \"/plaintext\"\ndeadline = \"60s\"\n"
    )
}

/// Creates a repository with a server in `folder`, and commits its two definitions: the first is
/// the branch `before`, the second the branch `main`. The work tree equals the first.
fn commit_twice(repository: &Path, folder: &Path, [before, main]: &[String; 2]) {
    fs::create_dir_all(folder).unwrap();
    let git = |words: &[&str]| {
        let identity = [
            "-c",
            "user.name=x",
            "-c",
            "user.email=x@example.com",
            "-c",
            "init.defaultBranch=main",
        ];
        let output = Command::new("git")
            .args(identity)
            .args(words)
            .current_dir(repository)
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {}", text(&output));
    };
    let write = |definition: &str| fs::write(folder.join("subject.toml"), definition).unwrap();
    let suite = "subjects = [\"web\", \"null\"]\n[suite]\ntwin = \"web\"\n[[workloads]]\n\
                 path = \"/plaintext\"\n\
                 [load]\nconnections = [4]\nwarmup = \"400ms\"\nduration = \"800ms\"\n\
                 timeout = \"5s\"\n[report]\nbaseline = \"null\"\n";
    fs::write(repository.join("suite.toml"), suite).unwrap();
    git(&["init", "--quiet"]);
    write(before);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "first"]);
    git(&["branch", "before"]);
    write(main);
    git(&["commit", "--quiet", "--all", "--message", "second"]);
    // Uncommitted changes are measured only without a second revision.
    write(before);
    // Hooks and monitors of files are part of the user's own work.
    for program in ["hooks/post-checkout", "monitor"] {
        let program = repository.join(".git").join(program);
        fs::write(
            &program,
            "#!/bin/sh\ntouch \"$(git rev-parse --git-common-dir)/program-was-run\"\n",
        )
        .unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    git(&["config", "core.fsmonitor", ".git/monitor"]);
}

/// If the repository is the server's folder itself, its work trees have no folder of subjects. If
/// the server's folder is a link out of the repository, a work tree links to the present files.
#[test]
fn server_outside_work_tree_has_no_revisions() {
    let sandbox = Sandbox::without_load();
    let alone = sandbox.path().join("alone/subjects/web");
    commit_twice(&alone, &alone, &null_revisions());
    fs::copy(alone.join("suite.toml"), sandbox.path().join("alone/suite.toml")).unwrap();
    let linked = sandbox.path().join("linked");
    let repository = repository_of_two_commits(&sandbox);
    fs::create_dir_all(linked.join("subjects")).unwrap();
    std::os::unix::fs::symlink(repository.join("subjects/web"), linked.join("subjects/web"))
        .unwrap();
    fs::copy(repository.join("suite.toml"), linked.join("suite.toml")).unwrap();
    for folder in ["alone", "linked"] {
        let suite = format!("{folder}/suite.toml");
        let output =
            sandbox.dyno(&["compare", "--rev", "before", "--rev", "main", &suite, "--anyway"]);
        assert_eq!(output.status.code(), Some(2), "{folder}: {}", text(&output));
        assert!(text(&output).contains("is outside of the repository"), "{}", text(&output));
        sandbox.assert_nothing_is_left();
    }
    // A result that cannot be written is detected before the measurements.
    let arguments = [
        "compare",
        "--rev",
        "before",
        "--rev",
        "main",
        "repository/suite.toml",
        "-o",
        "nowhere/a.md",
    ];
    let output = sandbox.dyno(&arguments);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("cannot be written"), "{}", text(&output));
    assert!(sandbox.run_folder().is_none(), "nothing is measured");
}

#[test]
#[ignore = "long: runs in make nightly"]
fn server_is_compared_with_its_revision() {
    let sandbox = Sandbox::new();
    let repository = repository_of_two_commits(&sandbox);
    let output = sandbox.dyno(&[
        "compare",
        "--rev",
        "before",
        "--rev",
        "main",
        "repository/suite.toml",
        "--fail-on",
        "cpu_us_per_request>+20%",
        "--format",
        "json",
    ]);
    let status = output.status.code().unwrap();
    let compared: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    assert_eq!(
        (&compared["a"]["subject"], &compared["b"]["subject"]),
        (&"web@before".into(), &"web@main".into())
    );
    sandbox.assert_nothing_is_left();
    let report = sandbox.report();
    // Other programs on the machine may invalidate trials.
    let are_valid = report["trials"].as_array().unwrap().iter().all(|trial| trial["valid"] == true);
    if are_valid {
        assert_eq!((status, &compared["gates"][0]["state"]), (1, &"missed".into()), "{compared:#}");
    }
    let effect = &report["experiment"]["effects"][0];
    assert_eq!(effect["changed"][0]["what"], "revision", "{effect:#}");
    assert_eq!(effect["because"], "revision (before → main)");
    assert!(text(&output).contains("uncommitted changes"), "{}", text(&output));
    assert!(!repository.join(".git/program-was-run").exists());
    let git = |words: &[&str]| {
        let words = [&["-c", "core.fsmonitor=false"], words].concat();
        let output = Command::new("git").args(words).current_dir(&repository).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(git(&["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
    assert_eq!(git(&["status", "--porcelain"]), " M subjects/web/subject.toml\n");
    let run = sandbox.run_folder().unwrap().display().to_string();
    let resumed = sandbox.dyno(&["run", "--resume", &run]);
    assert!(text(&resumed).contains("their work trees are removed"), "{}", text(&resumed));
}

/// One crash in five starts is not a difference between revisions, but makes the comparison
/// incomplete.
#[test]
fn revision_with_crash_is_reported() {
    let sandbox = Sandbox::new();
    let repository = repository_of_two_commits(&sandbox);
    let definition = repository.join("subjects/web/subject.toml");
    let crashed = sandbox.path().join("crashed");
    let crash_once = format!(
        "if mkdir {} 2>/dev/null; then {{dyno}} serve-null --port {{port}} & sleep 1; kill -9 $!; \
         exit 9; fi; exec ",
        crashed.display()
    );
    let definition_text = fs::read_to_string(&definition).unwrap();
    fs::write(&definition, definition_text.replacen("exec ", &crash_once, 1)).unwrap();
    let output = sandbox.dyno(&["compare", "--rev", "before", "repository/suite.toml"]);
    assert!(crashed.exists(), "{}", text(&output));
    let printed = text(&output);
    assert!(printed.contains("crashed: its process ended"), "{printed}");
    assert!(!printed.contains("incorrect responses"), "{printed}");
    // On a machine that other programs use, no repeat may be valid.
    let is_compared = !printed.contains("so the revisions cannot be compared");
    assert_eq!(output.status.code(), Some(if is_compared { 3 } else { 1 }), "{printed}");
    assert_eq!(printed.contains("In some starts, a revision failed"), is_compared, "{printed}");
    sandbox.assert_nothing_is_left();
}

/// The steps request only `/plaintext`, and are shorter than the interval of the checks during a
/// load. Only the check after the last step finds that `/json` is broken.
#[test]
fn contract_broken_after_last_step_fails_comparison() {
    let sandbox = Sandbox::new();
    let revisions = ["good", "wrong-json"].map(|mode| {
        let program = unruly().display().to_string();
        // More requests than the checks before the first step send.
        let command = [program.as_str(), "--port", "{port}", "--mode", mode, "--after", "300"];
        definition(&format!("command = {command:?}"))
    });
    let repository = sandbox.path().join("repository");
    commit_twice(&repository, &repository.join("subjects/web"), &revisions);
    let suite = fs::read_to_string(repository.join("suite.toml")).unwrap();
    let suite = suite.replace("[load]\n", "[load]\ninterval = \"10s\"\n");
    fs::write(repository.join("suite.toml"), suite).unwrap();
    let output = sandbox.dyno(&[
        "compare",
        "--rev",
        "before",
        "--rev",
        "main",
        "repository/suite.toml",
        "--repeats",
        "1",
        "--format",
        "junit",
    ]);
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("web@main: responded incorrectly: check \"json"), "{printed}");
    // The XML agrees with the exit status.
    let failure = "name=\"the run of both revisions\"><failure message=\"web@main: responded \
                   incorrectly: check &quot;json";
    assert!(printed.contains(failure) && printed.contains(" failures=\"1\" "), "{printed}");
    sandbox.assert_nothing_is_left();
    let report = sandbox.report();
    for trial in report["trials"].as_array().unwrap() {
        let caveats = trial["caveats"].as_array().unwrap();
        let is_about_responses = |caveat: &&Value| {
            ["checks_failed", "wrong_answers"].contains(&caveat["code"].as_str().unwrap())
        };
        assert!(!caveats.iter().any(|caveat| is_about_responses(&caveat)), "{caveats:#?}");
    }
}

#[test]
fn revisions_that_cannot_be_compared_are_refused() {
    let sandbox = Sandbox::without_load();
    repository_of_two_commits(&sandbox);
    for (words, expected) in [
        (&["--rev", "nowhere"][..], "not a commit of the repository"),
        (&["--rev=--upload-pack=x"], "not a commit of the repository"),
        (&["--rev", "main", "--rev", "HEAD"], "are the same commit"),
        (&["--rev", "before"], "folder and definition are the same in before and worktree"),
        (&["--rev", "main", "--only", "null"], "null: cannot be compared by revision"),
        (&["--rev", "main", "--rev", "main", "--rev", "main"], "given 3 times"),
        (&["--only", "web", "other"], "--only: needs --rev"),
        (&[], "<B>"),
    ] {
        let output = sandbox.dyno(&[&["compare", "repository/suite.toml"], words].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output));
        assert!(text(&output).contains(expected), "{words:?}: {}", text(&output));
        sandbox.assert_nothing_is_left();
    }
    assert!(sandbox.run_folder().is_none(), "nothing is measured");
}

/// A server with a millisecond of work per response serves fewer than a thousand requests a second
/// on any machine.
#[test]
fn capacity_search_returns_bracket() {
    let sandbox = Sandbox::new();
    let server = Server::null_that_works(1_000_000);
    let url = server.url("/plaintext");
    let output = sandbox.dyno(&[
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
    let (reached, missed) = (found["kept_rps"].as_f64(), found["missed_rps"].as_f64());
    let is_confirmed = found["settled"] == true && found["confirmed"] == true;
    let is_answer = is_confirmed && found["limited_by_generator"] == false;
    // Each kept rate holds for the longer load, or the report says for how long.
    let holds_s = found["holds_s"].as_f64();
    let met = reached.or(found["unconfirmed_rps"].as_f64());
    assert_eq!(met.is_some(), holds_s.is_some(), "{found:#}");
    assert!(!is_confirmed || holds_s.unwrap() > 3.5, "{found:#}");
    assert_eq!(is_answer, status == 0);
    assert!(missed.is_some_and(|missed| missed < 20_000.0), "{found:#}");
    assert!(reached.is_none_or(|reached| reached < missed.unwrap()), "{found:#}");
    let loads = found["trials"].as_array().unwrap().len() as u64;
    assert!(loads >= 3 && found["missed_by"]["loads"].as_u64().unwrap() >= 1, "{found:#}");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let judged = ["missed: ", "unknown: ", "  met"].map(|word| message.matches(word).count());
    assert_eq!(judged.iter().sum::<usize>(), loads as usize, "{message}");
    assert!(
        message.contains("the search begins at 100/s"),
        "50/s for 400 ms are too few requests: {message}"
    );
}

#[test]
fn search_with_unsupported_options_is_refused() {
    let sandbox = Sandbox::without_load();
    for (arguments, expected) in [
        (&["--find", "p42<1ms"][..], "not a metric that an objective can limit"),
        (&["--find", "p99<1ms", "-n", "100"], "-n: cannot be used with --find"),
        (&["--find", "p99<1ms", "-r", "1k..5k"], "the rate at which the search begins"),
        (&["--width", "3"], "--find"),
        (&["--arrival", "poisson"], "--rate or --find"),
    ] {
        let output = sandbox.dyno(&[&["load", "http://127.0.0.1:1/"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains(expected), "{arguments:?}: {}", text(&output));
    }
}

/// One server takes five times as long as the other, which is known long before forty repeats.
#[test]
fn run_with_stop_ends_once_decided() {
    let sandbox = Sandbox::new();
    let suite = "subjects = [\"null\"]\n[suite]\nrepeats = 40\n[stop]\nmetrics = [\"throughput\"]\n\
                 [experiment]\nkind = \"toggle\"\n\
                 vary = { \"env.DYNO_NULL_WORK\" = [\"8000\", \"40000\"] }\n\
                 [[workloads]]\npath = \"/plaintext\"\n\
                 [load]\nconnections = [4]\nwarmup = \"400ms\"\nduration = \"400ms\"\n\
                 timeout = \"5s\"\n";
    fs::write(sandbox.path().join("stop.toml"), suite).unwrap();
    let output = sandbox.dyno(&["run", "stop.toml"]);
    sandbox.assert_nothing_is_left();
    let report = sandbox.report();
    let after =
        report["run"]["answered_after"].as_u64().unwrap_or_else(|| panic!("{}", text(&output)));
    assert!((5..40).contains(&after), "{after}");
    assert_eq!(report["experiment"]["effects"][0]["rows"][0]["verdict"], "lower");
    let message = text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(message.contains("the result of every comparison was clear"), "{message}");
    let run = sandbox.run_folder().unwrap().display().to_string();
    // The run was not interrupted: there is nothing to resume, and the exit status is the status of
    // its steps.
    assert!([0, 1].contains(&output.status.code().unwrap()), "{}", text(&output));
    let trials = report["trials"].as_array().unwrap().len();
    let resumed = sandbox.dyno(&["run", "--resume", &run]);
    assert_eq!(resumed.status.code(), output.status.code(), "{}", text(&resumed));
    assert_eq!(sandbox.report()["trials"].as_array().unwrap().len(), trials);
}

#[test]
#[ignore = "long: runs in make nightly"]
fn rate_shares_use_capacity_of_slowest_subject() {
    let sandbox = Sandbox::new();
    // Its requests wait, so that the generator is not the limit even next to other programs.
    sandbox.add_unruly("slow", &["--mode", "sleepy-workers"], "");
    let suite = "subjects = [\"slow\", \"null\"]\n[suite]\nrepeats = 1\n[[workloads]]\n\
                 path = \"/plaintext\"\n\
                 [load]\nconnections = 4\nrate = [\"10%\", \"20%\"]\nwarmup = \"100ms\"\n\
                 duration = \"400ms\"\ntimeout = \"5s\"\n\
                 [report]\nobjective = \"errors<1%\"\n";
    fs::write(sandbox.path().join("shares.toml"), suite).unwrap();
    let planned = sandbox.dyno(&["plan", "shares.toml"]);
    assert!(
        text(&planned).contains("Then the main run offers 10.0 %, 20.0 % of that"),
        "{}",
        text(&planned)
    );
    // Other programs may spoil the run in which the capacity is measured, which dyno reports.
    let measure = |attempt: u32| {
        let runs = format!("shares-{attempt}");
        let output = sandbox.dyno(&["run", "shares.toml", "--runs", &runs]);
        sandbox.assert_nothing_is_left();
        let is_spoiled = text(&output).contains(", which is unknown");
        assert!(!is_spoiled || output.status.code() == Some(3), "{}", text(&output));
        (!is_spoiled).then_some((runs, output))
    };
    let (runs, output) = (0..5).find_map(measure).expect("a machine that is quiet for a second");
    let mut reports: Vec<Value> = fs::read_dir(sandbox.path().join(&runs))
        .unwrap()
        .map(|run| {
            let report = fs::read_to_string(run.unwrap().path().join("report.json")).unwrap();
            serde_json::from_str(&report).unwrap()
        })
        .collect();
    reports.sort_by_key(|report: &Value| report["run"]["suite"].as_str().unwrap().len());
    let [at_rates, closed] = reports.as_slice() else { panic!("two runs: {}", text(&output)) };
    assert_eq!(closed["run"]["suite"], "shares-capacity");
    let capacity_run = &at_rates["run"]["measured_first"];
    assert_eq!(
        (&capacity_run["run"], &capacity_run["capacities"][0]["subject"]),
        (&closed["run"]["id"], &"slow".into())
    );
    let capacity = capacity_run["capacities"][0]["rps"].as_f64().unwrap();
    let rate =
        |step: usize| at_rates["run"]["load"]["steps"][step]["arrivals"]["rate"].as_f64().unwrap();
    assert!(
        (rate(0) / capacity - 0.1).abs() < 0.01 && (rate(1) / capacity - 0.2).abs() < 0.01,
        "{capacity}"
    );
    // The second run has the CPUs of the first.
    let placement = |report: &Value| report["subjects"][0]["conditions"]["placement"].clone();
    assert_eq!(placement(at_rates), placement(closed));
    assert_eq!(at_rates["brackets"][0]["subject"], "slow");
    assert!(text(&output).contains("Rates that meet errors<1%: slow"), "{}", text(&output));
    // A failure in the first run is a failure of the whole.
    let archive = format!("{runs}/{}", at_rates["run"]["id"].as_str().unwrap());
    let status = || sandbox.dyno(&["report", &archive]).status.code();
    assert_ne!(status(), Some(3));
    let header = sandbox.path().join(&archive).join("run.json");
    let mut value: Value = serde_json::from_str(&fs::read_to_string(&header).unwrap()).unwrap();
    value["plan"]["measured_first"]["failures"] =
        json!([{"subject": "slow", "failed": 1, "repeats": 3}]);
    fs::write(&header, value.to_string()).unwrap();
    assert_eq!(status(), Some(3));
}

/// The subject without a capacity may be the slowest one.
#[test]
fn rate_shares_end_at_subject_without_capacity() {
    let sandbox = Sandbox::new();
    sandbox.add_unruly("slow", &[], "");
    sandbox.add_unruly("dies", &["--mode", "crash", "--after", "100"], "");
    let suite = "subjects = [\"slow\", \"dies\"]\n[suite]\nrepeats = 1\n[[workloads]]\n\
                 path = \"/plaintext\"\n[load]\nconnections = 4\nrate = [\"10%\"]\n\
                 warmup = \"100ms\"\nduration = \"400ms\"\n";
    fs::write(sandbox.path().join("shares.toml"), suite).unwrap();
    let output = sandbox.dyno(&["run", "shares.toml"]);
    sandbox.assert_nothing_is_left();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("unknown: the subject has no valid closed-loop step"), "{said}");
    // The machine may have disturbed the other subject.
    assert!(
        said.contains("the capacity of dies, which") || said.contains("Also unknown: dies"),
        "{said}"
    );
    assert!(said.contains(" with --only"), "{said}");
    let runs = fs::read_dir(sandbox.path().join("runs")).unwrap().count();
    assert_eq!(runs, 1, "no rate was offered: {said}");
}

#[test]
fn rate_search_runs_at_each_start() {
    let sandbox = Sandbox::new();
    sandbox.add_unruly("slow", &[], "");
    sandbox.write_search("slow", 2);
    let planned = sandbox.dyno(&["plan", "find.toml"]);
    let find = "the highest rate that meets errors<1%, with a precision of 60.0 %. Each start of a \
                subject has one search after each closed-loop step";
    assert!(text(&planned).contains(find), "{}", text(&planned));
    let output = sandbox.dyno(&["run", "find.toml"]);
    sandbox.assert_nothing_is_left();
    let report = sandbox.report();
    let bracket = &report["brackets"][0];
    let searches = report["searches"].as_array().unwrap();
    assert_eq!(
        (searches.len(), &bracket["searched"]["starts"]),
        (2, &2.into()),
        "{}",
        text(&output)
    );
    for search in searches {
        let loads = search["result"]["trials"].as_array().unwrap();
        assert!(loads.len() >= 6 && loads.len() <= 80, "{}", loads.len());
        // At a rate that met the objective, most of the offered requests had a response.
        let reached = loads.iter().filter(|load| load["kept"] == true);
        for load in reached {
            let (rate, answered) =
                (load["rate_rps"].as_f64().unwrap(), load["throughput_rps"].as_f64().unwrap());
            assert!(answered > 0.8 * rate, "{load}");
        }
    }
    let (kept, missed) =
        (bracket["kept_rps"].as_f64().unwrap(), bracket["missed_rps"].as_f64().unwrap());
    assert!(kept < missed, "{bracket}");
    assert!(text(&output).contains("Rates that meet errors<1%: slow up to"), "{}", text(&output));
    // The search is in the archive: without it the report has no search.
    let run = sandbox.run_folder().unwrap();
    let again = sandbox.dyno(&["report", run.to_str().unwrap(), "--format", "md"]);
    assert!(text(&again).contains("Missed condition"), "{}", text(&again));
    assert_eq!(fs::read_dir(run.join("searches")).unwrap().count(), 2);
}

/// Processes that keep CPUs busy until this is dropped.
struct Burners(Vec<Child>);

impl Burners {
    fn start() -> Burners {
        let burner = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Burners(vec![burner(), burner()])
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        for burner in &mut self.0 {
            burner.kill().unwrap();
            burner.wait().unwrap();
        }
    }
}

#[test]
fn contaminated_trial_is_rerun_and_both_are_saved() {
    let sandbox = Sandbox::new();
    let burners = Burners::start();
    let (_, report) = sandbox.run(&["null"], "");
    let run = sandbox.run_folder().unwrap();
    let count_saved = || fs::read_dir(run.join("contaminated")).map_or(0, Iterator::count);
    // Two steps may be re-run. The re-run counts even if it was not better.
    assert_eq!((report["trials"].as_array().unwrap().len(), count_saved()), (2, 2));
    let caveats = report["caveats"].as_array().unwrap();
    let again = caveats.iter().find(|caveat| caveat["code"] == "done_again").unwrap();
    assert_eq!(again["evidence"]["trials"].as_array().unwrap().len(), 2);
    drop(burners);
    let burners = Burners::start();
    let suite = sandbox.write_suite(&["null"], "");
    let text = fs::read_to_string(&suite).unwrap();
    fs::write(&suite, text.replace("[suite]", "[suite]\ncontaminated = \"counts\"")).unwrap();
    sandbox.dyno(&["run", "suite.toml", "--runs", "counted"]);
    drop(burners);
    let counted =
        fs::read_dir(sandbox.path().join("counted")).unwrap().next().unwrap().unwrap().path();
    assert!(!counted.join("contaminated").exists());
}
