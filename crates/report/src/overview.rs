//! The cells of the overview that every text form shares.

use dyno_analysis::summary::OverviewRow;

use crate::format::{bytes, count, micros, number, or_dash};

/// The connections at which response times and CPU are given, as ` at 64`; empty if rows differ in it, because their
/// workloads have other steps.
pub(crate) fn at_reference(rows: &[OverviewRow], sign: &str) -> String {
    let mut all = rows.iter().filter(|r| r.peak_rps.is_some()).map(|r| r.reference_connections);
    match all.next() {
        Some(first) if all.all(|other| other == first) => format!(" {sign}{first}"),
        _ => String::new(),
    }
}

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
