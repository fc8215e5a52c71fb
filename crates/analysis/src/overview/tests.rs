//! Tests rows, ties and places against runs made by hand.

use dyno_model::plan::{ArmSharing, Arrivals, Cost, NotServed};
use dyno_model::sample::CgroupUse;
use dyno_model::start::{Failure, FailureKind};
use dyno_model::{Outcome, Party};

use super::*;
use crate::fixture::{five_block_report, five_blocks};
use crate::report::report;
use crate::series::RepeatValue;

#[test]
fn reference_step_is_nearest_to_64_in_flight() {
    let steps: Vec<Step> =
        [(100, 1, 1), (1000, 1, 1), (10, 10, 1), (100, 10, 1), (16, 1, 1), (4, 1, 16)]
            .map(|(connections, streams, pipeline)| Step {
                connections,
                streams,
                pipeline,
                arrivals: Arrivals::Closed,
                pass: 1,
            })
            .into();
    assert_eq!(reference_step(&steps, &[0, 1]), 0);
    // 100 connections are nearer to 64 than 10 are, but have 1,000 requests in flight.
    assert_eq!(reference_step(&steps, &[2, 3]), 2);
    assert_eq!(reference_step(&steps, &[4, 5]), 4, "another pipeline is not alike");
}

#[test]
fn reference_step_has_shape_of_first_step() {
    let step = |connections, streams, arrivals| Step {
        connections,
        streams,
        pipeline: 1,
        arrivals,
        pass: 1,
    };
    let steps = [
        step(100, 1, Arrivals::Closed),
        step(64, 1, Arrivals::Constant { rate: 1.0 }),
        step(32, 2, Arrivals::Closed),
        step(90, 1, Arrivals::Closed),
    ];
    assert_eq!(reference_step(&steps, &[0, 1, 2, 3]), 3);
}

#[test]
fn overview_is_sorted_by_peak_and_names_missing() {
    let report = five_block_report();
    let rows = &report.overview;
    let row = |r: &OverviewRow| (r.workload.clone(), r.subject.clone(), r.tie_group);
    let expected = [
        ("w", "fast", Some(1)),
        ("w", "slow", Some(2)),
        ("w", "gone", None),
        ("w", "null", None),
        ("v", "fast", Some(1)),
        ("v", "slow", Some(2)),
        ("v", "null", None),
    ];
    let expected = expected
        .map(|(workload, subject, group)| (workload.to_string(), subject.to_string(), group));
    assert_eq!(rows.iter().map(row).collect::<Vec<_>>(), expected);
    assert_eq!((rows[0].peak_connections, rows[0].reference_connections), (Some(128), 64));
    assert_eq!(
        rows[0].figures.get(MetricId::ResponseP50).map(f64::round),
        Some(1000.0),
        "of the reference"
    );
    let peaks = peaks_by_block(&rows[0], &Grid::new(&report.trials)).repeated();
    assert_eq!(peaks.values, [410.0, 411.0, 412.0, 413.0, 414.0]);
    assert_eq!((rows[0].memory_peak_bytes, rows[2].memory_peak_bytes), (Some(414.0), None));
    assert_eq!(rows[2].absent.as_deref(), Some("skipped: no compiler"));
    assert_eq!((rows[0].absent.as_deref(), rows[0].title.as_str()), (None, "fast · w"));
}

#[test]
fn peak_prefers_steps_with_enough_repeats() {
    for (steps, expected) in [
        (&[&[100.0, 101.0, 102.0][..], &[200.0, 201.0]][..], Some(0)),
        (&[&[100.0, 101.0, 102.0], &[110.0, 111.0, 112.0], &[]], Some(1)),
        (&[&[100.0], &[200.0, 201.0]], Some(1)),
        (&[&[]], None),
    ] {
        let peaks: Vec<Repeated> =
            steps.iter().map(|values| Repeated::new(values.to_vec())).collect();
        assert_eq!(best(peaks.iter().zip(0..)), expected, "{steps:?}");
    }
}

