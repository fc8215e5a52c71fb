//! Loads that ran at the same time against servers on the same CPUs: a disturbance of the machine
//! affects all of them equally.
//!
//! The procedure is that of Bulej et al., "Duet Benchmarking: Improving Measurement Accuracy in the
//! Cloud" (ICPE 2020).

use std::collections::{BTreeMap, BTreeSet};

use dyno_archive::plan::Plan;
use dyno_archive::{LoadRecord, Party, TrialRecord};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::caveat::{Caveat, Code, Severity};
use crate::cell::CellKey;
use crate::server::{ServerUse, server_use};
use crate::stats::median;
use crate::turns::{self, RoundResult, cpu_us_per_request, measured_intervals};
use crate::verdict::{Confidence, Limiter, Resource};

/// A trial whose load ran at the same time as those of other subjects.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DuetResult {
    /// Number of loads that ran at the same time, including this one.
    pub loads: u32,
    /// Number of loads that were planned for the same time.
    pub planned: u32,
    /// Names of the others, as far as their trials are known.
    pub beside: Vec<String>,
    /// Whether the others are those that most often ran at the same time at this step. The cost of
    /// a request depends on the others, so a repeat with other loads is not comparable.
    pub is_usual: bool,
    /// When the load began, on the machine's monotonic clock: loads that began at the same instant
    /// ran together.
    pub began_ns: u64,
    /// Mean number of CPUs that the servers of the duet used together; `None`: that of one server
    /// is unknown.
    pub cpus: Option<f64>,
    /// Pieces of the measured window in order of time. Pieces with the same number are compared
    /// with each other.
    pub rounds: Vec<RoundResult>,
}

/// The shortest piece. CPU time is accounted when a thread leaves its CPU, and at the kernel's
/// ticks, which are up to 10 ms apart.
const PIECE_NS: u64 = 500_000_000;

impl DuetResult {
    /// `None`: the load was alone on its server's CPUs, or took turns.
    #[must_use]
    pub(crate) fn new(
        plan: &Plan,
        record: &TrialRecord,
        party: Party,
        company: &CoRunners,
    ) -> Option<DuetResult> {
        let loads = record.load.at_once?;
        let planned = plan.loads_with(&plan.trials[record.trial]);
        let is_usual = company.has_usual_corunners(plan, record);
        let beside = company.names_of_others(plan, record);
        let cpus = company.cpus.get(&start_time(plan, record)).copied().flatten();
        let record = &record.load;
        let round = |piece| RoundResult {
            throughput_rps: None,
            cpu_us_per_request: cpu_us_per_request(record, party, piece),
        };
        let rounds = pieces(record).into_iter().map(round).collect();
        Some(DuetResult {
            loads,
            planned,
            beside,
            is_usual,
            began_ns: record.began_ns,
            cpus,
            rounds,
        })
    }
}

/// A workload and a step of it.
type Point = (usize, usize);

/// A load by its workload and step, its block, and the instant at which it began.
type Began = (Point, u32, u64);

/// Arms whose loads usually ran at the same time, by workload and step, and arms that took turns.
#[derive(Debug, Default)]
pub(crate) struct CoRunners {
    usual: BTreeMap<Point, BTreeSet<usize>>,
    of: BTreeMap<Began, BTreeSet<usize>>,
    /// CPUs that the servers of loads at the same time used together; `None`: one is unknown.
    cpus: BTreeMap<Began, Option<f64>>,
    in_turns: BTreeSet<CellKey>,
    /// Loads that took turns with each other: each trial, and its pace.
    paces: BTreeMap<Began, Vec<(usize, Vec<f64>)>>,
}

