//! Warms a start up until its server is steady, before its first trial. A cold server is slower,
//! because its caches are empty and its code may not be compiled yet.
//!
//! All workloads of the start take turns, so that a just-in-time compiler sees all of them before
//! the first trial. A turn is a load of several slices, because opening its connections may take
//! longer than one slice (a full accept queue costs a second). Turns are closed loops at the step
//! at which subjects are compared. If a warm-up used a heavier step, a server that does not survive
//! this step would fail before its other steps are measured. [`dyno_analysis::steady_state`]
//! decides whether the server is steady.

use std::collections::BTreeMap;

use dyno_analysis::overview::reference_step;
use dyno_analysis::server::UseBetweenSamples;
use dyno_analysis::steady_state::{self, WarmUpState};
use dyno_model::plan::{Load, Plan, Trial, UntilSteady};
use dyno_model::start::{Failure, FailureKind, PartStart, WarmUp, WarmUpEnd, WarmUpSlice};
use dyno_model::{Interval, LoadRecord, Outcomes, Party, Phase};
use dyno_suite::limits::{REST, TURN_SETTLE_NS, TURN_SLICES, WARMUP_TURN_MAX_NS};
use dyno_suite::warm_up::{distinct_workloads, first_slice_ns};

use super::failure_cause::{harness, interrupted_failure};
use super::host::{Host, Launched, Part};
use super::{RunEvent, Runner};
use crate::limits::{MIN_SLICE_RESPONSES, SLICE_MAX_NS, STOP_CHECK_INTERVAL};
use crate::load;
use crate::load_at;

/// The load that one workload has in each of its turns.
struct Turn {
    workload: usize,
    step: usize,
    spec: load::LoadSpec,
}

/// Reason for an early end of a warm-up.
enum WarmUpAbort {
    Interrupted,
    Failed(Failure),
}

impl<H: Host> Runner<'_, H> {
    /// Warms a start up, if the plan requires it, and records the warm-up. `Err`: the start has to
    /// be ended.
    pub(super) fn warm_up(
        &mut self,
        launch: usize,
        record: &mut PartStart,
        launched: &mut Launched<'_, H::Part>,
        pending: &[usize],
    ) -> Result<(), Failure> {
        let Some(until) = self.plan.load.until_steady else { return Ok(()) };
        let turns = turns(self.plan, pending, launched).map_err(harness)?;
        if turns.is_empty() {
            return Ok(());
        }
        // The clock is read before the first load, because the reported length includes the gaps
        // between loads.
        let began_ns = self.host.now_ns();
        let mut warmup = WarmUp {
            took_ns: 0,
            ended: WarmUpEnd::CutShort,
            correct_responses: 0,
            failures: BTreeMap::new(),
            slices: Vec::new(),
        };
        let ended = self.take_turns(launch, launched, &turns, &mut warmup, until);
        warmup.took_ns = self.host.now_ns() - began_ns;
        let failed = match ended {
            Ok(ended) => {
                warmup.ended = ended;
                Ok(())
            }
            Err(WarmUpAbort::Interrupted) => Err(interrupted_failure()),
            Err(WarmUpAbort::Failed(failure)) => Err(failure),
        };
        record.warmup = Some(warmup);
        failed
    }

    /// Loads the server in turns, round by round, until it is steady or the limit is reached.
    fn take_turns(
        &mut self,
        launch: usize,
        launched: &mut Launched<'_, H::Part>,
        turns: &[Turn],
        WarmUp { correct_responses, failures, slices, .. }: &mut WarmUp,
        until: UntilSteady,
    ) -> Result<WarmUpEnd, WarmUpAbort> {
        let mut slice_ns = first_slice_ns(turns.len() as u64);
        let mut slices_per_turn = TURN_SLICES;
        // Origin of the slices' times.
        let began_ns = self.host.now_ns();
        loop {
            let round = slices.iter().map(|s| s.round + 1).max().unwrap_or(0);
            for turn in turns {
                let record = self.load_turn(launched, turn, slice_ns, slices_per_turn)?;
                *correct_responses +=
                    record.intervals.iter().map(Interval::correct_responses).sum::<u64>();
                let failed = failed_requests(&record);
                if failed > 0 {
                    *failures.entry(turn.workload).or_default() += failed;
                }
                for slice in warm_up_slices(&record, turn, round, began_ns) {
                    (self.on_event)(RunEvent::Warming { launch, slice: &slice });
                    slices.push(slice);
                }
            }
            let has_compiled = |slice: &WarmUpSlice| slice.jit_ns.is_some_and(|ns| ns > 0);
            if slices.iter().any(|slice| slice.round >= round && has_compiled(slice)) {
                self.rest()?;
            }
            match steady_state::assess_warm_up(&steady_state::group_by_round(slices)) {
                WarmUpState::Steady => return Ok(WarmUpEnd::Steady),
                WarmUpState::Unanswered => return Ok(WarmUpEnd::Unanswered),
                _ => {}
            }
            // The clock is read after each round of turns, to decide whether there is time for
            // another round.
            if self.host.now_ns() - began_ns >= until.limit_ns {
                return Ok(WarmUpEnd::Limit);
            }
            // Slices with few responses are too noisy to compare, so the next slices are longer.
            let fewest_responses =
                slices.iter().filter(|s| s.round >= round).map(|s| s.responses).min();
            if fewest_responses.is_some_and(|n| n < MIN_SLICE_RESPONSES) {
                slice_ns = (slice_ns * 2).min(SLICE_MAX_NS);
            }
            slices_per_turn = (slices_per_turn * 2).min(WARMUP_TURN_MAX_NS / slice_ns);
        }
    }

    /// Pauses the load after the server's compilers were busy. The compilers share the CPUs with
    /// the server's other threads, and can finish while the other threads are idle.
    fn rest(&self) -> Result<(), WarmUpAbort> {
        let mut remaining_rest = REST;
        while !remaining_rest.is_zero() {
            if self.interrupts.count() > 0 {
                return Err(WarmUpAbort::Interrupted);
            }
            let nap = remaining_rest.min(STOP_CHECK_INTERVAL);
            self.host.rest(nap);
            remaining_rest -= nap;
        }
        Ok(())
    }

    /// Loads the server for one turn of a workload. Checks a server that does not respond.
    fn load_turn(
        &mut self,
        launched: &mut Launched<'_, H::Part>,
        turn: &Turn,
        slice_ns: u64,
        slices: u64,
    ) -> Result<LoadRecord, WarmUpAbort> {
        let load = Load {
            duration_ns: slices * slice_ns,
            interval_ns: slice_ns,
            ..turn.spec.load.clone()
        };
        let spec = load::LoadSpec { load, ..turn.spec.clone() };
        let loaded = self.host.load(&spec, launched);
        let mut record = loaded.map_err(|message| WarmUpAbort::Failed(harness(message)))?;
        // An interrupt after the last response does not set `cut_short`.
        if record.cut_short || self.interrupts.count() > 0 {
            return Err(WarmUpAbort::Interrupted);
        }
        if record.server_failure.is_some()
            || measured_intervals(&record).all(|i| i.responses() == 0)
        {
            // The server may be alive, and only slow.
            let drops = self.host.watch_drops();
            launched.after_load(&mut record, drops).map_err(warming_failure)?;
        }
        Ok(record)
    }
}

