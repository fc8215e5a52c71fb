//! Evaluates duets: servers that were loaded at the same time on the same CPUs.
//!
//! A disturbance of the machine affects all servers of a duet equally, so it does not bias their
//! comparison (Bulej et al., "Duet Benchmarking: Improving Measurement Accuracy in the Cloud", ICPE
//! 2020).

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::cpus::AllowedCpus;
use dyno_model::plan::Plan;
use dyno_model::{LoadRecord, Party, TrialRecord};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::caveat::{Caveat, Code, CodeProperty, Severity};
use crate::cell::CellKey;
use crate::number_format::plural;
use crate::server::{ServerUse, server_use};
use crate::stats::median;
use crate::turns::{self, RoundResult, cpu_us_per_request, measured_intervals};
use crate::verdict::limiters::{Confidence, Limiter, Resource};

/// A trial whose load ran at the same time as the loads of other subjects.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DuetResult {
    /// Number of loads that ran at the same time, including this one.
    pub loads: u32,
    /// Number of loads that were planned for the same time.
    pub planned: u32,
    /// Names of the other subjects, as far as their trials are known.
    #[serde(rename = "beside")]
    pub concurrent_subjects: Vec<String>,
    /// Whether most repeats of this step had the same set of subjects. The cost of a request
    /// depends on the other subjects, so a repeat with a different set is not comparable.
    pub is_usual: bool,
    /// Start of the load, on the machine's monotonic clock. Loads with the same start ran at the
    /// same time.
    pub began_ns: u64,
    /// Mean number of CPUs that the servers of the duet used together; `None`: the number of a
    /// server is unknown.
    pub cpus: Option<f64>,
    /// Pieces of the measured window in order of time. Pieces with the same number are compared
    /// with each other.
    pub rounds: Vec<RoundResult>,
}

/// Minimum length of a piece, nanoseconds. CPU time is accounted only when a thread leaves its CPU,
/// and at the kernel's ticks, which are up to 10 ms apart.
const PIECE_NS: u64 = 500_000_000;

impl DuetResult {
    /// Returns the duet of a trial; `None`: the load was alone on its server's CPUs, or took turns.
    #[must_use]
    pub(crate) fn new(
        plan: &Plan,
        record: &TrialRecord,
        party: Party,
        co_runners: &CoRunners,
    ) -> Option<DuetResult> {
        let loads = record.load.concurrent_loads?;
        let planned = plan.loads_with(&plan.trials[record.trial]);
        let is_usual = co_runners.has_usual_corunners(plan, record);
        let concurrent_subjects = co_runners.other_names(plan, record);
        let cpus = co_runners.cpus.get(&load_start(plan, record)).copied().flatten();
        let record = &record.load;
        let round = |piece| RoundResult {
            throughput_rps: None,
            cpu_us_per_request: cpu_us_per_request(record, party, piece),
        };
        let rounds = pieces(record).into_iter().map(round).collect();
        Some(DuetResult {
            loads,
            planned,
            concurrent_subjects,
            is_usual,
            began_ns: record.began_ns,
            cpus,
            rounds,
        })
    }
}

/// Workload and step.
type LoadPoint = (usize, usize);

/// Workload and step, block, and start time of a load.
type LoadStart = (LoadPoint, u32, u64);

/// Lookup of the arms that ran together with each load, at the same time or in turns.
#[derive(Debug, Default)]
pub(crate) struct CoRunners {
    /// The most frequent set of arms that were loaded at the same time.
    usual: BTreeMap<LoadPoint, BTreeSet<usize>>,
    arms_by_start: BTreeMap<LoadStart, BTreeSet<usize>>,
    /// CPUs that the servers of loads at the same time used together; `None`: the CPUs of one
    /// server are unknown.
    cpus: BTreeMap<LoadStart, Option<f64>>,
    /// Cells with a load that took turns.
    in_turns: BTreeSet<CellKey>,
    /// Loads that took turns with each other: each trial, with its throughput per round divided by
    /// its mean.
    paces: BTreeMap<LoadStart, Vec<(usize, Vec<f64>)>>,
}

