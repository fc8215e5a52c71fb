//! Formats numbers for people: at most three significant digits, units without leading zeros, and
//! separated thousands. The viewer's `web/src/format.ts` formats numbers in the same way. The tests
//! of both use `tests/data/numbers.json`.

use dyno_analysis::load::Percentiles;
use dyno_analysis::load::percentile_value::{PercentileValue, UnansweredShare, quantile_of_due};
use dyno_analysis::metric::{MetricId, MetricSummary, Unit};
use dyno_analysis::stats::Repeated;
use dyno_analysis::summary::Summary;
pub use dyno_analysis::{list, plural};
use dyno_model::plan::{Load, Priority, Reconnect, StillWarming};
use dyno_model::{Outcome, Outcomes, Protocol, Times};

/// Formats a number with thousands separated by commas.
#[must_use]
pub fn count(n: u64) -> String {
    thousands(&n.to_string())
}

/// Returns the name of a protocol: `h2 over TLS`.
pub(crate) fn protocol_name(protocol: Protocol) -> String {
    let tls = if protocol.is_tls() { " over TLS" } else { "" };
    format!("{}{tls}", protocol.base_name())
}

/// Formats the number of requests of each outcome that is not ok and occurred: `2 timeout`.
pub(crate) fn not_ok_texts(outcomes: &Outcomes) -> Vec<String> {
    let text = |(outcome, n): (Outcome, u64)| format!("{} {}", count(n), outcome.name());
    outcomes.not_ok().map(text).collect()
}

/// Separates the thousands of digits by commas.
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

/// Returns the text that all items share, or `None` if they differ or there are none.
#[must_use]
pub fn common_text(texts: &[String]) -> Option<&str> {
    texts.first().filter(|first| texts.iter().all(|text| text == *first)).map(String::as_str)
}

/// Formats a number with three significant digits and separated thousands. Numbers below a
/// millionth have an exponent. The text is `–` if the number is not finite.
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
    format!("{sign}{}", decimal(&digits.to_string(), power))
}

/// Formats requests per second: three significant digits below 100, and a whole number above.
#[must_use]
pub fn rate(rps: f64) -> String {
    if rps < 100.0 { number(rps) } else { count(rps.round() as u64) }
}

/// Formats a ratio with three significant digits, or with three decimals from 1 to 2, so that 1.017
/// and 1.024 differ.
pub fn ratio(x: f64) -> String {
    if (1.0..2.0).contains(&x) { format!("{x:.3}") } else { number(x) }
}

/// Returns three significant digits, rounded half up, and the power of ten of the first digit. The
/// digits come from the shortest text that parses to the number. That text is the same in Rust and
/// in the viewer's JavaScript, but `{:.2}` of 1.125 is not.
fn three_digits(x: f64) -> (u32, i32) {
    let text = format!("{x:e}");
    let (mantissa, power) = text.split_once('e').expect("the exponent form has an `e`");
    let power = power.parse().expect("an exponent is a number");
    let digits: Vec<u32> = mantissa.chars().filter_map(|c| c.to_digit(10)).collect();
    let digit = |i: usize| digits.get(i).copied().unwrap_or(0);
    let three = 100 * digit(0) + 10 * digit(1) + digit(2) + u32::from(digit(3) >= 5);
    // Rounding may carry into the next power: 9.999 is 10.0.
    if three == 1000 { (100, power + 1) } else { (three, power) }
}

/// Formats three digits as a decimal number. `power` is the power of ten of the first digit.
fn decimal(digits: &str, power: i32) -> String {
    let places = power.unsigned_abs() as usize;
    match power {
        2.. => thousands(&(digits.to_string() + &"0".repeat(places - 2))),
        0..2 => format!("{}.{}", &digits[..=places], &digits[places + 1..]),
        -6..0 => format!("0.{}{digits}", "0".repeat(places - 1)),
        _ => format!("{}.{}e{power}", &digits[..1], &digits[1..]),
    }
}

