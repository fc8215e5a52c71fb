//! The answer at the head of a report, sentence by sentence: the golden run's report is changed a
//! little, and says so.

use std::path::Path;
use std::sync::LazyLock;

use dyno_analysis::baseline::PairEstimate;
use dyno_analysis::mixture::Mixture;
use dyno_analysis::other_programs::DisturbedSteps;
use dyno_analysis::overview::Tie;
use dyno_analysis::peak::RatioBound;
use dyno_analysis::protocols::ProtocolComparison;
use dyno_analysis::report::report;
use dyno_analysis::stats::{Estimate, PairUnit, Repeated};
use dyno_analysis::window_levels::Piece;
use dyno_analysis::{Caveat, Code, Report, Severity};
use dyno_archive::plan::{Arrivals, LoadModel};
use dyno_archive::{Protocol, RunDir};
use dyno_report::answer::sentences;

/// Three repeats of a fast server and of a slow one, which is the baseline, in one workload; a
/// third is not there.
static HELLO: LazyLock<Report> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
    report(&RunDir::open(folder).unwrap().read().unwrap())
});

/// The sentences of the report once it is changed like that.
fn said_of(change: impl Fn(&mut Report)) -> Vec<String> {
    let mut report = HELLO.clone();
    change(&mut report);
    sentences(&report)
}

/// The ratio of the two at the reference step, repeat by repeat, and nothing known of their CPU
/// time.
fn ratios(report: &mut Report, values: &[f64]) {
    let cell = report.overview[0].reference_cell;
    let found = report.comparisons.iter_mut().find(|c| c.cell == cell).unwrap();
    found.throughput_ratio = Repeated::new(values.to_vec());
    found.cpu_per_request_ratio = Repeated::default();
    (found.throughput, found.cpu) = (None, None);
}

#[test]
fn first_sentence_compares_the_best_with_the_baseline() {
    let more = |values: &'static [f64]| said_of(move |r| ratios(r, values)).remove(0);
    for (values, times, over) in [
        (&[2.0, 2.1, 2.3][..], "2.00–2.30", "range of 3 valid repeats, too few for an interval"),
        (&[2.0; 5], "2.00", "95 % interval"),
        (&[12.34], "12", "one repeat, so no interval"),
        (&[10.0], "10", "one repeat, so no interval"),
        (&[9.99], "9.99", "one repeat, so no interval"),
        (&[0.1], "0.10", "one repeat, so no interval"),
        (&[0.0987], "0.099", "one repeat, so no interval"),
    ] {
        let wanted = format!(
            "At 16 connections, Fast <1> served {times} times as many requests per second as Slow \
             ({over})."
        );
        assert_eq!(more(values), wanted);
    }
    let none = more(&[]);
    assert!(
        none.starts_with("At 16 connections, Fast <1> and Slow have no valid repeats in common."),
        "{none}"
    );
    let cheaper = said_of(|r| {
        ratios(r, &[2.0]);
        r.comparisons.iter_mut().for_each(|c| c.cpu_per_request_ratio = Repeated::new(vec![0.5]));
    });
    assert!(
        cheaper[0].ends_with("(one repeat, so no interval), with 0.50 times the CPU per request."),
        "{cheaper:?}"
    );
}

