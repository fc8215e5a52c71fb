//! Numbers as people read them: at most three significant digits, a unit without leading zeros, thousands apart.

use dyno_analysis::load::Percentiles;
use dyno_analysis::load::place::{Place, Unanswered, at_of_due};
use dyno_analysis::metric::Unit;
use dyno_analysis::stats::Repeated;
use dyno_analysis::summary::Summary;
use dyno_archive::Times;

/// Thousands separated by commas.
#[must_use]
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 connection`, `2 connections`.
#[must_use]
pub fn plural(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Three significant digits, thousands separated.
#[must_use]
pub fn number(x: f64) -> String {
    if !x.is_finite() {
        return "–".into();
    }
    if x == 0.0 {
        return "0".into();
    }
    let magnitude = x.abs().log10().floor() as i32;
    let decimals = 2 - magnitude;
    if decimals > 0 {
        // Rounding may carry into the next magnitude: 9.999 is 10.0, which is one digit too many.
        let text = format!("{x:.*}", decimals.min(6) as usize);
        let rounded: f64 = text.parse().unwrap_or(x);
        let carried = rounded.abs().log10().floor() as i32 > magnitude;
        return if carried && decimals > 0 {
            format!("{x:.*}", (decimals - 1).min(6) as usize)
        } else {
            text
        };
    }
    let unit = 10f64.powi(-decimals);
    let rounded = (x / unit).round() * unit;
    let sign = if x < 0.0 { "−" } else { "" };
    format!("{sign}{}", count(rounded.abs() as u64))
}

/// A duration given in microseconds.
#[must_use]
pub fn micros(us: f64) -> String {
    match us.abs() {
        u if u < 1.0 => format!("{} ns", number(us * 1e3)),
        u if u < 999.5 => format!("{} µs", number(us)),
        u if u < 999_500.0 => format!("{} ms", number(us / 1e3)),
        _ => format!("{} s", number(us / 1e6)),
    }
}

/// A duration given in milliseconds.
#[must_use]
pub fn millis(ms: f64) -> String {
    micros(ms * 1e3)
}

/// A duration given in seconds.
#[must_use]
pub fn seconds(s: f64) -> String {
    micros(s * 1e6)
}

/// A percentile of a distribution in which whatever got no right answer ranks above every right answer: its time, or
/// `> 1.20 s (5.9 % not answered)` where it lies among those, or `–` where too few samples lie beyond it.
#[must_use]
pub fn wait(p: &Percentiles, q: f64) -> String {
    match p.place(q) {
        Place::At(us) => micros(us),
        Place::Beyond(unanswered) => beyond(unanswered),
        Place::TooFew => "–".into(),
    }
}

/// [`wait`] while a load runs: however few samples there are.
#[must_use]
pub fn wait_so_far(p: &Percentiles, answers: &Times, q: f64) -> String {
    if p.is_beyond(q) { beyond(p.unanswered()) } else { or_dash(at_of_due(p, answers, q), micros) }
}

/// What stands below a table in which `–` means that there are too few samples.
pub const TOO_FEW: &str = "–: too few samples, because fewer than 20 lie beyond this percentile";

/// What stands below a table in which percentiles lie among what was never answered.
pub const BEYOND: &str = "> …: the percentile lies among requests that got no right answer, and is longer than the longest wait known";

/// Longer than the longest wait known.
#[must_use]
pub fn beyond(of: Unanswered) -> String {
    match of.longest_wait {
        Some(us) => format!("> {} ({} not answered)", micros(us), share(of.share)),
        None => format!("– ({} not answered)", share(of.share)),
    }
}

/// A share in as many digits as say something.
fn share(share: f64) -> String {
    match share * 100.0 {
        p if p >= 9.95 => format!("{p:.0} %"),
        p if p >= 0.1 => format!("{p:.1} %"),
        p => format!("{} %", number(p)),
    }
}

/// The percentiles of response time that steps have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantile {
    P50,
    P90,
    P99,
}

impl Quantile {
    #[must_use]
    pub fn of_step(self, s: &Summary) -> &Repeated {
        match self {
            Quantile::P50 => &s.response_p50_us,
            Quantile::P90 => &s.response_p90_us,
            Quantile::P99 => &s.response_p99_us,
        }
    }

    /// Repeats in which it lies among what was never answered.
    const fn repeats_beyond(self, s: &Summary) -> usize {
        match self {
            Quantile::P50 => s.response_unanswered.p50,
            Quantile::P90 => s.response_unanswered.p90,
            Quantile::P99 => s.response_unanswered.p99,
        }
    }
}

/// `2 of 3`: the repeats of a step that are valid.
#[must_use]
pub fn valid_repeats(s: &Summary) -> String {
    format!("{} of {}", s.trials - s.invalid, s.trials)
}

/// The median of a step's repeats, as [`wait`] shows it.
#[must_use]
pub fn wait_at_step(s: &Summary, q: Quantile) -> String {
    let of = s.response_unanswered;
    match q.of_step(s).median {
        Some(us) => micros(us),
        None if q.repeats_beyond(s) > 0 => {
            beyond(Unanswered { share: of.share, longest_wait: of.longest_wait })
        }
        None => "–".into(),
    }
}

/// How long the phases of each trial are, and what comes before the first of a start.
#[must_use]
pub fn phases(load: &dyno_archive::plan::Load) -> String {
    let time = |ns: u64| micros(ns as f64 / 1e3);
    let start = load.until_steady.map_or(String::new(), |until| {
        format!("; each start is warmed before until it is steady, for {} at most", time(until.limit_ns))
    });
    format!(
        "{} warm-up, {} measured, intervals of {}{start}",
        time(load.warmup_ns),
        time(load.duration_ns),
        time(load.interval_ns)
    )
}

/// A size in bytes, decimal units.
#[must_use]
pub fn bytes(bytes: f64) -> String {
    match bytes {
        b if b < 1e3 => format!("{} B", number(b)),
        b if b < 1e6 => format!("{} kB", number(b / 1e3)),
        b if b < 1e9 => format!("{} MB", number(b / 1e6)),
        b => format!("{} GB", number(b / 1e9)),
    }
}

/// A share as a percentage.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

/// How much of the longest bar another one has: 0 to 1.
pub(crate) fn part(of: f64, longest: f64) -> f64 {
    (of / longest).clamp(0.0, 1.0)
}

/// A share as style sheets want it.
pub(crate) fn css_percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// A metric's value with its unit.
#[must_use]
pub fn quantity(unit: Unit, value: f64) -> String {
    match unit {
        Unit::PerSecond => format!("{}/s", number(value)),
        Unit::Microseconds => micros(value),
        Unit::Bytes => bytes(value),
        Unit::MegabyteSeconds => format!("{} kB·s", number(value * 1e3)),
        Unit::Share => percent(value),
        Unit::Count if value.fract() == 0.0 => count(value as u64),
        Unit::Count => number(value),
    }
}

/// A value that may be missing.
#[must_use]
pub fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".into(), show)
}

/// A list in words: `a`, `a and b`, `a, b and c`.
#[must_use]
pub fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        for (x, text) in [
            (0.0, "0"),
            (1.0, "1.00"),
            (9.999, "10.0"),
            (99.96, "100"),
            (12.345, "12.3"),
            (0.012_34, "0.0123"),
            (181_204.0, "181,000"),
            (999_999.0, "1,000,000"),
            (1234.0, "1,230"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number(x), text, "{x}");
        }
        assert_eq!(count(1_812_047), "1,812,047");
        assert_eq!(count(12), "12");
    }

    #[test]
    fn a_percentile_among_the_unanswered_says_how_long_was_waited_at_least() {
        let p = Percentiles {
            count: 9410,
            unanswered: 590,
            longest_wait: Some(1.2e6),
            p50: Some(812.0),
            max: Some(26_000.0),
            ..Percentiles::default()
        };
        assert_eq!(wait(&p, 0.5), "812 µs");
        assert_eq!(wait(&p, 0.99), "> 1.20 s (5.9 % not answered)");
        assert_eq!(wait(&p, 1.0), "> 1.20 s (5.9 % not answered)");
        let few = Percentiles { count: 500, ..Percentiles::default() };
        assert_eq!(wait(&few, 0.99), "–");
        assert_eq!([0.25, 0.0999, 0.0004].map(share), ["25 %", "10 %", "0.0400 %"]);
    }

    #[test]
    fn times_and_sizes_choose_their_unit() {
        assert_eq!(micros(0.5), "500 ns");
        assert_eq!(micros(312.0), "312 µs");
        assert_eq!(micros(1210.0), "1.21 ms");
        assert_eq!(micros(999.9), "1.00 ms");
        assert_eq!(micros(2_500_000.0), "2.50 s");
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(11_400_000.0), "11.4 MB");
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}
