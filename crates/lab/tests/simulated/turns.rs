//! Orders of subjects: loaded in turns, at the same time, or started in a fixed order.

use dyno_analysis::Report;
use dyno_analysis::compare::Verdict;
use dyno_analysis::metric::{MetricId, repeats_of};
use dyno_analysis::run_status::RunStatus;
use dyno_analysis::trial::TrialResult;
use dyno_model::start::FailureKind;

use crate::server::{Server, TroubleKind};
use crate::world::{World, codes, kinds, report, round, status};

/// A suite of subjects in an order, with one step of 800 ms each.
fn suite(repeats: u32, order: &str) -> String {
    format!(
        "[suite]\nrepeats = {repeats}\n{order}\nseed = 7\n[load]\nconnections = [4]\n\
         warmup = \"400ms\"\nduration = \"800ms\"\ntimeout = \"5s\"\n"
    )
}

const TURNS: &str = "order = \"interleaved\"\nslice = \"100ms\"";

fn trials<'a>(report: &'a Report, subject: &str) -> Vec<&'a TrialResult> {
    report.trials.iter().filter(|trial| trial.subject_id == subject).collect()
}

#[test]
fn servers_in_turns_are_idle_between() {
    let mut world = World::new(&["one", "other"], &suite(2, TURNS));
    let servers = [("one", Server::with_work_us(100)), ("other", Server::with_work_us(250))];
    let run = world.walk(&servers).1;
    assert_eq!(status(&run).1, RunStatus::Valid);
    // Both servers run before the first is loaded.
    let actions = ["start one", "start other", "stop one", "stop other"];
    assert_eq!(world.journal[..4], actions);
    let report = report(&run);
    for block in 0..2 {
        let pair = ["one", "other"].map(|subject| trials(&report, subject)[block]);
        let began = pair.map(|trial| trial.turns.as_ref().unwrap().began_ns);
        assert_eq!(began[0], began[1], "both subjects began at the same instant");
        for (trial, rate) in pair.into_iter().zip([10_000.0, 4_000.0]) {
            assert_eq!(round(trial.load.duration_s, 9), 0.8, "as much time as alone");
            let turns = trial.turns.as_ref().unwrap();
            let rates: Vec<Option<f64>> =
                turns.rounds.iter().map(|round| round.throughput_rps).collect();
            assert_eq!(rates, [Some(rate); 4], "rounds of two turns of 100 ms");
            let in_other_turns = (turns.idle_share, turns.idle_cpus, turns.carried_share);
            assert_eq!(in_other_turns, (Some(0.0), Some(0.0), Some(0.0)));
            let n = &trial.load.exchanges;
            assert_eq!(n.carried_in + n.scheduled, n.started + n.dropped);
            assert_eq!(n.started, n.completed, "requests in flight at the end of a turn");
        }
    }
    let completed = |subject| -> Vec<u64> {
        trials(&report, subject).iter().map(|trial| trial.load.exchanges.completed).collect()
    };
    assert_eq!((completed("one"), completed("other")), (vec![8018, 8016], vec![3219, 3215]));
}

/// Of thirty trials three may be re-run. Two groups of trials may always be.
#[test]
fn limit_of_reruns_counts_trials() {
    let mut world = World::new(&["one", "other"], &suite(15, TURNS));
    world.surroundings.disturbed = 0..usize::MAX;
    let run = world.walk(&[]).1;
    let again: Vec<usize> = run.contaminated.iter().map(|record| record.trial).collect();
    assert_eq!((run.trials.len(), again), (30, vec![0, 1, 2, 3]));
}

/// In a fixed order, a difference between two subjects may be caused by their positions.
#[test]
fn fixed_order_starts_alike_and_ranks_no_subject() {
    let mut world = World::new(&["second", "first"], &suite(5, "order = \"fixed\""));
    let servers = [("first", Server::with_work_us(500)), ("second", Server::with_work_us(700))];
    let report = report(&world.walk(&servers).1);
    let order: Vec<&str> = report.trials.iter().map(|trial| &*trial.subject_id).collect();
    assert_eq!(order, ["second", "first"].repeat(5));
    assert_eq!(codes(&report.caveats), ["fixed_order"]);
    assert_eq!(report.overview.len(), 2);
    assert!(report.overview.iter().all(|row| row.places.is_none() && row.tie_group.is_none()));
    let rates: Vec<f64> =
        trials(&report, "first").iter().map(|trial| trial.load.throughput_rps).collect();
    assert_eq!(rates, [2000.0; 5]);
}

