//! Tests that dyno protects the user's files, environment and processes, and does not mix results
//! of different experiments in one report.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::drive::{DYNO, Sandbox, not_run, text, unruly};

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

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn is_running(words: &str) -> bool {
    let wanted = words.replace(' ', "\0");
    let line = |pid| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    dyno_observer::proc::all_pids()
        .into_iter()
        .any(|pid| String::from_utf8_lossy(&line(pid)).starts_with(&wanted))
}

#[test]
fn path_out_of_folder_is_refused_without_writes() {
    let sandbox = Sandbox::without_load();
    let mine = sandbox.path().join("main.c");
    fs::write(&mine, "int main;").unwrap();
    for input in [mine.to_str().unwrap(), "../../main.c"] {
        add(&sandbox, "x", &format!("[build]\ncommand = \"true\"\ninputs = [{input:?}]"), "", "");
        let output = sandbox.dyno(&["subjects", "build", "x"]);
        let message = text(&output);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(
            message.contains("subject.toml:7:11: path")
                && message.contains(input)
                && message.contains('^'),
            "{message}"
        );
        assert_eq!(fs::read_to_string(&mine).unwrap(), "int main;");
        assert!(!sandbox.path().join("cache/x").exists());
    }
    // A link is detected when the build runs.
    add(&sandbox, "x", "[build]\ncommand = \"true\"\ninputs = [\"link.c\"]", "", "");
    std::os::unix::fs::symlink(&mine, sandbox.path().join("subjects/x/link.c")).unwrap();
    let output = sandbox.dyno(&["subjects", "build", "x"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output).contains("link.c: is a link that leads out"), "{}", text(&output));
    assert_eq!(fs::read_to_string(&mine).unwrap(), "int main;");
}

#[test]
fn subject_has_own_folder_and_clean_environment() {
    let sandbox = Sandbox::new();
    let observed = sandbox.path().join("seen");
    fs::create_dir(&observed).unwrap();
    let first =
        format!("env > {0}/env; stat -c %a . > {0}/mode; pwd > {0}/pwd; ", observed.display());
    let build = "[build]\ncommand = \"env > {out}/env\"\ninputs = []\n[version]\ncommand = \"echo \
                 v${GOMAXPROCS:-none}\"";
    let environment = "env = { OWN = \"1\" }\ninherit = [\"MY_TOKEN\", \"WANTED\"]";
    add(&sandbox, "x", build, &first, environment);
    sandbox.write_suite(&["x"], "");
    let mut command = sandbox.command(Path::new(DYNO));
    command
        .args(["run", "suite.toml"])
        .env("GOMAXPROCS", "1")
        .env("LD_BIND_NOW", "1")
        .env("RUSTFLAGS", "-Cx");
    command
        .env("WANTED", "https://me:pw@x.test/")
        .env("MY_TOKEN", "hunter2")
        .env("npm_config_registry", "r");
    let output = command.output().unwrap();
    assert!(output.status.code().is_some_and(|c| c <= 1), "{}", text(&output));

    let names = |path: &Path| -> Vec<String> {
        let text = fs::read_to_string(path).unwrap();
        let mut names: Vec<_> =
            text.lines().filter_map(|l| Some(l.split_once('=')?.0.to_string())).collect();
        // Variables that the shell itself sets.
        names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(&name.as_str()));
        names.sort();
        names
    };
    assert_eq!(
        names(&observed.join("env")).join(" "),
        "DYNO_PADDING DYNO_START HOME LANG MY_TOKEN OWN PATH TMPDIR WANTED"
    );
    let run = sandbox.run_folder().unwrap();
    let start = json(&run.join("starts/000.json"));
    assert_eq!(start["parts"][0]["environment"]["WANTED"], "https://***@x.test/");
    assert_eq!(start["parts"][0]["environment"]["MY_TOKEN"], "(not recorded)");
    assert_eq!(start["parts"][0]["environment"]["OWN"], "1");
    let plan = json(&run.join("run.json"))["plan"].take();
    let build = &plan["subjects"][0]["build"]["environment"];
    assert_eq!(build["npm_config_registry"], "r");
    assert!(build["GOMAXPROCS"].is_null() && build["RUSTFLAGS"].is_null(), "{build}");
    assert_eq!(plan["subjects"][0]["version"], "vnone");

    let pwd = fs::read_to_string(observed.join("pwd")).unwrap();
    let name = pwd.trim().rsplit('/').next().unwrap();
    assert_eq!(fs::read_to_string(observed.join("mode")).unwrap().trim(), "700");
    // `dyno`, its PID, the number of the start, and an unguessable part.
    assert!(name.splitn(4, '-').nth(3).is_some_and(|rest| rest.len() >= 12), "{name}");
    sandbox.assert_nothing_is_left();
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