impl CoRunners {
    #[must_use]
    pub(crate) fn new(plan: &Plan, trials: &[TrialRecord]) -> CoRunners {
        let mut of: BTreeMap<Began, BTreeSet<usize>> = BTreeMap::new();
        let mut loads: BTreeMap<Began, usize> = BTreeMap::new();
        let mut cpus: BTreeMap<Began, Option<f64>> = BTreeMap::new();
        for (record, at_once) in
            trials.iter().filter_map(|record| Some((record, record.load.at_once?)))
        {
            let began = start_time(plan, record);
            let all = cpus.entry(began).or_insert(Some(0.0));
            *all = all.zip(cpus_used(plan, record)).map(|(others, own)| others + own);
            of.entry(began).or_default().insert(plan.trials[record.trial].arm);
            loads.insert(began, at_once as usize);
        }
        // An interruption may have kept the records of only some loads. The others are unknown
        // then.
        let is_whole =
            |began: &Began, arms: &BTreeSet<usize>| arms.len() > 1 && arms.len() == loads[began];
        let mut seen: BTreeMap<Point, BTreeMap<&BTreeSet<usize>, u32>> = BTreeMap::new();
        for (began, arms) in of.iter().filter(|(began, arms)| is_whole(began, arms)) {
            *seen.entry(began.0).or_default().entry(arms).or_default() += 1;
        }
        let most = |all: BTreeMap<&BTreeSet<usize>, u32>| {
            let (arms, _) = all.into_iter().max_by_key(|(arms, times)| (*times, arms.len()))?;
            Some(arms.clone())
        };
        let usual = seen.into_iter().filter_map(|(point, all)| Some((point, most(all)?))).collect();
        let turns = trials.iter().filter(|record| record.load.slices_ns.is_some());
        let mut paces: BTreeMap<Began, Vec<(usize, Vec<f64>)>> = BTreeMap::new();
        for record in turns.clone() {
            let pace = turns::pace(&record.load).map(|pace| (record.trial, pace));
            paces.entry(start_time(plan, record)).or_default().extend(pace);
        }
        CoRunners {
            usual,
            of,
            cpus,
            in_turns: turns.map(|record| CellKey::from_trial(&plan.trials[record.trial])).collect(),
            paces,
        }
    }

    /// Returns the throughput of the others in each round of a load that took turns with them, as
    /// multiples of their means: the median over all. `None`: no other took turns, or some had
    /// other rounds.
    pub(crate) fn pace(&self, plan: &Plan, record: &TrialRecord) -> Option<Vec<f64>> {
        let all = self.paces.get(&start_time(plan, record))?;
        let others: Vec<&[f64]> = all
            .iter()
            .filter(|(trial, _)| *trial != record.trial)
            .map(|(_, pace)| &pace[..])
            .collect();
        let rounds = others.first()?.len();
        let in_round =
            |round: usize| median(&others.iter().map(|pace| pace[round]).collect::<Vec<_>>());
        others
            .iter()
            .all(|pace| pace.len() == rounds)
            .then(|| (0..rounds).map(in_round).collect())?
    }

    /// Whether a load was alone, and others of its cell took turns.
    pub(crate) fn is_out_of_turn(&self, plan: &Plan, record: &TrialRecord) -> bool {
        record.load.slices_ns.is_none()
            && self.in_turns.contains(&CellKey::from_trial(&plan.trials[record.trial]))
    }

    fn names_of_others(&self, plan: &Plan, record: &TrialRecord) -> Vec<String> {
        let own = plan.trials[record.trial].arm;
        let all = self.of.get(&start_time(plan, record)).into_iter().flatten();
        all.filter(|arm| **arm != own).map(|arm| plan.arms[*arm].name.clone()).collect()
    }

    /// Whether a load ran at the same time as those with which its step most often ran, as far as
    /// they are known. A load that ran alone never did.
    fn has_usual_corunners(&self, plan: &Plan, record: &TrialRecord) -> bool {
        let began = start_time(plan, record);
        let loads = record.load.at_once.map_or(1, |loads| loads as usize);
        let is_of_them = |usual: &BTreeSet<usize>| {
            loads == usual.len() && self.of.get(&began).is_none_or(|arms| arms.is_subset(usual))
        };
        loads > 1 && self.usual.get(&began.0).is_none_or(is_of_them)
    }
}

/// CPUs that a trial's server used within its window.
fn cpus_used(plan: &Plan, record: &TrialRecord) -> Option<f64> {
    let planned = &plan.trials[record.trial];
    let party = plan.launches[planned.launch].party_of(planned.arm)?;
    server_use(&record.load, party, 1.0).cpus
}

