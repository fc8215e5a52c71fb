//! Tests messages for authors of subjects: mistakes, output, ports, and several folders.

use std::fs;
use std::path::Path;

use crate::drive::{DYNO, Sandbox, closed_pipe, free_port, runs_as_root, text};

/// Writes a subject with this definition into a folder of subjects.
fn write(folder: &Path, name: &str, toml: &str) {
    let folder = folder.join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("subject.toml"), toml).unwrap();
}

fn null_on(port: &str, more: &str) -> String {
    format!(
        "language = \"Rust\"\nprotocols = [\"h1\"]\nchecks = [\"hello\"]\n\
         [start]\ncommand = [{DYNO:?}, \"serve-null\", \"--port\", \"{port}\"]\n{more}"
    )
}

#[test]
fn mistake_in_subject_does_not_affect_others() {
    let sandbox = Sandbox::without_load();
    let subjects = sandbox.path().join("subjects");
    write(
        &subjects,
        "bad",
        "languag = \"C\"\nprotocols = [\"h4\"]\n[start]\ncommand = [\"x\", \"{prot}\"]\n",
    );
    let listed = sandbox.dyno(&["subjects", "list"]);
    let all = text(&listed);
    assert_eq!(listed.status.code(), Some(2), "{all}");
    for part in
        ["null ", "bad ", "unknown key `languag`", "unknown value `h4`", "did you mean {port}?"]
    {
        assert!(all.contains(part), "{part}: {all}");
    }
    let checked = sandbox.dyno(&["subjects", "check", "null"]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked));
    let refused = sandbox.dyno(&["subjects", "check", "bad"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    sandbox.write_suite(&["null"], "");
    assert_eq!(
        sandbox.dyno(&["plan", "suite.toml"]).status.code(),
        Some(0),
        "a suite without it can be planned"
    );
}

#[test]
fn subjects_are_found_in_several_folders_and_built_in() {
    let sandbox = Sandbox::without_load();
    let [mine, yours] = ["mine", "yours"].map(|name| sandbox.path().join(name));
    write(&mine, "one", &null_on("{port}", ""));
    write(&yours, "two", &null_on("{port}", ""));
    // The first of two subjects with the same name is used.
    write(&yours, "one", &null_on("{port}", "").replace("\"Rust\"", "\"C\""));
    let listed =
        text(&sandbox.dyno(&["subjects", "list", "--subjects", "mine", "--subjects", "yours"]));
    let row = |name: &str| {
        listed.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_string()
    };
    assert!(
        row("one ").contains("Rust")
            && row("two ").contains("Rust")
            && row("null ").contains("yes"),
        "{listed}"
    );
    let checked = text(&sandbox.dyno(&[
        "subjects",
        "check",
        "--all",
        "--subjects",
        "mine",
        "--subjects",
        "yours",
    ]));
    assert!(checked.contains("two") && !checked.contains("null  "), "{checked}");
    let all_but = |except: &str| {
        let which = ["--all", "--subjects", "mine", "--subjects", "yours", "--except", except];
        text(&sandbox.dyno(&[&["subjects", "build"], &which[..]].concat()))
    };
    let built = all_but("two");
    assert!(built.contains("one ") && !built.contains("two "), "{built}");
    assert!(all_but("twoo").contains("subject \"twoo\": not found\nhint: did you mean \"two\"?"));
    sandbox.write_suite(&["one", "null"], "");
    let run = sandbox.dyno(&["run", "suite.toml", "--subjects", "mine"]);
    assert!(run.status.code().is_some_and(|code| code <= 1), "{}", text(&run));
    sandbox.assert_nothing_is_left();
}

#[test]
fn occupied_port_error_names_its_holder() {
    let sandbox = Sandbox::without_load();
    let (subjects, port) = (sandbox.path().join("subjects"), free_port());
    write(&subjects, "own", &null_on(&port.to_string(), &format!("port = {port}\n")));
    let checked = sandbox.dyno(&["subjects", "check", "own"]);
    assert!(
        checked.status.code() == Some(0) && text(&checked).contains("8 of 8 checks passed"),
        "{}",
        text(&checked)
    );
    let holder = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let refused = text(&sandbox.dyno(&["subjects", "check", "own"]));
    assert!(
        refused.contains(&format!("port {port}: the fixed port of own is in use by ")),
        "{refused}"
    );
    if runs_as_root() {
        let refused = text(&sandbox.dyno_as_ordinary_user(&["subjects", "check", "own"]));
        let user = "is in use by a program that dyno is not allowed to inspect";
        assert!(refused.contains(user), "{refused}");
    }
    drop(holder);
}

#[test]
fn wrong_port_error_names_port_and_shows_output() {
    let sandbox = Sandbox::without_load();
    let (subjects, port) = (sandbox.path().join("subjects"), free_port());
    let command = format!("echo port {port} it is; exec {DYNO} serve-null --port {port}");
    let toml = format!(
        "language = \"Rust\"\nprotocols = [\"h1\"]\n[start]\ncommand = [\"sh\", \"-c\", \
         {command:?}]\nenv = {{ PORT = \"{{port}}\" }}\n[ready]\ndeadline = \"1s\"\n"
    );
    write(&subjects, "astray", &toml);
    let output = sandbox.dyno(&["subjects", "check", "astray"]);
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(3), "{printed}");
    assert!(
        printed.contains("nothing listened on port ")
            && printed.contains(&format!(". The process listens on 127.0.0.1:{port}")),
        "{printed}"
    );
    assert!(
        printed.contains("last output lines of astray:")
            && printed.contains(&format!("port {port} it is")),
        "{printed}"
    );
}

