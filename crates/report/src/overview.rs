//! Provides the columns and labels of the overview, so that all forms of a report agree.

use dyno_analysis::Report;
use dyno_analysis::cell::Shape;
use dyno_analysis::metric::MetricId;
use dyno_analysis::overview::OverviewRow;
use dyno_analysis::subject::SubjectResult;
use dyno_analysis::summary::StepCaveat;
use dyno_analysis::verdict::{Confidence, Resource};

use crate::format::{micros, number, or_dash, plural, rate, step_percentile_text};

/// Returns the label of the reference step, after `sign`: ` at 64` (connections), or ` at 100 in
/// flight` with streams or pipelines. Empty if the rows have different reference steps, because
/// their workloads differ.
pub(crate) fn reference_text(rows: &[OverviewRow], sign: &str) -> String {
    let rate = reference_rate_text(rows);
    match shared_reference(rows) {
        Some(Reference::Connections(n)) => format!(" {sign}{n}{rate}"),
        Some(Reference::InFlight(n)) => format!(" {sign}{n} in flight{rate}"),
        None => String::new(),
    }
}

/// Formats ` at 10,000/s` if all rows with numbers have one offered rate. Empty in closed loops.
fn reference_rate_text(rows: &[OverviewRow]) -> String {
    let measured = rows.iter().filter(|r| r.highest_throughput().is_some());
    let rates: Vec<Option<f64>> = measured.map(|r| r.reference_at.rate).collect();
    match rates.first() {
        Some(Some(rate)) if rates.iter().all(|other| *other == Some(*rate)) => {
            format!(" at {}/s", number(*rate))
        }
        _ => String::new(),
    }
}

/// Describes the reference step within a sentence. See [`reference_text`].
pub(crate) fn reference_in_words(rows: &[OverviewRow]) -> String {
    match shared_reference(rows) {
        Some(at) => format!("at {}{}", at.in_words(), reference_rate_text(rows)),
        None => "at the step of each workload that is nearest to 64 requests in flight".into(),
    }
}

/// Load at the reference step of a row: its connections if each has one request in flight, else all
/// requests in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    Connections(u64),
    InFlight(u64),
}

impl Reference {
    /// Returns the load at the reference step of a row.
    pub(crate) fn from_row(row: &OverviewRow) -> Reference {
        if row.reference_in_flight == u64::from(row.reference_connections) {
            Reference::Connections(row.reference_in_flight)
        } else {
            Reference::InFlight(row.reference_in_flight)
        }
    }

    /// Returns `64 connections` or `100 in flight`.
    pub(crate) fn in_words(self) -> String {
        match self {
            Reference::Connections(n) => plural(n, "connection"),
            Reference::InFlight(n) => format!("{n} in flight"),
        }
    }

    const fn in_flight(self) -> u64 {
        match self {
            Reference::Connections(n) | Reference::InFlight(n) => n,
        }
    }
}

/// Returns the reference load that all rows with numbers share: connections if all rows agree, or
/// else requests in flight. `None`: the rows differ.
fn shared_reference(rows: &[OverviewRow]) -> Option<Reference> {
    common_reference(
        &rows
            .iter()
            .filter(|r| r.highest_throughput().is_some())
            .map(Reference::from_row)
            .collect::<Vec<_>>(),
    )
}

/// Returns the load that all references share. `None`: they differ, or there is none.
fn common_reference(references: &[Reference]) -> Option<Reference> {
    let first = *references.first()?;
    if references.iter().any(|r| r.in_flight() != first.in_flight()) {
        return None;
    }
    Some(if references.iter().all(|r| *r == first) {
        first
    } else {
        Reference::InFlight(first.in_flight())
    })
}

/// Formats a percentile of response time at the reference step of a row, like
/// [`step_percentile_text`].
pub(crate) fn reference_percentile_text(report: &Report, r: &OverviewRow, id: MetricId) -> String {
    match r.invalid.as_ref().and_then(|medians| medians.figures.get(id)) {
        Some(us) => mark_invalid(&micros(us)),
        None => or_dash(report.summary(r.reference_cell), |step| step_percentile_text(step, id)),
    }
}

