use super::super::tests::parse;
use super::*;

#[test]
fn errors_quote_no_secret() {
    let error = |words: &[&str]| {
        let mut args = parse(&[&["http://h/"], words].concat()).unwrap();
        let files = ReadableFiles::Nothing;
        read_requests(&mut args, &files).unwrap_err().to_string()
    };
    for (words, begin) in [
        (["-H", "X-Api-Key s3cret"], "-H \"X-Api-Key …\": "),
        (["-H", "Authorization: Bearer\n s3cret"], "-H \"Authorization:…\": "),
        (["--request", "80 GET ?token=s3cret"], "--request \"80 GET ?token=…\": "),
        (["--expect-json", "token:s3cret"], "--expect-json \"token:…\": "),
    ] {
        let text = error(&words);
        assert!(text.starts_with(begin) && !text.contains("s3cret"), "{words:?}: {text}");
    }
}

#[test]
fn page_has_streams_and_expectations_of_browser() {
    let read = |words: &[&str]| {
        let page = ["http://h/a", "--resource", "/b", "--resource", "/b", "--expect-body", "x"];
        let mut args = parse(&[&page[..], words].concat()).unwrap();
        let (_, workload, _) = read_requests(&mut args, &ReadableFiles::Nothing).unwrap();
        (streams(&args), workload)
    };
    let (of_page, workload) = read(&["--protocol", "h2c"]);
    assert_eq!(of_page, dyno_suite::defaults::PAGE_STREAMS);
    assert_eq!(read(&["--protocol", "h2c", "-m", "3"]).0, 3);
    assert_eq!(read(&["--protocol", "h1"]).0, 1);
    let names: Vec<&str> = workload.requests.iter().map(|request| &*request.name).collect();
    assert_eq!(names, ["GET /a", "/b", "/b #2"]);
    let is_body_expected = |request: &Request| request.expect.body.is_some();
    let expected: Vec<bool> = workload.requests.iter().map(is_body_expected).collect();
    assert_eq!(expected, [true, false, false], "only the document is expected to be `x`");
}

#[test]
fn header_with_value_is_sent_after_its_extraction() {
    let steps = ["--step", "GET /login", "--step", "GET /home", "--extract", "1 t=json:/t"];
    let words = [&["http://h/"], &steps[..], &["-H", "A: {extract.t}", "-H", "B: x"]].concat();
    let mut args = parse(&words).unwrap();
    let (_, workload, _) = read_requests(&mut args, &ReadableFiles::Nothing).unwrap();
    let names = |step: usize| -> Vec<&str> {
        workload.requests[step].headers.iter().map(|(name, _)| &**name).collect()
    };
    assert_eq!([names(0), names(1)], [vec!["B"], vec!["A", "B"]]);
}

/// Returns the changes to an import that `dyno load` reports, and the header names of the first
/// request.
fn reported_changes(words: &[&str]) -> (Vec<String>, Vec<String>) {
    let mut args = parse(words).unwrap();
    let files = readable_files(&args);
    let (_, workload, changes) = read_requests(&mut args, &files).unwrap();
    let names = workload.requests[0].headers.iter().map(|(name, _)| name.clone()).collect();
    let lines = changes
        .lines()
        .into_iter()
        .filter(|line| !line.contains("headers that the tool adds"))
        .collect();
    (lines, names)
}

#[test]
fn import_removes_headers_that_protocol_cannot_carry() {
    let curl = "curl http://h/ -H 'Connection: close' -H 'TE: gzip' -H 'X: y' -H 'Upgrade: x'";
    let (lines, names) = reported_changes(&["--curl", curl]);
    assert_eq!(
        (lines.len(), names),
        (0, ["Connection", "TE", "X", "Upgrade"].map(String::from).to_vec())
    );
    for curl in
        [curl.replace("curl", "curl --http2-prior-knowledge"), curl.replace("http:", "https:")]
    {
        let (lines, names) = reported_changes(&["--curl", &curl]);
        let expected = "import: headers omitted, because they are not allowed in the protocol of \
                        the load (3): connection, te, upgrade";
        assert_eq!((lines, names), (vec![expected.to_string()], vec!["X".to_string()]));
    }
}

#[test]
fn import_lists_ignored_settings() {
    let settings = |words: &[&str]| reported_changes(words).0.join("\n");
    let two = "curl http://h/ -m 2 --http1.1\ncurl http://h/ -m 3 --http2-prior-knowledge -k \
               --http1.1";
    let lines = settings(&["--curl", two]);
    let has = "an option or an earlier command sets another value";
    assert!(
        lines.contains(&format!("--insecure (the load has no TLS), --max-time 3 ({has})")),
        "{lines}"
    );
    assert!(!lines.contains("--http1.1"), "{lines}");
    let lines = settings(&["--timeout", "5s", "--curl", "curl http://h/ -m 2"]);
    assert!(lines.ends_with(&format!("--max-time 2 ({has})")), "{lines}");
    let lines = settings(&["http://other:1/", "--curl", "curl http://h/ --resolve h:80:127.0.0.1"]);
    assert!(
        lines.contains("servers replaced by the server on the command line (1): http://h"),
        "{lines}"
    );
    assert!(
        lines.contains("--resolve h:80:127.0.0.1 (dyno uses the URL of the command line)"),
        "{lines}"
    );
}

#[test]
fn import_lists_settings_of_some_commands() {
    let lines = |curl: &str| reported_changes(&["--curl", curl]).0.join("\n");
    let two = "curl http://h/a\ncurl --max-time 0.2 --http1.1 http://h/slow";
    let expected = "import: connection settings applied to all commands (2): --http1.1 (only 1 of \
                    2 commands set it), --max-time 0.2 (only 1 of 2 commands set it)";
    assert_eq!(lines(two).lines().next(), Some(expected));
    let zero = "curl -m 0 http://h/a\ncurl -m 3 http://h/b";
    assert!(
        lines(zero).contains(": --max-time 3 (only 1 of 2 commands set it)\n"),
        "{}",
        lines(zero)
    );
    let both = "curl -m 2 http://h/a\ncurl -m 2 http://h/b";
    let order = "import: requests sent in random order (by weight), not in the order of the \
                 import (2)";
    assert_eq!(lines(both), order);
}

#[test]
fn certificates_of_curl_are_read_from_files_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.pem"), "").unwrap();
    let path = folder.path().to_str().unwrap();
    let read = |name: &str, files: &[&str]| {
        let curl = format!("curl --cacert {name} --cert {name} https://h/");
        let mut args = parse(&[&["--curl", &*curl][..], files].concat()).unwrap();
        let files = readable_files(&args);
        let error = read_requests(&mut args, &files).err().map(|error| error.to_string());
        error.map_or(Ok([args.cacert, args.cert, args.key]), Err)
    };
    let file = folder.path().canonicalize().unwrap().join("ca.pem");
    assert_eq!(read("ca.pem", &["--files", path]), Ok([(); 3].map(|()| Some(file.clone()))));
    for name in ["../ca.pem", "/ca.pem", "other.pem"] {
        let error = read(name, &["--files", path]).unwrap_err();
        assert!(error.contains(name), "{error}");
        assert_eq!(read(name, &[]), Ok([(); 3].map(|()| Some(name.into()))));
    }
}

#[test]
fn import_refuses_too_short_time_limit() {
    let mut args = parse(&["--curl", "curl -m 0.0005 http://h/"]).unwrap();
    let files = readable_files(&args);
    let error = read_requests(&mut args, &files).unwrap_err().to_string();
    assert!(error.ends_with("--max-time 0.0005: must be at least 1ms"), "{error}");
}
