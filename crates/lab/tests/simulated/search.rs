//! Searches for the highest rate that meets an objective, and rates that are shares of a capacity.

use dyno_analysis::capacity::measured_first;
use dyno_analysis::run_status::{RunCompleteness, RunStatus};
use dyno_lab::run::RunEnd;
use dyno_model::plan::Arrivals;
use dyno_model::start::FailureKind;

use crate::server::{Server, TroubleKind};
use crate::world::{SUBJECT, World, kinds, measured, parse, report, round, status};

const SUITE: &str = "[suite]\nrepeats = 2\nseed = 7\n[load]\nconnections = 4\nrate = \"find\"\n\
                     find_width = \"60%\"\nwarmup = \"100ms\"\nduration = \"300ms\"\n\
                     timeout = \"5s\"\n[report]\nobjective = \"errors<1%\"\n";

/// The server has a capacity of four connections with 1.02 ms per response: 3,921 requests/s.
#[test]
fn rate_search_runs_at_each_start() {
    let mut world = World::new(&["slow"], SUITE);
    let (ended, run) = world.walk(&[]);
    assert_eq!((ended, status(&run).1), (RunEnd::Complete, RunStatus::Valid));
    assert_eq!(world.journal, ["start slow", "stop slow"].repeat(2));
    let report = report(&run);
    let [bracket] = report.brackets.as_slice() else { panic!("{:?}", report.brackets) };
    assert_eq!(bracket.kept_rps, Some(3920.0));
    assert_eq!(bracket.missed_rps.map(|rate| round(rate, 3)), Some(5543.717));
    assert_eq!(bracket.by_repeat_rps, [3920.0; 2]);
    let counts = bracket.searched.as_ref().unwrap();
    assert_eq!((counts.starts, counts.settled, counts.confirmed, counts.loads), (2, 2, 2, 22));
    for search in &report.searches {
        let loads: Vec<(f64, bool)> = search
            .result
            .trials
            .iter()
            .map(|load| (load.rate_rps.round(), load.throughput_rps >= load.rate_rps))
            .collect();
        assert_eq!(
            loads,
            [
                (1960.0, true),
                (3920.0, true),
                (7840.0, false),
                (7840.0, false),
                (3920.0, true),
                (7840.0, false),
                (3920.0, true),
                (5544.0, false),
                (5544.0, false),
                (5544.0, false),
                (3920.0, true),
            ]
        );
        assert_eq!(search.result.holds_s, Some(3.0), "the last load is longer");
    }
    let text = dyno_report::text::FORMAT.render(&report);
    assert!(text.contains("Rates that meet errors<1%: slow up to"), "{text}");
    let markdown = dyno_report::markdown::FORMAT.render(&report);
    assert!(markdown.contains("Missed condition"), "{markdown}");
}

/// At the instant of the interrupt all trials are measured, but the run is not complete.
#[test]
fn ctrl_c_in_last_search_allows_resume() {
    let suite = SUITE.replace("repeats = 2", "repeats = 1");
    let undisturbed = World::new(&["slow"], &suite).walk(&[]).1;
    let mut world = World::new(&["slow"], &suite);
    let fourth_load = &undisturbed.searches[0].loads[3].load;
    world.surroundings.interrupts_ns = vec![fourth_load.began_ns + 200_000_000];
    let (ended, run) = world.walk(&[]);
    assert_eq!((ended, measured(&run), run.searches.len()), (RunEnd::Interrupted, vec![0], 0));
    assert_eq!(kinds(&run), [Some(FailureKind::Interrupted)]);
    assert_eq!(status(&run), (RunCompleteness::Incomplete, RunStatus::Failed));
    // The finished trial has the checks that make it valid.
    assert_eq!(run.starts[0].subject().unwrap().checks_after.len(), 1);
    world.surroundings.interrupts_ns.clear();
    let (ended, run) = world.walk(&[]);
    assert_eq!((ended, status(&run).1), (RunEnd::Complete, RunStatus::Valid));
    let starts: Vec<usize> = run.trials.iter().map(|trial| trial.start).collect();
    assert_eq!(starts, [0], "the finished trial is not measured again");
    let rates = |run: &dyno_model::run::Run| -> Vec<f64> {
        run.searches[0].loads.iter().map(|load| load.rate).collect()
    };
    assert_eq!(rates(&run), rates(&undisturbed));
}

/// Rates that are shares of the capacity of the slowest subject.
const SHARES: &str = "[suite]\nrepeats = 1\nseed = 7\n[load]\nconnections = 4\n\
                      rate = [\"10%\", \"20%\"]\nwarmup = \"100ms\"\nduration = \"400ms\"\n\
                      timeout = \"5s\"\n[report]\nobjective = \"errors<1%\"\n";

#[test]
fn rate_shares_use_capacity_of_slowest_subject() {
    let suite = parse(&format!("subjects = [\"fast\", \"slow\"]\n{SHARES}"));
    let definitions = [("fast", SUBJECT), ("slow", SUBJECT)];
    let servers = [("fast", Server::with_work_us(100))];
    let first = World::with_suite(&definitions, suite.to_capacity_suite()).walk(&servers).1;
    assert_eq!(first.header.plan.suite.name, "simulated-capacity");
    let capacities = measured_first(&first, &report(&first), suite.shares.clone()).unwrap();
    let [capacity] = capacities.capacities.as_slice() else { panic!("{capacities:?}") };
    assert_eq!((&*capacity.subject, capacity.rps), ("slow", 3920.0));
    let at_rates = suite.with_capacities(&capacities.capacities).unwrap();
    let mut world = World::with_suite(&definitions, at_rates);
    let rates: Vec<f64> = world
        .plan
        .load
        .steps
        .iter()
        .filter_map(|step| match step.arrivals {
            Arrivals::Constant { rate, .. } => Some(rate),
            _ => None,
        })
        .collect();
    assert_eq!(rates, [392.0, 784.0]);
    let run = world.walk(&servers).1;
    assert_eq!(status(&run).1, RunStatus::Valid);
    let placement =
        |run: &dyno_model::run::Run| run.header.plan.arms[0].conditions.placement.clone();
    assert_eq!(placement(&run), placement(&first), "the second run has the CPUs of the first");
    let report = report(&run);
    let kept: Vec<_> =
        report.brackets.iter().map(|bracket| (&*bracket.subject, bracket.kept_rps)).collect();
    assert_eq!(kept, [("fast", Some(784.0)), ("slow", Some(784.0))]);
}

/// The subject without a capacity may be the slowest one.
#[test]
fn rate_shares_end_at_subject_without_capacity() {
    let suite = parse(&format!("subjects = [\"slow\", \"dies\"]\n{SHARES}"));
    let definitions = [("slow", SUBJECT), ("dies", SUBJECT)];
    let mut world = World::with_suite(&definitions, suite.to_capacity_suite());
    let dies = Server::with_trouble(TroubleKind::Exits { at_ns: 200_000_000 }, 0);
    let run = world.walk(&[("dies", dies)]).1;
    let unknown = measured_first(&run, &report(&run), suite.shares.clone()).unwrap_err();
    let problem = "workload \"plaintext\": the rates are shares of the capacity of dies, which is \
                   unknown: the subject has no valid closed-loop step";
    assert!(unknown.message.starts_with(problem), "{unknown:?}");
    assert_eq!(unknown.remedy.as_deref(), Some("fix the subject, or exclude dies with --only"));
}
