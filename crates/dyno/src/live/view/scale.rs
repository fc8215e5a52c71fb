//! Computes axes with round ticks, for times on a logarithmic scale, for seconds and for rates.

use dyno_report::format::number;

use super::numbers::trim_zeros;
use crate::live::model::widen;

/// Minimum ratio between the ends of the axis of response times, so that noise does not fill it.
const MIN_RATIO: f64 = 4.0;

/// Round times in seconds, for the distance between ticks and the length of an axis.
pub(super) const ROUND_S: [f64; 20] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0,
    7200.0, 14_400.0, 28_800.0, 86_400.0, 604_800.0,
];

/// A logarithmic axis of times in microseconds.
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Scale {
    /// Returns the smallest scale that contains all values.
    pub(super) fn from_values(values: impl Iterator<Item = f64>) -> Option<Scale> {
        let (low, high) = values.fold(None, |range: Option<(f64, f64)>, v| match range {
            Some((low, high)) => Some((low.min(v), high.max(v))),
            None => Some((v, v)),
        })?;
        let (low, high) = widen(low, high, MIN_RATIO);
        Some(Scale { low, high })
    }

    /// Returns the position of a time on the axis, 0 to 1.
    pub(super) fn share(&self, us: f64) -> f64 {
        ((us / self.low).ln() / (self.high / self.low).ln()).clamp(0.0, 1.0)
    }

    /// Returns the ticks of an axis of `cells` cells as (cell, microseconds). The decades come
    /// first. Then numbers between the decades are added, the roundest first. Numbers that are
    /// equally round are added only if all ticks stay at least `gap` cells apart.
    pub(super) fn ticks(&self, cells: u16, gap: u16) -> Vec<(u16, f64)> {
        let mut ticks: Vec<(u16, f64)> = Vec::new();
        for digits in [&[1.0][..], &[2.0, 5.0], &[3.0], &[1.5, 7.0]] {
            let candidates: Vec<_> =
                self.round_values(digits).map(|us| (self.cell(us, cells), us)).collect();
            let is_apart = |(a, _): &(u16, f64), (b, _): &(u16, f64)| a.abs_diff(*b) >= gap;
            let all_fit = candidates.iter().all(|c| ticks.iter().all(|t| is_apart(t, c)))
                && candidates.windows(2).all(|pair| is_apart(&pair[0], &pair[1]));
            if all_fit {
                ticks.extend(candidates);
            } else if ticks.is_empty() {
                // Even the roundest numbers are too many for the axis.
                ticks = candidates.into_iter().step_by(3).collect();
            }
        }
        ticks
    }

    fn round_values(&self, digits: &[f64]) -> impl Iterator<Item = f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let candidates = decades.flat_map(|e| digits.iter().map(move |d| d * 10f64.powi(e)));
        candidates.filter(|us| (self.low..=self.high).contains(us))
    }

    fn cell(&self, us: f64, cells: u16) -> u16 {
        ((self.share(us) * f64::from(cells)) as u16).min(cells.saturating_sub(1))
    }
}

/// Returns the ticks of a time axis of `width` columns and `span_s` seconds: (column, label).
pub(super) fn time_ticks(span_s: f64, width: u16) -> Vec<(u16, String)> {
    const MIN_COLUMNS_APART: f64 = 10.0;
    let columns_per_s = f64::from(width) / span_s;
    let is_wide_enough = |step: &f64| step * columns_per_s >= MIN_COLUMNS_APART;
    let step = ROUND_S.into_iter().find(is_wide_enough).unwrap_or(span_s);
    let label = |s: f64| {
        if s == 0.0 {
            "0".into()
        } else if step < 60.0 {
            format!("{} s", trim_zeros(&number(s)))
        } else if step < 3600.0 {
            format!("{} min", s / 60.0)
        } else {
            format!("{} h", trim_zeros(&number(s / 3600.0)))
        }
    };
    // Rounding must not remove the tick at the end of the axis.
    let last_tick = (span_s / step + 1e-9) as u16;
    let ticks = (0..=last_tick).map(|i| f64::from(i) * step);
    ticks.map(|s| ((s * columns_per_s).round() as u16, label(s))).collect()
}

/// Returns the smallest of 1, 2 and 5 times a power of ten that is at least `x`, which is positive.
pub(super) fn nice_step(x: f64) -> f64 {
    let unit = 10f64.powf(x.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|m| m * unit).find(|step| *step >= x).unwrap_or(10.0 * unit)
}

#[cfg(test)]
mod tests {
    use super::super::numbers::{rate_label, time_label};
    use super::*;

    #[test]
    fn axes_have_round_ticks() {
        let labels = |low, high, cells| {
            let ticks = Scale { low, high }.ticks(cells, 2).into_iter();
            ticks.map(|(cell, us)| format!("{cell} {}", time_label(us))).collect::<Vec<_>>()
        };
        assert_eq!(labels(90.0, 11_000.0, 5), ["0 100 µs", "2 1 ms", "4 10 ms"]);
        assert_eq!(labels(0.5, 2.0, 10), ["5 1 µs", "0 500 ns", "9 2 µs", "2 700 ns", "7 1.5 µs"]);
        let times: Vec<_> = time_ticks(300.0, 60).into_iter().map(|(_, label)| label).collect();
        assert_eq!(times, ["0", "1 min", "2 min", "3 min", "4 min", "5 min"]);
        assert_eq!(
            [0.7, 1.0, 120_000.0, 60_401.0].map(nice_step),
            [1.0, 1.0, 200_000.0, 100_000.0]
        );
        assert_eq!(
            [8.0, 250_000.0, 1.2e6, 2e15].map(rate_label),
            ["8", "250,000", "1.2 M", "2e15"]
        );
    }
}
