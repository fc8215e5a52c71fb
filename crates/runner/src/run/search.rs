//! The search for the highest rate at which a subject keeps the objective, while it is up.

use std::thread;

use dyno_analysis::capacity::{self, Next, Tried};
use dyno_archive::plan::{Load, Step};
use dyno_archive::search::{SearchLoad, SearchRecord};
use dyno_archive::start::Failure;
use dyno_archive::{LoadRecord, StartRecord, TrialRecord};

use super::judge::{harness, interrupted};
use super::up::{Launched, Watched, listener};
use super::warm::Watcher;
use super::{Event, Runner};
use crate::limits::{REST, SEARCH_INTERVALS, SEARCH_WARMUP_NS};
use crate::load;
use crate::load_at;

/// What a search left, and whether its subject still serves.
pub(super) type Searched = (SearchRecord, Result<(), Failure>);

impl Runner<'_> {
    /// Looks for the highest rate that keeps the plan's objective, after a trial in a closed loop. `None`: nothing is looked for. `Err`: the user
    /// ended it.
    pub(super) fn search(
        &mut self,
        after: &TrialRecord,
        start: &StartRecord,
        launched: &mut Launched<'_>,
    ) -> Result<Option<Searched>, Failure> {
        let planned = &self.plan.trials[after.trial];
        let is_closed = self.plan.load.steps[planned.step].arrivals.is_closed();
        let (Some(asked), Some(objective)) = (self.plan.search, &self.plan.report.objective) else {
            return Ok(None);
        };
        if !is_closed {
            return Ok(None);
        }
        let mut search = capacity::begin(self.plan, asked, objective, &after.load);
        let mut record = SearchRecord { trial: after.trial, ..SearchRecord::default() };
        while let Next::Try(rate) = search.next() {
            let loaded = self.load_at_rate(after.trial, (rate, record.loads.len()), launched);
            let (load, served) = match loaded {
                Ok(loaded) => loaded,
                Err(why) => {
                    record.failure = Some(why.clone());
                    return Ok(Some((record, Err(harness(why)))));
                }
            };
            // One that the user cut short says nothing, and the trial is made again with its search.
            if self.interrupts.count() > 0 {
                return Err(interrupted());
            }
            if let Err(failure) = served {
                record.failure = Some(failure.message.clone());
                return Ok(Some((record, Err(failure))));
            }
            let tried = capacity::tried(self.plan, (after.trial, Some(start)), (rate, &load))
                .expect("the plan has a search and an objective");
            (self.on)(Event::Searched { trial: after.trial, tried: &tried });
            search.tell(rate, Tried::of(&tried));
            record.loads.push(SearchLoad { rate, load });
        }
        Ok(Some((record, Ok(()))))
    }

    /// One load, with draws of its own, and whether the subject serves after it. `Err`: it could not begin.
    fn load_at_rate(
        &self,
        trial: usize,
        (rate, number): (f64, usize),
        launched: &mut Launched<'_>,
    ) -> Result<(LoadRecord, Result<(), Failure>), String> {
        let asked = &self.plan.workloads[self.plan.trials[trial].workload];
        let at = listener(&launched.subject.listeners, asked)?;
        let arrivals = self.plan.search.expect("a search is asked for").arrivals(rate);
        let spec = load_at::trial_with(at.listener(), self.plan, trial, &|point| load_at::LoadPoint {
            step: Step { arrivals: arrivals.clone(), ..point.step },
            load: Load {
                warmup_ns: SEARCH_WARMUP_NS,
                interval_ns: point.load.interval_ns.max(point.load.duration_ns / SEARCH_INTERVALS),
                ..point.load
            },
            seed: point.seed.wrapping_add(1 + number as u64),
            ..point
        })?;
        let watched =
            Watched { subject: &mut launched.subject.process, inside: None, backends: launched.backends };
        let mut watcher = Watcher { watched, interrupts: self.interrupts };
        let mut record = load::run(&spec, &mut watcher)?;
        // What was too much for it is still on its way.
        thread::sleep(REST);
        let served = if self.interrupts.count() > 0 {
            Ok(())
        } else {
            launched.after_load(&mut record, &self.supervision())
        };
        Ok((record, served))
    }
}
