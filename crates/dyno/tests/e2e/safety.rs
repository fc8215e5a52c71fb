//! Tests that dyno protects the user's files, environment and processes, and does not mix results
//! of different experiments in one report.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::drive::{DYNO, Sandbox, is_running, not_run, text, unruly};

/// Adds a subject with a build. A shell runs the command `first`, and then the unruly server.
fn add(sandbox: &Sandbox, name: &str, build: &str, first: &str, extra: &str) {
    let folder = sandbox.path().join("subjects").join(name);
    fs::create_dir_all(&folder).unwrap();
    let command = format!("{first}exec {} --port {{port}}", unruly().display());
    let text = format!(
        "name = {name:?}\ntitle = \"X\"\nlanguage = \"C\"\nprotocols = [\"h1\"]\n{build}\n\
         [start]\ncommand = [\"sh\", \"-c\", {command:?}]\n{extra}\n[ready]\n\
         path = \"/plaintext\"\n"
    );
    fs::write(folder.join("subject.toml"), text).unwrap();
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Variables of dyno's own environment. Subjects inherit only those that they name.
const OWN_VARIABLES: [(&str, &str); 9] = [
    ("GOMAXPROCS", "1"),
    ("LD_BIND_NOW", "1"),
    ("RUSTFLAGS", "-Cx"),
    ("npm_config_registry", "r"),
    ("WANTED", "https://me:hunter2@x.test/"),
    ("GRADLE_OPTS", "-Xmx1g -Dhttps.proxyPassword=hunter2"),
    ("http_proxy", "me:hunter2@x:1"),
    ("BUNDLE_GEMS__X__COM", "me:hunter2"),
    ("MAVEN_OPTS", "-Xmx2g"),
];

/// Adds a subject that writes its environment and its working folder to `seen`.
fn add_observed(sandbox: &Sandbox) {
    let seen = sandbox.path().join("seen");
    fs::create_dir(&seen).unwrap();
    let look = format!("env > {0}/env; stat -c %a . > {0}/mode; pwd > {0}/pwd; ", seen.display());
    let groups = group_script(&sandbox.path().join("made"));
    let build = "[build]\ncommand = \"true\"\ninputs = []\n[version]\ncommand = \"echo \
                 v${GOMAXPROCS:-none}\"";
    let environment = "env = { OWN = \"1\" }\ninherit = [\"NPM_TOKEN\", \"WANTED\"]";
    add(sandbox, "x", build, &(look + &groups), environment);
}

/// Asserts that the subject had only its own variables, and its own folder.
fn assert_environment_is_clean(sandbox: &Sandbox) {
    let seen = |name: &str| fs::read_to_string(sandbox.path().join("seen").join(name)).unwrap();
    let environment = seen("env");
    let mut names: Vec<&str> =
        environment.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    // Variables that the shell itself sets.
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    let expected = "DYNO_PADDING DYNO_START HOME LANG NPM_TOKEN OWN PATH TMPDIR WANTED";
    assert_eq!(names.join(" "), expected);
    let pwd = seen("pwd");
    let name = pwd.trim().rsplit('/').next().unwrap();
    assert_eq!(seen("mode").trim(), "700");
    // `dyno`, its PID, the number of the start, and an unguessable part.
    assert!(name.splitn(4, '-').nth(3).is_some_and(|rest| rest.len() >= 12), "{name}");
}

/// Asserts that the run records the environments of a start and a build, without secrets.
fn assert_environment_is_recorded(run: &Path) {
    let start = read_json(&run.join("starts/000.json"));
    assert!(start["failure"].is_null(), "{}", start["failure"]);
    let recorded = &start["parts"][0]["environment"];
    for (name, value) in
        [("WANTED", "https://***@x.test/"), ("NPM_TOKEN", "(not recorded)"), ("OWN", "1")]
    {
        assert_eq!(recorded[name], value);
    }
    let subject = &read_json(&run.join("run.json"))["plan"]["subjects"][0];
    assert_eq!(subject["version"], "vnone");
    let of_build = &subject["build"]["environment"];
    for (name, value) in [
        ("npm_config_registry", json!("r")),
        ("MAVEN_OPTS", json!("-Xmx2g")),
        ("GRADLE_OPTS", json!("(not recorded)")),
        ("http_proxy", json!("(not recorded)")),
        ("BUNDLE_GEMS__X__COM", json!("(not recorded)")),
        ("GOMAXPROCS", Value::Null),
        ("RUSTFLAGS", Value::Null),
    ] {
        assert_eq!(of_build[name], value, "{name}");
    }
}

/// Returns the script of a subject that creates control groups below its own, as service managers
/// do. A process in them has another session and an empty environment.
fn group_script(made: &Path) -> String {
    format!(
        "for g in $(find /sys/fs/cgroup -type d -name ${{PWD##*/}}); do mkdir -p $g/below/deep; \
         echo $g >> {}; done; setsid env -i sleep 86423 & for g in $(find /sys/fs/cgroup -path \
         \"*/${{PWD##*/}}/below/deep\"); do echo $! > $g/cgroup.procs; done; ",
        made.display()
    )
}

/// Asserts that no control group of the subject is left, and no process in one.
fn assert_groups_are_removed(sandbox: &Sandbox) {
    assert!(!is_running(&["sleep", "86423"]));
    let Ok(made) = fs::read_to_string(sandbox.path().join("made")) else {
        not_run("this user cannot create control groups, so a subject has none to make others in");
        return;
    };
    assert!(made.lines().all(|group| !Path::new(group).exists()), "{made}");
}

/// Secrets of the environment: by name, possible ones, and within another value.
const INHERITED: [(&str, &str); 4] = [
    ("NPM_TOKEN", "npm-Leak-1111"),
    ("DB_PASS", "swordfish"),
    ("MY_PAT", "pat leak+2222"),
    ("STORE_URL", "https://me:Url-Leak-3@x.test/"),
];

/// The secrets in an output, as written and percent-encoded.
fn leaks(output: &str) -> Vec<&'static str> {
    let known = ["npm-Leak-1111", "npm%2DLeak", "swordfish", "pat leak", "Url-Leak", "hunter2"];
    known.into_iter().filter(|secret| output.contains(secret)).collect()
}

