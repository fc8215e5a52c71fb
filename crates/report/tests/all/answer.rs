//! Tests the sentences at the head of a report: each test changes the report of the golden run, and
//! checks the sentences.

use std::path::Path;
use std::sync::LazyLock;

use dyno_analysis::baseline::PairEstimate;
use dyno_analysis::metric::MetricId;
use dyno_analysis::mixture::Mixture;
use dyno_analysis::other_programs::DisturbedSteps;
use dyno_analysis::overview::Tie;
use dyno_analysis::peak::RatioBound;
use dyno_analysis::protocols::ProtocolComparison;
use dyno_analysis::report::report;
use dyno_analysis::stats::{Estimate, PairUnit, Repeated};
use dyno_analysis::window_levels::Piece;
use dyno_analysis::{Caveat, Code, Report, Severity};
use dyno_archive::RunDir;
use dyno_model::Protocol;
use dyno_model::plan::{Arrivals, LoadModel};
use dyno_report::answer::sentences;

/// Three repeats of a fast and a slow server in one workload. The slow server is the baseline. A
/// third server, `absent`, was skipped.
static HELLO: LazyLock<Report> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
    report(&RunDir::open(folder).unwrap().read().unwrap())
});

/// Returns the sentences of the changed report.
pub(super) fn sentences_after(change: impl Fn(&mut Report)) -> Vec<String> {
    let mut report = HELLO.clone();
    change(&mut report);
    sentences(&report)
}

/// Sets the ratio of the two servers at the reference step, per repeat. Removes their CPU times.
pub(super) fn set_ratios(report: &mut Report, values: &[f64]) {
    let cell = report.overview[0].reference_cell;
    let found = report.comparisons.iter_mut().find(|c| c.cell == cell).unwrap();
    found.metrics.insert(MetricId::Throughput, Repeated::new(values.to_vec()));
    found.metrics.remove(&MetricId::Cpu);
    (found.throughput, found.cpu) = (None, None);
}

#[test]
fn first_sentence_compares_best_with_baseline() {
    let first_sentence =
        |values: &'static [f64]| sentences_after(move |r| set_ratios(r, values)).remove(0);
    for (values, ratio, uncertainty) in [
        (&[2.0, 2.1, 2.3][..], "2.00–2.30", "range of 3 valid repeats, too few for an interval"),
        (&[2.0; 5], "2.00", "95 % interval"),
        (&[12.34], "12.3", "one repeat, so no interval"),
        (&[10.0], "10.0", "one repeat, so no interval"),
        (&[9.99], "9.99", "one repeat, so no interval"),
        (&[0.1], "0.100", "one repeat, so no interval"),
        (&[0.0987], "0.0987", "one repeat, so no interval"),
    ] {
        let expected = format!(
            "At 16 connections, Fast <1> served {ratio} times as many requests per second as Slow \
             ({uncertainty})."
        );
        assert_eq!(first_sentence(values), expected);
    }
    let none = first_sentence(&[]);
    assert!(
        none.starts_with("At 16 connections, Fast <1> and Slow are not compared: in no block"),
        "{none}"
    );
    let cheaper = sentences_after(|r| {
        set_ratios(r, &[2.0]);
        for comparison in &mut r.comparisons {
            comparison.metrics.insert(MetricId::Cpu, Repeated::new(vec![0.5]));
        }
    });
    assert!(
        cheaper[0].ends_with("(one repeat, so no interval), with 0.500 times the CPU per request."),
        "{cheaper:?}"
    );
}

