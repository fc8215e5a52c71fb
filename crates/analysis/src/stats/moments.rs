//! Computes the moments of the logarithms of values.

/// Inputs of Student's t.
pub(super) struct Moments {
    pub(super) n: f64,
    pub(super) mean: f64,
    pub(super) variance: f64,
}

impl Moments {
    /// Computes the moments of the logarithms of values. `None`: fewer values than `min_count`, or
    /// a value is not a positive number.
    pub(super) fn from_values(min_count: usize, values: &[f64]) -> Option<Moments> {
        let are_positive = values.iter().all(|value| value.is_finite() && *value > 0.0);
        if values.len() < min_count || !are_positive {
            return None;
        }
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Some(Moments { n, mean, variance })
    }
}
