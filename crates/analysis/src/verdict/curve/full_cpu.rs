//! Doubts full CPUs with all steps of a server, of closed and open loops.

use std::collections::{BTreeMap, BTreeSet};

use crate::trial::TrialResult;
use crate::verdict::limiters::{Confidence, Resource, met_rate};
use crate::verdict::polling::{Polling, highest_utilisation, polling_evidence};
use crate::verdict::thresholds::{SERVER_BUSY, SERVER_IDLE};

/// If two throughputs with full CPUs differ by at least this ratio, the CPU did not limit the lower
/// one. If the CPU had limited both, the work per request would differ by this ratio, which is too
/// much.
const FULL_CPU_RATIO: f64 = 1.5;

/// Sentence about a full CPU of a server that polls, as another step shows.
const POLLS_AT_OTHER_STEP: &str = " Another step shows that this server polls (checks for work \
     when there is none), so its CPU is always full.";

/// Revises the limiter of steps with a full CPU if the server polls, because the CPU of a server
/// that polls is always full.
///
/// - The server polls, as any of its steps shows, and kept up with an offered rate: the rate was
///   the limit. Many idle calls show it only if no step left a quarter of the CPU unused.
/// - The server polls, but did not keep up, or the loop is closed: the confidence that the full CPU
///   was the limit is lowered.
/// - The CPU was also full at a much lower throughput: the confidence is lowered too, because the
///   server may poll, or was cold. A server whose CPU was idle at another step does not poll.
pub(super) fn doubt_full_cpus(trials: &mut [TrialResult]) {
    let key = |t: &TrialResult| (t.cell.arm, t.cell.workload);
    let arms_with = |condition: &dyn Fn(&TrialResult) -> bool| -> BTreeSet<usize> {
        trials.iter().filter(|t| t.valid && condition(t)).map(|t| t.cell.arm).collect()
    };
    let sleeping_arms =
        arms_with(&|t| highest_utilisation(&t.server).is_some_and(|used| used < SERVER_IDLE));
    let polling_arms = arms_with(&|t| match polling_evidence(&t.load, &t.server) {
        // Reads that end with EAGAIN are idle calls too.
        Some(Polling::IdleCalls { .. }) => !sleeping_arms.contains(&t.cell.arm),
        evidence => evidence.is_some(),
    });
    let idle_arms = arms_with(&|t| t.server.cpu_utilisation.is_some_and(|used| used < SERVER_IDLE));
    let is_full = |t: &&TrialResult| {
        t.valid && t.server.cpu_utilisation.is_some_and(|used| used >= SERVER_BUSY)
    };
    // By arm and workload: the lowest and the highest throughput with a full CPU.
    let mut full_cpu_ranges: BTreeMap<(usize, usize), (f64, f64)> = BTreeMap::new();
    for trial in trials.iter().filter(is_full) {
        let rps = trial.load.throughput_rps;
        let (lowest, highest) = full_cpu_ranges.entry(key(trial)).or_insert((rps, rps));
        (*lowest, *highest) = (lowest.min(rps), highest.max(rps));
    }
    let is_cpu_limit = |t: &TrialResult| {
        t.valid && matches!(t.limiter.resource, Resource::ServerCpu | Resource::ServerThread)
    };
    let may_poll = |t: &TrialResult| {
        let is_wide = |(lowest, highest): &(f64, f64)| *highest >= FULL_CPU_RATIO * lowest;
        full_cpu_ranges.get(&key(t)).is_some_and(is_wide) && !idle_arms.contains(&t.cell.arm)
    };
    for trial in trials.iter_mut().filter(|trial| is_cpu_limit(trial)) {
        let polls = polling_arms.contains(&trial.cell.arm);
        if polls
            && let Some(limiter) =
                met_rate(&trial.load, &trial.server, Confidence::Medium, POLLS_AT_OTHER_STEP)
        {
            trial.limiter = limiter;
            continue;
        }
        let is_sure = trial.limiter.confidence == Confidence::High;
        let is_doubtful = is_sure && (polls || may_poll(trial));
        if !is_doubtful {
            continue;
        }
        let doubt = match polls {
            true => POLLS_AT_OTHER_STEP,
            false => {
                " The server's CPU was equally full at throughputs that differ by a factor of 1.5 \
                 or more, so the server may poll (check for work when there is none)."
            }
        };
        trial.limiter = trial.limiter.weaken(Confidence::Medium, doubt);
    }
}
