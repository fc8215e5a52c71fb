//! Computes how much memory a server needs per additional connection and request in flight, from
//! the steps of each repeat.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::stats::Repeated;
use crate::trial::TrialResult;

/// Slopes of a server's memory over the steps of a repeat, one slope per repeat: bytes per
/// additional connection or request. A repeat is one start of the server. Servers seldom release
/// memory, so the order of the steps affects the slopes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct MemorySlopes {
    pub per_connection: Repeated,
    pub per_request_in_flight: Repeated,
}

/// Minimum number of different counts of connections or requests. A line through two points always
/// fits.
const MIN_POINTS: usize = 3;

impl MemorySlopes {
    /// Computes the slopes of the valid trials of one arm.
    #[must_use]
    pub fn new(trials: &[&TrialResult]) -> MemorySlopes {
        let mut by_repeat: BTreeMap<u32, Vec<&TrialResult>> = BTreeMap::new();
        for trial in trials.iter().filter(|t| t.valid) {
            by_repeat.entry(trial.repeat).or_default().push(trial);
        }
        let slopes = |pick: fn(&TrialResult) -> f64| {
            let slope_of_repeat = |trials: &Vec<&TrialResult>| {
                let points = trials
                    .iter()
                    .filter_map(|t| Some((pick(t), t.server.memory_held_bytes? as f64)));
                slope(&points.collect::<Vec<_>>())
            };
            Repeated::new(by_repeat.values().filter_map(slope_of_repeat).collect())
        };
        MemorySlopes {
            per_connection: slopes(|t| f64::from(t.step.shape.connections)),
            per_request_in_flight: slopes(|t| t.load.in_flight.mean),
        }
    }
}

/// Returns the slope of the least-squares line. `None`: too few different points.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let mut distinct_x: Vec<f64> = points.iter().map(|(x, _)| *x).collect();
    distinct_x.sort_by(f64::total_cmp);
    distinct_x.dedup();
    if distinct_x.len() < MIN_POINTS {
        return None;
    }
    let n = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / n;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / n;
    let numerator: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let denominator: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    Some(numerator / denominator)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::five_block_report;

    #[test]
    fn slope_is_that_of_least_squares_line() {
        let line = [(1.0, 1050.0), (8.0, 1400.0), (64.0, 4200.0)];
        assert!((slope(&line).unwrap() - 50.0).abs() < 1e-9);
        assert_eq!(slope(&[(1.0, 1.0), (2.0, 2.0), (2.0, 3.0)]), None);
    }

    #[test]
    fn memory_slopes_have_one_value_per_start() {
        let mut trials: Vec<TrialResult> = five_block_report().trials.into_iter().take(6).collect();
        for (i, trial) in trials.iter_mut().enumerate() {
            let connections = [1, 8, 64][i % 3];
            trial.valid = true;
            trial.repeat = 1 + (i / 3) as u32;
            trial.step.shape.connections = connections;
            trial.server.memory_held_bytes =
                Some(u64::from(connections) * 100 * u64::from(trial.repeat));
        }
        let slopes = MemorySlopes::new(&trials.iter().collect::<Vec<_>>());
        let rounded: Vec<i64> =
            slopes.per_connection.values.iter().map(|s| s.round() as i64).collect();
        assert_eq!(rounded, [100, 200]);
        trials[0].valid = false;
        let fewer = MemorySlopes::new(&trials.iter().collect::<Vec<_>>());
        assert_eq!(fewer.per_connection.values.len(), 1);
    }
}