impl CoRunners {
    /// Finds the loads that ran together, by their start times.
    #[must_use]
    pub(crate) fn new(plan: &Plan, trials: &[TrialRecord]) -> CoRunners {
        let mut arms_by_start: BTreeMap<LoadStart, BTreeSet<usize>> = BTreeMap::new();
        let mut loads: BTreeMap<LoadStart, usize> = BTreeMap::new();
        let mut cpus: BTreeMap<LoadStart, Option<f64>> = BTreeMap::new();
        for (record, concurrent) in
            trials.iter().filter_map(|record| Some((record, record.load.concurrent_loads?)))
        {
            let began = load_start(plan, record);
            let sum = cpus.entry(began).or_insert(Some(0.0));
            *sum = sum.zip(cpus_used(plan, record)).map(|(others, cpus)| others + cpus);
            arms_by_start.entry(began).or_default().insert(plan.trials[record.trial].arm);
            loads.insert(began, concurrent as usize);
        }
        // After an interruption, the records of some loads may be missing.
        let is_complete = |began: &LoadStart, arms: &BTreeSet<usize>| {
            arms.len() > 1 && arms.len() == loads[began]
        };
        let mut arm_sets: BTreeMap<LoadPoint, BTreeMap<&BTreeSet<usize>, u32>> = BTreeMap::new();
        for (began, arms) in arms_by_start.iter().filter(|(began, arms)| is_complete(began, arms)) {
            let (load_point, ..) = *began;
            *arm_sets.entry(load_point).or_default().entry(arms).or_default() += 1;
        }
        let most_frequent_set = |sets: BTreeMap<&BTreeSet<usize>, u32>| {
            let (arms, _) = sets.into_iter().max_by_key(|(arms, times)| (*times, arms.len()))?;
            Some(arms.clone())
        };
        let usual = arm_sets
            .into_iter()
            .filter_map(|(point, sets)| Some((point, most_frequent_set(sets)?)))
            .collect();
        let turns = trials.iter().filter(|record| record.load.slices_ns.is_some());
        let mut paces: BTreeMap<LoadStart, Vec<(usize, Vec<f64>)>> = BTreeMap::new();
        for record in turns.clone() {
            let pace = turns::pace(&record.load).map(|pace| (record.trial, pace));
            paces.entry(load_start(plan, record)).or_default().extend(pace);
        }
        CoRunners {
            usual,
            arms_by_start,
            cpus,
            in_turns: turns.map(|record| CellKey::from_trial(&plan.trials[record.trial])).collect(),
            paces,
        }
    }

    /// Returns how fast the other loads were in each round of a load in turns: the median, over the
    /// other loads, of the throughput in the round divided by the load's mean. `None`: no other
    /// load took turns, or the numbers of rounds differ.
    pub(crate) fn pace(&self, plan: &Plan, record: &TrialRecord) -> Option<Vec<f64>> {
        let throughputs = self.paces.get(&load_start(plan, record))?;
        let others: Vec<&[f64]> = throughputs
            .iter()
            .filter(|(trial, _)| *trial != record.trial)
            .map(|(_, pace)| &pace[..])
            .collect();
        let rounds = others.first()?.len();
        let in_round =
            |round: usize| median(&others.iter().map(|pace| pace[round]).collect::<Vec<_>>());
        if others.iter().any(|pace| pace.len() != rounds) {
            return None;
        }
        (0..rounds).map(in_round).collect()
    }

    /// Whether a load did not take turns, although other repeats of its cell did.
    pub(crate) fn is_out_of_turn(&self, plan: &Plan, record: &TrialRecord) -> bool {
        record.load.slices_ns.is_none()
            && self.in_turns.contains(&CellKey::from_trial(&plan.trials[record.trial]))
    }

    /// Returns the names of the arms that ran together with a load.
    fn other_names(&self, plan: &Plan, record: &TrialRecord) -> Vec<String> {
        let loaded_arm = plan.trials[record.trial].arm;
        let arms = self.arms_by_start.get(&load_start(plan, record)).into_iter().flatten();
        arms.filter(|arm| **arm != loaded_arm).map(|arm| plan.arms[*arm].name.clone()).collect()
    }

    /// Whether the same arms ran together as in most repeats of the load's step. False for a load
    /// that ran alone.
    fn has_usual_corunners(&self, plan: &Plan, record: &TrialRecord) -> bool {
        let began = load_start(plan, record);
        let loads = record.load.concurrent_loads.map_or(1, |loads| loads as usize);
        let has_usual_arms = |usual: &BTreeSet<usize>| {
            loads == usual.len()
                && self.arms_by_start.get(&began).is_none_or(|arms| arms.is_subset(usual))
        };
        let (load_point, ..) = began;
        loads > 1 && self.usual.get(&load_point).is_none_or(has_usual_arms)
    }
}

