//! Formats numbers for sentences.

/// Returns a share as a percentage with at most one decimal, or with two significant digits below a
/// tenth of a percent.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent >= 9.95 || percent == 0.0 => format!("{percent:.0} %"),
        percent if percent >= 0.095 => format!("{percent:.1} %"),
        percent => {
            // For 0.038 %: the first significant digit, and one more.
            let digits = (1.0 - percent.abs().log10().floor()).clamp(1.0, 12.0) as usize;
            format!("{percent:.digits$} %")
        }
    }
}

/// Returns a share that a user chose, as a percentage with all of its digits.
pub(crate) fn exact_percent(share: f64) -> String {
    // Rounded because 0.0025 × 100 is not exactly 0.25.
    format!("{} %", (share * 1e10).round() / 1e8)
}

/// Returns the change of a ratio above 1 as a percentage. Above a factor of 11, the exact number is
/// omitted.
pub(crate) fn change(ratio: f64) -> String {
    if ratio > 11.0 { "more than 1000 %".into() } else { percent(ratio - 1.0) }
}

/// Returns text such as `p 0.012`, or `p below 0.001`.
pub(crate) fn p_value(p: f64) -> String {
    if p < 0.001 { "p below 0.001".into() } else { format!("p {p:.3}") }
}

/// Returns `one CPU` or text such as `1.5 CPUs`.
pub(crate) fn cpus(n: f64) -> String {
    if (n - 1.0).abs() < 0.01 { "one CPU".into() } else { format!("{n:.1} CPUs") }
}

/// Returns `1 connection`, or text such as `2 connections`.
#[must_use]
pub fn plural(n: u64, noun: &str) -> String {
    let is_sibilant = ["s", "x", "ch", "sh"].iter().any(|sound| noun.ends_with(sound));
    let ending = if n == 1 {
        ""
    } else if is_sibilant {
        "es"
    } else {
        "s"
    };
    format!("{n} {noun}{ending}")
}

/// Joins items to a list in words: `a`, `a and b`, `a, b and c`.
#[must_use]
pub fn list<T: AsRef<str>>(items: &[T]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    match items.as_slice() {
        [] => String::new(),
        [item] => (*item).into(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

/// Rounds a number to a number of decimals. `round`: `f64::floor`, `f64::ceil` or `f64::round`.
pub fn round_decimals(x: f64, decimals: i32, round: impl Fn(f64) -> f64) -> f64 {
    let scaled = x * 10_f64.powi(decimals);
    // 2.3 × 100 is slightly less than 230.
    let is_whole = (scaled - scaled.round()).abs() < 1e-6;
    (if is_whole { scaled.round() } else { round(scaled) }) / 10_f64.powi(decimals)
}

/// Returns the verb for a number of things: `was` or `were`.
pub(crate) const fn was(n: u64) -> &'static str {
    if n == 1 { "was" } else { "were" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plural_after_sibilant_ends_in_es() {
        for (n, noun, expected) in [
            (1, "search", "1 search"),
            (2, "search", "2 searches"),
            (0, "process", "0 processes"),
            (2, "load", "2 loads"),
        ] {
            assert_eq!(plural(n, noun), expected);
        }
    }

    #[test]
    fn percent_of_small_share_has_significant_digits() {
        let texts = [0.0, 0.00038, 0.004, 0.00096, 0.0996, 0.38, 1e-6].map(percent);
        assert_eq!(texts, ["0 %", "0.038 %", "0.4 %", "0.1 %", "10 %", "38 %", "0.00010 %"]);
    }

    #[test]
    fn exact_percent_has_all_digits() {
        let texts = [0.0025, 0.0225, 0.125, 0.02, 0.0].map(exact_percent);
        assert_eq!(texts, ["0.25 %", "2.25 %", "12.5 %", "2 %", "0 %"]);
    }

    #[test]
    fn numbers_are_formatted_for_sentences() {
        assert_eq!(
            (percent(0.934), percent(0.0123), percent(0.0)),
            ("93 %".into(), "1.2 %".into(), "0 %".into())
        );
        assert_eq!((percent(0.1), percent(0.0994)), ("10 %".into(), "9.9 %".into()));
        assert_eq!(
            [1.5, 11.0, 11.1, 9e9].map(change),
            ["50 %", "1000 %", "more than 1000 %", "more than 1000 %"]
        );
        assert_eq!((cpus(1.004), cpus(1.5)), ("one CPU".into(), "1.5 CPUs".into()));
        assert_eq!((cpus(0.98), cpus(1.02)), ("1.0 CPUs".into(), "1.0 CPUs".into()));
    }
}
