//! Tests whether values rise or fall over the repeats of a run. A trend shows a drift of the
//! machine.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use super::{ALPHA, REPEATS_FOR_INTERVAL};

/// A trend over repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Ratio of the last repeat to the first repeat, by the least-squares line through the
    /// logarithms of all values.
    pub ratio: f64,
    /// 95 % interval of the ratio.
    pub low: f64,
    pub high: f64,
    /// Chance of a slope at least as steep if there is none: 0 to 1, two-sided (Student's t of the
    /// slope).
    pub p: f64,
}

impl Trend {
    /// Estimates the trend of values in the order of their repeats. `None`: fewer than five values,
    /// or a value is not a positive number.
    #[must_use]
    pub fn from_values(values: &[f64]) -> Option<Trend> {
        let are_positive = values.iter().all(|value| value.is_finite() && *value > 0.0);
        if values.len() < REPEATS_FOR_INTERVAL || !are_positive {
            return None;
        }
        let n = values.len() as f64;
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let mean = logs.iter().sum::<f64>() / n;
        let middle = (n - 1.0) / 2.0;
        let points = || logs.iter().enumerate().map(|(i, log)| (i as f64 - middle, log - mean));
        let spread: f64 = points().map(|(x, _)| x * x).sum();
        let slope = points().map(|(x, y)| x * y).sum::<f64>() / spread;
        let residual_sum: f64 = points().map(|(x, y)| (y - slope * x).powi(2)).sum();
        let error = (residual_sum / (n - 2.0) / spread).sqrt();
        let student =
            StudentsT::new(0.0, 1.0, n - 2.0).expect("the degrees of freedom should be positive");
        let half_width = student.inverse_cdf(1.0 - ALPHA / 2.0) * error;
        let p = match error {
            0.0 if slope == 0.0 => 1.0,
            error => 2.0 * student.cdf(-(slope / error).abs()),
        };
        let ratio_over_series = |slope: f64| (slope * (n - 1.0)).exp();
        Some(Trend {
            ratio: ratio_over_series(slope),
            low: ratio_over_series(slope - half_width),
            high: ratio_over_series(slope + half_width),
            p,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::draws::Normal;

    #[test]
    fn trend_has_stated_false_alarm_rate() {
        for n in [5, 8, 20] {
            let mut normal = Normal(n as u64);
            let alarms = (0..4000)
                .filter(|_| Trend::from_values(&normal.values(n, 100.0, 0.05)).unwrap().p < ALPHA)
                .count();
            assert!((140..=260).contains(&alarms), "{n}: {alarms} of 4000");
        }
    }

    #[test]
    fn trend_ratio_is_last_over_first() {
        let rising: Vec<f64> = (0..6).map(|i| 100.0 * 1.02f64.powi(i)).collect();
        let trend = Trend::from_values(&rising).unwrap();
        assert!((trend.ratio - 1.02f64.powi(5)).abs() < 1e-9 && trend.p < 1e-6, "{trend:?}");
        let mut normal = Normal(7);
        let noisy: Vec<f64> =
            rising.iter().map(|value| value * normal.values(1, 1.0, 0.005)[0]).collect();
        let trend = Trend::from_values(&noisy).unwrap();
        assert!(trend.low < 1.104 && 1.104 < trend.high && trend.low > 1.0, "{trend:?}");
        assert_eq!(Trend::from_values(&[1.0; 5]).unwrap().p, 1.0);
        assert_eq!(
            (Trend::from_values(&[1.0; 4]), Trend::from_values(&[1.0, 1.0, 0.0, 1.0, 1.0])),
            (None, None)
        );
    }
}
