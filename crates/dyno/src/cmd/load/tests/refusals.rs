//! Tests the errors of options that `dyno load` refuses, before any request is sent.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use dyno_model::plan::Body;

use super::*;

/// Asserts that the load is refused as wrong usage, with this text in the message.
fn assert_refused(words: &[&str], text: &str) {
    let (message, exit) = failure(words);
    assert_eq!(exit, Exit::Usage, "{words:?}: {message}");
    assert!(message.contains(text), "{words:?}: {message}");
}

/// A folder with files that options name.
struct Files(tempfile::TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Files {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            fs::write(folder.path().join(name), content).unwrap();
        }
        Files(folder)
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().into()
    }
}

#[test]
fn invalid_values_are_refused_with_example() {
    for (words, text) in [
        (&[][..], "<URL>: required"),
        (&["ftp://127.0.0.1/"], "must be http or https"),
        (&["https://127.0.0.1/", "--cacert", "/no/such"], "/no/such"),
        (&[URL, "-r", "1k.."], "1k..5k"),
        (&[URL, "--trace", "/no/such"], "/no/such"),
        (&[URL, "--request", "GET /"], "'80 GET /items'"),
        (&["http://127.0.0.1:1/{csv:/no/such:1}"], "/no/such"),
        (&[URL, "--expect-sha256", "12"], "64 hexadecimal"),
        (&[URL, "--resolve", "x:1"], "example.com:443:127.0.0.1"),
        (&["--curl", "wget http://127.0.0.1:1/"], "curl"),
        (&[URL, "--source", "::1"], "IPv6"),
        (&[URL, "-w", "10q"], "500ms, 10s"),
        (&[URL, "-H", "nonsense"], "Name: value"),
        (&["http://127.0.0.1:1/a b"], "percent-encode"),
        (&["http://me:secret@127.0.0.1:1/"], "Authorization"),
        (&[URL, "-p", "4000000000"], "at most"),
        (&[URL, "--protocol", "h2c", "--resource", "x"], "/style.css"),
        (&[URL, "--resolve", "127.0.0.1:2:127.0.0.1"], "write --resolve 127.0.0.1:1:127.0.0.1"),
    ] {
        assert_refused(words, text);
    }
}

#[test]
fn options_of_other_protocol_are_refused() {
    let h2c = "curl --http2-prior-knowledge http://127.0.0.1:1/";
    for (words, text) in [
        (&[URL, "--protocol", "h2"][..], "--protocol h2c"),
        (&["https://127.0.0.1:1/", "--protocol", "h2c"], "--protocol h2"),
        (&[URL, "-m", "4"], "--protocol h2c"),
        (&[URL, "--protocol", "h2c", "-p", "4"], "--streams"),
        (&["https://127.0.0.1:1/", "-p", "4"], "--protocol h1"),
        (&[URL, "--resource", "/a"], "--protocol h1, h2 or h2c"),
        (&[URL, "-k"], "--insecure (-k): is for TLS"),
        (&[URL, "--cacert", "/no/such"], "--cacert: is for TLS"),
        (&[URL, "--cert", "/no", "--key", "/no"], "--cert: is for TLS"),
        (&[URL, "--tls-resumption", "off"], "--tls-resumption: is for TLS"),
        (&[URL, "--window-bits", "20"], "--window-bits: needs HTTP/2"),
        (&[URL, "--connection-window-bits", "20"], "--connection-window-bits: needs HTTP/2"),
        (&[URL, "--header-table-size", "0"], "--header-table-size: needs HTTP/2"),
        (
            &[URL, "--protocol", "h2c", "--resource", "/a", "--page-connections", "3"],
            "one connection",
        ),
        (&["--curl", h2c, "-p", "8"], "--streams"),
        (&["--curl", "curl --http1.1 https://127.0.0.1:1/", "-m", "10"], "--pipeline"),
        (&["https://127.0.0.1:1/", "-H", "Connection: close"], "-H \"Connection: close\""),
        (&[URL, "--protocol", "h2c", "-H", "TE: gzip"], "-H \"TE: gzip\""),
    ] {
        assert_refused(words, text);
    }
}

#[test]
fn headers_that_cannot_be_sent_are_refused() {
    for (words, text) in [
        (&["-H", ":path: /x"][..], "-H \":path: /x\""),
        (&["-H", "Host: a", "-H", "host: b"], "-H \"host\""),
        (&["-H", "X: a\nY: b"], "-H \"X: a\\nY: b\""),
        (&["-H", "Transfer-Encoding: chunked", "-b", "x"], "dyno writes this header itself"),
        (&["-H", "content-length: 5"], "dyno writes this header itself"),
    ] {
        assert_refused(&[&[URL], words].concat(), text);
    }
}

