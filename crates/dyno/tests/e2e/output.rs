//! Tests the files to which commands write.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::drive::{DYNO, Sandbox, Server, not_run, only_in, runs_as_root, soon, stored_run, text};

#[test]
fn failed_outputs_are_reported_and_keep_earlier_files() {
    let server = Server::null();
    let url = server.url("/plaintext");
    assert_file_size_limit_is_a_write_error(&url);
    assert_every_failed_output_is_reported(&url);
    assert_full_disk_preserves_earlier_result();
    assert_load_that_cannot_begin_changes_no_files(&server);
}

/// The limit is that of `ulimit -f`. Without a handler, the kernel ends a program that exceeds it.
fn assert_file_size_limit_is_a_write_error(url: &str) {
    for output_option in ["-o", "--stream", "--save", ">"] {
        let sandbox = Sandbox::new();
        let script = format!(
            "ulimit -f 4; exec {DYNO} load {url} -d 300ms -c 1 --interval 10ms --no-tui --format \
             json {output_option} out"
        );
        let output = sandbox.command(Path::new("sh")).args(["-c", &script]).output().unwrap();
        let message = text(&output);
        assert_eq!(output.status.code(), Some(3), "{output_option}: {message}");
        assert!(message.contains("File too large"), "{output_option}: {message}");
        let names = fs::read_dir(sandbox.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> =
            names.filter(|name| name.to_string_lossy().starts_with(".dyno")).collect();
        assert!(left.is_empty(), "{output_option}: {left:?}");
    }
}

/// Folders of two outputs and of the archive are removed during the load.
fn assert_every_failed_output_is_reported(url: &str) {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path().join("out")).unwrap();
    let mut dyno = sandbox.command(Path::new(DYNO));
    dyno.args(["load", url, "-c", "2", "-d", "2s", "--save", "kept"]);
    dyno.args(["--stream", "stream", "-o", "out/result", "--hlog", "out/log"]);
    let dyno = dyno.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stream = || fs::read_to_string(sandbox.path().join("stream")).unwrap_or_default();
    let began = soon(|| stream().contains("begin").then_some(()));
    fs::remove_dir_all(sandbox.path().join("out")).unwrap();
    fs::remove_dir_all(only_in(&sandbox.path().join("kept"))).unwrap();
    let output = dyno.wait_with_output().unwrap();
    assert!(began.is_some(), "{}", text(&output));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    for part in ["out/result", "out/log", "starts/000.json"] {
        assert!(
            text(&output)
                .lines()
                .any(|line| line.contains(part) && line.contains("cannot be written")),
            "{part}: {}",
            text(&output)
        );
    }
    assert!(!text(&output).contains("are saved"), "{}", text(&output));
}

fn assert_full_disk_preserves_earlier_result() {
    if !runs_as_root() {
        return not_run("a full disk: only root may mount one");
    }
    let sandbox = Sandbox::without_load();
    let script = format!(
        "mkdir full; mount -t tmpfs -o size=64k none full; echo before >full/result; head -c \
         1000000 /dev/zero >full/rest; {DYNO} report {} --format html -o full/result; echo \
         \"status $?\"; cat full/result; ls -A full; umount full",
        stored_run().display()
    );
    let mut command = Command::new("unshare");
    command
        .args(["-m", "--propagation", "private", "sh", "-c", &script])
        .current_dir(sandbox.path());
    let output = command.output().unwrap();
    let message = text(&output);
    assert!(message.contains("status 3\nbefore\nrest\nresult\n"), "{message}");
    assert!(message.contains("full/result: cannot be written"), "{message}");
}

/// The server has the port of the load's own metrics.
fn assert_load_that_cannot_begin_changes_no_files(server: &Server) {
    let sandbox = Sandbox::without_load();
    let url = server.url("/");
    fs::write(sandbox.path().join("old"), "before").unwrap();
    let taken = format!("127.0.0.1:{}", server.port);
    let arguments =
        ["load", &url, "-d", "100ms", "--metrics", &taken, "-o", "old", "--hgrm", "new"];
    let output = sandbox.dyno(&arguments);
    assert!(!output.status.success(), "{}", text(&output));
    assert_eq!(fs::read_to_string(sandbox.path().join("old")).unwrap(), "before");
    assert!(!sandbox.path().join("new").exists());
}

/// Runs dyno with a file as standard output, as `>> results` does. The file keeps its content.
/// Returns the exit status, the added content, and the messages.
fn append_to_results(sandbox: &Sandbox, arguments: &[&str]) -> (i32, String, String) {
    let file = sandbox.path().join("results");
    fs::write(&file, "old\n").unwrap();
    let results = fs::File::options().append(true).open(&file).unwrap();
    let output = sandbox.command(Path::new(DYNO)).args(arguments).stdout(results).output().unwrap();
    let (content, messages) = (fs::read_to_string(&file).unwrap(), text(&output));
    let added = content.strip_prefix("old\n");
    let added = added.unwrap_or_else(|| panic!("{arguments:?}: {content}{messages}"));
    (output.status.code().unwrap(), added.into(), messages)
}

fn assert_json_lines(lines: &str) {
    assert!(lines.lines().count() > 1, "{lines}");
    for line in lines.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    }
}

#[test]
fn file_of_standard_output_keeps_its_content() {
    let (sandbox, server) = (Sandbox::new(), Server::null());
    let url = server.url("/plaintext");
    for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "results"] {
        let load = |options: &[&str]| {
            append_to_results(&sandbox, &[&["load", &url, "-n", "100"], options].concat())
        };
        let (status, added, messages) = load(&["--format", "json", "-o", name]);
        assert!(status <= 1, "{name}: {messages}");
        assert!(serde_json::from_str::<Value>(&added).is_ok(), "{name}: {added}");
        let (status, added, messages) = load(&["--stream", name]);
        assert!(status <= 1 && messages.contains("requests/s"), "{name}: {messages}");
        assert_json_lines(&added);
        // Two outputs in one file would mix.
        for options in [
            &["--hgrm", name][..],
            &["--hlog", name],
            &["--stream", name, "--format", "json", "-o", name],
        ] {
            let (status, added, messages) = load(options);
            assert_eq!((status, &*added), (2, ""), "{options:?}: {messages}");
        }
        let watch = ["watch", "--pid", "1", "--report", name];
        assert_eq!(append_to_results(&sandbox, &watch).0, 2, "{name}");
    }
    let output = sandbox.dyno(&["load", &url, "-n", "100", "--save", "kept"]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    let archive = only_in(&sandbox.path().join("kept"));
    let report = ["report", archive.to_str().unwrap(), "--format", "json", "-o"];
    let (_, added, _) = append_to_results(&sandbox, &[&report[..], &["/dev/stdout"]].concat());
    assert!(serde_json::from_str::<Value>(&added).is_ok(), "{added}");
}