#[test]
fn intervals_of_the_first_sentence_allow_for_all_pairs() {
    let estimate = |ratio: f64, ends: (f64, f64)| {
        let ratios = [0.99, 1.0, 1.01, 1.0, 1.0].map(|times| times * ratio);
        let estimate = Estimate::from_pairs(&ratios).unwrap();
        Some(PairEstimate {
            estimate,
            over: PairUnit::Launches,
            interval_of_all: Some(ends),
            is_skewed: false,
        })
    };
    let of = |skewed: bool, looks: bool| {
        said_of(move |r| {
            ratios(r, &[2.0; 5]);
            r.run.at_every_look = looks;
            let cell = r.overview[0].reference_cell;
            let found = r.comparisons.iter_mut().find(|c| c.cell == cell).unwrap();
            found.throughput =
                estimate(2.0, (1.7, 2.4)).map(|of| PairEstimate { is_skewed: skewed, ..of });
            found.cpu = estimate(0.5, (0.45, 0.56));
            found.cpu_per_request_ratio = Repeated::new(vec![0.5; 5]);
        })
        .remove(0)
    };
    assert_eq!(
        of(false, false),
        "At 16 connections, Fast <1> served 1.70–2.40 times as many requests per second as Slow \
         (95 % interval), with 0.50 (0.45–0.56) times the CPU per request."
    );
    let skewed = of(true, true);
    assert!(skewed.contains("(95 % interval that allows for early stopping)"), "{skewed}");
    assert!(
        skewed.ends_with(
            "The pairs are skewed and the interval assumes symmetry, so it covers less than 95 %."
        ),
        "{skewed}"
    );
}

#[test]
fn ratio_beside_refused_repeats_is_a_bound() {
    let of = |bound| {
        said_of(move |r| {
            ratios(r, &[2.0, 2.1, 2.3]);
            let cell = r.overview[0].reference_cell;
            r.comparisons.iter_mut().find(|c| c.cell == cell).unwrap().throughput_bound = bound;
        })
        .remove(0)
    };
    assert!(of(RatioBound::AtLeast).contains("served at least 2.00–2.30 times as many"));
    assert!(of(RatioBound::AtMost).contains("served at most 2.00–2.30 times as many"));
    let unknown = of(RatioBound::Unknown);
    assert!(
        unknown.starts_with("At 16 connections, repeats of both Fast <1> and Slow do not count"),
        "{unknown}"
    );
}

#[test]
fn lower_bound_is_served_at_least_and_tied_as_such() {
    let alone = said_of(|r| {
        r.overview.retain(|row| row.subject == "fast");
        let row = &mut r.overview[0];
        row.peak_is_lower_bound = true;
        row.peak_at_least_at = row.peak_at;
        row.peak_at_least_rps = Some(Repeated::new(vec![9000.0]));
    });
    assert_eq!(
        alone[0],
        "Fast <1> served at least 9,000 requests per second (one repeat, so no interval), at 16 \
         connections."
    );
    let tied = said_of(|r| {
        let (best, with) = ("fast".to_string(), vec!["slow".to_string()]);
        let lower_bounds = with.clone();
        r.ties = vec![Tie { workload: "plaintext".into(), best, with, mutual: true, lower_bounds }];
    });
    let wanted = "Fast <1> and Slow (its peak is a lower bound) cannot be distinguished by peak \
                  throughput (tie).";
    assert!(tied.iter().any(|s| s == wanted), "{tied:?}");
}

/// Throughput that jumped from 376 to 1,625/s within the window was once "at most 878".
#[test]
fn mean_of_levels_is_no_most() {
    let mixture = |changed, repeats| {
        Some(Mixture { changed, repeats, lowest_rps: 376.0, highest_rps: 1625.0 })
    };
    let alone = |of: Option<Mixture>| {
        said_of(move |r| {
            r.overview.retain(|row| row.subject == "fast");
            r.overview[0].peak_rps = Some(Repeated::new(vec![878.0]));
            r.overview[0].peak_mixture = of;
        })
        .remove(0)
    };
    assert_eq!(
        alone(mixture(1, 1)),
        "Fast <1> served a mean of 878 requests per second (one repeat, so no interval), at 16 \
         connections. In its only repeat throughput changed within the measured window between \
         levels of 376 and 1,630 requests per second. The mean was never sustained."
    );
    assert!(alone(mixture(4, 5)).contains("In 4 of its 5 repeats throughput changed"));
    assert!(alone(mixture(5, 5)).contains("In each of its 5 repeats throughput changed"));
}

