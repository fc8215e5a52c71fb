//! Searches for the highest rate at which a subject meets the objective. The search runs in the
//! same start as the trials, so that both measure the same process.

use dyno_analysis::capacity::{self, SearchStep};
use dyno_model::LoadRecord;
use dyno_model::plan::{Load, Step};
use dyno_model::search::{SearchLoad, SearchRecord};
use dyno_model::start::Failure;
use dyno_suite::limits::{REST, SEARCH_WARMUP_NS};

use super::closed_trial::ClosedTrial;
use super::failure_cause::{harness, interrupted_failure};
use super::host::{Host, Launched};
use super::walk::{Start, StartAbort};
use super::{RunEvent, Runner};
use crate::limits::SEARCH_INTERVALS;
use crate::load_at;

/// One load of a search.
#[derive(Clone, Copy)]
struct PlannedLoad {
    rate: f64,
    /// Whether this is the longer load that confirms the result.
    confirms: bool,
    /// Number of preceding loads of the search.
    number: usize,
}

impl<H: Host> Runner<'_, H> {
    /// Makes the searches of a start, after all its trials. A search overloads the server, which
    /// could affect a trial after the search.
    pub(super) fn search_all(&mut self, start: &mut Start<H::Part>) -> Result<(), StartAbort> {
        if start.to_search.is_empty() {
            return Ok(());
        }
        let closed = std::mem::take(&mut start.closed);
        for trial in std::mem::take(&mut start.to_search) {
            // The search begins at a rate that is derived from the trial.
            if let Some(closed) = closed.iter().find(|closed| closed.trial() == trial) {
                self.reset_backends(start)?;
                self.search(closed, start)?;
            }
        }
        Ok(())
    }

    /// Searches for the highest rate that meets the plan's objective, over as many connections as
    /// the closed-loop trial `closed` had. After an interrupt, or a failure that the subject did
    /// not cause, nothing is recorded, and a resumed run repeats the search.
    fn search(
        &mut self,
        closed: &ClosedTrial,
        start: &mut Start<H::Part>,
    ) -> Result<(), StartAbort> {
        let trial = closed.trial();
        let mut record = SearchRecord { trial, ..SearchRecord::default() };
        let Some(mut search) = capacity::begin(closed.measured(self.plan, &self.memory.facts))
        else {
            record.failure = Some(
                "the search did not begin, because the closed-loop load before it got no correct \
                 responses"
                    .into(),
            );
            return self.write_search(&record);
        };
        let mut launched = Launched::new(&mut start.parts);
        loop {
            let (rate, confirms) = match search.next() {
                SearchStep::Try(rate) => (rate, false),
                SearchStep::Confirm(rate) => (rate, true),
                SearchStep::Done(_) => break,
            };
            if confirms {
                self.announce_confirmation(trial, rate);
            }
            let planned = PlannedLoad { rate, confirms, number: record.loads.len() };
            let (load, served) =
                self.load_at_rate(trial, planned, &mut launched).map_err(harness)?;
            // A load that was cut short has no result.
            if self.interrupts.count() > 0 {
                return Err(interrupted_failure().into());
            }
            if let Err(failure) = &served
                && !failure.kind.is_caused_by_subject()
            {
                return Err(failure.clone().into());
            }
            let result = capacity::load_result(
                closed.measured(self.plan, &self.memory.facts),
                (rate, &load),
            );
            let tried = search.take((rate, confirms), &load, result);
            (self.on_event)(RunEvent::Searched { trial, tried: &tried });
            record.loads.push(SearchLoad { rate, load, confirms });
            if let Err(failure) = served {
                record.failure = Some(failure.message.clone());
                self.write_search(&record)?;
                return Err(failure.into());
            }
        }
        self.write_search(&record)
    }

    fn write_search(&mut self, record: &SearchRecord) -> Result<(), StartAbort> {
        self.dir.write_search(record)?;
        self.memory.add_search(record);
        Ok(())
    }

    /// Prints that a longer load confirms the rate, because there is no other output during it.
    fn announce_confirmation(&mut self, trial: usize, rate: f64) {
        let name = &self.plan.arms[self.plan.trials[trial].arm].name;
        let seconds = capacity::confirmation_ns(self.plan.load.duration_ns) as f64 / 1e9;
        let line = format!("confirming {rate:.0} requests/s with a load of {seconds:.0} s");
        (self.on_event)(RunEvent::Printed { name, line: &line });
    }

    /// Runs one load with separate random numbers, and checks that the subject still serves. `Err`:
    /// the load could not begin.
    fn load_at_rate(
        &self,
        trial: usize,
        PlannedLoad { rate, confirms, number }: PlannedLoad,
        launched: &mut Launched<'_, H::Part>,
    ) -> Result<(LoadRecord, Result<(), Failure>), String> {
        let workload = &self.plan.workloads[self.plan.trials[trial].workload];
        let listener = launched.listener(workload)?;
        let arrivals = self.plan.search.expect("the plan should have a search").arrivals(rate);
        let length_ns = |ns: u64| if confirms { capacity::confirmation_ns(ns) } else { ns };
        let spec = load_at::trial_with(listener, self.plan, trial, &|point| {
            load_at::LoadPoint {
                step: Step { arrivals: arrivals.clone(), ..point.step },
                load: Load {
                    warmup_ns: SEARCH_WARMUP_NS,
                    // While connections are being opened, the rate cannot be reached.
                    ramp_connections_ns: None,
                    duration_ns: length_ns(point.load.duration_ns),
                    interval_ns: point
                        .load
                        .interval_ns
                        .max(length_ns(point.load.duration_ns) / SEARCH_INTERVALS),
                    ..point.load
                },
                seed: point.seed.wrapping_add(1 + number as u64),
                ..point
            }
        })?;
        let mut record = self.host.load(&spec, launched)?;
        // After an overload, the server gets time to complete its requests before it is checked.
        self.host.rest(REST);
        let served = if self.interrupts.count() > 0 {
            Ok(())
        } else {
            launched.after_load(&mut record, self.host.watch_drops())
        };
        Ok((record, served))
    }
}
