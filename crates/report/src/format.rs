//! Numbers for people: measured ones have at most three significant digits, a unit without leading
//! zeros, and separated thousands. The viewer's `web/src/format.ts` does the same; the tests of
//! both check `tests/data/numbers.json`.

use dyno_analysis::load::Percentiles;
use dyno_analysis::load::place::{PercentilePlace, UnansweredShare, quantile_of_due};
use dyno_analysis::metric::Unit;
use dyno_analysis::stats::Repeated;
use dyno_analysis::summary::Summary;
use dyno_archive::Times;
use dyno_archive::plan::{Load, Priority, Reconnect, StillWarming};

/// Thousands separated by commas.
#[must_use]
pub fn count(n: u64) -> String {
    thousands(&n.to_string())
}

fn thousands(digits: &str) -> String {
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The text that all of these are. `None`: they differ, or there are none.
#[must_use]
pub fn common_text(all: &[String]) -> Option<&str> {
    all.first().filter(|first| all.iter().all(|one| one == *first)).map(String::as_str)
}

/// `1 connection`, `2 connections`.
#[must_use]
pub fn plural(n: u64, what: &str) -> String {
    let ending = match what {
        _ if n == 1 => "",
        what if ["s", "x", "ch", "sh"].iter().any(|sound| what.ends_with(sound)) => "es",
        _ => "s",
    };
    format!("{n} {what}{ending}")
}

/// Three significant digits, thousands separated; an exponent below a millionth; `–` if not finite.
#[must_use]
pub fn number(x: f64) -> String {
    if !x.is_finite() {
        return "–".into();
    }
    if x == 0.0 {
        return "0".into();
    }
    let (digits, power) = three_digits(x.abs());
    let sign = if x < 0.0 { "−" } else { "" };
    format!("{sign}{}", at_power(&digits.to_string(), power))
}

/// A ratio: three significant digits, and three behind the point from 1 to 2, so that 1.017 and
/// 1.024 do not read alike.
pub fn ratio(x: f64) -> String {
    if (1.0..2.0).contains(&x) { format!("{x:.3}") } else { number(x) }
}

/// Three significant digits, rounded half up, and the power of ten of the first digit. They come
/// from the shortest text that reads back as the number: it is the same in every language, and
/// `{:.2}` of 1.125 is not.
fn three_digits(x: f64) -> (u32, i32) {
    let text = format!("{x:e}");
    let (mantissa, power) = text.split_once('e').expect("the form with an exponent has one");
    let power = power.parse().expect("an exponent is a number");
    let digits: Vec<u32> = mantissa.chars().filter_map(|c| c.to_digit(10)).collect();
    let digit = |i: usize| digits.get(i).copied().unwrap_or(0);
    let three = 100 * digit(0) + 10 * digit(1) + digit(2) + u32::from(digit(3) >= 5);
    // Rounding may carry into the next power: 9.999 is 10.0.
    if three == 1000 { (100, power + 1) } else { (three, power) }
}

/// Three digits as a decimal number. `power`: the power of ten of the first digit.
fn at_power(digits: &str, power: i32) -> String {
    let times = power.unsigned_abs() as usize;
    match power {
        2.. => thousands(&(digits.to_string() + &"0".repeat(times - 2))),
        0..2 => format!("{}.{}", &digits[..=times], &digits[times + 1..]),
        -6..0 => format!("0.{}{digits}", "0".repeat(times - 1)),
        _ => format!("{}.{}e{power}", &digits[..1], &digits[1..]),
    }
}

fn with_unit(x: f64, unit: &str) -> String {
    if x.is_finite() { format!("{} {unit}", number(x)) } else { number(x) }
}

/// A duration given in microseconds. The next unit begins where three digits would round to 1,000.
#[must_use]
pub fn micros(us: f64) -> String {
    match us.abs() {
        u if u < 0.9995 => with_unit(us * 1e3, "ns"),
        u if u < 999.5 => with_unit(us, "µs"),
        u if u < 999_500.0 => with_unit(us / 1e3, "ms"),
        _ => with_unit(us / 1e6, "s"),
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

/// A percentile of all requests that were due; `q` is 0 to 1. Requests without a correct response
/// rank above every correct response. The text is a time; `> 1.20 s (5.9 % not ok)` if the
/// percentile lies among the unanswered; `–` if too few samples lie beyond it.
#[must_use]
pub fn wait(p: &Percentiles, q: f64) -> String {
    match p.place(q) {
        PercentilePlace::At(us) => micros(us),
        PercentilePlace::Beyond(unanswered) => unanswered_text(unanswered),
        PercentilePlace::TooFew => "–".into(),
    }
}

/// The same of pages. One fails with one of its requests, and is cut off where the load ends:
/// `> 1.20 s (5.9 % not complete)`.
#[must_use]
pub fn wait_of_page(p: &Percentiles, q: f64) -> String {
    match p.place(q) {
        PercentilePlace::Beyond(of) => beyond_for(of, "not complete"),
        PercentilePlace::At(_) | PercentilePlace::TooFew => wait(p, q),
    }
}

/// [`wait`] while a load runs: a time is shown however few samples there are.
#[must_use]
pub fn wait_so_far(p: &Percentiles, answers: &Times, q: f64) -> String {
    if p.is_beyond(q) {
        unanswered_text(p.unanswered_share())
    } else {
        or_dash(quantile_of_due(p, answers, q), micros)
    }
}

/// Note below a table: the meaning of `–`.
pub const TOO_FEW: &str = "–: too few samples (fewer than 20 lie beyond this percentile)";

/// Note below a table: the meaning of `> …`.
pub const BEYOND: &str = "> …: the percentile lies among requests without a correct response (not \
                          ok), above the longest known wait";

/// `> 1.20 s (5.9 % not ok)`: longer than the longest wait known; `–` instead of a time if none is
/// known.
#[must_use]
pub fn unanswered_text(of: UnansweredShare) -> String {
    beyond_for(of, "not ok")
}

/// `reason`: what the share is of.
fn beyond_for(of: UnansweredShare, reason: &str) -> String {
    match of.longest_wait {
        Some(us) => format!("> {} ({} {reason})", micros(us), share(of.share)),
        None => format!("– ({} {reason})", share(of.share)),
    }
}

/// A share (0 to 1) as a percentage: whole from 10 %, one decimal from 0.1 %, three significant
/// digits below.
fn share(share: f64) -> String {
    match share * 100.0 {
        p if p >= 9.95 => format!("{:.0} %", p.round()),
        p if p >= 0.1 => format!("{:.1} %", (p * 10.0).round() / 10.0),
        p => with_unit(p, "%"),
    }
}

/// The percentiles of response time in a step's summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantile {
    P50,
    P90,
    P99,
}

impl Quantile {
    #[must_use]
    pub fn value(self, s: &Summary) -> &Repeated {
        match self {
            Quantile::P50 => &s.response_p50_us,
            Quantile::P90 => &s.response_p90_us,
            Quantile::P99 => &s.response_p99_us,
        }
    }

    /// Number of repeats in which the percentile lies among unanswered requests.
    const fn unanswered_repeats(self, s: &Summary) -> usize {
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

/// A percentile's median over a step's repeats, shown as by [`wait`].
#[must_use]
pub fn wait_at_step(s: &Summary, q: Quantile) -> String {
    let of = s.response_unanswered;
    match q.value(s).median {
        Some(us) => micros(us),
        None if q.unanswered_repeats(s) > 0 => {
            unanswered_text(UnansweredShare { share: of.share, longest_wait: of.longest_wait })
        }
        None => "–".into(),
    }
}

/// A duration given in nanoseconds.
#[must_use]
pub fn nanos(ns: u64) -> String {
    micros(ns as f64 / 1e3)
}

/// The lengths of a trial's phases and intervals, and the limit of a start's warm-up.
#[must_use]
pub fn phases(load: &Load) -> String {
    let start = load.until_steady.map_or(String::new(), |until| {
        format!(
            "; each start is first warmed up until it is steady, for at most {}",
            nanos(until.limit_ns)
        )
    });
    let measured = match (load.set_duration_ns(), load.requests) {
        (Some(ns), None) => format!("{} measured", nanos(ns)),
        (Some(ns), Some(n)) => format!("{} measured, or {} requests", nanos(ns), count(n)),
        (None, Some(n)) => format!("{} requests", count(n)),
        (None, None) => "measured until it is stopped".into(),
    };
    let warmup = match load.still_warming {
        StillWarming::Refused => format!("{} warm-up", nanos(load.warmup_ns)),
        StillWarming::Measured if load.warmup_ns == 0 => {
            "no warm-up (the warm-up is measured)".into()
        }
        StillWarming::Measured => {
            format!(
                "{} to open connections, no warm-up (the warm-up is measured)",
                nanos(load.warmup_ns)
            )
        }
    };
    let reconnect = match load.reconnect {
        Reconnect::Backoff => "",
        Reconnect::AtOnce => "; failed connections are replaced at once",
    };
    let priority = match load.priority {
        Priority::Normal => "",
        Priority::Realtime => "; the generator runs in real time",
    };
    format!(
        "{warmup}, {measured}, intervals of {}{start}{reconnect}{priority}",
        nanos(load.interval_ns)
    )
}

/// A size in bytes, decimal units.
#[must_use]
pub fn bytes(bytes: f64) -> String {
    match bytes.abs() {
        b if b < 999.5 => with_unit(bytes, "B"),
        b if b < 999_500.0 => with_unit(bytes / 1e3, "kB"),
        b if b < 999_500_000.0 => with_unit(bytes / 1e6, "MB"),
        _ => with_unit(bytes / 1e9, "GB"),
    }
}

/// A share (0 to 1) as a percentage.
#[must_use]
pub fn percent(share: f64) -> String {
    with_unit(share * 100.0, "%")
}

/// A share without decimals: `61 %`.
#[must_use]
pub fn whole_percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// How far a ratio is from 1, with its sign: `−1.2 %`.
#[must_use]
pub(crate) fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let rounded = (percent * 10.0).round() / 10.0;
    let sign = if rounded < 0.0 {
        "−"
    } else if rounded > 0.0 {
        "+"
    } else {
        ""
    };
    format!("{sign}{:.1} %", rounded.abs())
}

/// Seconds to a tenth: `20`, `0.4`.
pub(crate) fn length(seconds: f64) -> String {
    ((seconds * 10.0).round() / 10.0).to_string()
}

/// The length of a bar as a share of a whole one: 0 to 1.
pub(crate) fn part(of: f64, whole: f64) -> f64 {
    (of / whole).clamp(0.0, 1.0)
}

/// The value of a bar that fills its cell, given the most of any subject and of any control: the
/// longest bar does. A control that is far above all others would press them flat, so it ends a
/// little above them instead, and goes on in the mind.
pub(crate) fn bar_end(others: f64, controls: f64) -> f64 {
    if others > 0.0 && controls > FAR_ABOVE * others {
        others / CUT_AT
    } else {
        others.max(controls)
    }
}

/// A control that is more than so many times as high as all others is far above them:
/// `web/src/layout.ts` has the same.
const FAR_ABOVE: f64 = 2.0;

/// The length of the longest other bar next to one that is cut.
const CUT_AT: f64 = 0.8;

/// A share (0 to 1) in CSS: `12.5%`.
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

/// Shows a value, or `–` if it is missing.
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
    use dyno_analysis::cell::{RateChange, Shape};
    use serde_json::Value;

    use super::*;
    use crate::overview::label_in_words;

    /// Numbers and their texts. The viewer's `format.ts` is tested against the same file.
    const SHARED: &str = include_str!("../../../tests/data/numbers.json");

    #[test]
    fn plurals_are_spelled_as_they_are_spoken() {
        for (n, what, said) in [
            (1, "search", "1 search"),
            (2, "search", "2 searches"),
            (0, "process", "0 processes"),
            (2, "load", "2 loads"),
        ] {
            assert_eq!(plural(n, what), said);
        }
    }

    #[test]
    fn numbers_look_as_they_do_in_the_viewer() {
        let rows: Vec<(String, Value, String)> = serde_json::from_str(SHARED).unwrap();
        let mut functions: Vec<&str> =
            rows.iter().map(|(function, ..)| function.as_str()).collect();
        functions.dedup();
        assert_eq!(
            functions,
            ["number", "micros", "millis", "bytes", "memory_time", "percent", "beyond", "step"]
        );
        for (function, input, text) in &rows {
            assert_eq!(call_format(function, input), *text, "{function} of {input}");
        }
    }

    fn call_format(function: &str, input: &Value) -> String {
        match function {
            "number" => number(exactly(input)),
            "micros" => micros(exactly(input)),
            "millis" => millis(exactly(input)),
            "bytes" => bytes(exactly(input)),
            "memory_time" => quantity(Unit::MegabyteSeconds, exactly(input)),
            "percent" => percent(exactly(input)),
            "beyond" => unanswered_text(UnansweredShare {
                share: exactly(&input["share"]),
                longest_wait: input["longest_wait"].as_f64(),
            }),
            "step" => {
                let whole = |key: &str| input[key].as_u64().unwrap() as u32;
                label_in_words(Shape {
                    connections: whole("connections"),
                    streams: whole("streams"),
                    pipeline: whole("pipeline"),
                    rate: input["rate"].as_f64(),
                    schedule: input.get("schedule").map(|of| RateChange {
                        from_rps: of["from_rps"].as_f64(),
                        to_rps: of["to_rps"].as_f64(),
                        stretches: of["stretches"].as_u64().unwrap() as usize,
                    }),
                    pass: whole("pass"),
                })
            }
            other => panic!("the viewer has a function {other} that is not known here"),
        }
    }

    /// The file holds numbers as strings: JSON has no infinity, and serde_json may miss the last
    /// bit.
    fn exactly(input: &Value) -> f64 {
        input.as_str().unwrap().parse().unwrap()
    }

    #[test]
    fn counts_keep_every_digit() {
        assert_eq!([12, 999, 1000, 1_812_047].map(count), ["12", "999", "1,000", "1,812,047"]);
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn percentile_among_the_unanswered_says_how_long_was_waited_at_least() {
        let p = Percentiles {
            count: 9410,
            unanswered: 590,
            longest_wait: Some(1.2e6),
            p50: Some(812.0),
            max: Some(26_000.0),
            ..Percentiles::default()
        };
        assert_eq!(wait(&p, 0.5), "812 µs");
        assert_eq!(wait(&p, 0.99), "> 1.20 s (5.9 % not ok)");
        assert_eq!(wait(&p, 1.0), "> 1.20 s (5.9 % not ok)");
        let few = Percentiles { count: 500, ..Percentiles::default() };
        assert_eq!(wait(&few, 0.99), "–");
    }

    #[test]
    fn list_reads_as_a_sentence() {
        let list_of =
            |items: &[&str]| list(&items.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!([list_of(&[]), list_of(&["a"])], ["", "a"]);
        assert_eq!([list_of(&["a", "b"]), list_of(&["a", "b", "c"])], ["a and b", "a, b and c"]);
    }
}
