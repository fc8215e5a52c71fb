//! Experiments and comparisons: the effect of a factor, doses, the end of a run by `[stop]`, and
//! trials that are measured again.

use dyno_analysis::compare::{
    ComparisonOptions, ComparisonResult, ComparisonRow, Gate, GateOutcome, Side, Verdict, compare,
};
use dyno_analysis::revision_status::RevisionsEnd;
use dyno_analysis::run_status::RunStatus;
use dyno_engine::sim::ServiceTime;
use dyno_lab::run::RunEnd;
use dyno_model::run::Run;
use dyno_model::start::FailureKind;
use dyno_report::compare::{ComparisonFormat, FORMATS};
use dyno_report::present::style::Style;

use crate::server::{Server, Trouble, TroubleKind};
use crate::world::{World, codes, kinds, report, round, status};

/// Returns a server with one thread, whose requests take this CPU time on average.
fn busy(us: u32) -> Server {
    let service = ServiceTime::Exponential { mean_ns: f64::from(us) * 1e3 };
    Server { service, ..Server::with_work_us(us) }
}

const LOAD: &str = "[load]\nconnections = [4]\nwarmup = \"400ms\"\nduration = \"800ms\"\n\
                    timeout = \"5s\"\n";

/// Returns the estimated ratio of a row, with the ends of its interval.
fn estimate(row: &ComparisonRow) -> [f64; 3] {
    let estimate = row.estimate.as_ref().expect("the row should have an estimate");
    [estimate.ratio, estimate.low, estimate.high].map(|value| round(value, 4))
}

#[test]
fn toggle_has_effect_with_reason_and_twin_has_none() {
    let suite = format!(
        "[suite]\nrepeats = 5\nseed = 7\ntwin = \"web, WORK 0\"\n\
         [experiment]\nkind = \"toggle\"\nfactor = \"work\"\n\
         vary = {{ \"env.WORK\" = [\"0\", \"20000\"] }}\n{LOAD}"
    );
    let mut world = World::new(&["web"], &suite);
    let (_, run) = world.walk(&[("web, WORK 0", busy(200)), ("web, WORK 20000", busy(300))]);
    assert_eq!(status(&run).1, RunStatus::Valid);
    let report = report(&run);
    assert_eq!((report.trials.len(), report.caveats.len()), (15, 0));
    assert!(report.trials.iter().all(|trial| trial.turns.is_some()), "the subjects took turns");
    let limiters = report.trials.iter().map(|trial| trial.limiter.resource.name());
    assert!(limiters.eq(["server_cpu"; 15]), "each server has one thread, which is full");
    let [effect] = report.experiment.as_ref().unwrap().effects.as_slice() else {
        panic!("{:?}", report.experiment)
    };
    assert_eq!((&*effect.from, &*effect.to), ("web, WORK 0", "web, WORK 20000"));
    assert_eq!(effect.because.as_deref(), Some("work"));
    let verdicts = |rows: &[ComparisonRow]| rows.iter().map(|r| r.verdict).collect::<Vec<_>>();
    use Verdict::{Higher, Lower, NotShown};
    assert_eq!(verdicts(&effect.rows), [Lower, Higher, Higher, Higher, NotShown]);
    let [throughput, cpu, ..] = effect.rows.as_slice() else { panic!("{:?}", effect.rows) };
    assert_eq!(
        (throughput.metric, estimate(throughput)),
        ("throughput_rps", [0.6662, 0.6522, 0.6805])
    );
    assert_eq!(
        (cpu.metric, estimate(cpu)),
        ("server_cpu_us_per_request", [1.4987, 1.4972, 1.5002])
    );
    let [twin] = report.twins.as_slice() else { panic!("{:?}", report.twins) };
    assert_eq!((&*twin.from, &*twin.to), ("web, WORK 0", "twin of web, WORK 0"));
    assert_eq!((twin.changed.len(), verdicts(&twin.rows)), (0, vec![NotShown; 5]));
    assert_eq!(estimate(&twin.rows[0]), [0.9972, 0.9642, 1.0314]);
    assert_eq!(report.canary.as_ref().unwrap().starts.len(), 15);
    let page = dyno_report::html::FORMAT.render(&report);
    assert!(page.contains("Effects") && page.contains("The cause is work"));
}