#[test]
fn row_has_cost_and_checks() {
    let mut run = five_blocks();
    run.header.plan.cost = Some(Cost { per_vcpu_hour: 0.05, ..Cost::default() });
    for trial in &mut run.trials {
        let responses = trial.load.books.completed;
        for (sample, share) in trial.load.samples.iter_mut().zip([0, 1]) {
            // 3.6 ms of CPU time for each response: 1,000 hours for 10⁹.
            let cpu_ns = Some(share * responses * 3_600_000);
            sample.party_use_mut(Party::SUBJECT).cgroup =
                Some(CgroupUse { cpu_ns, ..CgroupUse::default() });
        }
    }
    let report = report(&run);
    let [fast, slow, gone, null] = &report.overview[..4] else { panic!("{:?}", report.overview) };
    for row in [fast, slow, null] {
        let cost = row.cost_per_billion_requests.unwrap();
        assert!((cost - 50.0).abs() < 1e-6 && row.figures.get(MetricId::Cpu).is_some(), "{cost}");
        assert_eq!((row.reference_step, row.reference_in_flight), (0, 64));
    }
    assert_eq!((fast.checks_passed, fast.checks, slow.checks), (0, 1, 0));
    assert_eq!((fast.peak_at.map(|at| at.connections), fast.peak_streams), (Some(128), Some(1)));
    assert_eq!((gone.title.as_str(), gone.cost_per_billion_requests), ("gone", None));
    assert!(fast.limiter.is_some() && fast.limiter_sentence.is_some() && gone.limiter.is_none());
    assert!(null.control && !fast.control);
    let plan = crate::fixture::five_blocks().header.plan;
    let peaks = peaks(&plan, &report.overview);
    assert!(peaks.iter().all(|peak| peak.server == peak.subject), "no variants");
    assert_eq!(peaks.len(), 7);
    assert_eq!((peaks[0].workload, peaks[0].subject, peaks[0].rps), ("w", "fast", Some(412.0)));
    assert_eq!((peaks[2].subject, peaks[2].rps), ("gone", None));
}

#[test]
fn titles_name_workload_only_if_there_are_several() {
    let mut run = five_blocks();
    run.trials.retain(|t| run.header.plan.trials[t.trial].workload == 0);
    run.header.plan.workloads.truncate(1);
    let titles: Vec<_> = report(&run).overview.into_iter().map(|row| row.title).collect();
    assert_eq!(titles, ["fast", "slow", "gone", "null"]);
}

#[test]
fn row_has_ratios_to_baseline() {
    let mut rows = five_block_report().overview;
    rows.truncate(3);
    let mut plan = five_blocks().header.plan;
    compare(&mut rows, &plan);
    assert!(rows.iter().all(|row| row.to_baseline.is_none()), "the suite names no baseline");
    rows[1].baseline = true;
    let figures = |row: &mut OverviewRow, factor: f64| {
        row.figures = Figures::new(|id| match id {
            MetricId::ResponseP50 => Some(2.0 * factor),
            MetricId::ResponseP99 => Some(3.0 * factor * factor),
            _ => Some(0.0),
        });
        row.startup_ms = Some(factor);
    };
    figures(&mut rows[0], 10.0);
    figures(&mut rows[1], 1.0);
    compare(&mut rows, &plan);
    assert_eq!(rows[1].to_baseline, None);
    let ratios = rows[0].to_baseline.clone().unwrap();
    assert_eq!(ratios.peak_rps, Some(412.0 / 212.0));
    let ids = [MetricId::ResponseP50, MetricId::ResponseP99, MetricId::Cpu];
    let known = ids.map(|id| ratios.figures.get(id));
    assert_eq!(known, [Some(10.0), Some(100.0), None], "0 divides nothing");
    assert_eq!(ratios.startup, Some(10.0));
    assert_eq!(rows[2].to_baseline.as_ref().unwrap().peak_rps, None);
    assert!(ratios.memory_peak.is_some());
    rows[1].has_memory_of_all_steps = false;
    compare(&mut rows, &plan);
    assert_eq!(rows[0].to_baseline.as_ref().unwrap().memory_peak, None, "of other steps");
    let mut offered = rows.clone();
    offered[0].peak_is_offered = true;
    compare(&mut offered, &plan);
    assert_eq!(offered[0].to_baseline.as_ref().unwrap().peak_rps, None, "a rate is not a capacity");
    rows.iter_mut().for_each(|row| row.to_baseline = None);
    plan.sharing = ArmSharing::from_duet([1, 2].into());
    compare(&mut rows, &plan);
    assert!(rows[0].to_baseline.is_none() && rows[2].to_baseline.is_some(), "one was alone");
}