/// Formats a number and its unit. A number that is not finite has no unit.
fn with_unit(x: f64, unit: &str) -> String {
    if x.is_finite() { format!("{} {unit}", number(x)) } else { number(x) }
}

/// Formats a duration in microseconds. The unit changes where three digits would round to 1,000.
#[must_use]
pub fn micros(us: f64) -> String {
    match us.abs() {
        u if u < 0.9995 => with_unit(us * 1e3, "ns"),
        u if u < 999.5 => with_unit(us, "µs"),
        u if u < 999_500.0 => with_unit(us / 1e3, "ms"),
        _ => with_unit(us / 1e6, "s"),
    }
}

/// Formats a duration in milliseconds.
#[must_use]
pub fn millis(ms: f64) -> String {
    micros(ms * 1e3)
}

/// Formats a duration in seconds.
#[must_use]
pub fn seconds(s: f64) -> String {
    micros(s * 1e6)
}

/// Formats a percentile of all intended requests. `q` is 0 to 1. Requests without a correct
/// response rank above every correct response. The text is a time, `> 1.20 s (5.9 % not ok)` if the
/// percentile lies among requests without a correct response, or `–` if too few samples lie above
/// it.
#[must_use]
pub fn percentile_text(p: &Percentiles, q: f64) -> String {
    match p.value(q) {
        PercentileValue::Known(us) => micros(us),
        PercentileValue::Unanswered(unanswered) => unanswered_text(unanswered),
        PercentileValue::TooFew => "–".into(),
    }
}

/// Formats a percentile of pages: `> 1.20 s (5.9 % not complete)`. A page fails if one of its
/// requests fails, and is incomplete if the load ends first.
#[must_use]
pub fn page_percentile_text(p: &Percentiles, q: f64) -> String {
    match p.value(q) {
        PercentileValue::Unanswered(unanswered) => unanswered_text_with(unanswered, "not complete"),
        PercentileValue::Known(_) | PercentileValue::TooFew => percentile_text(p, q),
    }
}

/// Formats a percentile while a load runs. Unlike [`percentile_text`], it shows a time even if
/// there are few samples.
#[must_use]
pub fn running_percentile_text(p: &Percentiles, times: &Times, q: f64) -> String {
    if p.is_unanswered(q) {
        unanswered_text(p.unanswered_share())
    } else {
        or_dash(quantile_of_due(p, times, q), micros)
    }
}

/// Note below a table: the meaning of `–`.
pub const TOO_FEW: &str = "– means too few samples: fewer than 20 lie beyond this percentile";

/// Note below a table: the meaning of `> …`.
pub const UNANSWERED_NOTE: &str = "> means that the percentile lies among requests without a \
                                   correct response (not ok). The time is the longest known wait \
                                   of these requests";

/// Formats a percentile among unanswered requests: `> 1.20 s (5.9 % not ok)`. The time is the
/// longest known wait, or `–` if no wait is known.
#[must_use]
pub fn unanswered_text(unanswered: UnansweredShare) -> String {
    unanswered_text_with(unanswered, "not ok")
}

/// Formats the unanswered share with its reason, such as `not ok`.
fn unanswered_text_with(unanswered: UnansweredShare, reason: &str) -> String {
    match unanswered.longest_wait {
        Some(us) => format!("> {} ({} {reason})", micros(us), share(unanswered.share)),
        None => format!("– ({} {reason})", share(unanswered.share)),
    }
}

/// Formats a share (0 to 1) as a percentage: whole from 10 %, with one decimal from 0.1 %, and with
/// three significant digits below.
fn share(share: f64) -> String {
    match share * 100.0 {
        p if p >= 9.95 => format!("{:.0} %", p.round()),
        p if p >= 0.1 => format!("{:.1} %", (p * 10.0).round() / 10.0),
        p => with_unit(p, "%"),
    }
}

/// Formats the number of valid repeats of a step: `2 of 3`.
#[must_use]
pub fn valid_repeats(s: &Summary) -> String {
    format!("{} of {}", s.trials - s.invalid, s.trials)
}

