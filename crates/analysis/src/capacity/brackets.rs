//! Finds the two planned rates of a suite between which each server stops meeting the objective.
//! The capacity lies between them.
//!
//! Repeats vote per rate, because a single repeat may be wrong by chance.

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::plan::{Objective, Plan};
use schemars::JsonSchema;
use serde::Serialize;

use super::Votes;
use super::failures::{FailureCounts, FailureShares};
use super::objective::{ObjectiveVerdict, evaluate};
use crate::cell::{CellKey, Shape};
use crate::grid::{Cell, Grid};
use crate::subject::{SubjectFailure, SubjectResult};
use crate::trial::TrialResult;

/// The rates between which an arm stops meeting the objective with a workload, over one kind of
/// connection. Most repeats of a rate decide about it, because one may be wrong by chance.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Bracket {
    pub subject: String,
    pub workload: String,
    /// Connections and requests in flight, without a rate. Planned rates of all passes are
    /// combined.
    #[serde(flatten)]
    pub shape: Shape,
    /// Highest rate at which most repeats met the objective, below the first decided rate at which
    /// they did not; requests per second. `None`: no such rate.
    pub kept_rps: Option<f64>,
    /// The lowest rate at which most repeats missed the objective. `None`: no such rate.
    pub missed_rps: Option<f64>,
    /// Whether the generator could not offer `missed_rps`, so that the generator may be the limit
    /// instead of the server.
    pub limited_by_generator: bool,
    /// Whether most repeats or searches missed the objective because of incorrect or missing
    /// responses that are not shown to be rarer at lower rates. If so, no rate is known.
    pub failures_at_any_rate: bool,
    /// Votes at each planned rate. Empty: rates were searched.
    pub rates: Vec<RateVotes>,
    /// Counts of the searches that chose the rates. If rates were searched, the bounds are medians
    /// over starts. `None`: rates were planned.
    pub searched: Option<SearchCounts>,
    /// For each repeat, the highest rate that it met, below all rates that it missed. 0: the repeat
    /// missed all rates. Undecided repeats are excluded.
    pub by_repeat_rps: Vec<f64>,
    /// 95 % interval of `by_repeat_rps`. `None`: fewer than five repeats.
    pub interval_rps: Option<(f64, f64)>,
}

/// Searches, one at each start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Searched")]
pub struct SearchCounts {
    /// Starts with a search.
    pub starts: usize,
    /// Starts that failed before their search. In the medians, they count as starts that met the
    /// objective at no rate.
    pub failed_starts: usize,
    /// Starts whose searches found incorrect or missing responses at low rates, too, so that no
    /// rate is known. If these are at most half of the starts, they count in the medians as starts
    /// that met the objective at no rate.
    pub failing_starts: usize,
    pub loads: usize,
    /// Searches that ended with bounds as close as requested.
    pub settled: usize,
    /// Searches whose rate a longer load confirmed.
    pub confirmed: usize,
    /// Searches whose missed rate the generator could not offer.
    pub limited_by_generator: usize,
    /// Seconds for which every search met the objective at the rate that it found: the minimum over
    /// the searches of their longest such load. `None`: no search found a rate.
    pub holds_s: Option<f64>,
}

/// Verdicts of the objective on the repeats at a rate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RateVotes {
    pub rate_rps: f64,
    pub kept: Votes,
    /// The missed or unknown condition of the first repeat that did not meet the objective.
    pub missed: Option<String>,
}

/// Repeats at one rate: the verdict on each repeat, and the requests of all repeats together.
#[derive(Default)]
struct Repeats {
    by_block: Vec<(u32, ObjectiveVerdict)>,
    counts: FailureCounts,
}

impl Repeats {
    /// Returns the number of repeats that met the objective.
    fn kept_count(&self) -> usize {
        self.by_block.iter().filter(|(_, verdict)| *verdict == ObjectiveVerdict::Kept).count()
    }

    /// Number of repeats that were long enough to decide.
    fn decided_count(&self) -> usize {
        self.by_block
            .iter()
            .filter(|(_, verdict)| !matches!(verdict, ObjectiveVerdict::TooShort(_)))
            .count()
    }

    /// Whether more than half of the decided repeats met the objective.
    fn is_kept(&self) -> bool {
        2 * self.kept_count() > self.decided_count()
    }