fn warming_failure(failure: Failure) -> WarmUpAbort {
    let Failure { kind, message } = failure;
    if kind == FailureKind::Interrupted {
        return WarmUpAbort::Interrupted;
    }
    WarmUpAbort::Failed(Failure { kind, message: format!("during its warm-up: {message}") })
}

/// Returns the trial of a workload at the step at which subjects are compared. Only trials of the
/// list are considered. `None`: no trial of the list has the workload.
pub(super) fn reference_trial(plan: &Plan, trials: &[usize], workload: usize) -> Option<usize> {
    let own_trials = || trials.iter().copied().filter(|t| plan.trials[*t].workload == workload);
    let mut steps: Vec<usize> = own_trials().map(|t| plan.trials[t].step).collect();
    steps.sort_unstable();
    let step = (!steps.is_empty()).then(|| reference_step(&plan.load.steps, &steps))?;
    own_trials().find(|t| plan.trials[*t].step == step)
}

/// Returns the turns of the workloads whose trials are still to be run.
fn turns<P: Part>(
    plan: &Plan,
    pending: &[usize],
    launched: &Launched<'_, P>,
) -> Result<Vec<Turn>, String> {
    let trials: Vec<&Trial> = pending.iter().map(|t| &plan.trials[*t]).collect();
    let turn = |workload: usize| {
        let trial =
            reference_trial(plan, pending, workload).expect("each workload should have a trial");
        let step = plan.trials[trial].step;
        let listener = launched.listener(&plan.workloads[workload])?;
        let spec = load_at::trial(listener, plan, trial)?;
        Ok(Turn { workload, step, spec: warming_spec(spec) })
    };
    distinct_workloads(&trials).into_iter().map(turn).collect()
}

/// Returns the load of a warm-up at a step. Its random numbers differ from the random numbers of
/// the trial.
fn warming_spec(spec: load::LoadSpec) -> load::LoadSpec {
    let busy = spec.to_busy_loop();
    load::LoadSpec {
        seed: !busy.seed,
        load: Load { warmup_ns: TURN_SETTLE_NS, ..busy.load },
        ..busy
    }
}

/// Returns the results of a turn's slices. Each slice is a round of the workload. The first slice
/// has the number `round`, and the following slices have the following numbers.
fn warm_up_slices(
    record: &LoadRecord,
    turn: &Turn,
    round: usize,
    began_ns: u64,
) -> Vec<WarmUpSlice> {
    let since_ns = |at_ns: u64| (record.began_ns + at_ns).saturating_sub(began_ns);
    let nearest = |at_ns: u64| {
        record.samples.iter().min_by_key(|s| s.at_ns.abs_diff(record.began_ns + at_ns))
    };
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    let slice = |(i, interval): (usize, &Interval)| {
        let edges = nearest(interval.start_ns).zip(nearest(interval.end_ns));
        let used = edges
            .and_then(|(first, last)| UseBetweenSamples::from_samples(Party::SUBJECT, first, last));
        let used = used.filter(|used| used.seconds > 0.0);
        WarmUpSlice {
            round: round + i,
            workload: turn.workload,
            step: turn.step,
            start_ns: since_ns(interval.start_ns),
            end_ns: since_ns(interval.end_ns),
            responses: interval.responses(),
            correct_responses: interval.correct_responses(),
            cpu_ns: used.and_then(|used| used.cpu_s).map(ns),
            jit_ns: used.and_then(|used| used.jit_s).map(ns),
            observed_ns: used.map_or(0, |used| ns(used.seconds)),
        }
    };
    measured_intervals(record).enumerate().map(slice).collect()
}

/// Returns the number of requests of a turn without a correct response, including requests that
/// ended before the first slice or after the last slice.
fn failed_requests(record: &LoadRecord) -> u64 {
    let outcomes = record.intervals.iter().flat_map(|i| [&i.outcomes, &i.carried]);
    outcomes.flat_map(Outcomes::not_ok).map(|(_, n)| n).sum()
}

fn measured_intervals(record: &LoadRecord) -> impl Iterator<Item = &Interval> {
    record.intervals.iter().filter(|i| i.phase == Phase::Measured)
}