#[test]
fn options_without_effect_are_refused() {
    let files = Files::new(&[("urls", "https://127.0.0.1:1/\n")]);
    let (curl, urls) = ("curl http://127.0.0.1:1/", &*files.at("urls"));
    for (words, text) in [
        (&[URL, "--page-connections", "3"][..], "--resource"),
        (&[URL, "--check-one-in", "3"], "none is expected"),
        (&[URL, "--import-templates"], "needs --import or --curl"),
        (&[URL, "--first-byte-timeout", "20s"], "shorter than --timeout"),
        (&[URL, "-X", "HEAD", "--expect-body", "x"], "HEAD has no body"),
        (&["--import", urls, "-p", "16"], "--protocol h1"),
        (&[URL, "--trace", urls, "--arrival", "poisson"], "--arrival"),
        (&["--curl", curl, "--page-connections", "3"], "--page-connections"),
        (&["--curl", curl, "--import-format", "har"], "--import-format"),
        (&[URL, "-b", "x", "--import-format", "har"], "--import-format"),
    ] {
        assert_refused(words, text);
    }
}

#[test]
fn outputs_that_collide_are_refused() {
    let files = Files::new(&[("urls", "https://127.0.0.1:1/\n")]);
    let (new, urls) = (&*files.at("x"), &*files.at("urls"));
    let folder = Path::new(new).parent().unwrap();
    let same = &*folder.join(".").join("x").display().to_string();
    for (words, text) in [
        (&[URL, "-o", new, "--hgrm", same][..], "x: would be written by two outputs"),
        (&[URL, "--stream", new, "--hlog", new], "x: would be written by two outputs"),
        (
            &["--find", "p99<1s", URL, "--body-file", urls, "-o", urls],
            "this output would overwrite an input",
        ),
        (&[URL, "--hgrm", "-"], "--hgrm and --hlog: must be files"),
        (&[URL, "--stream", "-", "--format", "json"], "standard output already has the result"),
    ] {
        assert_refused(words, text);
    }
}

#[test]
fn unwritable_outputs_are_refused() {
    let files = Files::new(&[("file", "mine")]);
    let socket = &*files.at("socket");
    let _listener = UnixListener::bind(socket).unwrap();
    for option in ["-o", "--hgrm", "--hlog", "--stream"] {
        assert_refused(&[URL, option, socket], "socket: cannot be written: the path is a socket");
    }
    assert_refused(&[URL, "--save", &files.at("file")], "file: cannot be written");
    assert_eq!(fs::read_to_string(files.at("file")).unwrap(), "mine");
    let pipe = &*files.at("pipe");
    assert!(Command::new("mkfifo").args(["--mode=400", pipe]).status().unwrap().success());
    if dyno_launch::may_write(Path::new(pipe)).is_ok() {
        return crate::reasons::not_run("this user can write to every pipe");
    }
    assert_refused(&[URL, "-o", pipe], "pipe: cannot be written: Permission denied");
}

/// Only the user names files and sockets: a text from another author may not.
#[test]
fn files_that_user_did_not_name_are_not_read() {
    let curls = "curl --unix-socket /run/x.sock http://a/\n";
    let targets = "POST http://127.0.0.1:1/\n@body.json\n";
    let har = r#"{"log": {"entries": [{"request": {"method": "GET", "headers": [],
        "url": "http://127.0.0.1:1/{csv:/etc/passwd:1}"}}]}}"#;
    let files = Files::new(&[
        ("targets.txt", targets),
        ("curls.sh", curls),
        ("x.har", har),
        ("body.json", "{}"),
    ]);
    let (targets, har) = (&*files.at("targets.txt"), &*files.at("x.har"));
    for (words, text) in [
        (&["http://127.0.0.1:1/{csv:../secret:1}"][..], "leads out of the folder"),
        (&["--curl", "curl -d @../secret http://127.0.0.1:1/"], "leads out of the folder"),
        (&["--import", targets], "--files FOLDER"),
        (&["--import", &files.at("curls.sh")], "must not choose a Unix socket"),
        (&["--import", har, "--import-templates"], "--files FOLDER"),
    ] {
        assert_refused(words, text);
    }
    let folder = files.0.path().to_str().unwrap();
    assert_refused(&[URL, "--files", folder], "--files: has no effect");
    assert_refused(&["--import", har, "--files", folder], "--files: has no effect");
    let load = prepare(&["--import", targets, "--files", folder]);
    assert_eq!(load.workload.requests[0].body, Some(Body(b"{}".to_vec())));
    // Without the option, a placeholder of a recording is text.
    assert!(prepare(&["--import", har]).files.paths().is_empty());
}