    /// Whether fewer than half of the decided repeats met the objective. With exactly half, the
    /// rate is neither kept nor missed.
    fn is_missed(&self) -> bool {
        2 * self.kept_count() < self.decided_count()
    }

    /// Returns the verdicts of the repeats for the result.
    fn votes(&self, rate_rps: f64) -> RateVotes {
        let missed = self.by_block.iter().find_map(|(_, verdict)| match verdict {
            ObjectiveVerdict::Missed(message)
            | ObjectiveVerdict::Failed(message)
            | ObjectiveVerdict::NotStarted(message)
            | ObjectiveVerdict::TooShort(message)
            | ObjectiveVerdict::GeneratorMissed(message) => Some(message.clone()),
            ObjectiveVerdict::Kept => None,
        });
        RateVotes {
            rate_rps,
            kept: Votes { agree: self.kept_count(), loads: self.decided_count() },
            missed,
        }
    }
}

/// Returns the bracket of each arm, workload and connection count with open loops at constant
/// rates. Empty: the plan has no objective.
#[must_use]
pub fn brackets(plan: &Plan, subjects: &[SubjectResult], grid: &Grid<'_>) -> Vec<Bracket> {
    let Some(objective) = &plan.report.objective else { return Vec::new() };
    // By arm, workload, connections, streams and pipeline: each rate with its repeats.
    let mut rates_by_cell: BTreeMap<(usize, usize, u32, u32, u32), Vec<(f64, Repeats)>> =
        BTreeMap::new();
    // Planned cells are used instead of cells with trials, because failed starts without any trial
    // have votes, too.
    for key in CellKey::planned(plan) {
        let shape = Shape::from_step(&plan.load.steps[key.step]);
        if let Some(rate) = plan.load.steps[key.step].arrivals.rate() {
            let cell_key =
                (key.arm, key.workload, shape.connections, shape.streams, shape.pipeline);
            let rates = rates_by_cell.entry(cell_key).or_default();
            let trials = grid.get(key).map_or(&[][..], Cell::trials);
            let votes = repeats(plan, objective, (key, &subjects[key.arm]), trials);
            // Several steps may have the same rate.
            match rates.iter_mut().find(|(known, _): &&mut (f64, Repeats)| *known == rate) {
                Some((_, known)) => {
                    known.counts = FailureCounts::sum([known.counts, votes.counts].into_iter());
                    known.by_block.extend(votes.by_block);
                }
                None if votes.by_block.is_empty() => {}
                None => rates.push((rate, votes)),
            }
        }
    }
    rates_by_cell
        .into_iter()
        .filter(|(_, rates)| !rates.is_empty())
        .map(|((arm, workload, connections, streams, pipeline), mut rates)| {
            rates.sort_by(|a, b| a.0.total_cmp(&b.0));
            let names = (plan.arms[arm].name.clone(), plan.workloads[workload].name.clone());
            let shape = Shape::closed_loop(connections, streams, pipeline);
            Bracket { shape, ..bracket(names, &rates) }
        })
        .collect()
}

/// Returns the votes of a cell's trials and of the starts that failed before their trial, and the
/// counts of requests that failed because of the server.
fn repeats(
    plan: &Plan,
    objective: &Objective,
    (key, subject): (CellKey, &SubjectResult),
    trials: &[&TrialResult],
) -> Repeats {
    // A repeat that is invalid for a cause outside of the server has no vote. The server did not
    // cause the failed requests of such a repeat.
    let votes: Vec<(&TrialResult, ObjectiveVerdict)> = trials
        .iter()
        .filter(|trial| !trial.has_outside_cause())
        .map(|trial| (*trial, evaluate(objective, &trial.load)))
        .collect();
    let counts = |(trial, _): &(&TrialResult, ObjectiveVerdict)| {
        FailureCounts::new(trial.load.error_share(), trial.load.exchanges.due() as f64)
    };
    let is_servers = |(_, verdict): &&(&TrialResult, ObjectiveVerdict)| {
        !matches!(verdict, ObjectiveVerdict::GeneratorMissed(_))
    };
    let counts = FailureCounts::sum(votes.iter().filter(is_servers).map(counts));
    // A repeat that met the objective has a vote only if the repeat is valid. An invalid repeat may
    // be of a server that was still warming up.
    let by_block = votes
        .into_iter()
        .filter(|(trial, verdict)| trial.valid || *verdict != ObjectiveVerdict::Kept)
        .map(|(trial, verdict)| (trial.block, verdict))
        .chain(
            failed_starts(plan, subject, key, |block| {
                trials.iter().any(|trial| trial.block == block)
            })
            .map(start_failure_vote),
        )
        .collect();
    Repeats { by_block, counts }
}