/// A ratio of servers of which one had two levels is followed by the levels, at its own step.
#[test]
fn ratio_of_a_mean_of_levels_is_followed_by_them() {
    let first = |changed: &'static [&'static str]| {
        let sentences = said_of(move |r| {
            ratios(r, &[2.0, 2.1, 2.3]);
            let at = r.overview[0].reference_cell.step;
            for trial in &mut r.trials {
                if trial.cell.step == at && changed.contains(&trial.subject.as_str()) {
                    let piece = |throughput_rps| Piece { start_s: 0.0, end_s: 1.0, throughput_rps };
                    trial.caveats.push(Caveat {
                        code: Code::Speedup,
                        severity: Severity::Warning,
                        message: "rose".into(),
                        evidence: serde_json::json!({}),
                    });
                    trial.valid = true;
                    let steadiness = trial.steadiness.get_or_insert_default();
                    steadiness.pieces = vec![piece(100.0), piece(300.0)];
                }
            }
        });
        sentences.into_iter().next().unwrap()
    };
    let levels = |whose: &str| {
        format!(
            " In each of {whose} 3 repeats throughput changed within the measured window between \
             levels of 100 and 300 requests per second. The mean was never sustained."
        )
    };
    let ratio = first(&[]);
    assert_eq!(first(&["slow"]), format!("{ratio}{}", levels("Slow's")));
    assert_eq!(first(&["fast"]), format!("{ratio}{}", levels("Fast <1>'s")));
    let both = first(&["fast", "slow"]);
    assert_eq!(both, format!("{ratio}{}{}", levels("Fast <1>'s"), levels("Slow's")));
}

/// An offered rate is not served more than once: the response gives shares of it, and no ratio of
/// rates.
#[test]
fn offered_rate_reports_shares_of_it() {
    let said = said_of(|r| {
        let cell = r.overview[0].reference_cell;
        r.run.load.steps[cell.step].arrivals = Arrivals::Constant { rate: 1000.0 };
        for trial in r.trials.iter_mut().filter(|t| t.cell.step == cell.step && t.valid) {
            trial.load.config.model = LoadModel::Open;
            trial.load.duration_s = 2.0;
            trial.load.exchanges.scheduled = 2000;
            trial.load.throughput_rps = if trial.subject_id == "fast" { 1001.0 } else { 900.0 };
        }
    });
    assert_eq!(
        said[0],
        "Of the 1,000 requests per second offered over 16 connections, Fast <1> served 100 % and \
         Slow 90.0 %."
    );
}

#[test]
fn baseline_that_is_the_best_has_the_next_compared_with_it() {
    let first = said_of(|r| {
        r.overview.swap(0, 1);
        let cell = r.overview[1].reference_cell;
        r.comparisons.iter_mut().find(|c| c.cell == cell).unwrap().throughput_ratio =
            Repeated::new(vec![0.5]);
    })
    .remove(0);
    assert!(
        first.starts_with(
            "At 16 connections, Fast <1> served 0.50 times as many requests per second as Slow"
        ),
        "{first}"
    );
}

#[test]
fn subject_alone_is_not_compared() {
    let fast = "Fast <1> served at most 5,070 requests per second (4,920–5,100, range of 3 \
                repeats), at 16 connections.";
    let slow = "Slow served at most 1,070 requests per second (1,060–1,070, range of 3 repeats), \
                at 4 connections.";
    assert_eq!(said_of(|r| r.overview.retain(|row| row.subject == "fast"))[0], fast);
    assert_eq!(said_of(|r| r.overview[0].control = true)[0], slow, "a control is no rival");
    assert_eq!(
        said_of(|r| r.overview[1].workload = "other".into())[0],
        fast,
        "nor is one of another workload"
    );
    assert_eq!(said_of(|r| r.overview[1].peak_rps = None)[0], fast, "nor one without numbers");
    let controls = said_of(|r| r.overview.iter_mut().for_each(|row| row.control = true));
    assert!(
        controls[0].starts_with("At 16 connections, Fast <1> served 4.56 times"),
        "{controls:?}"
    );
    let one = said_of(|r| {
        r.overview.truncate(1);
        r.overview[0].peak_rps = Some(Repeated::new(vec![5000.0]));
    });
    assert_eq!(
        one[0],
        "Fast <1> served at most 5,000 requests per second (one repeat, so no interval), at 16 \
         connections."
    );
}