#[test]
fn failed_build_reports_exit_and_output() {
    let sandbox = Sandbox::without_load();
    let build = "[build]\ncommand = \"echo far away; exit 7\"\ninputs = []\n";
    write(&sandbox.path().join("subjects"), "broken", &null_on("{port}", build));
    for command in ["build", "check"] {
        let output = sandbox.dyno(&["subjects", command, "broken"]);
        let printed = text(&output);
        assert!(
            output.status.code() == Some(3)
                && printed.contains("exit status: 7")
                && printed.contains("far away"),
            "{printed}"
        );
    }
}

#[test]
fn build_with_skipped_variant_fails() {
    let sandbox = Sandbox::without_load();
    let variant = "[variants.more]\ntitle = \"More\"\n[[variants.more.requires]]\nname = \"moon\"\n\
                   test = \"false\"\nhint = \"Get it.\"\n";
    write(&sandbox.path().join("subjects"), "tool", &null_on("{port}", variant));
    let output = sandbox.dyno(&["subjects", "build", "tool"]);
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(3), "{printed}");
    assert!(printed.contains("skipped: moon is missing. Get it."), "{printed}");
    let output = sandbox.dyno(&["subjects", "build", "tool", "--except", "tool/more"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn import_runs_nothing_and_lists_steps() {
    let sandbox = Sandbox::without_load();
    let folder = sandbox.path().join("frameworks/quick");
    fs::create_dir_all(&folder).unwrap();
    let config = r#"{"framework": "quick", "tests": [{"default": {"plaintext_url": "/plaintext", "json_url": "/json", "port": "8080",
        "language": "C", "display_name": "Quick"}}]}"#;
    fs::write(folder.join("benchmark_config.json"), config).unwrap();
    let pwned = sandbox.path().join("pwned");
    let docker = format!(
        "FROM gcc\nRUN gcc -wrapper sh,-c,'touch {pwned}' x.c\nRUN MAKEFLAGS=--eval='$(shell touch \
         {pwned})' \\\n    make\nCMD touch {pwned}\n",
        pwned = pwned.display()
    );
    fs::write(folder.join("quick.dockerfile"), &docker).unwrap();
    fs::write(folder.join("x.c"), "int main(void) { return 0; }\n").unwrap();
    let import = ["subjects", "import", "techempower", "frameworks/quick"];
    let output = sandbox.dyno(&import);
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    for line in docker.lines() {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    assert!(text(&sandbox.dyno(&import)).contains("replace the file with --force"));
    let listed = sandbox.dyno(&["subjects", "list", "quick", "--subjects", "frameworks"]);
    assert!(
        text(&listed).contains("the command that starts the server is missing. Write [build]"),
        "{}",
        text(&listed)
    );
    for command in ["build", "check"] {
        let output = sandbox.dyno(&["subjects", command, "quick", "--subjects", "frameworks"]);
        assert!(
            text(&output).contains("the command that starts the server is missing"),
            "{}",
            text(&output)
        );
        assert_eq!(output.status.code(), Some(3));
    }
    assert!(!pwned.exists());
}