/// Formats the peak: `17,900`, `≥ 23,000` for a lower bound, `~ 1,250` for a mean of several
/// levels, or `12,300 ✗` from repeats that are not valid.
pub(crate) fn peak_text(r: &OverviewRow) -> String {
    let invalid = r.invalid.as_ref().and_then(|medians| medians.peak_rps);
    let known = r.max_rps().map(|rps| format!("{}{}", peak_mark(r), number(rps)));
    or_invalid(known, invalid, number)
}

/// Returns the known value. Without a known value it returns a marked value from repeats that are
/// not valid, or `–` if there is none.
fn or_invalid(known: Option<String>, invalid: Option<f64>, show: fn(f64) -> String) -> String {
    or_dash(known.or_else(|| Some(mark_invalid(&show(invalid?)))), |text| text)
}

/// Marks a figure from repeats that are not valid.
fn mark_invalid(figure: &str) -> String {
    format!("{figure} ✗")
}

/// Formats the CPU time per request of a row.
pub(crate) fn cpu_text(r: &OverviewRow) -> String {
    let invalid = r.invalid.as_ref().and_then(|medians| medians.figures.get(MetricId::Cpu));
    or_invalid(r.figures.get(MetricId::Cpu).map(micros), invalid, micros)
}

/// Explains the mark ✗. `None`: no row has one.
pub(crate) fn invalid_note(rows: &[OverviewRow]) -> Option<&'static str> {
    let has_invalid = rows.iter().any(|r| r.invalid.is_some());
    has_invalid
        .then_some("✗ marks a median of repeats that are not valid. No verdict uses this median.")
}

/// Returns the sign before a peak that is a lower bound or a mean of several levels. Empty for
/// other peaks.
pub(crate) const fn peak_mark(r: &OverviewRow) -> &'static str {
    match (r.peak_is_lower_bound, r.peak_mixture.is_some()) {
        (true, true) => "≥ ~ ",
        (true, false) => "≥ ",
        (false, true) => "~ ",
        (false, false) => "",
    }
}

/// Explains the sign `~`. `None`: no row has one.
pub(crate) fn mixture_note(rows: &[OverviewRow]) -> Option<&'static str> {
    const NOTE: &str = "~ marks a mean of several levels: throughput changed within the measured \
                        windows, so the server never sustained the mean.";
    rows.iter()
        .any(|row| row.highest_throughput().is_some() && row.peak_mixture.is_some())
        .then_some(NOTE)
}

/// Returns the number of starts of a subject that had to be killed. `None`: no start was stopped.
pub(crate) fn killed_starts(s: &SubjectResult) -> Option<usize> {
    let has_stopped = !s.stop_ms.values.is_empty();
    has_stopped.then_some(s.stop_killed)
}

/// Formats the passed checks and all checks of a subject: `3/4`, with a mark if its file waives
/// some. `–`: the subject has no checks.
pub(crate) fn passed_checks_text(r: &OverviewRow) -> String {
    or_dash(Some(r.checks).filter(|n| *n > 0), |n| match r.checks_waived {
        0 => format!("{}/{n}", r.checks_passed),
        waived => format!("{}/{n} ✗ {waived} waived", r.checks_passed),
    })
}

/// Formats the place of a subject: `1`, or `1–3` if tests do not decide between these places. `–`:
/// the subject has no place.
pub(crate) fn place_text(r: &OverviewRow) -> String {
    or_dash(r.places, |p| {
        if p.best == p.worst { p.best.to_string() } else { format!("{}–{}", p.best, p.worst) }
    })
}

/// Formats a step: `64` (connections), or `64 × 10 streams × 4 pipelined at 1,000/s (2)`. Factors
/// of 1, a missing rate and a first pass are omitted.
pub(crate) fn label(at: Shape) -> String {
    label_with(at, rate)
}

/// Formats a step as [`label`] does, with rates as `number` formats them.
pub(crate) fn label_with(at: Shape, number: impl Fn(f64) -> String) -> String {
    let factor = |n: u32, unit: &str| if n > 1 { format!(" × {n} {unit}") } else { String::new() };
    let rate = at.rate_text(number);
    let pass = if at.pass > 1 { format!(" ({})", at.pass) } else { String::new() };
    format!(
        "{}{}{}{rate}{pass}",
        at.connections,
        factor(at.streams, "streams"),
        factor(at.pipeline, "pipelined")
    )
}