/// Each arm sends request bodies of the size in its name.
#[test]
fn body_size_dose_is_measured() {
    let suite = "[suite]\nrepeats = 1\nseed = 7\n[experiment]\nkind = \"dose\"\n\
                 vary = { \"request.size\" = [64, 1000, \"16KiB\"] }\n\
                 [[workloads]]\nmethod = \"POST\"\npath = \"/\"\nbody = \"{fill:{request.size}}\"\n\
                 [load]\nconnections = [2]\nwarmup = \"100ms\"\nduration = \"500ms\"\n";
    let mut world = World::new(&["web"], suite);
    let run = world.walk(&[]).1;
    let report = report(&run);
    // The head of a request has 61 bytes and the digits of its length. Requests of one connection
    // are in flight at an edge of the window.
    let sent: Vec<(&str, u64, u64)> = report
        .trials
        .iter()
        .map(|trial| (&*trial.subject_id, trial.load.bytes.sent, trial.load.bytes.responses))
        .collect();
    assert_eq!(
        sent,
        [
            ("web, size 64", 1184 * (61 + 64), 1186),
            ("web, size 16KiB", 1186 * (64 + 16384), 1184),
            ("web, size 1000", 1186 * (63 + 1000), 1186),
        ]
    );
    assert_eq!(status(&run).1, RunStatus::Valid);
    let experiment = report.experiment.as_ref().unwrap();
    let second = &experiment.effects[1];
    assert_eq!((&*second.to, &*second.changed[0].name), ("web, size 16KiB", "request.size"));
    let slope = experiment.doses[0].doubling.as_ref();
    assert!(slope.is_none(), "a slope of one launch has no interval: {slope:?}");
}

/// Compares the first two arms of a run, as two revisions of a server, with these gates.
fn compare_revisions(run: &Run, gates: &str) -> (Option<RunStatus>, ComparisonResult) {
    let report = report(run);
    let end = RevisionsEnd::new(run, &report, false);
    let side = |arm| Side { run, results: report.results(), arm: Some(arm) };
    let gates = if gates.is_empty() { Vec::new() } else { Gate::parse(gates).unwrap() };
    let options = ComparisonOptions { gates, ..ComparisonOptions::default() };
    let compared = compare(side(0), side(1), &options);
    let compared = ComparisonResult { run_problems: end.problems(), ..compared };
    (end.status(&compared), compared)
}

/// Returns the problems of a run, and whether each makes a revision invalid.
fn problems(compared: &ComparisonResult) -> Vec<(&str, bool)> {
    compared.run_problems.iter().map(|p| (p.sentence.as_str(), p.is_invalid)).collect()
}

/// Each response of the second revision takes 1.5 times the CPU time.
#[test]
fn gate_is_missed_by_slower_revision() {
    let suite = format!("[suite]\nrepeats = 5\nseed = 7\n{LOAD}");
    let mut world = World::new(&["before", "main"], &suite);
    let run = world.walk(&[("before", busy(200)), ("main", busy(300))]).1;
    for (gate, outcome, status) in [
        ("cpu_us_per_request>+20%", GateOutcome::Missed, Some(RunStatus::Invalid)),
        ("cpu_us_per_request>+60%", GateOutcome::Passed, None),
    ] {
        let (ended, compared) = compare_revisions(&run, gate);
        assert_eq!((compared.outcome(), ended), (outcome, status), "{gate}");
        assert!(compared.run_problems.is_empty());
    }
}

/// One crash in five starts is not a difference between revisions, but makes the comparison
/// incomplete.
#[test]
fn revision_with_crash_is_reported() {
    let suite = format!("[suite]\nrepeats = 5\nseed = 7\n{LOAD}");
    let mut world = World::new(&["before", "main"], &suite);
    let kind = TroubleKind::Exits { at_ns: 700_000_000 };
    let trouble = Some(Trouble { kind, start: Some(2), after_loads: 0 });
    let run = world.walk(&[("before", busy(200)), ("main", Server { trouble, ..busy(300) })]).1;
    let failed: Vec<FailureKind> = kinds(&run).into_iter().flatten().collect();
    assert_eq!(failed, [FailureKind::Crashed]);
    let (status, compared) = compare_revisions(&run, "");
    assert_eq!(problems(&compared), [("In some starts, a revision failed", false)]);
    assert_eq!(status, Some(RunStatus::Failed));
    let row = &compared.rows[0];
    assert_eq!((row.metric, row.verdict), ("throughput_rps", Verdict::TooFew), "{}", row.sentence);
}

