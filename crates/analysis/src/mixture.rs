//! Finds steps whose throughput changed between levels, so that the server did not sustain their
//! mean.

use schemars::JsonSchema;
use serde::Serialize;

use crate::caveat::{Code, CodeProperty};
use crate::stats::median;
use crate::trial::TrialResult;

/// Levels of throughput within the measured windows of a step. The server did not sustain their
/// mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Mixture {
    /// Number of repeats in which throughput changed its level.
    pub changed: usize,
    /// Number of valid repeats. If no repeat is valid, the number of repeats that only the
    /// generator limited.
    pub repeats: usize,
    /// Median of the lowest level, over the repeats in which throughput changed its level.
    pub lowest_rps: f64,
    /// Median of the highest level, over the same repeats.
    pub highest_rps: f64,
}

impl Mixture {
    /// Returns the levels of a step's repeats. `None`: the server sustained the median throughput,
    /// because most repeats, including the middle ones, stayed on one level.
    pub fn new<'a>(trials: impl Iterator<Item = &'a TrialResult>) -> Option<Mixture> {
        let mut repeats: Vec<&TrialResult> =
            trials.filter(|trial| trial.valid || trial.is_limited_by_generator()).collect();
        // Repeats that the generator limited are used only if no repeat is valid.
        if repeats.iter().any(|trial| trial.valid) {
            repeats.retain(|trial| trial.valid);
        }
        repeats.sort_by(|a, b| a.load.throughput_rps.total_cmp(&b.load.throughput_rps));
        let changed: Vec<(f64, f64)> = repeats.iter().filter_map(|trial| levels(trial)).collect();
        // The median is the mean of these two repeats. With an odd number of repeats, both indices
        // are the same.
        let middle = [repeats.len().checked_sub(1)? / 2, repeats.len() / 2];
        let has_middle_changed = middle.iter().any(|index| levels(repeats[*index]).is_some());
        if !has_middle_changed && 2 * changed.len() < repeats.len() {
            return None;
        }
        let (lowest, highest): (Vec<f64>, Vec<f64>) = changed.iter().copied().unzip();
        Some(Mixture {
            changed: changed.len(),
            repeats: repeats.len(),
            lowest_rps: median(&lowest)?,
            highest_rps: median(&highest)?,
        })
    }
}

/// Minimum length, as a share of the window, of a stall that counts as a level of 0 responses per
/// second.
const MIN_STALL_SHARE: f64 = 0.1;

/// Returns the lowest and the highest level of a repeat; `None`: its caveats report no levels.
fn levels(trial: &TrialResult) -> Option<(f64, f64)> {
    piece_levels(trial).or_else(|| stall_levels(trial))
}

/// Returns 0 and the throughput outside of stalls, if the trial had a long stall.
fn stall_levels(trial: &TrialResult) -> Option<(f64, f64)> {
    let caveat = trial.caveats.iter().find(|caveat| caveat.code == Code::STALLED)?;
    let number = |key: &str| caveat.evidence[key].as_f64();
    let is_long = number("longest_s")? >= MIN_STALL_SHARE * trial.load.duration_s;
    let share = number("share").filter(|share| is_long && *share < 1.0)?;
    Some((0.0, trial.load.throughput_rps / (1.0 - share)))
}

/// Returns the levels of throughput that the caveats report; `None`: no caveat reports
/// levels.
fn piece_levels(trial: &TrialResult) -> Option<(f64, f64)> {
    let has_levels =
        trial.caveats.iter().any(|caveat| caveat.code.has(CodeProperty::ThroughputLevels));
    let pieces =
        trial.steadiness.as_ref().filter(|_| has_levels)?.pieces.iter().map(|p| p.throughput_rps);
    Some((pieces.clone().reduce(f64::min)?, pieces.reduce(f64::max)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caveat::{Caveat, Code, Severity, info};
    use crate::fixture::five_block_report;
    use crate::window_levels::{Pattern, Piece, Steadiness};

    /// Returns the mixture of repeats with these means, some of which have two levels.
    fn repeats(levels_of_repeats: &[(f64, Option<(f64, f64)>)]) -> Option<Mixture> {
        let trial = five_block_report().trials.remove(0);
        let repeat = |(mean, levels): &(f64, Option<(f64, f64)>)| {
            let mut trial = trial.clone();
            (trial.valid, trial.caveats) = (true, Vec::new());
            trial.load.throughput_rps = *mean;
            if let Some((first, last)) = *levels {
                trial.caveats.push(info(Code::SPEEDUP, "rose"));
                let piece = |throughput_rps| Piece { start_s: 0.0, end_s: 1.0, throughput_rps };
                trial.steadiness = Some(Steadiness {
                    pattern: Pattern::WarmUp,
                    pieces: vec![piece(first), piece(last)],
                    last_to_first: last / first,
                    cost: None,
                    counts_from_s: None,
                    noise: 0.01,
                });
            }
            trial
        };
        let trials: Vec<TrialResult> = levels_of_repeats.iter().map(repeat).collect();
        Mixture::new(trials.iter())
    }

    #[test]
    fn repeat_with_long_stalls_is_mixture() {
        let stall_levels = |share: f64, longest: f64| {
            let mut trial = five_block_report().trials.remove(0);
            (trial.valid, trial.load.throughput_rps) = (true, 750.0);
            let longest_s = longest * trial.load.duration_s;
            let evidence = serde_json::json!({"share": share, "longest_s": longest_s});
            trial.caveats =
                vec![Caveat::new(Code::STALLED, Severity::Warning, "stalled".into(), evidence)];
            let found = Mixture::new([trial].iter());
            found.map(|mixture| (mixture.lowest_rps, mixture.highest_rps))
        };
        assert_eq!(stall_levels(0.5, 0.3), Some((0.0, 1500.0)));
        // Recurring short pauses are a part of a level.
        assert_eq!(stall_levels(0.5, 0.09), None);
    }

    #[test]
    fn median_of_changed_repeats_is_mixture() {
        let jump = |mean| (mean, Some((400.0, 1900.0)));
        let found = repeats(&[jump(1200.0), jump(1300.0), jump(1250.0), (1900.0, None)]).unwrap();
        assert_eq!((found.changed, found.repeats), (3, 4));
        assert_eq!((found.lowest_rps, found.highest_rps), (400.0, 1900.0));
        // Both the middle repeat and the majority changed their level.
        assert!(repeats(&[(400.0, None), jump(1200.0), (1900.0, None)]).is_some());
        assert_eq!(repeats(&[(1880.0, None), jump(1200.0), (1900.0, None)]), None);
        assert_eq!(repeats(&[(1880.0, None), (1900.0, None)]), None);
        assert_eq!(repeats(&[]), None);
    }
}