#[test]
fn tie_contains_best_and_is_mutual_if_all_are_tied() {
    let row = |subject: &str| OverviewRow {
        subject: subject.into(),
        ..five_block_report().overview.remove(0)
    };
    let first_tie = |group: &[(&str, f64)]| {
        let rows: Vec<_> = group.iter().map(|(subject, _)| row(subject)).collect();
        // Each subject's repeats differ a little, in a different pattern.
        let differs = [[1.02, 0.98, 1.0], [1.0, 1.01, 0.99], [0.99, 1.0, 1.01], [0.98, 1.02, 1.0]];
        let peak = |((_, rps), differs): (&(&str, f64), [f64; 3])| {
            (1..).zip(differs.map(|factor| RepeatValue::Known(rps * factor))).collect()
        };
        let peaks: Vec<Series> = group.iter().zip(differs).map(peak).collect();
        let members: Vec<usize> = (0..rows.len()).collect();
        let tie = tie(&members, &Ranking::new(&peaks, Looks::AtTheEnd), &|n| &rows[n])?;
        Some((tie.best, tie.with.join(" "), tie.mutual))
    };
    let tie = |best: &str, with: &str, mutual| Some((best.to_string(), with.to_string(), mutual));
    assert_eq!(first_tie(&[("a", 100.0), ("b", 99.0), ("c", 98.0)]), tie("a", "b c", true));
    // 96 and 104 lie more than 5 % apart in each repeat.
    assert_eq!(first_tie(&[("a", 100.0), ("b", 104.0), ("c", 96.0)]), tie("a", "b c", false));
    assert_eq!(
        first_tie(&[("a", 100.0), ("b", 104.0), ("c", 102.0), ("d", 96.0)]),
        tie("a", "b c d", false)
    );
    // A member that is ahead of the best in every pair is not tied with it.
    assert_eq!(first_tie(&[("a", 100.0), ("b", 112.0), ("c", 99.0)]), tie("a", "c", true));
    assert_eq!(first_tie(&[("a", 100.0), ("b", 112.0)]), None);
    assert_eq!(first_tie(&[("a", 100.0)]), None);
}

#[test]
fn failed_requests_include_lost_and_incorrect() {
    let mut trial = five_block_report().trials.remove(0);
    trial.load.exchanges.failed = 20;
    (0..3).for_each(|_| trial.load.outcomes.count(Outcome::UnexpectedBody));
    assert_eq!(trial.load.failed_requests(), 23);
}

#[test]
fn subject_without_numbers_has_reason() {
    let mut subject = five_block_report().subjects.remove(0);
    assert_eq!(missing_reason(&subject, Protocol::H1, true), None);
    let failure = Failure { kind: FailureKind::Crashed, message: "it left\nat once".into() };
    subject.failures =
        vec![SubjectFailure { repeat: 1, failure, protocol: None, log_of: None, log_tail: None }];
    assert_eq!(missing_reason(&subject, Protocol::H1, true).as_deref(), Some("crashed: it left"));
    assert_eq!(
        missing_reason(&subject, Protocol::H1, false).as_deref(),
        Some("in some repeats: crashed: it left")
    );
    subject.skipped = Some("no compiler".into());
    assert_eq!(
        missing_reason(&subject, Protocol::H1, true).as_deref(),
        Some("skipped: no compiler")
    );
    let mut run = five_blocks();
    let not_served = |workload, subject| NotServed { workload, subject, reason: "no TLS".into() };
    run.header.plan.not_served = vec![not_served(1, 0), not_served(0, 1), not_served(1, 3)];
    let reasons: Vec<_> =
        (0..4).map(|subject| not_served_reason(&run.header.plan, subject)).collect();
    assert_eq!(reasons, [None, Some("not loaded with w: no TLS".to_string()), None, None]);
    // Only subjects without trials get this reason.
    run.header.plan.subjects[3].skipped = None;
    run.header.plan.not_served.push(not_served(0, 3));
    let report = report(&run);
    let absent = |subject: &str| {
        report.overview.iter().find(|r| r.subject == subject).unwrap().absent.clone()
    };
    assert_eq!(
        (absent("gone").as_deref(), absent("fast")),
        (Some("not loaded with w: no TLS"), None)
    );
}