/// Formats the median of a percentile of response time over the repeats of a step, like
/// [`percentile_text`].
#[must_use]
pub fn step_percentile_text(s: &Summary, id: MetricId) -> String {
    match s.metric(id) {
        Some(MetricSummary { repeats: Repeated { median: Some(us), .. }, .. }) => micros(*us),
        Some(percentile) if percentile.unanswered_repeats > 0 => unanswered_text(UnansweredShare {
            share: s.response_unanswered.share,
            longest_wait: s.response_unanswered.longest_wait,
        }),
        _ => "–".into(),
    }
}

/// Formats a duration in nanoseconds.
#[must_use]
pub fn nanos(ns: u64) -> String {
    micros(ns as f64 / 1e3)
}

/// Describes the durations of a trial's phases and intervals, and the limit of a start's warm-up.
#[must_use]
pub fn phases(load: &Load) -> String {
    let start = load.until_steady.map_or(String::new(), |until| {
        format!(
            "; before its first trial, each started server is warmed up until its throughput is \
             steady, for at most {}",
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
            "no separate warm-up (the measurement begins with the first requests)".into()
        }
        StillWarming::Measured => {
            format!(
                "{} to open connections, no separate warm-up (the measurement begins with the \
                 first requests)",
                nanos(load.warmup_ns)
            )
        }
    };
    let reconnect = match load.reconnect {
        Reconnect::Backoff => "",
        Reconnect::AtOnce => "; failed connections are replaced immediately",
    };
    let priority = match load.priority {
        Priority::Normal => "",
        Priority::Realtime => "; the generator has real-time priority",
    };
    format!(
        "{warmup}, {measured}, intervals of {}{start}{reconnect}{priority}",
        nanos(load.interval_ns)
    )
}

/// Formats a size in bytes, in decimal units.
#[must_use]
pub fn bytes(bytes: f64) -> String {
    match bytes.abs() {
        b if b < 999.5 => with_unit(bytes, "B"),
        b if b < 999_500.0 => with_unit(bytes / 1e3, "kB"),
        b if b < 999_500_000.0 => with_unit(bytes / 1e6, "MB"),
        _ => with_unit(bytes / 1e9, "GB"),
    }
}

/// Formats a share (0 to 1) as a percentage.
#[must_use]
pub fn percent(share: f64) -> String {
    with_unit(share * 100.0, "%")
}

/// Formats a share (0 to 1) as a percentage without decimals: `61 %`.
#[must_use]
pub fn whole_percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Formats the share of failed requests over the repeats of a step: the median, and the maximum if
/// it differs, because few repeats may have all failures: `0 % (up to 100 %)`.
pub(crate) fn error_share_text(shares: &Repeated) -> String {
    let median = or_dash(shares.median, percent);
    match shares.max.map(percent).filter(|max| *max != median) {
        Some(max) => format!("{median} (up to {max})"),
        None => median,
    }
}

/// Formats how far a ratio is from 1, with a sign: `−1.2 %`.
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

/// Formats seconds to a tenth: `20`, `0.4`.
pub(crate) fn length(seconds: f64) -> String {
    ((seconds * 10.0).round() / 10.0).to_string()
}

/// Returns the length of a bar as a share (0 to 1) of the full bar.
pub(crate) fn bar_share(value: f64, whole: f64) -> f64 {
    (value / whole).clamp(0.0, 1.0)
}

/// Returns the value of a bar that fills its cell: normally the highest value. A control far above
/// all subjects would make the subjects' bars too short. The control's bar is then truncated, and
/// the longest bar of a subject takes [`CUT_AT`] of the cell. `others`: the highest value of a
/// subject. `controls`: the highest value of a control.
pub(crate) fn full_bar_value(others: f64, controls: f64) -> f64 {
    if others > 0.0 && controls > FAR_ABOVE * others {
        others / CUT_AT
    } else {
        others.max(controls)
    }
}

/// Ratio to the highest subject above which the bar of a control is truncated. `web/src/layout.ts`
/// has the same number.
const FAR_ABOVE: f64 = 2.0;

/// Length of the longest subject's bar next to a truncated one, as a share of a full bar.
const CUT_AT: f64 = 0.8;

/// Formats a share (0 to 1) for CSS: `12.5%`.
pub(crate) fn css_percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// Formats the value of a metric with its unit.
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

/// Formats a value, or returns `–` if it is missing.
#[must_use]
pub fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".into(), show)
}