#[test]
fn sentence_names_its_workload_where_there_are_several() {
    let with = |names: [&str; 2], protocol: Protocol| {
        let words = said_of(move |r| {
            let mut second = r.run.workloads[0].clone();
            (second.name, second.protocol) = (names[1].into(), protocol);
            r.run.workloads.push(second);
            let first = std::mem::replace(&mut r.run.workloads[0].name, names[0].into());
            r.overview
                .iter_mut()
                .filter(|row| row.workload == first)
                .for_each(|row| row.workload = names[0].into());
            r.comparisons
                .iter_mut()
                .filter(|c| c.workload == first)
                .for_each(|c| c.workload = names[0].into());
            ratios(r, &[2.0]);
        });
        words[0].clone()
    };
    let says =
        |words: &str, part: &str| words.contains(&format!(" requests per second {part} as Slow"));
    let plain = with(["plaintext", "second"], Protocol::H1);
    assert!(says(&plain, "for plaintext"), "{plain}");
    let of_two_protocols = with(["plaintext", "second"], Protocol::H2c);
    assert!(says(&of_two_protocols, "for plaintext"), "{of_two_protocols}");
    let named_by_protocol = with(["h1", "h2c"], Protocol::H2c);
    assert!(says(&named_by_protocol, "over h1"), "{named_by_protocol}");
    let untitled = said_of(|r| {
        r.subjects.clear();
        ratios(r, &[2.0]);
    });
    assert!(
        untitled[0].contains(" fast served ") && untitled[0].contains(" as slow ("),
        "{untitled:?}"
    );
}

/// A server's workload over HTTP/2 compared with HTTP/1.1: connections, requests in flight on each,
/// and the ratio of each repeat.
fn over_h2(
    subject: &str,
    workload: &str,
    shape: (u32, u32),
    base: (u32, u32),
    ratios: &[f64],
) -> ProtocolComparison {
    ProtocolComparison {
        server: subject.split('/').next().unwrap().into(),
        subject: subject.into(),
        baseline_subject: subject.into(),
        workload: workload.into(),
        baseline: "h1".into(),
        in_flight: u64::from(shape.0) * u64::from(shape.1),
        connections: shape.0,
        streams: shape.1,
        baseline_connections: base.0,
        baseline_pipeline: base.1,
        pass: 1,
        throughput_ratio: Repeated::new(ratios.to_vec()),
        response_p99_ratio: Repeated::default(),
        cpu_per_request_ratio: Repeated::default(),
    }
}

/// What is said of protocols; empty if nothing is.
fn protocols(all: &[ProtocolComparison]) -> String {
    let said = said_of(|r| r.protocols = all.to_vec());
    let of_protocols = said
        .into_iter()
        .find_map(|s| Some(s.strip_prefix("Requests per second by protocol ")?.to_string()));
    of_protocols.unwrap_or_default()
}

const WIDE: (u32, u32) = (100, 1);
const DEEP: (u32, u32) = (25, 4);

#[test]
fn protocols_are_compared_at_equal_requests_in_flight() {
    let fast = |ratios: &[f64]| over_h2("fast", "h2", (10, 10), WIDE, ratios);
    assert_eq!(
        protocols(&[fast(&[2.0; 3])]),
        "(medians of 3 repeats): h2 served 2.00 times as many as h1 at 100 in flight (Fast <1>)."
    );
    let again = ProtocolComparison { pass: 2, ..fast(&[3.0; 3]) };
    assert_eq!(
        protocols(&[fast(&[2.0; 3]), again]),
        "(medians of 3 repeats): h2 served 2.00 to 3.00 times as many as h1 at 100 in flight (Fast \
         <1>)."
    );
    let slow = over_h2("slow", "h2", (10, 10), WIDE, &[3.0; 2]);
    assert_eq!(
        protocols(&[fast(&[2.0; 3]), slow.clone()]),
        "(medians of 2 to 3 repeats): h2 served 2.00 to 3.00 times as many as h1 at 100 in flight \
         (2 servers)."
    );
    let variants = ["slow/a", "slow/b"].map(|id| over_h2(id, "h2", (10, 10), WIDE, &[3.0]));
    assert_eq!(
        protocols(&variants),
        "(one repeat, so no interval): h2 served 3.00 times as many as h1 at 100 in flight (2 \
         variants of slow)."
    );
    assert_eq!(protocols(&[fast(&[])]), "", "without a ratio");
    let control = said_of(|r| {
        r.subjects.iter_mut().find(|s| s.id == "fast").unwrap().control = true;
        r.protocols = vec![fast(&[2.0; 3]), slow.clone()];
    });
    assert!(
        control
            .iter()
            .any(|s| s.contains("h2 served 3.00 times as many as h1 at 100 in flight (Slow)")),
        "{control:?}"
    );
}