#[test]
fn first_sentence_has_interval_corrected_for_all_pairs() {
    let estimate = |ratio: f64, ends: (f64, f64)| {
        let ratios = [0.99, 1.0, 1.01, 1.0, 1.0].map(|factor| factor * ratio);
        let (estimate, unit) = (Estimate::from_pairs(&ratios).unwrap(), PairUnit::Launches);
        Some(PairEstimate { estimate, unit, interval_of_all: Some(ends) })
    };
    let first_sentence = |looks: bool| {
        sentences_after(move |r| {
            set_ratios(r, &[2.0; 5]);
            r.run.at_every_look = looks;
            let cell = r.overview[0].reference_cell;
            let comparison = r.comparisons.iter_mut().find(|c| c.cell == cell).unwrap();
            comparison.throughput = estimate(2.0, (1.7, 2.4));
            comparison.cpu = estimate(0.5, (0.45, 0.56));
            comparison.metrics.insert(MetricId::Cpu, Repeated::new(vec![0.5; 5]));
        })
        .remove(0)
    };
    let sentence = |interval: &str| {
        format!(
            "At 16 connections, Fast <1> served 1.70–2.40 times as many requests per second as \
             Slow ({interval}), with 0.500 (0.450–0.560) times the CPU per request."
        )
    };
    assert_eq!(first_sentence(false), sentence("95 % interval"));
    let early = sentence("95 % interval that stays valid if the run stops early");
    assert_eq!(first_sentence(true), early);
}

#[test]
fn ratio_with_invalid_repeats_is_bound() {
    let first_sentence = |bound| {
        sentences_after(move |r| {
            set_ratios(r, &[2.0, 2.1, 2.3]);
            let cell = r.overview[0].reference_cell;
            r.comparisons.iter_mut().find(|c| c.cell == cell).unwrap().throughput_bound = bound;
        })
        .remove(0)
    };
    assert!(first_sentence(RatioBound::AtLeast).contains("served at least 2.00 times as many"));
    let at_most = first_sentence(RatioBound::AtMost);
    assert!(at_most.contains("served at most 2.30 times as many"), "{at_most}");
    assert!(at_most.contains("(upper end of the range of 3 repeats, too few"), "{at_most}");
    let unknown = first_sentence(RatioBound::Unknown);
    assert!(
        unknown.starts_with("At 16 connections, the ratio of Fast <1> to Slow is unknown, because"),
        "{unknown}"
    );
}

#[test]
fn lower_bound_is_marked_in_peak_and_tie() {
    let sentences = sentences_after(|r| {
        r.overview.retain(|row| row.subject == "fast");
        let row = &mut r.overview[0];
        row.peak_is_lower_bound = true;
        row.peak_at_least_at = row.peak_at;
        row.peak_at_least_rps = Some(Repeated::new(vec![9000.0]));
    });
    assert_eq!(
        sentences[0],
        "The peak of Fast <1> was at least 9,000 requests per second (one repeat, so no interval), \
         at 16 connections."
    );
    let tied = sentences_after(|r| {
        let (best, with) = ("fast".to_string(), vec!["slow".to_string()]);
        let lower_bounds = with.clone();
        r.ties = vec![Tie { workload: "plaintext".into(), best, with, mutual: true, lower_bounds }];
    });
    let expected = "Fast <1> and Slow cannot be distinguished by peak throughput (tie). The peak \
                    of Slow is a lower bound: the real peak may be higher.";
    assert!(tied.iter().any(|s| s == expected), "{tied:?}");
}

/// A mean of two levels, 376 and 1,625/s, was once reported as "at most 878".
#[test]
fn mean_of_levels_is_not_called_maximum() {
    let mixture = |changed, repeats| {
        Some(Mixture { changed, repeats, lowest_rps: 376.0, highest_rps: 1625.0 })
    };
    let sentence_with = |mixture: Option<Mixture>| {
        sentences_after(move |r| {
            r.overview.retain(|row| row.subject == "fast");
            r.overview[0].peak_rps = Some(Repeated::new(vec![878.0]));
            r.overview[0].peak_mixture = mixture;
        })
        .remove(0)
    };
    assert_eq!(
        sentence_with(mixture(1, 1)),
        "Fast <1> served a mean of 878 requests per second (one repeat, so no interval), at 16 \
         connections. In its only repeat, throughput changed within the measured window between \
         levels of 376 and 1,630 requests per second. The server never sustained the mean."
    );
    assert!(sentence_with(mixture(4, 5)).contains("In 4 of its 5 repeats, throughput changed"));
    assert!(sentence_with(mixture(5, 5)).contains("In each of its 5 repeats, throughput changed"));
}

