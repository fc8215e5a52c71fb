//! Detects skewed ratios of pairs, for which intervals that are valid after every repeat are too
//! optimistic, and states this.

use super::PAIRS_TO_TELL_APART;
use super::moments::Moments;
use crate::number_format::list;

/// Skewness, in standard errors, above which values are considered skewed. One of twenty samples of
/// a normal distribution exceeds it.
const MAX_SKEWNESS: f64 = 1.96;

/// Whether the logarithms of ratios are significantly skewed. Intervals that are valid after every
/// repeat assume symmetric values.
///
/// The skewness is divided by its standard error for a normal distribution,
/// √(6(n − 2) / ((n + 1)(n + 3))) (Fisher, "The moments of the distribution for normal samples of
/// measures of departure from normality", 1930).
#[must_use]
pub(super) fn are_skewed(ratios: &[f64]) -> bool {
    let Some(logs) =
        Moments::from_values(PAIRS_TO_TELL_APART, ratios).filter(|logs| logs.variance > 0.0)
    else {
        return false;
    };
    let n = logs.n;
    let variance = logs.variance * (n - 1.0) / n;
    let third = ratios.iter().map(|ratio| (ratio.ln() - logs.mean).powi(3)).sum::<f64>() / n;
    let error = (6.0 * (n - 2.0) / ((n + 1.0) * (n + 3.0))).sqrt();
    (third / variance.powf(1.5)).abs() > MAX_SKEWNESS * error
}

/// Returns the clause on skewed ratios ([`Estimate::is_skewed`](super::Estimate)). `metrics`: names
/// of their metrics; empty: the text before the clause is on one metric.
#[must_use]
pub fn skew_clause(metrics: &[&str]) -> String {
    format!("the {}", statement(metrics))
}

/// Returns [`skew_clause`] as a sentence.
#[must_use]
pub fn skew_sentence(metrics: &[&str]) -> String {
    format!("The {}.", statement(metrics))
}

fn statement(metrics: &[&str]) -> String {
    let names = match metrics {
        [] => "the repeats".into(),
        metrics => list(metrics),
    };
    format!(
        "ratios of {names} are skewed, and intervals assume symmetry, so their confidence is below \
         95 %"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::draws::Normal;
    use crate::stats::{ALPHA, Estimate, Looks};

    const SIMULATIONS: usize = 4000;

    /// Returns the share of simulations in which a condition is true.
    fn share(seed: u64, mut holds: impl FnMut(&mut Normal) -> bool) -> f64 {
        let mut normal = Normal(seed);
        (0..SIMULATIONS).filter(|_| holds(&mut normal)).count() as f64 / SIMULATIONS as f64
    }

    /// With skewed pairs, as in docs/methodology/statistics.md, intervals at every look have too
    /// low a coverage. Most such runs are detected as skewed, and few runs with symmetric pairs
    /// are.
    #[test]
    fn skewed_pairs_break_sequential_intervals_and_are_detected() {
        let skewed_pairs = |normal: &mut Normal| -> Vec<f64> {
            // Logarithms that are log-normal about a mean of 0: one side has rare slow starts.
            (0..40).map(|_| (normal.draw().exp() - 0.5f64.exp()).exp()).collect()
        };
        let is_ever_significant = |ratios: &[f64]| {
            (5..=40)
                .any(|n| Estimate::from_pairs_at(Looks::AfterEach, &ratios[..n]).unwrap().p < ALPHA)
        };
        let alarms = share(60, |normal| is_ever_significant(&skewed_pairs(normal)));
        assert!((0.15..=0.3).contains(&alarms), "{alarms}");
        let detected = share(61, |normal| are_skewed(&skewed_pairs(normal)));
        assert!(detected >= 0.8, "{detected}");
        let symmetric = share(62, |normal| are_skewed(&normal.values(40, 1.1, 0.03)));
        assert!(symmetric <= 0.06, "{symmetric}");
        assert!(!are_skewed(&[1.0; 8]) && !are_skewed(&[1.0, 2.0]));
    }

    #[test]
    fn estimate_at_every_look_of_skewed_pairs_is_skewed() {
        let skewed = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 3.0];
        let estimate = |looks, ratios| Estimate::from_pairs_at(looks, ratios).unwrap();
        assert!(estimate(Looks::AfterEach, &skewed).with_tests(4).is_skewed);
        assert!(!estimate(Looks::AfterEach, &[1.0, 1.1, 1.2, 1.3, 1.4]).is_skewed);
        assert!(!estimate(Looks::AtTheEnd, &skewed).is_skewed);
    }
}