#[test]
fn shapes_are_named_only_where_one_level_has_several() {
    let of = |shape, base, ratio| over_h2("fast", "h2", shape, base, &[ratio]);
    assert_eq!(
        protocols(&[of((10, 10), WIDE, 2.0), of((10, 10), DEEP, 3.0)]),
        "(one repeat, so no interval): h2 served 2.00 times as many as h1 at 100 in flight as 10 × \
         10 compared with 100 × 1 (Fast <1>); h2 served 3.00 times as many as h1 at 100 in flight \
         as 10 × 10 compared with 25 × 4 (Fast <1>)."
    );
    // Fewest in flight first; of as many, by the workload's name.
    let other = over_h2("fast", "a-h2", (10, 10), WIDE, &[4.0]);
    assert_eq!(
        protocols(&[of((10, 10), WIDE, 2.0), of((5, 10), (50, 1), 3.0), other]),
        "(one repeat, so no interval): h2 served 3.00 times as many as h1 at 50 in flight (Fast \
         <1>); a-h2 served 4.00 times as many as h1 at 100 in flight (Fast <1>); h2 served 2.00 \
         times as many as h1 at 100 in flight (Fast <1>)."
    );
    let against = ProtocolComparison { baseline: "h1-too".into(), ..of((10, 10), WIDE, 3.0) };
    assert_eq!(
        protocols(&[of((10, 10), WIDE, 2.0), against]),
        "(one repeat, so no interval): h2 served 2.00 times as many as h1 at 100 in flight (Fast \
         <1>); h2 served 3.00 times as many as h1-too at 100 in flight (Fast <1>)."
    );
}

#[test]
fn ties_and_too_few_repeats_are_told_of_the_first_workload() {
    let tie = |workload: &str| Tie {
        workload: workload.into(),
        best: "fast".into(),
        with: vec!["slow".into()],
        mutual: true,
        lower_bounds: Vec::new(),
    };
    let says = |said: &[String], words: &str| said.iter().any(|s| s == words);
    let tied = "Fast <1> and Slow cannot be distinguished by peak throughput (tie).";
    assert!(says(&said_of(|r| r.ties = vec![tie("plaintext")]), tied));
    let elsewhere = said_of(|r| r.ties = vec![tie("other")]);
    assert!(elsewhere.iter().all(|s| !s.contains("tie")), "{elsewhere:?}");
    let few = said_of(|r| {
        r.ties = vec![tie("plaintext")];
        r.overview[1].peak_rps = Some(Repeated::new(vec![1.0, 2.0]));
    });
    assert!(
        says(&few, &format!("{tied} Slow has 2 valid repeats, too few for a rank.")),
        "{few:?}"
    );
}

