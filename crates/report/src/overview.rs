//! The cells of the overview that every text form shares.

use dyno_analysis::summary::OverviewRow;

use crate::format::{bytes, count, micros, number, or_dash};

/// Peak, range, tie group, p50, p99, CPU per request, memory, start-up, errors, checks: in this order.
pub(crate) fn cells(r: &OverviewRow) -> [String; 10] {
    let peak = r.peak_rps.as_ref();
    [
        or_dash(peak.and_then(|p| p.median), number),
        or_dash(peak.and_then(dyno_analysis::stats::Repeated::spread), |(a, b)| {
            format!("{}–{}", number(a), number(b))
        }),
        or_dash(r.tie_group, |g| g.to_string()),
        or_dash(r.response_p50_us, micros),
        or_dash(r.response_p99_us, micros),
        or_dash(r.cpu_us_per_request, micros),
        or_dash(r.memory_peak_bytes, bytes),
        or_dash(r.startup_ms, |ms| micros(ms * 1e3)),
        count(r.errors),
        format!("{}/{}", r.checks_passed, r.checks),
    ]
}
