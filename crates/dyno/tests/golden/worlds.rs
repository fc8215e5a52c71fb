//! Tests suites in small worlds: `tests/golden/NAME/suite.toml` is planned, loaded and reported on
//! the simulated machine of `world.toml` next to it.

use std::collections::BTreeSet;

use dyno_analysis::{Caveat, Report, Severity};

use crate::machine::Machine;
use crate::stored_output;

fn assert_world(name: &str) {
    let folder = stored_output::folder(name);
    let machine = Machine::read(&folder.join("world.toml"));
    let report = dyno_analysis::report::report(&machine.run(&folder));
    let shows = &machine.shows;
    assert_eq!(
        reported_codes(&report),
        shows.caveats.iter().map(String::as_str).collect(),
        "caveats of {name}"
    );
    let limiters: BTreeSet<&str> =
        report.trials.iter().map(|t| t.limiter.resource.name()).collect();
    assert_eq!(limiters, shows.limiters.iter().map(String::as_str).collect(), "limiters of {name}");
    assert_eq!(report.run.trials_invalid, shows.invalid_trials, "{name}");
    stored_output::assert_matches_stored(name, &report);
}

/// Returns the codes of caveats above `info`.
fn reported_codes(report: &Report) -> BTreeSet<&'static str> {
    let trial_caveats = report.trials.iter().flat_map(|trial| &trial.caveats);
    let all = report.caveats.iter().chain(trial_caveats);
    all.filter(|c: &&Caveat| c.severity > Severity::Info).map(|c| c.code.name()).collect()
}

/// A run without problems: five repeats with intervals, a control, and no warning.
#[test]
fn clean_world_has_no_warning() {
    assert_world("clean");
}

/// HTTP/2 over TLS compared with HTTP/1.1. One server does not support it, and one allows fewer
/// streams than requested.
#[test]
fn http2_over_tls_world_compares_with_http1() {
    assert_world("http2");
}

/// An open loop that one server keeps up with and another does not, with their costs.
#[test]
fn open_loop_world_reports_overload() {
    assert_world("overload");
}

/// A mix of requests, some of which get incorrect responses.
#[test]
fn mix_world_reports_each_request() {
    assert_world("mix");
}

/// Pages: a document, then its resources.
#[test]
fn page_world_reports_page_times() {
    assert_world("pages");
}

/// Sequences with cookies and extracted values. One server's responses lack the value now and then.
#[test]
fn sequence_world_reports_failed_extractions() {
    assert_world("sequences");
}

/// A server that crashes, one that cannot be built, one that this machine cannot run, and one
/// without failures.
#[test]
fn failing_world_reports_each_failure() {
    assert_world("failing");
}