/// Other programs are why most steps are not valid: the headline is about them.
#[test]
fn other_programs_are_the_headline_of_most_invalid_steps() {
    let names = || vec!["rustc".to_string(), "python3".to_string()];
    let disturbed = |disturbed: usize, invalid: usize| {
        said_of(move |r| {
            r.run.trials_invalid = invalid;
            r.run.other_programs = Some(DisturbedSteps {
                trials_invalid: disturbed,
                cpu_share: Some(0.61),
                names: names(),
            });
        })
    };
    let all = disturbed(10, 10);
    assert_eq!(
        all[0],
        "Other programs used 61 % of this machine's CPUs (rustc, python3), and 10 of 12 steps are \
         not valid."
    );
    assert!(all[1..].iter().all(|said| !said.contains("not valid")), "{all:?}");
    let some = disturbed(10, 11);
    assert!(
        some[0].ends_with("11 of 12 steps are not valid (1 of them for other reasons)."),
        "{some:?}"
    );
    assert!(some[1..].iter().any(|said| said.contains("not valid: ")), "{some:?}");
    // Half of the steps are valid: what they say comes first.
    let half = disturbed(6, 6);
    assert!(!half[0].contains("Other programs"), "{half:?}");
}

/// A drift may be why peaks differ.
#[test]
fn fixed_order_is_no_ranking() {
    let fixed = said_of(|r| {
        let caveat = Caveat {
            code: Code::FixedOrder,
            severity: Severity::Warning,
            message: String::new(),
            evidence: serde_json::json!({}),
        };
        r.caveats.push(caveat);
    });
    assert!(fixed.iter().any(|said| said.contains("Subjects are not ranked")), "{fixed:?}");
}

/// What is said of how many steps are valid.
fn validity(change: &dyn Fn(&mut Report)) -> String {
    let said = said_of(change);
    said.into_iter()
        .find(|s| s.contains("valid") || s.contains("planned") || s.contains("refused"))
        .unwrap_or_default()
}

/// The first trial that is not valid for this reason.
fn refused(r: &Report, words: &str) -> usize {
    let of = |t: &dyno_analysis::trial::TrialResult| {
        !t.valid && t.caveats[0].code.reason() == Some(words)
    };
    r.trials.iter().position(of).unwrap()
}

#[test]
fn what_was_not_valid_or_not_done_is_counted() {
    let all_valid = |r: &mut Report| {
        r.trials.iter_mut().for_each(|t| t.valid = true);
        r.run.trials_invalid = 0;
    };
    assert_eq!(validity(&all_valid), "All 12 steps are valid.");
    let unfinished = |r: &mut Report| {
        all_valid(r);
        r.run.trials_planned = 14;
    };
    assert_eq!(validity(&unfinished), "All 12 steps are valid. 2 planned steps were not run.");
    let only_one = |r: &mut Report| {
        r.trials.retain(|t| t.valid);
        r.trials.truncate(1);
        (r.run.trials_done, r.run.trials_planned, r.run.trials_invalid) = (1, 2, 0);
    };
    assert_eq!(validity(&only_one), "The step that was run is valid. 1 planned step was not run.");
    let only_one_refused = |r: &mut Report| {
        let wrong = "responses were incorrect";
        r.trials.retain(|t| !t.valid && t.caveats[0].code.reason() == Some(wrong));
        r.trials.truncate(1);
        (r.run.trials_done, r.run.trials_planned, r.run.trials_invalid) = (1, 1, 1);
    };
    assert_eq!(
        validity(&only_one_refused),
        "The only step is not valid: responses were incorrect (1)."
    );
    let one = |r: &mut Report| {
        let at = refused(r, "too many requests failed");
        r.trials[at].valid = true;
        r.run.trials_invalid = 1;
    };
    assert_eq!(validity(&one), "1 of 12 steps is not valid: responses were incorrect (1).");
    let three = |r: &mut Report| {
        let caveats = r.trials[refused(r, "responses were incorrect")].caveats.clone();
        let valid = r.trials.iter_mut().find(|t| t.valid).unwrap();
        (valid.valid, valid.caveats) = (false, caveats);
        r.run.trials_invalid = 3;
    };
    assert_eq!(
        validity(&three),
        "3 of 12 steps are not valid: responses were incorrect (2) and too many requests failed \
         (1)."
    );
    let same_words = |r: &mut Report| {
        for (text, code) in [
            ("responses were incorrect", Code::GeneratorBusy),
            ("too many requests failed", Code::Oversubscribed),
        ] {
            let at = refused(r, text);
            r.trials[at].caveats[0].code = code;
        }
    };
    assert_eq!(
        validity(&same_words),
        "2 of 12 steps are not valid: the generator was the limit (2)."
    );
    assert_eq!(validity(&|r| r.run.trials_done = 0), "", "nothing was done");
}