/// Adds a back end whose command for `seed` fails, and subjects that fail as well.
fn add_leaking_parts(sandbox: &Sandbox) {
    const PRINT: &str = "echo v $NPM_TOKEN $(echo $NPM_TOKEN | sed s/-/%2D/) $DB_PASS \
                         pg://u:$DB_PASS@h $MY_PAT $STORE_URL";
    let names = INHERITED.map(|(name, _)| name);
    let inherit = format!("inherit = {names:?}");
    let version = format!("[version]\ncommand = {PRINT:?}");
    let build = |end: &str| {
        let command = format!("{PRINT}; {PRINT} >&2; {end}");
        format!("[build]\ncommand = {command:?}\ninputs = []\n{inherit}\n{version}")
    };
    add(sandbox, "unbuilt", &build("exit 1"), "", "");
    add(sandbox, "dead", &build("true"), &format!("{PRINT}; exit 7; "), &inherit);
    add(sandbox, "front", "", "", "env = { STORE = \"{store.port}\" }");
    let folder = sandbox.path().join("backends/store");
    fs::create_dir_all(&folder).unwrap();
    let seed = format!("{PRINT}; printf %s $NPM_TOKEN | head -c 12; exit 1");
    let text = format!(
        "title = \"The store\"\n[start]\ncommand = [{DYNO:?}, \"serve-null\", \"--port\", \
         \"{{port}}\"]\n{inherit}\n[seed]\ncommand = {seed:?}\n"
    );
    fs::write(folder.join("backend.toml"), text).unwrap();
}

/// All files below a folder, with their text.
fn files_below(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => found.extend(files_below(&path)),
            false => {
                let bytes = fs::read(&path).unwrap();
                found.push((path, String::from_utf8_lossy(&bytes).into_owned()));
            }
        }
    }
    found
}

/// Commands and servers print the values of variables that dyno does not record. One server makes
/// control groups below its own.
#[test]
fn environment_is_clean_and_secrets_are_in_no_output() {
    let sandbox = Sandbox::new();
    add_observed(&sandbox);
    add_leaking_parts(&sandbox);
    sandbox.write_suite(&["x", "unbuilt", "dead", "front"], "[[backends]]\nuse = \"store\"");
    let dyno = |arguments: &[&str]| {
        let mut command = sandbox.command(Path::new(DYNO));
        let output = command.args(arguments).envs(OWN_VARIABLES).envs(INHERITED).output().unwrap();
        let output = text(&output);
        assert_eq!(leaks(&output), [""; 0], "{arguments:?}: {output}");
        output
    };
    let output = dyno(&["run", "suite.toml", "--observe", "none"]);
    assert!(output.contains("v (not recorded)"), "{output}");
    sandbox.assert_nothing_is_left();
    let run = sandbox.run_folder().unwrap();
    assert_environment_is_clean(&sandbox);
    assert_environment_is_recorded(&run);
    assert_groups_are_removed(&sandbox);
    for format in ["text", "json", "html", "markdown", "csv"] {
        dyno(&["report", run.to_str().unwrap(), "--format", format]);
    }
    dyno(&["plan", "suite.toml"]);
    dyno(&["subjects", "check", "dead"]);
    dyno(&["subjects", "build", "unbuilt"]);
    let start = |number: &str| fs::read_to_string(run.join("starts").join(number)).unwrap();
    let starts = ["001.json", "002.json"].map(start).concat();
    assert!(starts.contains("`seed` ended") && starts.contains("status: 7"), "{starts}");
    for folder in [run, sandbox.path().join("cache")] {
        for (path, text) in files_below(&folder) {
            assert_eq!(leaks(&text), [""; 0], "{}: {text}", path.display());
        }
    }
}

