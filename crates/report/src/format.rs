//! Numbers as people read them: at most three significant digits, a unit without leading zeros, thousands apart.

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