#[test]
fn refusals_that_are_to_be_are_counted_apart() {
    let refusals = |r: &mut Report| {
        let at = refused(r, "responses were incorrect");
        r.trials[at].refused = true;
        r.run.trials_invalid = 1;
    };
    assert_eq!(
        validity(&refusals),
        "1 of 11 steps is not valid: too many requests failed (1). In 1 more step all connections \
         were refused, as expected."
    );
    let only_refusals = |r: &mut Report| {
        r.trials.truncate(2);
        r.trials.iter_mut().for_each(|t| (t.valid, t.refused) = (false, true));
        (r.run.trials_done, r.run.trials_planned, r.run.trials_invalid) = (2, 2, 0);
    };
    assert_eq!(validity(&only_refusals), "In 2 steps all connections were refused, as expected.");
}

#[test]
fn who_failed_or_could_not_take_part_is_named_last() {
    let last = |change: &dyn Fn(&mut Report)| said_of(change).pop().unwrap();
    assert_eq!(last(&|_| {}), "Slow responded incorrectly. Skipped: Absent.");
    let failed_only = |r: &mut Report| r.subjects.iter_mut().for_each(|s| s.skipped = None);
    assert_eq!(last(&failed_only), "Slow responded incorrectly.");
    let skipped_only = |r: &mut Report| r.subjects.iter_mut().for_each(|s| s.failures.clear());
    assert_eq!(last(&skipped_only), "Skipped: Absent.");
    let neither = |r: &mut Report| {
        failed_only(r);
        skipped_only(r);
    };
    assert!(last(&neither).contains("steps are not valid"));
    let nothing = said_of(|r| {
        neither(r);
        r.overview.clear();
        r.run.trials_done = 0;
    });
    assert_eq!(nothing, ["No results yet."]);
}

/// A server that stands twice in a suite: what is said depends on how many steps could be compared.
#[test]
fn twins_are_said_to_be_alike_only_where_they_were_compared() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
    let mut run = RunDir::open(folder).unwrap().read().unwrap();
    let arms = &mut run.header.plan.arms;
    arms[1] = dyno_archive::plan::Arm { name: "twin".into(), ..arms[0].clone() };
    let report = report(&run);
    let of_twin = |compared: usize| {
        let mut report = report.clone();
        let [effect] = &mut report.twins[..] else { panic!("{:?}", report.twins) };
        let estimate = Estimate::from_pairs(&[0.99, 1.01, 1.0, 1.02, 0.98]).unwrap();
        let steps: Vec<_> =
            effect.answers.iter().map(|of| (of.workload.clone(), of.step)).collect();
        assert!(steps.len() > 1, "{steps:?}");
        for row in &mut effect.rows {
            row.verdict = dyno_analysis::compare::Verdict::NotShown;
            let is_compared = steps[..compared].contains(&(row.workload.clone(), row.step));
            row.estimate = is_compared.then_some(estimate);
        }
        let all = steps.len();
        let said = sentences(&report);
        (said.into_iter().find(|text| text.contains(" and its twin: ")).unwrap(), all)
    };
    let (none, all) = of_twin(0);
    assert!(
        none.ends_with(&format!("not compared at any of {all} steps, for lack of valid repeats.")),
        "{none}"
    );
    let (some, _) = of_twin(1);
    assert!(
        some.ends_with(&format!(
            "no difference is shown at 1 of {all} steps, and the others have too few valid repeats."
        )),
        "{some}"
    );
    let (every, _) = of_twin(all);
    assert!(every.ends_with(&format!("no difference is shown at any of {all} steps.")), "{every}");
}