#[test]
fn crash_in_turns_preserves_other_trial() {
    let mut world = World::new(&["bad", "good"], &suite(1, TURNS));
    let bad = Server::with_trouble(TroubleKind::Exits { at_ns: 1_150_000_000 }, 0);
    let run = world.walk(&[("bad", bad)]).1;
    assert_eq!(status(&run).1, RunStatus::Failed);
    assert_eq!(kinds(&run), [Some(FailureKind::Crashed), None]);
    let report = report(&run);
    let [good] = trials(&report, "good")[..] else { panic!("{:?}", report.trials) };
    assert_eq!((round(good.load.duration_s, 9), good.turns.as_ref()), (0.8, None));
    assert_eq!((good.valid, good.load.throughput_rps), (true, 3920.0));
    let [bad] = trials(&report, "bad")[..] else { panic!("{:?}", report.trials) };
    assert_eq!(codes(&bad.caveats), ["subject_failed", "unanswered", "short_window"]);
}

/// Two subjects of a duet and a control, with one step of 600 ms each.
const DUET: &str = "subjects = [\"one\", \"null\", \"other\"]\n[suite]\nrepeats = 5\n\
                    order = \"duet\"\nseed = 7\ncontaminated = \"counts\"\n[load]\n\
                    connections = [4]\nwarmup = \"200ms\"\nduration = \"600ms\"\n\
                    interval = \"100ms\"\ntimeout = \"5s\"\n";

const DEFINITION: &str = "language = \"C\"\nprotocols = [\"h1\"]\n[start]\n\
                          command = [\"x\", \"{port}\"]\n";

#[test]
fn duet_run_reports_cost_per_request() {
    let mut world = World::with_definitions(&[("one", DEFINITION), ("other", DEFINITION)], DUET);
    let work = |name, us| (name, Server::with_work_us(us));
    let run = world.walk(&[work("one", 100), work("other", 200), work("null", 80)]).1;
    assert_eq!(status(&run).1, RunStatus::Valid);
    let report = report(&run);
    for block in 0..5 {
        let pair = ["one", "other"].map(|subject| trials(&report, subject)[block]);
        let [one, other] = pair.map(|trial| trial.duet.as_ref().unwrap());
        assert_eq!(one.began_ns, other.began_ns, "both subjects began at the same instant");
        // The servers share their CPUs, so each response takes twice the time.
        for (trial, cost) in pair.into_iter().zip([200.0, 400.0]) {
            let duet = trial.duet.as_ref().unwrap();
            assert_eq!((duet.loads, round(trial.load.duration_s, 9)), (2, 1.2));
            let costs: Vec<Option<f64>> =
                duet.rounds.iter().map(|round| round.cpu_us_per_request).collect();
            assert_eq!(costs, [Some(cost); 2], "rounds of half a second or more");
            assert_eq!(codes(&trial.caveats), ["at_once"]);
        }
        let alone = trials(&report, "null")[block];
        assert_eq!((alone.duet.as_ref(), round(alone.load.duration_s, 9)), (None, 0.6));
        assert_eq!(alone.load.throughput_rps, 12_500.0);
    }
    for (subject, cost) in [("one", 200.0), ("other", 400.0)] {
        let of_subject = report.summaries.iter().find(|s| s.subject == subject).unwrap();
        let metrics = &of_subject.metrics;
        for wait in [MetricId::Throughput, MetricId::ResponseP99] {
            assert!(!metrics.contains_key(&wait), "{wait:?} includes waits for the other server");
        }
        assert_eq!(repeats_of(metrics, MetricId::Cpu).values, [cost; 5]);
    }
    let [duet] = report.duets.as_slice() else { panic!("{:?}", report.duets) };
    assert_eq!((&*duet.from, &*duet.to), ("one", "other"));
    let rows: Vec<(&str, Verdict)> =
        duet.rows.iter().map(|row| (row.metric, row.verdict)).collect();
    assert_eq!(
        rows,
        [
            ("server_cpu_us_per_request", Verdict::Higher),
            ("server_memory_bytes", Verdict::NotShown),
        ]
    );
    assert!(dyno_report::html::FORMAT.render(&report).contains("Twins and duets"));
}