/// Checks fail in every repeat of one server, so its figures are reported without a place.
#[test]
fn invalid_repeats_have_figures_without_places() {
    let mut run = five_blocks();
    let plan = run.header.plan.clone();
    for record in run.trials.iter_mut().filter(|record| plan.trials[record.trial].arm == 1) {
        record.checks = vec![dyno_model::trial::CheckResult {
            has_response: true,
            ..crate::fixture::check("c", false, "")
        }];
        record.load.server_failure = None;
    }
    let report = report(&run);
    let row = |subject: &str| {
        report.overview.iter().find(|r| (&*r.workload, &*r.subject) == ("w", subject)).unwrap()
    };
    let fast = row("fast");
    assert!(
        fast.peak_rps.is_none()
            && fast.places.is_none()
            && fast.figures.get(MetricId::ResponseP50).is_none()
    );
    let invalid = fast.invalid.as_ref().unwrap();
    assert_eq!(
        (invalid.peak_rps, invalid.peak_at.map(|at| at.connections)),
        (Some(412.0), Some(128))
    );
    assert_eq!(
        invalid.figures.get(MetricId::ResponseP50).map(f64::round),
        Some(1000.0),
        "of the reference"
    );
    // A row with valid repeats needs no invalid ones.
    assert_eq!(row("slow").invalid, None);
    assert_eq!(five_block_report().overview[0].invalid, None);
}

/// A place requires three valid repeats.
#[test]
fn subject_with_two_valid_repeats_has_no_place() {
    for (spoiled, has_place) in [(2, true), (3, false)] {
        let mut run = five_blocks();
        let plan = run.header.plan.clone();
        let records = run.trials.iter_mut().filter(|record| plan.trials[record.trial].arm == 1);
        let repeats = records
            .filter(|record| plan.launches[plan.trials[record.trial].launch].block < spoiled);
        for record in repeats {
            record.checks = vec![dyno_model::trial::CheckResult {
                has_response: true,
                ..crate::fixture::check("c", false, "")
            }];
        }
        let report = report(&run);
        let fast =
            report.overview.iter().find(|r| (&*r.workload, &*r.subject) == ("w", "fast")).unwrap();
        assert!(fast.peak_rps.is_some(), "{spoiled}");
        assert_eq!(fast.places.is_some(), has_place, "{spoiled}");
    }
}

/// In two of three invalid repeats, more than half of the requests got no response.
#[test]
fn invalid_median_ranks_unanswered_repeats_last() {
    let mut trials = five_block_report().trials;
    trials.retain(|t| t.cell == CellKey { arm: 0, workload: 0, step: 0 });
    trials.truncate(3);
    trials.iter_mut().for_each(|trial| trial.valid = false);
    let median = |trials: &[TrialResult]| {
        let grid = Grid::new(trials);
        median_of_invalid(grid.get(trials[0].cell).unwrap(), &metric::RESPONSE_P50)
    };
    assert!(median(&trials).is_some());
    for (unanswered_repeats, is_known) in [(1, true), (2, false)] {
        for trial in &mut trials[..unanswered_repeats] {
            let times = &mut trial.load.response_time_us;
            (times.p50, times.unanswered) = (None, 2 * times.count);
            assert_eq!(metric::RESPONSE_P50.point(trial), RepeatValue::Unanswered);
        }
        assert_eq!(median(&trials).is_some(), is_known, "{unanswered_repeats}");
    }
    // Repeats with too few samples are the slow ones.
    trials[0].load.response_time_us.unanswered = 0;
    trials[1].load.response_time_us.p50 = Some(1.0);
    assert_eq!(median(&trials), None);
}
