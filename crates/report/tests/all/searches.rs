//! Tests the sentences at the head of a report about searches for a rate and their interruption.

use std::path::Path;

use dyno_analysis::Report;
use dyno_analysis::capacity::{Bracket, SearchCounts};
use dyno_analysis::cell::Shape;
use dyno_analysis::report::report;
use dyno_archive::RunDir;
use dyno_report::answer::sentences;

/// Returns the sentences about the golden run after a change of its report.
fn sentences_after(change: impl Fn(&mut Report)) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
    let mut report = report(&RunDir::open(folder).unwrap().read().unwrap());
    change(&mut report);
    sentences(&report).join(" ")
}

#[test]
fn interrupted_searches_and_checks_are_named() {
    let text = sentences_after(|r| (r.run.searches_missing, r.run.trials_unchecked) = (1, 2));
    assert!(text.contains("1 planned search for a rate was not completed."), "{text}");
    assert!(
        text.contains(
            "2 steps must be repeated (`dyno run --resume`): a back end or the machine failed, or \
             responses were not checked against the contract afterwards."
        ),
        "{text}"
    );
}

/// The closed loop of the only subject served 5,070/s.
#[test]
fn closed_loop_below_found_rate_is_no_maximum() {
    let text = |kept_rps: f64| {
        sentences_after(|r| {
            r.overview.retain(|row| row.subject == "fast");
            r.brackets = vec![Bracket {
                subject: "fast".into(),
                workload: r.overview[0].workload.clone(),
                shape: Shape::closed_loop(16, 1, 1),
                kept_rps: Some(kept_rps),
                missed_rps: None,
                limited_by_generator: false,
                failures_at_any_rate: false,
                rates: Vec::new(),
                searched: Some(SearchCounts {
                    starts: 1,
                    failed_starts: 0,
                    failing_starts: 0,
                    loads: 9,
                    settled: 1,
                    confirmed: 1,
                    limited_by_generator: 0,
                    holds_s: Some(4.0),
                }),
                by_repeat_rps: vec![kept_rps],
                interval_rps: None,
            }];
        })
    };
    let below = text(4000.0);
    assert!(below.contains("The peak of Fast <1> was 5,070 requests per second"), "{below}");
    let above = text(6000.0);
    assert!(above.contains("served 5,070 requests per second"), "{above}");
    assert!(
        above.contains("The search for the highest rate (rate = \"find\") reached a higher rate."),
        "{above}"
    );
}