/// Formats the offered rate: `1,000`, `500–1,500/s`, or `–` in a closed loop.
pub(crate) fn rate_cell(at: Shape) -> String {
    let schedule = || at.schedule.map_or_else(|| "–".into(), |schedule| schedule.label(rate));
    at.rate.map_or_else(schedule, rate)
}

/// Describes a step within a sentence: `64 connections × 10 streams`.
pub(crate) fn label_in_words(at: Shape) -> String {
    at.in_words(rate)
}

/// Describes a step: `64 connections`, or `64 connections × 10 streams at 1,000/s of h2`.
pub(crate) fn step_in_words(report: &Report, workload: &str, at: Shape) -> String {
    let workload =
        if report.run.workloads.len() > 1 { format!(" of {workload}") } else { String::new() };
    format!("{}{workload}", label_in_words(at))
}

/// Lists the names of a step's caveats.
pub(crate) fn caveat_names(caveats: &[StepCaveat]) -> String {
    caveats.iter().map(|c| c.code.in_words()).collect::<Vec<_>>().join(", ")
}

/// Formats the limiter of a step with the confidence of the verdict: `elsewhere (likely)`.
pub(crate) fn limiter_text(resource: Resource, confidence: Confidence) -> String {
    format!("{}{}", resource.name().replace('_', " "), confidence.mark(resource))
}

#[cfg(test)]
mod tests {
    use dyno_analysis::cell::RateChange;

    use super::*;

    #[test]
    fn common_reference_of_mixed_rows_is_in_flight() {
        use Reference::{Connections, InFlight};
        assert_eq!(common_reference(&[Connections(64), Connections(64)]), Some(Connections(64)));
        assert_eq!(common_reference(&[Connections(100), InFlight(100)]), Some(InFlight(100)));
        assert_eq!(common_reference(&[Connections(100), InFlight(1000)]), None);
        assert_eq!(common_reference(&[]), None);
        assert_eq!(Connections(1).in_words(), "1 connection");
        assert_eq!(InFlight(100).in_words(), "100 in flight");
    }

    #[test]
    fn label_omits_factors_of_one() {
        let at = |connections, streams, pipeline, rate| Shape {
            connections,
            streams,
            pipeline,
            rate,
            schedule: None,
            pass: 1,
        };
        assert_eq!(label(at(64, 1, 1, None)), "64");
        assert_eq!(label(at(256, 10, 1, None)), "256 × 10 streams");
        assert_eq!(label(at(256, 1, 16, Some(1000.0))), "256 × 16 pipelined at 1,000/s");
        assert_eq!(label(Shape { pass: 3, ..at(1, 1, 1, None) }), "1 (3)");
        let schedule =
            |from, to, stretches| Some(RateChange { from_rps: from, to_rps: to, stretches });
        let varying = |schedule| label(Shape { schedule, ..at(4, 1, 1, None) });
        assert_eq!(varying(schedule(Some(500.0), Some(1500.0), 1)), "4 at 500–1,500/s");
        assert_eq!(varying(schedule(Some(500.0), Some(900.0), 3)), "4 at 500…900/s in 3 stretches");
        assert_eq!(varying(schedule(None, None, 0)), "4 at recorded times");
        assert_eq!(label_in_words(at(1, 1, 1, None)), "1 connection");
        assert_eq!(label_in_words(at(256, 10, 1, None)), "256 connections × 10 streams");
    }

    #[test]
    fn limiter_text_shows_confidence() {
        assert_eq!(limiter_text(Resource::ServerCpu, Confidence::High), "server cpu");
        assert_eq!(limiter_text(Resource::Elsewhere, Confidence::Medium), "elsewhere (likely)");
        assert_eq!(limiter_text(Resource::Concurrency, Confidence::Low), "concurrency (a guess)");
        assert_eq!(limiter_text(Resource::Unknown, Confidence::Low), "unknown");
    }
}