/// Returns a text of at most `max_chars` characters. `…` marks the end of a longer text.
pub(crate) fn shorten(text: &str, max_chars: usize) -> String {
    if text.chars().count() <= max_chars {
        return text.into();
    }
    let kept: String = text.chars().take(max_chars.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use dyno_analysis::cell::{RateChange, Shape};
    use serde_json::Value;

    use super::*;
    use crate::overview::label_in_words;

    /// Numbers and their texts. The tests of the viewer's `format.ts` use the same file.
    const SHARED: &str = include_str!("../../../tests/data/numbers.json");

    #[test]
    fn numbers_match_texts_shared_with_viewer() {
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

    #[test]
    fn error_share_text_names_failures_of_few_repeats() {
        let text = |shares: &[f64]| error_share_text(&Repeated::new(shares.to_vec()));
        assert_eq!(text(&[0.0, 0.0, 1.0]), "0 % (up to 100 %)");
        assert_eq!((text(&[0.5, 0.5]), text(&[])), ("50.0 %".into(), "–".into()));
    }

    fn call_format(function: &str, input: &Value) -> String {
        match function {
            "number" => number(exact_number(input)),
            "micros" => micros(exact_number(input)),
            "millis" => millis(exact_number(input)),
            "bytes" => bytes(exact_number(input)),
            "memory_time" => quantity(Unit::MegabyteSeconds, exact_number(input)),
            "percent" => percent(exact_number(input)),
            "beyond" => unanswered_text(UnansweredShare {
                share: exact_number(&input["share"]),
                longest_wait: input["longest_wait"].as_f64(),
            }),
            "step" => {
                let whole = |key: &str| input[key].as_u64().unwrap() as u32;
                label_in_words(Shape {
                    connections: whole("connections"),
                    streams: whole("streams"),
                    pipeline: whole("pipeline"),
                    rate: input["rate"].as_f64(),
                    schedule: input.get("schedule").map(|schedule| RateChange {
                        from_rps: schedule["from_rps"].as_f64(),
                        to_rps: schedule["to_rps"].as_f64(),
                        stretches: schedule["stretches"].as_u64().unwrap() as usize,
                    }),
                    pass: whole("pass"),
                })
            }
            other => panic!("the viewer has a function {other} that is not known here"),
        }
    }

    /// The file has numbers as strings, because JSON has no infinity, and serde_json may miss the
    /// last bit.
    fn exact_number(input: &Value) -> f64 {
        input.as_str().unwrap().parse().unwrap()
    }

    #[test]
    fn counts_keep_every_digit() {
        assert_eq!([12, 999, 1000, 1_812_047].map(count), ["12", "999", "1,000", "1,812,047"]);
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn percentile_among_unanswered_shows_longest_wait() {
        let p = Percentiles {
            count: 9410,
            unanswered: 590,
            longest_wait: Some(1.2e6),
            p50: Some(812.0),
            max: Some(26_000.0),
            ..Percentiles::default()
        };
        assert_eq!(percentile_text(&p, 0.5), "812 µs");
        assert_eq!(percentile_text(&p, 0.99), "> 1.20 s (5.9 % not ok)");
        assert_eq!(percentile_text(&p, 1.0), "> 1.20 s (5.9 % not ok)");
        let few = Percentiles { count: 500, ..Percentiles::default() };
        assert_eq!(percentile_text(&few, 0.99), "–");
    }

    #[test]
    fn list_joins_items_with_commas_and_and() {
        let list_of =
            |items: &[&str]| list(&items.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!([list_of(&[]), list_of(&["a"])], ["", "a"]);
        assert_eq!([list_of(&["a", "b"]), list_of(&["a", "b", "c"])], ["a and b", "a, b and c"]);
    }
}
