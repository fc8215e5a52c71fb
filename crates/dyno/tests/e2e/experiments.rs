//! Experiments on real servers, and the search for a capacity.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::drive::{Sandbox, Server, text};

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

/// If a repository is the server's folder itself, its work trees have no folder of subjects. If the
/// server's folder is a link out of the repository, a work tree links to the present files.
#[test]
fn revisions_that_cannot_be_compared_are_refused() {
    let sandbox = Sandbox::without_load();
    let repository = repository_of_two_commits(&sandbox);
    let [alone, linked] = ["alone", "linked"].map(|name| sandbox.path().join(name));
    let server = alone.join("subjects/web");
    commit_twice(&server, &server, &null_revisions());
    fs::create_dir_all(linked.join("subjects")).unwrap();
    symlink(repository.join("subjects/web"), linked.join("subjects/web")).unwrap();
    for folder in [alone, linked] {
        fs::copy(repository.join("suite.toml"), folder.join("suite.toml")).unwrap();
    }
    let both = ["--rev", "before", "--rev", "main"];
    let unwritable = [&both[..], &["-o", "nowhere/a.md"]].concat();
    for (folder, words, expected) in [
        ("repository", &["--rev", "nowhere"][..], "not a commit of the repository"),
        ("repository", &["--rev=--upload-pack=x"], "not a commit of the repository"),
        ("repository", &["--rev", "main", "--rev", "HEAD"], "are the same commit"),
        (
            "repository",
            &["--rev", "before"],
            "folder and definition are the same in before and worktree",
        ),
        (
            "repository",
            &["--rev", "main", "--only", "null"],
            "null: cannot be compared by revision",
        ),
        ("repository", &["--rev", "main", "--rev", "main", "--rev", "main"], "given 3 times"),
        ("repository", &["--only", "web", "other"], "--only: needs --rev"),
        ("repository", &[], "<B>"),
        // A result that cannot be written is detected before the measurements.
        ("repository", &unwritable, "cannot be written"),
        ("alone", &[&both[..], &["--anyway"]].concat(), "is outside of the repository"),
        ("linked", &[&both[..], &["--anyway"]].concat(), "is outside of the repository"),
    ] {
        let suite = format!("{folder}/suite.toml");
        let output = sandbox.dyno(&[&["compare", &suite], words].concat());
        assert_eq!(output.status.code(), Some(2), "{folder} {words:?}: {}", text(&output));
        assert!(text(&output).contains(expected), "{folder} {words:?}: {}", text(&output));
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
    let search = "--find p50<200ms,errors<1% -d 400ms -w 100ms --width 30 -r 400 -c 8";
    let options = search.split(' ').chain(["--format", "json"]);
    let output = sandbox.dyno(&["load", &url].into_iter().chain(options).collect::<Vec<_>>());
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
