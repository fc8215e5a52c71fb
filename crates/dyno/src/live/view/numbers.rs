//! Formats the numbers of the view.

use std::time::Duration;

use dyno_report::format::{count, micros, number, or_dash};

use crate::clock::clock;
use crate::live::model::LiveResponseTime;

pub(super) fn finite(x: f64) -> Option<f64> {
    Some(x).filter(|x| x.is_finite())
}

pub(super) fn positive(x: Option<f64>) -> Option<f64> {
    x.filter(|x| x.is_finite() && *x > 0.0)
}

/// Formats a time in microseconds, or returns a dash.
pub(super) fn time(us: Option<f64>) -> String {
    or_dash(
        us.and_then(finite),
        |us| if us < 1e13 { micros(us) } else { format!("{:.0e} s", us / 1e6) },
    )
}

/// Formats a round time in microseconds for an axis.
pub(super) fn time_label(us: f64) -> String {
    let text = time(Some(us));
    text.split_once(' ')
        .map_or_else(String::new, |(number, unit)| format!("{} {unit}", trim_zeros(number)))
}

/// Removes trailing zeros from decimals, for round values on an axis.
pub(super) fn trim_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// Formats requests per second, or returns a dash.
pub(super) fn rate(rps: Option<f64>) -> String {
    or_dash(rps.and_then(finite), |rps| {
        if rps < 100.0 { number(rps) } else { whole_number(rps.round() as u64) }
    })
}

/// Formats a round rate for an axis.
pub(super) fn rate_label(rps: f64) -> String {
    match rps {
        r if r < 1e6 => trim_zeros(&number(r)).into(),
        r if r < 1e12 => format!("{} M", trim_zeros(&number(r / 1e6))),
        r => format!("{r:.0e}"),
    }
}

/// Formats a whole number, exactly below 10 million. Larger numbers are rounded to fit their
/// column.
pub(super) fn whole_number(n: u64) -> String {
    match n {
        0..10_000_000 => count(n),
        10_000_000..1_000_000_000_000 => format!("{} M", number(n as f64 / 1e6)),
        _ => format!("{:.2e}", n as f64),
    }
}

pub(super) fn response_time_text(wait: Option<LiveResponseTime>) -> String {
    match wait {
        Some(LiveResponseTime::LongerThan(us)) => time_text(Some(us), true),
        Some(LiveResponseTime::At(us)) => time(Some(us)),
        None => time(None),
    }
}

/// Formats a time in microseconds, or `> 1.20 s` if it is only a lower bound.
pub(super) fn time_text(us: Option<f64>, is_lower_bound: bool) -> String {
    if is_lower_bound && us.is_some() { format!("> {}", time(us)) } else { time(us) }
}

pub(super) fn whole_percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Formats a duration in seconds.
pub(super) fn seconds(s: f64) -> String {
    let s = s.clamp(0.0, 1e15);
    if s < 10.0 {
        format!("{} s", (s * 10.0).round() / 10.0)
    } else {
        clock(Duration::from_secs_f64(s))
    }
}