fn start_time(plan: &Plan, record: &TrialRecord) -> Began {
    let planned = &plan.trials[record.trial];
    let block = plan.launches[planned.launch].block;
    ((planned.workload, planned.step), block, record.load.began_ns)
}

/// Returns the measured window in pieces of whole intervals; the remainder at its end is left out.
fn pieces(record: &LoadRecord) -> Vec<(u64, u64)> {
    let mut from_ns = record.window_ns.0;
    let piece = |end_ns: u64| {
        (end_ns.saturating_sub(from_ns) >= PIECE_NS)
            .then(|| (std::mem::replace(&mut from_ns, end_ns), end_ns))
    };
    measured_intervals(record, record.window_ns)
        .map(|interval| interval.end_ns)
        .filter_map(piece)
        .collect()
}

/// Codes about waiting: for the CPUs of the servers, and for those of the generators.
const OF_WAITING: [Code; 14] = [
    Code::GeneratorBusy,
    Code::GeneratorCrowded,
    Code::GeneratorStarved,
    Code::GeneratorLate,
    Code::SharedGenerator,
    Code::Oversubscribed,
    Code::Queueing,
    Code::Clumped,
    Code::Ceiling,
    Code::ServerStarved,
    Code::MoreThreadsThanCpus,
    Code::Slowdown,
    Code::Speedup,
    Code::Cyclic,
];

/// Removes caveats about waiting. The times of loads that ran at the same time are not compared, so
/// no caveat needs to warn about them.
pub(crate) fn without_waiting(mut all: Vec<Caveat>) -> Vec<Caveat> {
    all.retain(|caveat| !OF_WAITING.contains(&caveat.code));
    all
}

/// Returns the caveat of a trial that was one of several at the same time.
pub(crate) fn duet_caveat(duet: &DuetResult) -> Caveat {
    let (severity, message) = match (duet.loads, duet.planned) {
        (1, planned) => (
            Severity::Invalid,
            format!(
                "This server was loaded alone. {} should have been loaded at the same time. The \
                 cost of a request alone is not comparable with its cost next to other loads. Run \
                 the suite again.",
                other_loads_text(planned)
            ),
        ),
        (loads, planned) if !duet.is_usual => (
            Severity::Invalid,
            format!(
                "{loads} of {planned} servers were loaded at the same time. Most repeats of this \
                 step had another set of servers. The cost of a request depends on the other \
                 loads, so this repeat is not comparable. Run the suite again."
            ),
        ),
        (loads, planned) => (
            Severity::Info,
            format!(
                "This server was loaded at the same time as {}{} on the same CPUs. CPU time per \
                 request and other costs are compared. Throughput and times are not, because they \
                 include the wait for each other. Use `order = \"interleaved\"` to compare those.",
                other_loads_text(loads),
                if loads < planned {
                    format!(" (of {} planned)", planned - 1)
                } else {
                    String::new()
                }
            ),
        ),
    };
    Caveat::new(Code::AtOnce, severity, message, json!({"loads": duet.loads}))
}

/// Returns the caveat of a server that is switched between requests, on CPUs that are idle at
/// times. A wake-up costs more on an idle CPU, and the other server's pace decides which server
/// finds it idle. A server with 6 µs more work per request was shown as 30 % cheaper at one
/// connection.
pub(crate) fn idle_cpus(duet: &DuetResult, server: &ServerUse) -> Option<Caveat> {
    /// Least share of the CPUs that counts as full.
    const FULL: f64 = 0.9;
    /// Least number of context switches per request that make wake-ups a part of its cost.
    const WAKES: f64 = 0.2;
    let allowed = Some(server.cpu_allowed_s? / server.window_s).filter(|cpus| *cpus > 0.0)?;
    let (used, switches) = (duet.cpus? / allowed, server.per_request.context_switches?);
    (duet.loads > 1 && used < FULL && switches >= WAKES).then(|| {
        let message = format!(
            "The servers of this duet used {:.0} % of their CPUs, and this one made {switches:.2} \
             context switches per request. A wake-up costs more on an idle CPU. Which server pays \
             for it depends on the others, so CPU per request is not comparable. Use more \
             connections, or `order = \"interleaved\"`.",
            100.0 * used
        );
        Caveat::new(
            Code::IdleDuet,
            Severity::Invalid,
            message,
            json!({"used": used, "switches": switches}),
        )
    })
}