/// The levels are named only if they occurred at the step of the ratio.
#[test]
fn ratio_of_mean_of_levels_names_levels() {
    let first_sentence = |changed: &'static [&'static str]| {
        let sentences = sentences_after(move |r| {
            set_ratios(r, &[2.0, 2.1, 2.3]);
            let step = r.overview[0].reference_cell.step;
            for trial in &mut r.trials {
                if trial.cell.step == step && changed.contains(&trial.subject.as_str()) {
                    let piece = |throughput_rps| Piece { start_s: 0.0, end_s: 1.0, throughput_rps };
                    trial.caveats.push(Caveat {
                        code: Code::SPEEDUP,
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
    let levels = |owner: &str| {
        format!(
            " In each of {owner} 3 repeats, throughput changed within the measured window between \
             levels of 100 and 300 requests per second. The server never sustained the mean."
        )
    };
    let ratio = first_sentence(&[]);
    assert_eq!(first_sentence(&["slow"]), format!("{ratio}{}", levels("Slow's")));
    assert_eq!(first_sentence(&["fast"]), format!("{ratio}{}", levels("Fast <1>'s")));
    let both = first_sentence(&["fast", "slow"]);
    assert_eq!(both, format!("{ratio}{}{}", levels("Fast <1>'s"), levels("Slow's")));
}

/// Throughput cannot exceed the offered rate, so the answer has shares of it instead of a ratio.
#[test]
fn offered_rate_is_answered_with_shares() {
    let sentences = sentences_after(|r| {
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
        sentences[0],
        "Of the 1,000 requests per second offered over 16 connections, Fast <1> served 100 % and \
         Slow 90.0 %."
    );
}

#[test]
fn best_baseline_is_compared_with_runner_up() {
    let first = sentences_after(|r| {
        r.overview.swap(0, 1);
        let cell = r.overview[1].reference_cell;
        let comparison = r.comparisons.iter_mut().find(|c| c.cell == cell).unwrap();
        comparison.metrics.insert(MetricId::Throughput, Repeated::new(vec![0.5]));
    })
    .remove(0);
    assert!(
        first.starts_with(
            "At 16 connections, Fast <1> served 0.500 times as many requests per second as Slow"
        ),
        "{first}"
    );
}

#[test]
fn single_subject_is_not_compared() {
    let fast = "The peak of Fast <1> was 5,070 requests per second (4,920–5,100, range of 3 \
                repeats), at 16 connections.";
    let slow = "The peak of Slow was 1,070 requests per second (1,060–1,070, range of 3 repeats), \
                at 4 connections.";
    assert_eq!(sentences_after(|r| r.overview.retain(|row| row.subject == "fast"))[0], fast);
    assert_eq!(
        sentences_after(|r| r.overview[0].control = true)[0],
        slow,
        "a control is not compared"
    );
    assert_eq!(
        sentences_after(|r| r.overview[1].workload = "other".into())[0],
        fast,
        "a subject of another workload is not compared"
    );
    assert_eq!(
        sentences_after(|r| r.overview[1].peak_rps = None)[0],
        fast,
        "a subject without numbers is not compared"
    );
    let controls = sentences_after(|r| r.overview.iter_mut().for_each(|row| row.control = true));
    assert!(
        controls[0].starts_with("At 16 connections, Fast <1> served 4.56 times"),
        "{controls:?}"
    );
    let one = sentences_after(|r| {
        r.overview.truncate(1);
        r.overview[0].peak_rps = Some(Repeated::new(vec![5000.0]));
    });
    assert_eq!(
        one[0],
        "The peak of Fast <1> was 5,000 requests per second (one repeat, so no interval), at 16 \
         connections."
    );
}

#[test]
fn sentence_with_several_workloads_names_its_own() {
    let first_sentence = |names: [&str; 2], protocol: Protocol| {
        let texts = sentences_after(move |r| {
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
            set_ratios(r, &[2.0]);
        });
        texts[0].clone()
    };
    let has_phrase = |sentence: &str, part: &str| {
        sentence.contains(&format!(" requests per second {part} as Slow"))
    };
    let plain = first_sentence(["plaintext", "second"], Protocol::H1);
    assert!(has_phrase(&plain, "for plaintext"), "{plain}");
    let two_protocols = first_sentence(["plaintext", "second"], Protocol::H2c);
    assert!(has_phrase(&two_protocols, "for plaintext"), "{two_protocols}");
    let named_by_protocol = first_sentence(["h1", "h2c"], Protocol::H2c);
    assert!(has_phrase(&named_by_protocol, "over h1"), "{named_by_protocol}");
    let untitled = sentences_after(|r| {
        r.subjects.clear();
        set_ratios(r, &[2.0]);
    });
    assert!(
        untitled[0].contains(" fast served ") && untitled[0].contains(" as slow ("),
        "{untitled:?}"
    );
}

/// Builds a comparison of HTTP/2 with HTTP/1.1. `shape` and `base`: connections and requests in
/// flight on each. `ratios`: the ratio of each repeat.
fn h2_comparison(
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
        metrics: [(MetricId::Throughput, Repeated::new(ratios.to_vec()))].into(),
        throughput_bound: RatioBound::Exact,
    }
}

/// Returns the sentence on protocols without its beginning, or an empty text.
fn protocols_sentence(comparisons: &[ProtocolComparison]) -> String {
    let sentences = sentences_after(|r| r.protocols = comparisons.to_vec());
    let sentence = sentences
        .into_iter()
        .find_map(|s| Some(s.strip_prefix("Requests per second by protocol ")?.to_string()));
    sentence.unwrap_or_default()
}

const WIDE: (u32, u32) = (100, 1);
const DEEP: (u32, u32) = (25, 4);

#[test]
fn protocols_are_compared_at_equal_requests_in_flight() {
    let fast = |ratios: &[f64]| h2_comparison("fast", "h2", (10, 10), WIDE, ratios);
    assert_eq!(
        protocols_sentence(&[fast(&[2.0; 3])]),
        "(medians of 3 repeats): h2 served 2.00 times as many as h1 at 100 requests in flight \
         (Fast <1>)."
    );
    let again = ProtocolComparison { pass: 2, ..fast(&[3.0; 3]) };
    assert_eq!(
        protocols_sentence(&[fast(&[2.0; 3]), again]),
        "(medians of 3 repeats): h2 served 2.00 to 3.00 times as many as h1 at 100 requests in \
         flight (Fast <1>)."
    );
    let slow = h2_comparison("slow", "h2", (10, 10), WIDE, &[3.0; 2]);
    assert_eq!(
        protocols_sentence(&[fast(&[2.0; 3]), slow.clone()]),
        "(medians of 2 to 3 repeats): h2 served 2.00 to 3.00 times as many as h1 at 100 requests \
         in flight (2 servers)."
    );
    let variants = ["slow/a", "slow/b"].map(|id| h2_comparison(id, "h2", (10, 10), WIDE, &[3.0]));
    assert_eq!(
        protocols_sentence(&variants),
        "(one repeat, so no interval): h2 served 3.00 times as many as h1 at 100 requests in \
         flight (2 variants of slow)."
    );
    assert_eq!(protocols_sentence(&[fast(&[])]), "", "without a ratio");
    let throughput_bound = RatioBound::AtLeast;
    let bound = ProtocolComparison { throughput_bound, ..fast(&[2.0, 2.0, 3.0]) };
    assert!(protocols_sentence(&[bound]).contains("h2 served at least 2.00 times"));
    let control = sentences_after(|r| {
        r.subjects.iter_mut().find(|s| s.id == "fast").unwrap().control = true;
        r.protocols = vec![fast(&[2.0; 3]), slow.clone()];
    });
    assert!(
        control
            .iter()
            .any(|s| s
                .contains("h2 served 3.00 times as many as h1 at 100 requests in flight (Slow)")),
        "{control:?}"
    );
}

#[test]
fn shapes_are_named_if_level_has_several() {
    let comparison = |shape, base, ratio| h2_comparison("fast", "h2", shape, base, &[ratio]);
    assert_eq!(
        protocols_sentence(&[comparison((10, 10), WIDE, 2.0), comparison((10, 10), DEEP, 3.0)]),
        "(one repeat, so no interval): h2 served 2.00 times as many as h1 at 100 requests in \
         flight, over 10 connections × 10 streams for h2 and over 100 connections for h1 (Fast \
         <1>); h2 served 3.00 times as many as h1 at 100 requests in flight, over 10 connections × \
         10 streams for h2 and over 25 connections × 4 pipelined for h1 (Fast <1>)."
    );
    // Sorted by requests in flight, then by the name of the workload.
    let other = h2_comparison("fast", "a-h2", (10, 10), WIDE, &[4.0]);
    assert_eq!(
        protocols_sentence(&[
            comparison((10, 10), WIDE, 2.0),
            comparison((5, 10), (50, 1), 3.0),
            other
        ]),
        "(one repeat, so no interval): h2 served 3.00 times as many as h1 at 50 requests in flight \
         (Fast <1>); a-h2 served 4.00 times as many as h1 at 100 requests in flight (Fast <1>); h2 \
         served 2.00 times as many as h1 at 100 requests in flight (Fast <1>)."
    );
    let other_baseline =
        ProtocolComparison { baseline: "h1-too".into(), ..comparison((10, 10), WIDE, 3.0) };
    assert_eq!(
        protocols_sentence(&[comparison((10, 10), WIDE, 2.0), other_baseline]),
        "(one repeat, so no interval): h2 served 2.00 times as many as h1 at 100 requests in \
         flight (Fast <1>); h2 served 3.00 times as many as h1-too at 100 requests in flight (Fast \
         <1>)."
    );
}

#[test]
fn ties_and_few_repeats_of_first_workload_are_named() {
    let tie = |workload: &str| Tie {
        workload: workload.into(),
        best: "fast".into(),
        with: vec!["slow".into()],
        mutual: true,
        lower_bounds: Vec::new(),
    };
    let has_sentence = |sentences: &[String], text: &str| sentences.iter().any(|s| s == text);
    let tied = "Fast <1> and Slow cannot be distinguished by peak throughput (tie).";
    assert!(has_sentence(&sentences_after(|r| r.ties = vec![tie("plaintext")]), tied));
    let elsewhere = sentences_after(|r| r.ties = vec![tie("other")]);
    assert!(elsewhere.iter().all(|s| !s.contains("tie")), "{elsewhere:?}");
    let few = sentences_after(|r| {
        r.ties = vec![tie("plaintext")];
        r.overview[1].peak_rps = Some(Repeated::new(vec![1.0, 2.0]));
    });
    assert!(
        has_sentence(&few, &format!("{tied} Slow has 2 usable repeats, too few for a rank.")),
        "{few:?}"
    );
}

#[test]
fn other_programs_come_first_if_most_steps_are_invalid() {
    let names = || vec!["rustc".to_string(), "python3".to_string()];
    let disturbed = |disturbed: usize, invalid: usize| {
        sentences_after(move |r| {
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
    assert!(all[1..].iter().all(|sentence| !sentence.contains("not valid")), "{all:?}");
    let some = disturbed(10, 11);
    assert!(
        some[0].ends_with("11 of 12 steps are not valid (1 of these steps for other reasons)."),
        "{some:?}"
    );
    assert!(some[1..].iter().any(|sentence| sentence.contains("not valid: ")), "{some:?}");
    // If half of the steps are valid, their result comes first.
    let half = disturbed(6, 6);
    assert!(!half[0].contains("Other programs"), "{half:?}");
}

/// With a fixed order, differences of peaks may be a drift of the machine.
#[test]
fn fixed_order_gives_no_ranking() {
    let fixed = sentences_after(|r| {
        let caveat = Caveat {
            code: Code::FIXED_ORDER,
            severity: Severity::Warning,
            message: String::new(),
            evidence: serde_json::json!({}),
        };
        r.caveats.push(caveat);
    });
    assert!(fixed.iter().any(|sentence| sentence.contains("Subjects are not ranked")), "{fixed:?}");
    let has_ratio = |all: &[String]| all.iter().any(|s| s.contains(" times as many"));
    assert!(has_ratio(&sentences_after(|_| {})) && !has_ratio(&fixed), "{fixed:?}");
}

/// Returns the sentence on the number of valid steps.
fn validity_sentence(change: &dyn Fn(&mut Report)) -> String {
    let sentences = sentences_after(change);
    sentences
        .into_iter()
        .find(|s| s.contains("valid") || s.contains("planned") || s.contains("refused"))
        .unwrap_or_default()
}

/// Returns the index of the first trial that is not valid for this reason.
fn invalid_trial(r: &Report, reason: &str) -> usize {
    let is_match = |t: &dyno_analysis::trial::TrialResult| {
        !t.valid && t.caveats[0].code.reason() == Some(reason)
    };
    r.trials.iter().position(is_match).unwrap()
}

#[test]
fn invalid_and_missing_steps_are_counted() {
    let all_valid = |r: &mut Report| {
        r.trials.iter_mut().for_each(|t| t.valid = true);
        r.run.trials_invalid = 0;
    };
    assert_eq!(validity_sentence(&all_valid), "All 12 steps are valid.");
    let unfinished = |r: &mut Report| {
        all_valid(r);
        r.run.trials_planned = 14;
    };
    assert_eq!(
        validity_sentence(&unfinished),
        "All 12 steps are valid. 2 planned steps were not run."
    );
    let only_one = |r: &mut Report| {
        r.trials.retain(|t| t.valid);
        r.trials.truncate(1);
        (r.run.trials_done, r.run.trials_planned, r.run.trials_invalid) = (1, 2, 0);
    };
    assert_eq!(
        validity_sentence(&only_one),
        "The step that was run is valid. 1 planned step was not run."
    );
    let only_one_refused = |r: &mut Report| {
        let wrong = "responses were incorrect";
        r.trials.retain(|t| !t.valid && t.caveats[0].code.reason() == Some(wrong));
        r.trials.truncate(1);
        (r.run.trials_done, r.run.trials_planned, r.run.trials_invalid) = (1, 1, 1);
    };
    assert_eq!(
        validity_sentence(&only_one_refused),
        "The only step is not valid: responses were incorrect (1)."
    );
    assert_eq!(validity_sentence(&|r| r.run.trials_done = 0), "", "no step was run");
}

#[test]
fn invalid_steps_are_counted_by_reason() {
    let one = |r: &mut Report| {
        let at = invalid_trial(r, "too many requests failed");
        r.trials[at].valid = true;
        r.run.trials_invalid = 1;
    };
    assert_eq!(
        validity_sentence(&one),
        "1 of 12 steps is not valid: responses were incorrect (1)."
    );
    let three = |r: &mut Report| {
        let caveats = r.trials[invalid_trial(r, "responses were incorrect")].caveats.clone();
        let valid = r.trials.iter_mut().find(|t| t.valid).unwrap();
        (valid.valid, valid.caveats) = (false, caveats);
        r.run.trials_invalid = 3;
    };
    assert_eq!(
        validity_sentence(&three),
        "3 of 12 steps are not valid: responses were incorrect (2) and too many requests failed \
         (1)."
    );
    let same_words = |r: &mut Report| {
        for (text, code) in [
            ("responses were incorrect", Code::GENERATOR_BUSY),
            ("too many requests failed", Code::OVERSUBSCRIBED),
        ] {
            let at = invalid_trial(r, text);
            r.trials[at].caveats[0].code = code;
        }
    };
    assert_eq!(
        validity_sentence(&same_words),
        "2 of 12 steps are not valid: the generator was the limit (2)."
    );
}

#[test]
fn expected_refusals_are_counted_separately() {
    let refusals = |r: &mut Report| {
        let at = invalid_trial(r, "responses were incorrect");
        r.trials[at].refused = true;
        r.run.trials_invalid = 1;
    };
    assert_eq!(
        validity_sentence(&refusals),
        "1 of 11 steps is not valid: too many requests failed (1). In 1 more step all connections \
         were refused, as expected."
    );
    let only_refusals = |r: &mut Report| {
        r.trials.truncate(2);
        r.trials.iter_mut().for_each(|t| (t.valid, t.refused) = (false, true));
        (r.run.trials_done, r.run.trials_planned, r.run.trials_invalid) = (2, 2, 0);
    };
    assert_eq!(
        validity_sentence(&only_refusals),
        "In 2 steps all connections were refused, as expected."
    );
}

#[test]
fn failed_and_skipped_subjects_are_named_last() {
    let last = |change: &dyn Fn(&mut Report)| sentences_after(change).pop().unwrap();
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
    let nothing = sentences_after(|r| {
        neither(r);
        r.overview.clear();
        r.run.trials_done = 0;
    });
    assert_eq!(nothing, ["No results yet."]);
}

/// The sentence on a server and its twin depends on the number of compared steps.
#[test]
fn twin_sentence_counts_compared_steps() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
    let mut run = RunDir::open(folder).unwrap().read().unwrap();
    let arms = &mut run.header.plan.arms;
    arms[1] = dyno_model::plan::Arm { name: "twin".into(), ..arms[0].clone() };
    let report = report(&run);
    let twin_sentence = |compared: usize| {
        let mut report = report.clone();
        let [effect] = &mut report.twins[..] else { panic!("{:?}", report.twins) };
        let estimate = Estimate::from_pairs(&[0.99, 1.01, 1.0, 1.02, 0.98]).unwrap();
        let steps: Vec<_> =
            effect.answers.iter().map(|answer| (answer.workload.clone(), answer.step)).collect();
        assert!(steps.len() > 1, "{steps:?}");
        for row in &mut effect.rows {
            row.verdict = dyno_analysis::compare::Verdict::NotShown;
            let is_compared = steps[..compared].contains(&(row.workload.clone(), row.step));
            row.estimate = is_compared.then_some(estimate);
        }
        let all = steps.len();
        let texts = sentences(&report);
        let is_twin_sentence = |text: &String| text.contains(" and its twin (the same server): ");
        (texts.into_iter().find(is_twin_sentence).unwrap(), all)
    };
    let (none, all) = twin_sentence(0);
    assert!(
        none.ends_with(&format!(
            "not compared at any of {all} steps, because too few repeats are valid."
        )),
        "{none}"
    );
    let (some, _) = twin_sentence(1);
    let partial = format!("at 1 of {all} steps. The other steps have too few valid repeats.");
    assert!(some.ends_with(&format!("no difference is shown {partial}")), "{some}");
    let (every, _) = twin_sentence(all);
    assert!(every.ends_with(&format!("no difference is shown at any of {all} steps.")), "{every}");
}