#[test]
fn import_reads_files_of_its_folder_only() {
    let sandbox = Sandbox::without_load();
    let folder = sandbox.path().join("frameworks/quick");
    fs::create_dir_all(&folder).unwrap();
    let config = r#"{"framework": "quick", "tests": [{"default": {"json_url": "/json", "port": 1}, "below": {"dockerfile": "sub/d"}}]}"#;
    fs::write(folder.join("benchmark_config.json"), config).unwrap();
    let docker = folder.join("quick.dockerfile");
    let import = |test: &str| {
        let output = sandbox.dyno(&[
            "subjects",
            "import",
            "techempower",
            "frameworks/quick",
            "--force",
            "--test",
            test,
        ]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        text(&output)
    };
    std::os::unix::fs::symlink("/etc/passwd", &docker).unwrap();
    let printed = import("default");
    let is_refused = printed.contains("quick.dockerfile: is a link");
    assert!(is_refused && !printed.contains("root:"), "{printed}");
    fs::remove_file(&docker).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&docker).status().unwrap().success());
    assert!(import("default").contains("is not a regular file"));
    fs::remove_file(&docker).unwrap();
    fs::File::create(&docker).unwrap().set_len(1 << 40).unwrap();
    assert!(import("default").contains("more than the limit of 1048576"));
    fs::create_dir(sandbox.path().join("elsewhere")).unwrap();
    fs::write(sandbox.path().join("elsewhere/d"), "RUN secret\n").unwrap();
    std::os::unix::fs::symlink("../../elsewhere", folder.join("sub")).unwrap();
    assert!(import("below").contains("its path contains a link"));
    assert!(!folder.join("subject.toml").exists());
}

/// Without names, only subjects whose needs are not met may be left out.
#[test]
fn check_of_subject_with_unbuilt_back_end_fails() {
    let sandbox = Sandbox::without_load();
    let subjects = sandbox.path().join("subjects");
    let behind = null_on("{port}", "").replace("[start]", "backends = [\"db\"]\n[start]");
    write(&subjects, "behind", &behind);
    let db = sandbox.path().join("backends/db");
    std::fs::create_dir_all(&db).unwrap();
    let text = "[build]\ncommand = \"echo no such type; exit 1\"\ninputs = []\n[start]\ncommand = \
                [\"x\", \"{port}\"]\n";
    std::fs::write(db.join("backend.toml"), text).unwrap();
    let output = sandbox.dyno(&["subjects", "check"]);
    let printed = crate::drive::text(&output);
    assert_eq!(output.status.code(), Some(3), "{printed}");
    assert!(printed.contains("build failed: back end db: "), "{printed}");
}

#[test]
fn mistake_in_back_end_does_not_affect_other_checks() {
    let sandbox = Sandbox::without_load();
    let subjects = sandbox.path().join("subjects");
    write(
        &subjects,
        "behind",
        &null_on("{port}", "").replace("[start]", "backends = [\"ring\"]\n[start]"),
    );
    let ring = sandbox.path().join("backends/ring");
    std::fs::create_dir_all(&ring).unwrap();
    std::fs::write(
        ring.join("backend.toml"),
        "[start]\ncommand = [\"x\", \"{ring.port}\", \"{port}\"]\n",
    )
    .unwrap();
    let output = sandbox.dyno(&["subjects", "check", "behind", "null"]);
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(2), "{printed}");
    let row = |name: &str| {
        printed.lines().rfind(|line| line.starts_with(name)).unwrap_or_default().to_string()
    };
    assert!(
        row("behind").contains("not started: ") && row("behind").contains("in a circle"),
        "{printed}"
    );
    assert!(row("null ").contains("all passed"), "{printed}");
}

/// `dyno subjects build … | head -1`
#[test]
fn closed_output_ends_no_build_and_no_check() {
    let sandbox = Sandbox::without_load();
    let subjects = sandbox.path().join("subjects");
    let build = "[build]\ncommand = \"echo 1 > {out}/data\"\ninputs = []\n";
    for name in ["one", "two", "three"] {
        write(&subjects, name, &null_on("{port}", build));
    }
    let wrong = null_on("{port}", "").replace("\"serve-null\"", "\"serve-null\", \"--answer=no\"");
    write(&subjects, "wrong", &wrong);
    let status = |arguments: &[&str]| {
        let mut dyno = sandbox.command(Path::new(DYNO));
        dyno.args(arguments).stdout(closed_pipe()).status().unwrap().code()
    };
    assert_eq!(status(&["subjects", "build", "one", "two", "three"]), Some(141));
    for name in ["one", "two", "three"] {
        let builds = fs::read_dir(sandbox.path().join("cache").join(name)).unwrap();
        let has_data = |folder: fs::DirEntry| folder.path().join("out/data").exists();
        assert!(builds.map(Result::unwrap).any(has_data), "{name} was built");
    }
    assert_eq!(status(&["subjects", "check", "one", "null"]), Some(141));
    // The first one passes, and the status is that of the last one.
    assert_eq!(status(&["subjects", "check", "one", "wrong"]), Some(1));
    sandbox.assert_nothing_is_left();
}