fn other_loads_text(loads: u32) -> String {
    let others = loads.saturating_sub(1);
    format!("{others} other{}", if others == 1 { "" } else { "s" })
}

/// Returns what limited a trial. Loads at the same time limit each other, unless the trial failed.
pub(crate) fn limiter(duet: Option<&DuetResult>, alone: Limiter) -> Limiter {
    let is_known = [Resource::Failure, Resource::Refusal, Resource::DroppedPackets];
    let is_decided = is_known.contains(&alone.resource);
    let Some(duet) = duet.filter(|duet| !is_decided && duet.loads > 1) else { return alone };
    let sentence = format!(
        "Not determined: this server was loaded at the same time as {} on the same CPUs, and they \
         limited each other.",
        other_loads_text(duet.loads)
    );
    Limiter::new(Resource::Unknown, Confidence::Low, sentence, json!({"loads": duet.loads}))
}

#[cfg(test)]
mod tests {
    use dyno_archive::plan::Subject;
    use dyno_archive::run::Run;
    use dyno_archive::sample::{CgroupUse, PartyUse};
    use dyno_archive::{Interval, Phase, Sample};

    use super::*;
    use crate::caveat::info;
    use crate::fixture;

    const MS: u64 = 1_000_000;

    /// A second of warm-up and two measured ones in intervals of 200 ms, with 10 responses and
    /// `cpu_ns` of CPU time in each, sampled at each edge.
    fn record(cpu_ns: u64) -> LoadRecord {
        let interval = |k: u64| {
            let phase = if k < 5 { Phase::Warmup } else { Phase::Measured };
            let mut interval = Interval::new(phase, k * 200 * MS, (k + 1) * 200 * MS);
            (0..10).for_each(|_| interval.outcomes.count(dyno_archive::outcome::Outcome::Ok));
            interval
        };
        let sample = |k: u64| {
            let group = CgroupUse { cpu_ns: Some(k * cpu_ns), ..CgroupUse::default() };
            let used = PartyUse { cgroup: Some(group), ..PartyUse::nothing(Party::SUBJECT) };
            Sample { at_ns: 7 + k * 200 * MS, parties: vec![used], ..Sample::default() }
        };
        LoadRecord {
            began_ns: 7,
            window_ns: (1000 * MS, 3000 * MS),
            at_once: Some(2),
            intervals: (0..15).map(interval).collect(),
            samples: (0..16).map(sample).collect(),
            ..fixture::record(0)
        }
    }

    /// Blocks of three servers. In each block, the listed ones were loaded at the same time.
    fn run(blocks: &[&[usize]]) -> Run {
        let named = |name: &str| Subject { name: name.into(), ..Subject::default() };
        let mut run =
            fixture::blocks_of(["a", "b", "c"].map(named).into(), blocks.len() as u32, |_, _| 1);
        run.header.plan.duet = [0, 1, 2].into();
        let trials = run.trials.into_iter().filter_map(|trial| {
            let (arm, block) = (trial.trial % 3, trial.trial / 3);
            let loads = blocks[block].len() as u32;
            let load =
                LoadRecord { at_once: Some(loads), began_ns: block as u64, ..record(50_000) };
            blocks[block].contains(&arm).then_some(TrialRecord { load, ..trial })
        });
        run.trials = trials.collect();
        run
    }

    fn duets(run: &Run) -> Vec<DuetResult> {
        let plan = &run.header.plan;
        let company = CoRunners::new(plan, &run.trials);
        let of = |trial| DuetResult::new(plan, trial, Party::SUBJECT, &company);
        run.trials.iter().filter_map(of).collect()
    }