fn resume(sandbox: &Sandbox, more: &[&str]) -> Output {
    let run = sandbox.run_folder().unwrap();
    sandbox.dyno(&[&["run", "--resume", run.to_str().unwrap()], more].concat())
}

/// Adds a subject whose first start removes its artefact, and a subject that needs a back end whose
/// build fails until the file `compiler` exists.
fn add_changing_parts(sandbox: &Sandbox, build: &str) {
    let mark = sandbox.path().join("mark");
    let first = format!("[ -e {0} ] || rm {{out}}/in.txt; touch {0}; ", mark.display());
    add(sandbox, "x", build, &first, "");
    let store = sandbox.path().join("backends/store");
    fs::create_dir_all(&store).unwrap();
    let file = format!(
        "[build]\ncommand = \"[ -e {} ]\"\ninputs = []\n[start]\n\
         command = [\"{{dyno}}\", \"serve-null\", \"--port\", \"{{port}}\"]\n",
        sandbox.path().join("compiler").display()
    );
    fs::write(store.join("backend.toml"), file).unwrap();
    add(sandbox, "front", "", "", "env = { STORE = \"{store.port}\" }");
}

/// In the second start of a server, its artefact is lost. Later an input of its build has changed,
/// and the record names another machine. A subject that lacked only a back end's build takes part
/// once that succeeds.
#[test]
fn resume_after_changes_is_refused_or_reported() {
    let sandbox = Sandbox::new();
    let input = sandbox.path().join("subjects/x/in.txt");
    let build = "[build]\ncommand = \"cp in.txt {out}/\"\ninputs = \
                 [\"in.txt\"]\n[version]\ncommand = \"cat {out}/in.txt\"";
    add_changing_parts(&sandbox, build);
    fs::write(&input, "one").unwrap();
    sandbox.write_suite(&["x", "front"], "");
    let output = sandbox.dyno(&["run", "suite.toml", "--repeats", "2", "--observe", "none"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let lost = "out/in.txt was changed or removed after x was built";
    assert!(text(&output).contains(lost), "{}", text(&output));
    let report = sandbox.report();
    assert_eq!(report["run"]["trials_done"], 2);
    let reason = report["subjects"][1]["skipped"].as_str().unwrap();
    assert!(reason.starts_with("its back end store could not be built"), "{reason}");

    fs::write(sandbox.path().join("compiler"), "").unwrap();
    fs::write(&input, "two").unwrap();
    sandbox.replace("subjects/x/subject.toml", "[ready]", "env = { A = \"1\" }\n[ready]");
    let run = sandbox.run_folder().unwrap();
    let header = run.join("run.json");
    let mut moved = read_json(&header);
    moved["facts"]["kernel"] = "1.0".into();
    fs::write(&header, moved.to_string()).unwrap();
    let before = fs::read(&header).unwrap();
    let output = resume(&sandbox, &[]);
    let message = text(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for words in ["kernel: 1.0 then", "x, definition", "x, inputs of its build", "--anyway"] {
        assert!(message.contains(words), "{words}: {message}");
    }
    assert_eq!(fs::read(&header).unwrap(), before, "the record is unchanged");
    assert_eq!(fs::read_dir(run.join("trials")).unwrap().count(), 2);

    let output = resume(&sandbox, &["--anyway"]);
    // Steps may be invalid, because a small machine's generator can be the limit.
    assert!(output.status.code().is_some_and(|c| c <= 1), "{}", text(&output));
    let message = text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(message.contains("were measured under different conditions"), "{message}");
    let stored = read_json(&header);
    assert_eq!(stored["plan"]["subjects"][0]["version"], "one", "existing records are unchanged");
    assert_eq!(stored["facts"]["kernel"], "1.0");
    let report = sandbox.report();
    assert_eq!(report["run"]["trials_done"], 8, "the lost start was repeated");
    let front = &report["subjects"][1];
    assert_eq!((&front["skipped"], &front["backends"][0]["name"]), (&Value::Null, &"store".into()));
    let caveat =
        report["caveats"].as_array().unwrap().iter().find(|c| c["code"] == "mixed").unwrap();
    assert_eq!(caveat["severity"], "warning");
    let [first, second] = [0, 1].map(|part| &caveat["evidence"]["parts"][part]);
    assert_eq!((&first["trials"], &second["trials"]), (&json!([0, 1]), &json!([2, 3, 4, 5, 6, 7])));
    assert_eq!((&first["versions"]["x"], &second["versions"]["x"]), (&"one".into(), &"two".into()));
}