/// Returns the vote of a start that failed before a load: the server missed the objective at the
/// rate of this load.
fn start_failure_vote((block, failure): (u32, &SubjectFailure)) -> (u32, ObjectiveVerdict) {
    (block, ObjectiveVerdict::NotStarted(failure.failure.in_words()))
}

/// Returns the starts of an arm that failed before a load of this cell, such as starts that failed
/// during the load at a lower rate, each with its block. `has_load`: whether the start of a block
/// had a load of this cell. A start that failed in that load or later is not returned, because the
/// load has a vote.
pub(super) fn failed_starts<'a>(
    plan: &Plan,
    subject: &'a SubjectResult,
    key: CellKey,
    has_load: impl Fn(u32) -> bool,
) -> impl Iterator<Item = (u32, &'a SubjectFailure)> {
    let protocol = plan.workloads[key.workload].protocol;
    let is_lost = |failure: &&SubjectFailure| {
        failure.is_servers_fault()
            && failure.protocol.is_none_or(|failed_protocol| failed_protocol == protocol)
    };
    let lost = subject.failures.iter().filter(is_lost);
    // Repeat 0 is a failed build. A resumed launch has several starts, and one vote.
    let by_block: BTreeMap<u32, &SubjectFailure> = lost
        .filter(|failure| failure.repeat > 0 && !has_load(failure.repeat))
        .map(|failure| (failure.repeat, failure))
        .collect();
    by_block.into_iter()
}

/// Returns the bracket of a server's rates, sorted from low to high. `subject`, `workload`: names.
/// The caller sets the connections, streams and pipeline.
fn bracket((subject, workload): (String, String), rates: &[(f64, Repeats)]) -> Bracket {
    let missed_index = rates.iter().position(|(_, repeats)| repeats.is_missed());
    // A rate whose loads were all too short does not count.
    let is_not_kept =
        |(_, repeats): &(f64, Repeats)| repeats.decided_count() > 0 && !repeats.is_kept();
    let first_not_kept = rates.iter().position(is_not_kept).unwrap_or(rates.len());
    let kept_index = rates[..first_not_kept].iter().rposition(|(_, repeats)| repeats.is_kept());
    let is_missed_by_generator = |repeats: &Repeats| {
        let by_generator = |(_, verdict): &&(u32, ObjectiveVerdict)| {
            matches!(verdict, ObjectiveVerdict::GeneratorMissed(_))
        };
        let missed = repeats.decided_count() - repeats.kept_count();
        2 * repeats.by_block.iter().filter(by_generator).count() > missed
    };
    let at_any_rate =
        missed_index.is_some_and(|missed| fails_at_any_rate(rates, kept_index, missed));
    let (kept_index, missed_index) =
        if at_any_rate { (None, None) } else { (kept_index, missed_index) };
    let by_repeat: Vec<f64> = match at_any_rate {
        true => Vec::new(),
        false => {
            blocks(rates).into_iter().filter_map(|block| highest_kept_rate(rates, block)).collect()
        }
    };
    Bracket {
        subject,
        workload,
        shape: Shape::closed_loop(0, 0, 0),
        kept_rps: kept_index.map(|index| rates[index].0),
        missed_rps: missed_index.map(|index| rates[index].0),
        limited_by_generator: missed_index
            .is_some_and(|index| is_missed_by_generator(&rates[index].1)),
        failures_at_any_rate: at_any_rate,
        rates: rates.iter().map(|(rate, repeats)| repeats.votes(*rate)).collect(),
        searched: None,
        interval_rps: crate::stats::Repeated::new(by_repeat.clone()).interval,
        by_repeat_rps: by_repeat,
    }
}