    fn severity(duet: &DuetResult) -> Severity {
        duet_caveat(duet).severity
    }

    #[test]
    fn window_is_compared_piece_by_piece() {
        let mut run = run(&[&[0, 1, 2], &[0, 1, 2]]);
        let duet = &duets(&run)[3];
        // Three intervals are the fewest that last half a second, and one is left over.
        let costs: Vec<_> = duet.rounds.iter().map(|round| round.cpu_us_per_request).collect();
        assert_eq!((duet.loads, duet.planned, duet.began_ns, costs), (3, 3, 1, vec![Some(5.0); 3]));
        assert!(duet.is_usual && duet.rounds.iter().all(|round| round.throughput_rps.is_none()));
        run.trials[0].load.at_once = None;
        assert_eq!(duets(&run).len(), 5, "one that was alone is no part of it");
    }

    #[test]
    fn repeats_have_the_same_other_loads() {
        let all: &[usize] = &[0, 1, 2];
        // The third was present once, and in that block the others had a third load next to them.
        let pair = duets(&run(&[&[0, 1], all, &[0, 1]]));
        let usual: Vec<bool> = pair.iter().map(|duet| duet.is_usual).collect();
        assert_eq!(usual, [true, true, false, false, false, true, true]);
        assert_eq!(severity(&pair[0]), Severity::Info);
        assert!(duet_caveat(&pair[0]).message.contains("1 other (of 2 planned)"));
        assert_eq!(severity(&pair[2]), Severity::Invalid);
        // The same number of loads, but not the same ones.
        let other = duets(&run(&[&[0, 1], &[0, 2], &[0, 1]]));
        assert_eq!(other.iter().map(severity).filter(|s| *s == Severity::Invalid).count(), 2);
        // A load alone is not a duet, even if it is the most frequent case.
        assert!(
            duets(&run(&[&[0], &[0], &[1]])).iter().all(|duet| severity(duet) == Severity::Invalid)
        );
        // The record of one is lost, and the others are unchanged.
        let mut lost = run(&[all, all]);
        lost.trials.remove(0);
        assert!(duets(&lost).iter().all(|duet| duet.is_usual));
        // During the run, each is shown before the others exist.
        lost.trials.truncate(1);
        assert_eq!(severity(&duets(&lost)[0]), Severity::Info);
    }

    #[test]
    fn server_without_valid_repeats_is_still_reported() {
        let report = crate::report::report(&run(&[[0, 1].as_slice(); 5]));
        let of_c = report.duets.iter().find(|effect| effect.to == "c").expect("an effect");
        let sentences: Vec<&str> = of_c.answers.iter().map(|answer| &*answer.sentence).collect();
        let lost = "5 of 5 repeats of B do not count";
        assert!(sentences.len() == 1 && sentences[0].contains(lost), "{sentences:?}");
    }

    #[test]
    fn repeat_alone_is_none_of_those_in_turns() {
        let mut run = run(&[&[0, 1, 2], &[0, 1, 2]]);
        for trial in &mut run.trials {
            let turns = (trial.trial != 4).then(|| vec![(0, 100 * MS)]);
            trial.load = LoadRecord { at_once: None, slices_ns: turns, ..trial.load.clone() };
        }
        let alone = |run: &Run| -> Vec<usize> {
            let company = CoRunners::new(&run.header.plan, &run.trials);
            let is_alone = |record: &&TrialRecord| company.is_out_of_turn(&run.header.plan, record);
            run.trials.iter().filter(is_alone).map(|record| record.trial).collect()
        };
        assert_eq!(alone(&run), [4]);
        // If a cell never took turns, all its repeats are comparable.
        run.trials.retain(|record| record.trial != 1);
        assert_eq!(alone(&run), [0; 0]);
    }

    #[test]
    fn caveats_about_waiting_are_removed() {
        let all = vec![info(Code::GeneratorStarved, "x"), info(Code::WrongAnswers, "y")];
        let codes: Vec<Code> = without_waiting(all).iter().map(|caveat| caveat.code).collect();
        assert_eq!(codes, [Code::WrongAnswers]);
    }
}