/// Returns the mean number of CPUs that a trial's server used within its window.
fn cpus_used(plan: &Plan, record: &TrialRecord) -> Option<f64> {
    let planned = &plan.trials[record.trial];
    let party = plan.launches[planned.launch].party_of(planned.arm)?;
    server_use(&record.load, party, &AllowedCpus::any(1.0)).cpus
}

/// Returns the step, the block and the start of a load. Loads for which they are equal ran
/// together.
fn load_start(plan: &Plan, record: &TrialRecord) -> LoadStart {
    let planned = &plan.trials[record.trial];
    let block = plan.launches[planned.launch].block;
    ((planned.workload, planned.step), block, record.load.began_ns)
}

/// Divides the measured window into pieces of whole intervals. A shorter remainder is omitted.
fn pieces(record: &LoadRecord) -> Vec<(u64, u64)> {
    let mut pieces = Vec::new();
    let (mut from_ns, _) = record.window_ns;
    for interval in measured_intervals(record, record.window_ns) {
        if interval.end_ns.saturating_sub(from_ns) >= PIECE_NS {
            pieces.push((from_ns, interval.end_ns));
            from_ns = interval.end_ns;
        }
    }
    pieces
}

/// Removes caveats about waiting. They do not apply to a duet, whose times are not compared.
pub(crate) fn without_wait_caveats(mut caveats: Vec<Caveat>) -> Vec<Caveat> {
    caveats.retain(|caveat| !caveat.code.has(CodeProperty::AboutWaiting));
    caveats
}

/// Returns the caveat of a trial that ran, or should have run, at the same time as others.
pub(crate) fn duet_caveat(duet: &DuetResult) -> Caveat {
    let (severity, message) = match (duet.loads, duet.planned) {
        (1, planned) => (
            Severity::Invalid,
            format!(
                "This server was loaded alone. The plan was to load it at the same time as {}. \
                 Other loads change the cost of a request, so this repeat is not comparable with \
                 other repeats. Run the suite again.",
                other_servers_text(planned)
            ),
        ),
        (loads, planned) if !duet.is_usual => (
            Severity::Invalid,
            format!(
                "{loads} of {planned} servers were loaded at the same time. In most repeats of \
                 this step, a different set of servers was loaded. The cost of a request depends \
                 on the other loads, so this repeat is not comparable with the other repeats. Run \
                 the suite again."
            ),
        ),
        (loads, planned) => (
            Severity::Info,
            format!(
                "This server was loaded at the same time as {}{} on the same CPUs. CPU time per \
                 request and other costs are compared. Throughput and response times are not \
                 compared, because they include the wait for the other servers. To compare \
                 throughput and response times, use `order = \"interleaved\"`.",
                other_servers_text(loads),
                if loads < planned {
                    format!(" (of {} planned)", planned - 1)
                } else {
                    String::new()
                }
            ),
        ),
    };
    Caveat::new(Code::CONCURRENT_LOADS, severity, message, json!({"loads": duet.loads}))
}

/// Returns the caveat of a duet whose CPUs are idle at times and whose server's threads wake up
/// often. `None`: the CPUs were busy, or wake-ups were rare.
///
/// A wake-up costs more on an idle CPU, and the other server's load decides which server finds the
/// CPU idle. In one measurement, a server with 6 µs more work per request appeared 30 % cheaper.
pub(crate) fn idle_cpus_caveat(duet: &DuetResult, server: &ServerUse) -> Option<Caveat> {
    /// The CPUs are busy if at least this share of them is in use.
    const FULL_SHARE: f64 = 0.9;
    /// Wake-ups are a part of a request's cost if it has at least this many context switches.
    const MIN_SWITCHES: f64 = 0.2;
    let allowed = Some(server.cpu_allowed_s? / server.window_s).filter(|cpus| *cpus > 0.0)?;
    // Without CPU time there is nothing to compare.
    server.cpu_us_per_request?;
    let (used, switches) =
        (duet.cpus.map(|cpus| cpus / allowed), server.per_request.context_switches);
    let is_comparable = used.is_some_and(|used| used >= FULL_SHARE)
        || switches.is_some_and(|switches| switches < MIN_SWITCHES);
    (duet.loads > 1 && !is_comparable).then(|| {
        let used_text =
            used.map_or("an unknown part".into(), |used| format!("{:.0} %", 100.0 * used));
        let switches_text =
            switches.map_or("an unknown number of".into(), |switches| format!("{switches:.2}"));
        let message = format!(
            "The servers that were loaded at the same time used {used_text} of their CPUs. This \
             server made {switches_text} context switches per request. Waking a thread costs more \
             on an idle CPU. Whether the CPU is idle depends on the loads of the other servers, so \
             CPU time per request is not comparable. Use more connections, or `order = \
             \"interleaved\"`."
        );
        Caveat::new(
            Code::IDLE_DUET,
            Severity::Invalid,
            message,
            json!({"used": used, "switches": switches}),
        )
    })
}