/// Whether the objective was missed because of incorrect or missing responses that occur at any
/// rate. Both of these conditions must be true:
///
/// - At the rate `missed_index`, most repeats that missed the objective did so because of incorrect
///   or missing responses.
/// - The share of such responses is not significantly lower at the rates up to `kept_index` than at
///   the rates from `missed_index` on.
fn fails_at_any_rate(
    rates: &[(f64, Repeats)],
    kept_index: Option<usize>,
    missed_index: usize,
) -> bool {
    let by_block = &rates[missed_index].1.by_block;
    let by_failures = by_block
        .iter()
        .filter(|(_, verdict)| matches!(verdict, ObjectiveVerdict::Failed(_)))
        .count();
    let others =
        rates[missed_index].1.decided_count() - rates[missed_index].1.kept_count() - by_failures;
    // If no rate was kept, the rates up to the missed rate are compared with those above it.
    let last_below = kept_index.unwrap_or(missed_index);
    let first_above = if kept_index.is_some() { missed_index } else { missed_index + 1 };
    let counts = |rates: &[(f64, Repeats)]| {
        FailureCounts::sum(rates.iter().map(|(_, repeats)| repeats.counts))
    };
    let shares = FailureShares::new(counts(&rates[..=last_below]), counts(&rates[first_above..]));
    by_failures > others && shares.are_at_any_rate()
}

/// Returns the blocks that have votes at all rates.
fn blocks(rates: &[(f64, Repeats)]) -> Vec<u32> {
    let has_block = |block: u32| {
        rates
            .iter()
            .all(|(_, repeats)| repeats.by_block.iter().any(|(vote_block, _)| *vote_block == block))
    };
    let first = rates.first().map(|(_, repeats)| &repeats.by_block[..]).unwrap_or_default();
    let candidates: BTreeSet<u32> = first.iter().map(|(block, _)| *block).collect();
    candidates.into_iter().filter(|block| has_block(*block)).collect()
}