#[test]
fn control_groups_of_subject_are_removed() {
    let sandbox = Sandbox::new();
    let made = sandbox.path().join("made");
    add(&sandbox, "x", "", &group_script(&made), "");
    sandbox.write_suite(&["x"], "");
    let output = sandbox.dyno(&["run", "suite.toml"]);
    assert!(output.status.code().is_some_and(|c| c <= 1), "{}", text(&output));
    let Ok(made) = fs::read_to_string(&made) else {
        not_run("this user cannot create control groups, so a subject has none to make others in");
        return;
    };
    assert!(!is_running("sleep 86423"));
    assert!(made.lines().all(|group| !Path::new(group).exists()), "{made}");
    let start = json(&sandbox.run_folder().unwrap().join("starts/000.json"));
    assert!(start["failure"].is_null(), "{}", start["failure"]);
    sandbox.assert_nothing_is_left();
}

#[test]
fn build_option_secrets_are_not_recorded() {
    let sandbox = Sandbox::new();
    add(&sandbox, "x", "[build]\ncommand = \"env > {out}/env\"\ninputs = []", "", "");
    sandbox.write_suite(&["x"], "");
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(["run", "suite.toml"]);
    command
        .env("GRADLE_OPTS", "-Xmx1g -Dhttps.proxyPassword=hunter2")
        .env("http_proxy", "me:hunter2@x:1");
    command.env("BUNDLE_GEMS__X__COM", "me:hunter2").env("MAVEN_OPTS", "-Xmx2g");
    let output = command.output().unwrap();
    assert!(output.status.code().is_some_and(|c| c <= 1), "{}", text(&output));
    let record = fs::read_to_string(sandbox.run_folder().unwrap().join("run.json")).unwrap();
    assert!(!record.contains("hunter2"));
    let record: Value = serde_json::from_str(&record).unwrap();
    let environment = &record["plan"]["subjects"][0]["build"]["environment"];
    for name in ["GRADLE_OPTS", "http_proxy", "BUNDLE_GEMS__X__COM"] {
        assert_eq!(environment[name], "(not recorded)", "{name}");
    }
    assert_eq!(environment["MAVEN_OPTS"], "-Xmx2g");
    for build in
        fs::read_dir(sandbox.path().join("cache/x")).unwrap().map(|entry| entry.unwrap().path())
    {
        let receipt = fs::read_to_string(build.join("receipt.json")).unwrap_or_default();
        assert!(!receipt.contains("hunter2"));
    }
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
    let known = ["npm-Leak-1111", "npm%2DLeak", "swordfish", "pat leak", "Url-Leak"];
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

/// Commands and servers print the values of variables that dyno does not record.
#[test]
fn printed_secrets_are_in_no_output() {
    let sandbox = Sandbox::new();
    add_leaking_parts(&sandbox);
    sandbox.write_suite(&["unbuilt", "dead", "front", "null"], "[[backends]]\nuse = \"store\"");
    let dyno = |arguments: &[&str]| {
        let output =
            sandbox.command(Path::new(DYNO)).args(arguments).envs(INHERITED).output().unwrap();
        let output = text(&output);
        assert_eq!(leaks(&output), [""; 0], "{arguments:?}: {output}");
        output
    };
    let output = dyno(&["run", "suite.toml"]);
    assert!(output.contains("v (not recorded)"), "{output}");
    let run = sandbox.run_folder().unwrap();
    for format in ["text", "json", "html", "markdown", "csv"] {
        dyno(&["report", run.to_str().unwrap(), "--format", format]);
    }
    dyno(&["plan", "suite.toml"]);
    dyno(&["subjects", "check", "dead"]);
    dyno(&["subjects", "build", "unbuilt"]);
    let start = |number: &str| fs::read_to_string(run.join("starts").join(number)).unwrap();
    let starts = ["000.json", "001.json"].map(start).concat();
    assert!(starts.contains("`seed` ended") && starts.contains("status: 7"), "{starts}");
    for folder in [run, sandbox.path().join("cache")] {
        for (path, text) in files_below(&folder) {
            assert_eq!(leaks(&text), [""; 0], "{}: {text}", path.display());
        }
    }
}

#[test]
fn killed_dyno_stops_build() {
    let sandbox = Sandbox::without_load();
    let build = "[build]\ncommand = \"setsid env -i sleep 86421 & sleep 86421\"\ninputs = []";
    add(&sandbox, "x", build, "", "");
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(["subjects", "build", "x"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let wait_for = |running: bool| {
        for _ in 0..600 {
            if is_running("sleep 86421") == running {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("running: {}", is_running("sleep 86421"));
    };
    wait_for(true);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for(false);
}

#[test]
fn build_is_stopped_after_its_deadline() {
    let sandbox = Sandbox::without_load();
    let build = "[build]\ncommand = \"echo begun; setsid sleep 86422; true\"\ninputs = \
                 []\ndeadline = \"300ms\"";
    add(&sandbox, "x", build, "", "");
    let output = sandbox.dyno(&["subjects", "build", "x"]);
    let message = text(&output);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(
        message.contains("had not ended after 300 ms") && message.contains("begun"),
        "{message}"
    );
    assert!(!is_running("sleep 86422"));
}

#[test]
fn endless_log_is_truncated_to_its_end() {
    let sandbox = Sandbox::new();
    add(
        &sandbox,
        "x",
        "",
        "head -c 50000000 /dev/zero | tr '\\0' x; echo; echo no luck; exit 7; ",
        "",
    );
    let (status, _) = sandbox.run(&["x", "null"], "");
    assert_eq!(status, 3);
    let run = sandbox.run_folder().unwrap();
    let start = json(&run.join("starts/000.json"));
    let tail = start["parts"][0]["log_tail"].as_str().unwrap();
    assert!(tail.ends_with("x\nno luck") && tail.len() <= 64 << 10, "{} bytes", tail.len());
}

/// `{dyno}` refers to the running program, even if its file is replaced.
#[test]
fn replaced_dyno_starts_its_original_program() {
    let sandbox = Sandbox::new();
    let (program, other) = (sandbox.path().join("dyno"), sandbox.path().join("other"));
    for copy in [&program, &other] {
        fs::copy(DYNO, copy).unwrap();
    }
    let build =
        format!("[build]\ncommand = \"mv {} {}\"\ninputs = []", other.display(), program.display());
    add(&sandbox, "swap", &build, "", "");
    sandbox.write_suite(&["swap", "null"], "");
    let output = sandbox.command(&program).args(["run", "suite.toml"]).output().unwrap();
    assert!(output.status.code().is_some_and(|c| c <= 1), "{}", text(&output));
    assert!(!other.exists(), "the program was replaced");
    let report = sandbox.report();
    let null = report["subjects"].as_array().unwrap().iter().find(|s| s["name"] == "null").unwrap();
    assert!(
        null["version"].as_str().is_some_and(|v| v.starts_with("dyno ")),
        "{}",
        null["version"]
    );
}

fn resume(sandbox: &Sandbox, more: &[&str]) -> Output {
    let run = sandbox.run_folder().unwrap();
    sandbox.dyno(&[&["run", "--resume", run.to_str().unwrap()], more].concat())
}

#[test]
fn resume_after_changes_is_refused_or_reported() {
    let sandbox = Sandbox::new();
    let input = sandbox.path().join("subjects/x/in.txt");
    let build = "[build]\ncommand = \"cp in.txt {out}/\"\ninputs = \
                 [\"in.txt\"]\n[version]\ncommand = \"cat {out}/in.txt\"";
    add(&sandbox, "x", build, "", "");
    fs::write(&input, "one").unwrap();
    sandbox.run(&["x"], "");
    let run = sandbox.run_folder().unwrap();
    let header = run.join("run.json");
    fs::remove_file(run.join("trials/0001.json")).unwrap();

    // An input was edited in the meantime, and the record names another machine.
    fs::write(&input, "two").unwrap();
    add(&sandbox, "x", build, "", "env = { A = \"1\" }");
    let mut moved = json(&header);
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
    assert!(!run.join("trials/0001.json").exists());

    let output = resume(&sandbox, &["--anyway"]);
    assert!(output.status.code().is_some_and(|c| c <= 1), "{}", text(&output));
    assert!(run.join("trials/0001.json").exists());
    let report = sandbox.report();
    let caveat =
        report["caveats"].as_array().unwrap().iter().find(|c| c["code"] == "mixed").unwrap();
    assert_eq!(caveat["severity"], "warning");
    let parts = caveat["evidence"]["parts"].as_array().unwrap();
    assert_eq!(
        (&parts[0]["trials"], &parts[1]["trials"]),
        (&serde_json::json!([0]), &serde_json::json!([1]))
    );
    assert_eq!(
        (&parts[0]["versions"]["x"], &parts[1]["versions"]["x"]),
        (&"one".into(), &"two".into())
    );
    let stored = json(&header);
    assert_eq!(stored["plan"]["subjects"][0]["version"], "one", "existing records are unchanged");
    assert_eq!(stored["facts"]["kernel"], "1.0");
    let message = text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(message.contains("were measured under different conditions"), "{message}");
}

#[test]
fn lost_artefact_fails_start_and_is_built_on_resume() {
    let sandbox = Sandbox::new();
    let build = "[build]\ncommand = \"echo 1 > {out}/data\"\ninputs = []";
    // Only the first start removes the artefact.
    let mark = sandbox.path().join("mark");
    let first = format!("[ -e {0} ] || rm {{out}}/data; touch {0}; ", mark.display());
    add(&sandbox, "x", build, &first, "");
    sandbox.write_suite(&["x"], "");
    let message = text(&sandbox.dyno(&["run", "suite.toml", "--repeats", "2"]));
    assert!(message.contains("out/data was changed or removed after x was built"), "{message}");
    let output = resume(&sandbox, &[]);
    // Steps may be invalid, because a small machine's generator can be the limit.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output));
    assert_eq!(sandbox.report()["run"]["trials_done"], 4, "the lost start was repeated");
}
