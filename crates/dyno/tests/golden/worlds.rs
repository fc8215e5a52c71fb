//! Small worlds: `tests/golden/NAME/suite.toml` is planned, loaded and reported on the machine of
//! `world.toml` next to it.

use std::collections::BTreeSet;

use dyno_analysis::{Caveat, Report, Severity};

use crate::machine::Machine;
use crate::stored_output;

fn hold(name: &str) {
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
    stored_output::hold_every_form(name, &report);
}

/// Codes that speak against something.
fn reported_codes(report: &Report) -> BTreeSet<&'static str> {
    let of_trials = report.trials.iter().flat_map(|trial| &trial.caveats);
    let all = report.caveats.iter().chain(of_trials);
    all.filter(|c: &&Caveat| c.severity > Severity::Info).map(|c| c.code.name()).collect()
}

/// Everything is as it should be: five repeats with intervals, a control, and not one warning.
#[test]
fn clean_world_is_valid_without_a_warning() {
    hold("clean");
}

/// HTTP/2 over TLS compared with HTTP/1.1. One server does not support it, and one allows fewer
/// streams than are asked for.
#[test]
fn http2_over_tls_is_compared_with_http1() {
    hold("http2");
}

/// An open loop that one server keeps up with and one does not, with what they cost.
#[test]
fn open_loop_may_be_more_than_a_server_can() {
    hold("overload");
}

/// A mix of requests, some of which are answered wrongly.
#[test]
fn mix_is_reported_per_request() {
    hold("mix");
}

/// Pages: a document, then its resources.
#[test]
fn pages_are_loaded_one_after_the_other() {
    hold("pages");
}

/// A server that crashes, one that cannot be built, one that this machine cannot run, and one that
/// goes on.
#[test]
fn failing_servers_are_reported() {
    hold("failing");
}