/// Returns the highest rate at which one repeat met the objective, below all rates that it missed.
/// `None`: a load was too short to decide, or the generator could not offer a rate.
fn highest_kept_rate(rates: &[(f64, Repeats)], block: u32) -> Option<f64> {
    let is_unknown = |(vote_block, verdict): &(u32, ObjectiveVerdict)| {
        *vote_block == block
            && matches!(
                verdict,
                ObjectiveVerdict::TooShort(_) | ObjectiveVerdict::GeneratorMissed(_)
            )
    };
    if rates.iter().any(|(_, repeats)| repeats.by_block.iter().any(is_unknown)) {
        return None;
    }
    let is_kept = |(_, repeats): &&(f64, Repeats)| {
        repeats
            .by_block
            .iter()
            .filter(|(vote_block, _)| *vote_block == block)
            .all(|(_, verdict)| *verdict == ObjectiveVerdict::Kept)
    };
    Some(rates.iter().take_while(is_kept).last().map_or(0.0, |(rate, _)| *rate))
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::{Arrivals, Subject};
    use dyno_model::run::Run;
    use dyno_model::start::{Failure, FailureKind};
    use dyno_model::times::Recording;
    use dyno_model::{Protocol, StartRecord, TrialRecord, plan};

    use super::*;
    use crate::fixture;

    /// Returns the bracket of rates with the verdicts of their repeats.
    fn bracket_from(rates: &[(f64, &[bool])]) -> Bracket {
        let verdict = |kept: &bool| {
            if *kept { ObjectiveVerdict::Kept } else { ObjectiveVerdict::Missed("p99 9 ms".into()) }
        };
        let repeats = |kept: &[bool]| Repeats {
            by_block: (0..).zip(kept.iter().map(verdict)).collect(),
            ..Repeats::default()
        };
        let rates: Vec<(f64, Repeats)> =
            rates.iter().map(|(rate, kept)| (*rate, repeats(kept))).collect();
        bracket(("a".into(), "w".into()), &rates)
    }

    const YES: bool = true;
    const NO: bool = false;

    #[test]
    fn rate_is_decided_by_most_of_its_repeats() {
        let found = bracket_from(&[
            (100.0, &[YES, YES, YES, YES, YES]),
            (200.0, &[YES, NO, YES, YES, YES]),
            (300.0, &[YES, NO, NO, YES, NO]),
            // The objective is met by chance, above a missed rate.
            (400.0, &[YES, NO, YES, YES, NO]),
        ]);
        assert_eq!((found.kept_rps, found.missed_rps), (Some(200.0), Some(300.0)));
        assert_eq!(found.by_repeat_rps, [400.0, 100.0, 200.0, 400.0, 200.0]);
        assert_eq!(found.interval_rps, Some((100.0, 400.0)));
        assert_eq!((found.rates[1].kept.agree, found.rates[1].kept.loads), (4, 5));
        assert_eq!(found.rates[1].missed.as_deref(), Some("p99 9 ms"));
    }

    #[test]
    fn failures_decide_rate_only_if_they_depend_on_it() {
        let rate = |verdict: ObjectiveVerdict, rate_rps: f64, failed: f64| {
            let by_block = (0..3).map(|block| (block, verdict.clone())).collect();
            (
                rate_rps,
                Repeats { by_block, counts: FailureCounts { failed, requests: 3.0 * rate_rps } },
            )
        };
        let bracket_of = |failed_below: f64, failed_above: f64| {
            let rates = [
                rate(ObjectiveVerdict::Kept, 1000.0, failed_below),
                rate(ObjectiveVerdict::Failed("wrong".into()), 2000.0, failed_above),
            ];
            bracket(("a".into(), "w".into()), &rates)
        };
        // One incorrect response of 1,500 at both rates, and a server that rejects requests above
        // 1,900/s.
        let everywhere = bracket_of(2.0, 4.0);
        assert_eq!((everywhere.kept_rps, everywhere.missed_rps), (None, None));
        assert!(everywhere.failures_at_any_rate && everywhere.by_repeat_rps.is_empty());
        let above = bracket_of(0.0, 300.0);
        assert_eq!((above.kept_rps, above.missed_rps), (Some(1000.0), Some(2000.0)));
        assert!(!above.failures_at_any_rate);
        // Without requests at another rate, failures are not known to be independent of it.
        let alone = [rate(ObjectiveVerdict::Failed("503".into()), 2000.0, 900.0)];
        let alone = bracket(("a".into(), "w".into()), &alone);
        assert_eq!((alone.missed_rps, alone.failures_at_any_rate), (Some(2000.0), false));
        // Loads that are too short do not decide about a rate.
        let short = [
            rate(ObjectiveVerdict::Kept, 1000.0, 0.0),
            rate(ObjectiveVerdict::TooShort("p99".into()), 2000.0, 0.0),
        ];
        let short = bracket(("a".into(), "w".into()), &short);
        assert_eq!((short.kept_rps, short.missed_rps), (Some(1000.0), None));
        assert_eq!((short.rates[1].kept.loads, short.by_repeat_rps.len()), (0, 0));
        assert_eq!(short.rates[1].missed.as_deref(), Some("p99"));
    }

    /// Loads of a low rate have too few requests for the percentile.
    #[test]
    fn kept_rate_above_too_short_rate_is_found() {
        let rate = |rate: f64, verdict: ObjectiveVerdict| {
            let by_block = (0..5).map(|block| (block, verdict.clone())).collect();
            (rate, Repeats { by_block, counts: FailureCounts::default() })
        };
        let short = || ObjectiveVerdict::TooShort("too few".into());
        let found = |rates: &[(f64, Repeats)]| {
            let found = bracket(("a".into(), "w".into()), rates);
            (found.kept_rps, found.missed_rps)
        };
        assert_eq!(
            found(&[rate(300.0, short()), rate(4000.0, ObjectiveVerdict::Kept)]),
            (Some(4000.0), None)
        );
        assert_eq!(
            found(&[rate(300.0, ObjectiveVerdict::Kept), rate(4000.0, short())]),
            (Some(300.0), None)
        );
        assert_eq!(found(&[rate(300.0, short())]), (None, None));
        let missed = ObjectiveVerdict::Missed("p99".into());
        assert_eq!(found(&[rate(300.0, short()), rate(4000.0, missed)]), (None, Some(4000.0)));
    }

    /// Five starts of a server at 1,000/s, which all meet the objective.
    fn five_starts() -> Run {
        let server = Subject { name: "a".into(), title: "a".into(), ..Subject::default() };
        let mut run = fixture::blocks_of(vec![server], 5, |_, _| 1000);
        run.header.plan.load.steps = vec![fixture::step(Arrivals::Constant { rate: 1000.0 })];
        let objective = super::super::parse_objective("errors<1%", &|_| Err(String::new()));
        run.header.plan.report.objective = Some(objective.unwrap());
        run
    }

    fn kept_rates(run: &Run) -> (Option<f64>, Vec<(u64, u64)>) {
        let found = crate::report::report(run).brackets.remove(0);
        let votes = |rate: &RateVotes| (rate.kept.agree as u64, rate.kept.loads as u64);
        (found.kept_rps, found.rates.iter().map(votes).collect())
    }

    #[test]
    fn starts_that_failed_before_any_load_keep_no_rate() {
        let mut run = five_starts();
        assert_eq!(kept_rates(&run), (Some(1000.0), vec![(5, 5)]));
        run.trials.retain(|trial| trial.trial >= 3);
        assert_eq!(kept_rates(&run), (Some(1000.0), vec![(2, 2)]), "the others did not run");
        let failed = |kind: FailureKind| {
            let mut run = run.clone();
            let failure = Failure { kind, message: "it ended".into() };
            run.starts.extend((0..3).map(|launch| StartRecord {
                start: launch,
                launch,
                failure: Some(failure.clone()),
                ..StartRecord::default()
            }));
            kept_rates(&run)
        };
        assert_eq!(failed(FailureKind::NeverReady), (None, vec![(2, 5)]));
        assert_eq!(failed(FailureKind::Harness), (Some(1000.0), vec![(2, 2)]));
    }

    /// Tests all combinations of failed starts.
    #[test]
    fn each_failed_start_has_one_vote_at_each_rate() {
        for lost in 0..1 << 5 {
            let mut run = five_starts();
            let is_lost = |launch: usize| lost & (1 << launch) != 0;
            run.trials.retain(|trial| !is_lost(trial.trial));
            let message = "it ended".into();
            let failure = Failure { kind: FailureKind::NeverReady, message };
            run.starts.extend((0..5).map(|launch| StartRecord {
                start: launch,
                launch,
                failure: is_lost(launch).then(|| failure.clone()),
                ..StartRecord::default()
            }));
            let valid = run.trials.len() as u64;
            let rate = (valid >= 3).then_some(1000.0);
            assert_eq!(kept_rates(&run), (rate, vec![(valid, 5)]), "lost: {lost:b}");
            let found = crate::report::report(&run).brackets.remove(0);
            let missed = (valid < 3).then_some(1000.0);
            assert_eq!((found.missed_rps, found.failures_at_any_rate), (missed, false));
        }
    }

    /// Trials at 2,000 requests per second follow the trials of [`five_starts`].
    fn five_starts_at_two_rates() -> Run {
        let mut run = five_starts();
        let plan = &mut run.header.plan;
        plan.load.steps.push(fixture::step(Arrivals::Constant { rate: 2000.0 }));
        for launch in 0..5 {
            plan.trials.push(plan::Trial { step: 1, ..plan.trials[launch] });
            let record = TrialRecord { trial: 5 + launch, ..run.trials[launch].clone() };
            run.trials.push(record);
        }
        run
    }

    /// Two servers of five end at the lower rate, so their starts have no load at the higher one.
    #[test]
    fn starts_that_ended_at_lower_rate_miss_higher_one() {
        let mut run = five_starts_at_two_rates();
        run.trials.retain(|record| ![5, 6].contains(&record.trial));
        for launch in 0..2 {
            let message: String = "it ended".into();
            run.trials[launch].load.server_failure = Some(message.clone());
            run.starts.push(StartRecord {
                start: launch,
                launch,
                failure: Some(Failure { kind: FailureKind::Crashed, message }),
                ..StartRecord::default()
            });
        }
        let found = crate::report::report(&run).brackets.remove(0);
        let mut by_repeat = found.by_repeat_rps.clone();
        by_repeat.sort_by(f64::total_cmp);
        assert_eq!(by_repeat, [0.0, 0.0, 2000.0, 2000.0, 2000.0], "{found:?}");
        assert_eq!(kept_rates(&run), (Some(2000.0), vec![(3, 5), (3, 5)]));
        // One of the other starts misses the higher rate, so fewer than half of the starts met it.
        let missing = &mut run.trials.last_mut().unwrap().load.intervals[0].outcomes;
        (0..50).for_each(|_| missing.count(dyno_model::Outcome::UnexpectedStatus));
        assert_eq!(kept_rates(&run), (Some(1000.0), vec![(3, 5), (2, 5)]));
    }

    /// The start has trials over another protocol. If it was resumed, it may have an earlier trial
    /// over this one.
    #[test]
    fn start_refused_over_protocol_has_one_vote() {
        let run = five_starts();
        let plan = &run.header.plan;
        let votes = |protocol: Protocol, has_trial: bool| {
            let mut report = crate::report::report(&run);
            report.trials.retain(|trial| has_trial || trial.block != 2);
            let message = "no h2c".into();
            report.subjects[0].failures = vec![SubjectFailure {
                repeat: 2,
                failure: Failure { kind: FailureKind::IncorrectResponses, message },
                protocol: Some(protocol),
                log_of: None,
                log_tail: None,
            }];
            let found = brackets(plan, &report.subjects, &Grid::new(&report.trials)).remove(0);
            (found.rates[0].kept.agree, found.rates[0].kept.loads)
        };
        let protocol = plan.workloads[0].protocol;
        assert_eq!((votes(protocol, false), votes(protocol, true)), ((4, 5), (5, 5)));
        let other = Protocol::H2cUpgrade;
        assert_eq!((votes(other, false), votes(other, true)), ((4, 4), (5, 5)));
    }

    #[test]
    fn repeats_disturbed_by_machine_have_no_vote() {
        let mut run = five_starts();
        for trial in &mut run.trials[..3] {
            let mut lags = Recording::new();
            lags.record(500_000_000);
            trial.load.intervals[0].loop_lag = lags.seal();
            trial.load.intervals[0].outcomes.count(dyno_model::Outcome::UnexpectedStatus);
        }
        assert_eq!(kept_rates(&run), (Some(1000.0), vec![(2, 2)]));
    }

    /// The generator stops in one repeat, on either side of the bracket, and most requests fail.
    #[test]
    fn failures_of_disturbed_repeat_are_no_evidence() {
        let found = |disturbed: usize, failed_below: u64, failed_above: u64| {
            let mut run = five_starts_at_two_rates();
            for (index, trial) in run.trials.iter_mut().enumerate() {
                let interval = &mut trial.load.intervals[0];
                let mut failed = if index < 5 { failed_below } else { failed_above };
                if index == disturbed {
                    failed = 600;
                    let mut lags = Recording::new();
                    lags.record(500_000_000);
                    interval.loop_lag = lags.seal();
                }
                let wrong = dyno_model::Outcome::UnexpectedStatus;
                (0..failed).for_each(|_| interval.outcomes.count(wrong));
            }
            let found = crate::report::report(&run).brackets.remove(0);
            (found.kept_rps, found.missed_rps, found.failures_at_any_rate)
        };
        assert_eq!(found(0, 0, 30), (Some(1000.0), Some(2000.0), false));
        assert_eq!(found(5, 9, 11), (None, None, true));
    }

    /// The generator could not offer the higher rate, so no highest rate of the server is known.
    #[test]
    fn repeats_missed_by_generator_have_no_highest_rate() {
        let rate = |rate: f64, verdict: ObjectiveVerdict| {
            let by_block = (0..5).map(|block| (block, verdict.clone())).collect();
            (rate, Repeats { by_block, counts: FailureCounts::default() })
        };
        let rates = [
            rate(1000.0, ObjectiveVerdict::Kept),
            rate(2000.0, ObjectiveVerdict::GeneratorMissed("it was busy".into())),
        ];
        let found = bracket(("a".into(), "w".into()), &rates);
        assert!(found.limited_by_generator && found.by_repeat_rps.is_empty(), "{found:?}");
        assert_eq!((found.kept_rps, found.interval_rps), (Some(1000.0), None));
    }

    #[test]
    fn bracket_may_lack_kept_or_missed_rate() {
        let kept = bracket_from(&[(100.0, &[YES, YES])]);
        assert_eq!((kept.kept_rps, kept.missed_rps, kept.interval_rps), (Some(100.0), None, None));
        // Half of the repeats are not most of them, whether they kept or missed the objective.
        let half = bracket_from(&[(100.0, &[YES, NO]), (200.0, &[NO, NO])]);
        assert_eq!((half.kept_rps, half.missed_rps), (None, Some(200.0)));
        assert_eq!(half.by_repeat_rps, [100.0, 0.0]);
    }
}
