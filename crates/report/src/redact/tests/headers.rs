//! Tests headers of commands. The value of any header may be secret, except of plain headers.

use std::path::Path;

use dyno_analysis::report::report;
use dyno_archive::RunDir;

use super::super::commands::PLAIN_HEADERS;
use super::*;

#[test]
fn command_header_of_any_name_is_withheld() {
    for (line, redacted) in [
        ("-H 'X-Tenant: acme' http://x/", "-H 'X-Tenant: (withheld)' http://x/"),
        ("--header=X-Tenant:acme http://x/", "'--header=X-Tenant: (withheld)' http://x/"),
        (
            "--curl 'curl -H \"X-Tenant: acme\" http://x/'",
            "--curl \"curl -H 'X-Tenant: (withheld)' http://x/\"",
        ),
        ("-H 'accept-Encoding: gzip' http://x/", "-H 'accept-Encoding: gzip' http://x/"),
        ("-H 'Host: a.example' http://x/", "-H 'Host: a.example' http://x/"),
        ("-H X-Empty: http://x/", "-H X-Empty: http://x/"),
        ("-H 'Accept: Bearer abc123xyz' http://x/", "-H 'Accept: (withheld)' http://x/"),
    ] {
        let words = Secrets::default().command(&words(line));
        assert_eq!(crate::shell::command(&words), redacted);
    }
}

#[test]
fn request_lacks_header_that_command_withholds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
    let mut report = report(&RunDir::open(folder).unwrap().read().unwrap());
    report.run.command = words("dyno load -H 'X-Tenant: acme' -H 'Accept: acme/*' http://x/");
    let headers = [("X-Tenant", "acme"), ("Accept", "acme/*"), ("X-Mode", "fast")];
    let request = &mut report.run.workloads[0].requests[0];
    request.headers = headers.map(|(name, value)| (name.into(), value.into())).into();
    let redacted = redact(&report).report;
    let headers = &redacted.run.workloads[0].requests[0].headers;
    let values: Vec<&str> = headers.iter().map(|(_, value)| &**value).collect();
    assert_eq!(values, [MARK, "acme/*", "fast"]);
}

#[test]
fn workload_with_withheld_value_has_no_id() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
    let mut report = report(&RunDir::open(folder).unwrap().read().unwrap());
    let ids = |report: &Report| redact(report).report.run.ids.workloads.clone();
    assert!(ids(&report)[0].is_some());
    let secret = ("Authorization".into(), "Basic dXNlcjpwYXNz".into());
    report.run.workloads[0].requests[0].headers.push(secret);
    assert_eq!(ids(&report), [None]);
}

#[test]
fn plain_headers_are_those_of_the_docs() {
    let docs = include_str!("../../../../../docs/reference/archive-format.md");
    let list = docs.split_once("except of these headers:").unwrap().1;
    let list = list.split_once(".\n").unwrap().0.to_ascii_lowercase();
    let names: Vec<&str> = list.split(',').flat_map(|name| name.split(" and ")).collect();
    assert_eq!(names.iter().map(|name| name.trim()).collect::<Vec<_>>().join(" "), PLAIN_HEADERS);
}
