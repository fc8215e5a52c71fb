//! Types of a whole run and of its header, which is known when the run begins.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::ids::RunId;
use crate::plan::Plan;
use crate::profile::ProfileRecord;
use crate::resumption::Resumption;
use crate::search::SearchRecord;
use crate::start::FailureKind;
use crate::{Facts, LoadRecord, StartRecord, TrialRecord};

/// Version of the format of a run's folder. The version is incremented with every change that older
/// versions of dyno cannot read.
pub const SCHEMA: &str = "dyno.run/1";

/// A whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub header: RunHeader,
    /// Starts in order of their numbers.
    pub starts: Vec<StartRecord>,
    /// Trials in order of their indices in the plan. Trials that have not run are absent.
    pub trials: Vec<TrialRecord>,
    /// First measurements of trials that were re-run, by index in the plan. No result uses them.
    pub contaminated: Vec<TrialRecord>,
    /// Profiles in order of the indices of their trials.
    pub profiles: Vec<ProfileRecord>,
    /// Searches in order of the indices of the trials that they followed.
    pub searches: Vec<SearchRecord>,
}

impl Run {
    /// Returns the start whose server was loaded in a trial; `None`: its record is lost.
    #[must_use]
    pub fn start_of(&self, trial: &TrialRecord) -> Option<&StartRecord> {
        self.starts.iter().find(|start| start.start == trial.start)
    }

    /// Returns the trials that a resumed run measures again unless they show a fault of the server,
    /// for one of two reasons:
    ///
    /// - A back end or the machine failed during the load.
    /// - The start lacks the final check of its contract, so it is unknown whether the server was
    ///   still correct.
    ///
    /// Trials of launches whose subject failed are omitted, because a failed subject is not started
    /// again.
    #[must_use]
    pub fn unchecked_trials(&self) -> Vec<usize> {
        let has_failed = |start: &&StartRecord| {
            start.failure.as_ref().is_some_and(|failure| failure.kind.is_caused_by_subject())
        };
        let failed: BTreeSet<usize> =
            self.starts.iter().filter(has_failed).map(|start| start.launch).collect();
        let starts: BTreeMap<usize, &StartRecord> =
            self.starts.iter().map(|start| (start.start, start)).collect();
        let is_unchecked = |trial: &&TrialRecord| {
            starts.get(&trial.start).is_some_and(|start| {
                let is_suspect = start.lacks_final_check() || has_other_failure(&trial.load);
                is_suspect && !failed.contains(&start.launch)
            })
        };
        self.trials.iter().filter(is_unchecked).map(|trial| trial.trial).collect()
    }

    /// Returns the number of the part of the run in which a start took place: 0 before the first
    /// resumption.
    #[must_use]
    pub fn part_of(&self, start: usize) -> usize {
        self.header.resumptions.iter().filter(|part| part.from_start <= start).count()
    }

    /// Returns the facts of the machine on which a start took place, by the number of the start.
    #[must_use]
    pub fn facts_at(&self, start: usize) -> &Facts {
        let mut parts = self.header.resumptions.iter().rev();
        parts.find(|part| part.from_start <= start).map_or(&self.header.facts, |part| &part.facts)
    }

    /// Returns the starts that have a trial.
    pub fn starts_with_trials(&self) -> impl Iterator<Item = &StartRecord> {
        let numbers: BTreeSet<usize> = self.trials.iter().map(|trial| trial.start).collect();
        self.starts.iter().filter(move |start| numbers.contains(&start.start))
    }

    /// Returns the blocks (passes over all arms) with trials in several parts of the run. These
    /// trials may lie hours apart, in another order than planned.
    #[must_use]
    pub fn interrupted_blocks(&self) -> BTreeSet<u32> {
        let launches = &self.header.plan.launches;
        let mut parts: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
        for start in self.starts_with_trials() {
            let block = launches[start.launch].block;
            parts.entry(block).or_default().insert(self.part_of(start.start));
        }
        let interrupted = parts.into_iter().filter(|(_, parts)| parts.len() > 1);
        interrupted.map(|(block, _)| block).collect()
    }

    /// Returns the resumptions in which a start took place: the parts of the run after the first.
    #[must_use]
    pub fn later_parts(&self) -> Vec<&Resumption> {
        let resumptions = &self.header.resumptions;
        // A part ends where the next part begins. The last part has no end.
        let ends = resumptions.iter().skip(1).map(|next| next.from_start).chain([usize::MAX]);
        let has_starts = |from: usize, to: usize| {
            let starts_of_trials = self.trials.iter().map(|trial| trial.start);
            let mut numbers = self.starts.iter().map(|start| start.start).chain(starts_of_trials);
            numbers.any(|start| (from..to).contains(&start))
        };
        let parts = resumptions.iter().zip(ends);
        let started = parts.filter(|(part, end)| has_starts(part.from_start, *end));
        started.map(|(part, _)| part).collect()
    }
}

/// Facts that are known when the run begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    pub schema: String,
    /// Name of the run, unique on this machine.
    pub id: String,
    pub run_id: RunId,
    /// Start of the run, RFC 3339 in UTC.
    pub started: String,
    /// Command line of the run.
    pub command: Vec<String>,
    pub plan: Plan,
    pub facts: Facts,
    /// Resumptions after interruptions.
    pub resumptions: Vec<Resumption>,
}

/// Whether a load ended with a failure that the subject did not cause.
fn has_other_failure(load: &LoadRecord) -> bool {
    let is_about = |words: &str| {
        FailureKind::NOT_CAUSED_BY_SUBJECT.into_iter().any(|kind| kind.is_prefix_of(words))
    };
    load.server_failure.as_deref().is_some_and(is_about)
}
