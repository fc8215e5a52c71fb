//! Compares two profiles: finds the functions with more or less CPU time per response.

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::profile::ProfileRecord;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Flame, Function, Node, SampleCounts, SampleKind, Tree, lines};

/// Result of comparing a profile with another one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Difference")]
pub struct ProfileDifference {
    /// The first profile, with `levels`.
    pub flame: Flame,
    /// Time per response in the first profile, microseconds. Lost samples are assumed to be like
    /// the others.
    pub here_us: f64,
    /// Time per response in the other profile.
    pub there_us: f64,
    /// Significant differences, the largest first.
    pub changes: Vec<FunctionChange>,
}

/// A function's own time in two profiles, in microseconds per response.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Change")]
pub struct FunctionChange {
    pub function: Function,
    pub here_us: f64,
    pub there_us: f64,
    pub difference_us: f64,
}

/// Largest number of functions with a reported difference.
const MAX_CHANGES: usize = 30;

/// Time per response that one sample of each of two profiles represents.
#[derive(Clone, Copy)]
struct Scale {
    here_us: f64,
    there_us: f64,
}

impl Scale {
    /// Computes the scale of two profiles. `None`: one profile has no response or no sample, or the
    /// samples are of waiting threads. One long wait has many samples, so the noise of the number
    /// of samples is unknown.
    fn from_profiles(
        here: &ProfileRecord,
        there: &ProfileRecord,
        kind: SampleKind,
    ) -> Option<Scale> {
        if kind == SampleKind::Waiting {
            return None;
        }
        let us_per_sample = |p: &ProfileRecord| {
            let stacks = kind.stacks(p);
            let samples: u64 = stacks.stacks.iter().map(|s| s.samples).sum();
            if p.responses == 0 || samples == 0 {
                return None;
            }
            // Lost samples are assumed to be like the others, so each sample stands for more time.
            let lost_factor = 1.0 + stacks.lost as f64 / samples as f64;
            Some(lost_factor * stacks.period_ns as f64 / 1e3 / p.responses as f64)
        };
        Some(Scale { here_us: us_per_sample(here)?, there_us: us_per_sample(there)? })
    }

    /// Returns the difference in time per response; `None`: the difference is within three standard
    /// errors.
    ///
    /// The number of samples has a Poisson distribution, so its variance is the number itself. One
    /// is added, because small numbers are uncertain. The factor is three, because some of the
    /// hundreds of calls in a graph exceed two standard errors by chance.
    fn difference(self, here: u64, there: u64) -> Option<f64> {
        let (here, there) = (here as f64, there as f64);
        let difference = here * self.here_us - there * self.there_us;
        let error =
            ((here + 1.0) * self.here_us.powi(2) + (there + 1.0) * self.there_us.powi(2)).sqrt();
        (difference.abs() > 3.0 * error).then_some(difference)
    }
}

/// Compares a profile with another one; `None`: they have no scale (see `Scale::from_profiles`).
#[must_use]
pub fn difference(
    here: &ProfileRecord,
    there: &ProfileRecord,
    kind: SampleKind,
) -> Option<ProfileDifference> {
    let scale = Scale::from_profiles(here, there, kind)?;
    let flame = Flame::from_profiles(&[here], kind)?;
    let mut tree = Tree::default();
    lines(here, kind).iter().for_each(|line| tree.add(line, |calls| &mut calls.samples));
    // Empties the counts, so that the next loop counts only the other profile.
    let here_counts = std::mem::take(&mut tree.sample_counts);
    lines(there, kind).iter().for_each(|line| tree.add(line, |calls| &mut calls.other_samples));
    let total_there_us = tree.root.other_samples as f64 * scale.there_us;
    let level = |(node, there): (Node, u64)| {
        let share = scale.difference(node.samples, there).unwrap_or(0.0) / total_there_us;
        let size = LEVELS.iter().filter(|threshold| share.abs() > **threshold).count() as i8;
        if share < 0.0 { -size } else { size }
    };
    let levels = tree.visible_calls(flame.samples).map(level).collect();
    let indices: BTreeSet<u32> =
        here_counts.keys().chain(tree.sample_counts.keys()).copied().collect();
    let own_samples = |counts: &BTreeMap<u32, SampleCounts>, index: u32| {
        counts.get(&index).map_or(0, |counts| counts.own)
    };
    let change = |index: u32| {
        let (here, there) =
            (own_samples(&here_counts, index), own_samples(&tree.sample_counts, index));
        Some(FunctionChange {
            function: tree.functions[index as usize].clone(),
            here_us: here as f64 * scale.here_us,
            there_us: there as f64 * scale.there_us,
            difference_us: scale.difference(here, there)?,
        })
    };
    let mut changes: Vec<FunctionChange> = indices.into_iter().filter_map(change).collect();
    changes.sort_by(|a, b| b.difference_us.abs().total_cmp(&a.difference_us.abs()));
    changes.truncate(MAX_CHANGES);
    Some(ProfileDifference {
        flame: Flame { levels: Some(levels), ..flame },
        here_us: flame.samples as f64 * scale.here_us,
        there_us: total_there_us,
        changes,
    })
}

/// Thresholds of the levels: differences as shares of all time in the other profile.
const LEVELS: [f64; 3] = [0.0, 0.02, 0.1];