/// Returns text such as `2 other servers`. `loads`: number of loads, including this one.
fn other_servers_text(loads: u32) -> String {
    plural(loads.saturating_sub(1).into(), "other server")
}

/// Returns the limiter of a trial. `alone`: the limiter without regard to other loads. Loads that
/// ran at the same time limit each other, so their limiter is unknown, except if the trial failed.
pub(crate) fn limiter(duet: Option<&DuetResult>, alone: Limiter) -> Limiter {
    let failures = [Resource::Failure, Resource::Refusal, Resource::DroppedPackets];
    let has_failed = failures.contains(&alone.resource);
    let Some(duet) = duet.filter(|duet| !has_failed && duet.loads > 1) else { return alone };
    let sentence = format!(
        "Not determined: this server was loaded at the same time as {} on the same CPUs, so the \
         servers limited each other.",
        other_servers_text(duet.loads)
    );
    Limiter::new(Resource::Unknown, Confidence::Low, sentence, json!({"loads": duet.loads}))
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::{ArmSharing, Subject};
    use dyno_model::run::Run;
    use dyno_model::sample::{CgroupUse, PartyUse};
    use dyno_model::{Interval, Phase, Sample};

    use super::*;
    use crate::fixture;

    const MS: u64 = 1_000_000;

    /// Returns a record with 1 s of warm-up and 2 s of window. Each interval of 200 ms has 10
    /// responses and `cpu_ns` of CPU time, and a sample at each edge.
    fn record(cpu_ns: u64) -> LoadRecord {
        let interval = |k: u64| {
            let phase = if k < 5 { Phase::Warmup } else { Phase::Measured };
            let mut interval = Interval::new(phase, k * 200 * MS, (k + 1) * 200 * MS);
            (0..10).for_each(|_| interval.outcomes.count(dyno_model::outcome::Outcome::Ok));
            interval
        };
        let sample = |k: u64| {
            let group = CgroupUse { cpu_ns: Some(k * cpu_ns), ..CgroupUse::default() };
            let used = PartyUse { cgroup: Some(group), ..PartyUse::empty(Party::SUBJECT) };
            Sample { at_ns: 7 + k * 200 * MS, parties: vec![used], ..Sample::default() }
        };
        LoadRecord {
            began_ns: 7,
            window_ns: (1000 * MS, 3000 * MS),
            concurrent_loads: Some(2),
            intervals: (0..15).map(interval).collect(),
            samples: (0..16).map(sample).collect(),
            ..fixture::record(0)
        }
    }

    /// Returns a run of three servers. In each block, the listed servers were loaded at the same
    /// time.
    fn run(blocks: &[&[usize]]) -> Run {
        let named = |name: &str| Subject { name: name.into(), ..Subject::default() };
        let mut run =
            fixture::blocks_of(["a", "b", "c"].map(named).into(), blocks.len() as u32, |_, _| 1);
        run.header.plan.sharing = ArmSharing::from_duet([0, 1, 2].into());
        let trials = run.trials.into_iter().filter_map(|trial| {
            let (arm, block) = (trial.trial % 3, trial.trial / 3);
            let loads = blocks[block].len() as u32;
            let load = LoadRecord {
                concurrent_loads: Some(loads),
                began_ns: block as u64,
                ..record(50_000)
            };
            blocks[block].contains(&arm).then_some(TrialRecord { load, ..trial })
        });
        run.trials = trials.collect();
        run
    }

    fn duets(run: &Run) -> Vec<DuetResult> {
        let plan = &run.header.plan;
        let co_runners = CoRunners::new(plan, &run.trials);
        let duet_result = |trial| DuetResult::new(plan, trial, Party::SUBJECT, &co_runners);
        run.trials.iter().filter_map(duet_result).collect()
    }

    fn severity(duet: &DuetResult) -> Severity {
        duet_caveat(duet).severity
    }

    #[test]
    fn duet_window_has_pieces_of_whole_intervals() {
        let mut run = run(&[&[0, 1, 2], &[0, 1, 2]]);
        let duet = &duets(&run)[3];
        // Three intervals of 200 ms are the fewest with half a second. The last interval remains.
        let costs: Vec<_> = duet.rounds.iter().map(|round| round.cpu_us_per_request).collect();
        assert_eq!((duet.loads, duet.planned, duet.began_ns, costs), (3, 3, 1, vec![Some(5.0); 3]));
        assert!(duet.is_usual && duet.rounds.iter().all(|round| round.throughput_rps.is_none()));
        run.trials[0].load.concurrent_loads = None;
        assert_eq!(duets(&run).len(), 5, "a load that ran alone does not belong to a duet");
    }

    #[test]
    fn duet_with_other_loads_is_invalid() {
        let all: &[usize] = &[0, 1, 2];
        // The third server was loaded only in the second block. The others are not comparable
        // there.
        let pair = duets(&run(&[&[0, 1], all, &[0, 1]]));
        let is_usual: Vec<bool> = pair.iter().map(|duet| duet.is_usual).collect();
        assert_eq!(is_usual, [true, true, false, false, false, true, true]);
        assert_eq!(severity(&pair[0]), Severity::Info);
        assert!(duet_caveat(&pair[0]).message.contains("1 other server (of 2 planned)"));
        assert_eq!(severity(&pair[2]), Severity::Invalid);
        // The same number of loads, but not of the same servers.
        let other = duets(&run(&[&[0, 1], &[0, 2], &[0, 1]]));
        assert_eq!(other.iter().map(severity).filter(|s| *s == Severity::Invalid).count(), 2);
        // A load alone is not a duet, even if it is the most frequent case.
        assert!(
            duets(&run(&[&[0], &[0], &[1]])).iter().all(|duet| severity(duet) == Severity::Invalid)
        );
        // One record is lost. The others are unchanged.
        let mut lost = run(&[all, all]);
        lost.trials.remove(0);
        assert!(duets(&lost).iter().all(|duet| duet.is_usual));
        // During the run, each trial is reported before the other trials exist.
        lost.trials.truncate(1);
        assert_eq!(severity(&duets(&lost)[0]), Severity::Info);
    }

    #[test]
    fn duet_without_valid_repeats_is_reported() {
        let report = crate::report::report(&run(&[[0, 1].as_slice(); 5]));
        let effect_of_c = report.duets.iter().find(|effect| effect.to == "c").expect("an effect");
        let sentences: Vec<&str> =
            effect_of_c.answers.iter().map(|answer| &*answer.sentence).collect();
        let expected = "5 of 5 repeats of B are excluded";
        assert!(sentences.len() == 1 && sentences[0].contains(expected), "{sentences:?}");
    }

    #[test]
    fn repeat_alone_is_out_of_turn() {
        let mut run = run(&[&[0, 1, 2], &[0, 1, 2]]);
        for trial in &mut run.trials {
            let turns = (trial.trial != 4).then(|| vec![(0, 100 * MS)]);
            trial.load =
                LoadRecord { concurrent_loads: None, slices_ns: turns, ..trial.load.clone() };
        }
        let trials_out_of_turn = |run: &Run| -> Vec<usize> {
            let co_runners = CoRunners::new(&run.header.plan, &run.trials);
            let is_alone =
                |record: &&TrialRecord| co_runners.is_out_of_turn(&run.header.plan, record);
            run.trials.iter().filter(is_alone).map(|record| record.trial).collect()
        };
        assert_eq!(trials_out_of_turn(&run), [4]);
        // If a cell never took turns, all its repeats are comparable.
        run.trials.retain(|record| record.trial != 1);
        assert_eq!(trials_out_of_turn(&run), [0; 0]);
    }
}
