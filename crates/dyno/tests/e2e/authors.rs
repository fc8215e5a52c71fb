//! Tests `dyno subjects` with servers that it starts.

use std::fs;
use std::path::Path;

use crate::drive::{DYNO, Sandbox, closed_pipe, free_port, text};

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