/// The trials are shorter than the interval of the checks during a load. Only the check after the
/// last step finds the fault.
#[test]
fn contract_broken_after_last_step_fails_comparison() {
    let suite = format!("[suite]\nrepeats = 1\nseed = 7\n{LOAD}");
    let mut world = World::new(&["before", "main"], &suite);
    let run = world.walk(&[("main", Server::with_trouble(TroubleKind::FailsCheck, 1))]).1;
    let (status, compared) = compare_revisions(&run, "");
    let broken = "main: responded incorrectly: check \"greeting\": asked GET /; expected status \
                  200; got: 500";
    assert_eq!((status, problems(&compared)), (Some(RunStatus::Invalid), vec![(broken, true)]));
    // The XML agrees with the exit status.
    let junit = ComparisonFormat::find(FORMATS, "junit").unwrap();
    let xml = junit.render(&compared, Style::Plain);
    let failure = "name=\"the run of both revisions\"><failure message=\"main: responded \
                   incorrectly: check &quot;greeting";
    assert!(xml.contains(failure) && xml.contains(" failures=\"1\" "), "{xml}");
    for trial in &report(&run).trials {
        assert_eq!((trial.valid, codes(&trial.caveats)), (true, vec!["short_window"]));
    }
}

/// One server takes five times as long as the other, which is known long before forty repeats.
#[test]
fn run_with_stop_ends_once_decided() {
    let suite = "[suite]\nrepeats = 40\nseed = 7\n[stop]\nmetrics = [\"throughput\"]\n\
                 [experiment]\nkind = \"toggle\"\nvary = { \"env.WORK\" = [\"1\", \"5\"] }\n\
                 [load]\nconnections = [4]\nwarmup = \"400ms\"\nduration = \"400ms\"\n";
    let mut world = World::new(&["web"], suite);
    let servers = [("WORK 1", busy(400)), ("WORK 5", busy(2000))];
    let (ended, run) = world.walk(&servers);
    assert_eq!((ended, run.trials.len()), (RunEnd::Answered, 12));
    assert_eq!(status(&run).1, RunStatus::Valid, "the run was not interrupted");
    let report = report(&run);
    assert_eq!(report.run.answered_after, Some(6));
    let row = &report.experiment.as_ref().unwrap().effects[0].rows[0];
    assert_eq!((row.verdict, estimate(row)), (Verdict::Lower, [0.1941, 0.17, 0.2216]));
    // There is nothing to resume.
    let (ended, again) = world.walk(&servers);
    assert_eq!((ended, again.trials.len()), (RunEnd::Answered, 12));
    assert!(world.journal.is_empty(), "{:?}", world.journal);
}

/// Another program uses half of a CPU in all measurements. A re-run counts even if it was not
/// better.
#[test]
fn contaminated_trial_is_rerun_and_both_are_saved() {
    let suite = "[suite]\nrepeats = 1\nseed = 7\norder = \"fixed\"\n[load]\nconnections = [2, 4]\n\
                 warmup = \"50ms\"\nduration = \"400ms\"\ninterval = \"200ms\"\n";
    for (keys, measured_again) in [("", 2), ("contaminated = \"counts\"\n", 0)] {
        let mut world = World::new(&["web"], &suite.replacen("seed", &format!("{keys}seed"), 1));
        world.surroundings.disturbed = 0..usize::MAX;
        let run = world.walk(&[]).1;
        assert_eq!((run.trials.len(), run.contaminated.len()), (2, measured_again), "{keys}");
        let report = report(&run);
        let again = report.caveats.iter().find(|caveat| caveat.code.name() == "done_again");
        let trials = again.map(|caveat| caveat.evidence["trials"].as_array().unwrap().len());
        assert_eq!(trials, (measured_again > 0).then_some(2));
        for trial in &report.trials {
            assert_eq!(codes(&trial.caveats), ["contaminated", "short_window"]);
        }
    }
    // If the disturbance has ended, the re-run shows none.
    let mut world = World::new(&["web"], suite);
    world.surroundings.disturbed = 0..1;
    let run = world.walk(&[]).1;
    assert_eq!(run.contaminated.iter().map(|record| record.trial).collect::<Vec<_>>(), [0]);
    for trial in &report(&run).trials {
        assert_eq!(codes(&trial.caveats), ["short_window"]);
    }
}
