//! Columns and labels of the overview, which the forms of a report share.

use dyno_analysis::Report;
use dyno_analysis::cell::Shape;
use dyno_analysis::overview::{BackendRow, OverviewRow};
use dyno_analysis::subject::SubjectResult;
use dyno_analysis::verdict::{Confidence, Resource};

use crate::format::{
    Quantile, bytes, count, micros, millis, number, or_dash, percent, plural, wait_at_step,
};

/// The reference step, after `sign`: ` at 64` (connections), or ` at 100 in flight` with streams or
/// pipelines. Empty if rows differ, because their workloads have different steps.
pub(crate) fn reference_text(rows: &[OverviewRow], sign: &str) -> String {
    let rate = rate_of_reference(rows);
    match reference(rows) {
        Some(Reference::Connections(n)) => format!(" {sign}{n}{rate}"),
        Some(Reference::InFlight(n)) => format!(" {sign}{n} in flight{rate}"),
        None => String::new(),
    }
}

/// ` at 10,000/s` where all rows with numbers are of one offered rate; empty in closed loops.
fn rate_of_reference(rows: &[OverviewRow]) -> String {
    let mut rates =
        rows.iter().filter(|r| r.highest_throughput().is_some()).map(|r| r.reference_at.rate);
    let first = rates.next().flatten();
    first
        .filter(|_| rates.all(|rate| rate == first))
        .map_or_else(String::new, |rate| format!(" at {}/s", number(rate)))
}

/// [`reference_text`] within a sentence.
pub(crate) fn reference_in_words(rows: &[OverviewRow]) -> String {
    match reference(rows) {
        Some(at) => format!("at {}{}", at.in_words(), rate_of_reference(rows)),
        None => "at the step of each workload that is nearest to 64 in flight".into(),
    }
}

/// The load at a row's reference step: its connections if each has one request in flight, else all
/// requests in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    Connections(u64),
    InFlight(u64),
}

impl Reference {
    pub(crate) fn from_row(row: &OverviewRow) -> Reference {
        if row.reference_in_flight == u64::from(row.reference_connections) {
            Reference::Connections(row.reference_in_flight)
        } else {
            Reference::InFlight(row.reference_in_flight)
        }
    }

    /// `64 connections` or `100 in flight`.
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

/// The reference that all rows with numbers share: connections if all agree, else requests in
/// flight; `None`: they differ.
fn reference(rows: &[OverviewRow]) -> Option<Reference> {
    common_reference(
        &rows
            .iter()
            .filter(|r| r.highest_throughput().is_some())
            .map(Reference::from_row)
            .collect::<Vec<_>>(),
    )
}

fn common_reference(all: &[Reference]) -> Option<Reference> {
    let first = *all.first()?;
    if all.iter().any(|r| r.in_flight() != first.in_flight()) {
        return None;
    }
    Some(if all.iter().all(|r| *r == first) {
        first
    } else {
        Reference::InFlight(first.in_flight())
    })
}

/// A row's percentile of response times at its reference step, as [`wait_at_step`] shows it.
pub(crate) fn wait_at_reference(report: &Report, r: &OverviewRow, q: Quantile) -> String {
    let invalid = r.invalid.and_then(|of| match q {
        Quantile::P50 => of.response_p50_us,
        Quantile::P99 => of.response_p99_us,
        Quantile::P90 => None,
    });
    match invalid {
        Some(us) => mark_invalid(&micros(us)),
        None => report
            .summary(r.reference_cell)
            .map_or_else(|| "–".into(), |step| wait_at_step(step, q)),
    }
}

/// A row's p50 and p99, as [`wait_at_reference`] shows them.
pub(crate) fn waits_at_reference(report: &Report, r: &OverviewRow) -> [String; 2] {
    [Quantile::P50, Quantile::P99].map(|q| wait_at_reference(report, r, q))
}

/// A column of the overview as text: its head on a terminal, its head where there is room, and its
/// cell.
pub(crate) struct OverviewColumn {
    pub(crate) short: &'static str,
    pub(crate) title: &'static str,
    pub(crate) cell: fn(&Report, &OverviewRow) -> String,
}

const fn column(
    short: &'static str,
    title: &'static str,
    cell: fn(&Report, &OverviewRow) -> String,
) -> OverviewColumn {
    OverviewColumn { short, title, cell }
}

/// The cells of a back end in a table of the overview: its name, and a cell for each of
/// [`COLUMNS`], of which it has few.
pub(crate) fn backend_cells(b: &BackendRow) -> Vec<String> {
    let share = b.cpu_share.map(|share| format!(" ({})", percent(share))).unwrap_or_default();
    let mut row = vec![format!("+ {}", b.name)];
    row.extend(COLUMNS.iter().map(|column| match column.short {
        "CPU/req" => or_dash(b.cpu_us_per_request, |us| format!("{}{share}", micros(us))),
        "memory" => or_dash(b.memory_peak_bytes, bytes),
        "start-up" => or_dash(b.startup_ms, millis),
        _ => String::new(),
    }));
    row
}

/// `17,900`, `≥ 23,000` of a lower bound, `~ 1,250` of a mean of several levels, or `12,300 ✗` of
/// repeats that are not valid.
pub(crate) fn peak(r: &OverviewRow) -> String {
    let invalid = r.invalid.and_then(|of| of.peak_rps);
    let known = r.most_rps().map(|rps| format!("{}{}", peak_mark(r), number(rps)));
    or_invalid(known, invalid, number)
}

/// A figure, or else that of repeats that are not valid, with a mark; `–`: there is neither.
fn or_invalid(known: Option<String>, invalid: Option<f64>, show: fn(f64) -> String) -> String {
    or_dash(known.or_else(|| Some(mark_invalid(&show(invalid?)))), |text| text)
}

/// A figure of repeats that are not valid.
fn mark_invalid(figure: &str) -> String {
    format!("{figure} ✗")
}

/// A row's CPU time per request.
pub(crate) fn cpu(r: &OverviewRow) -> String {
    let invalid = r.invalid.and_then(|of| of.cpu_us_per_request);
    or_invalid(r.cpu_us_per_request.map(micros), invalid, micros)
}

/// The mark ✗ explained; `None`: no row has one.
pub(crate) fn invalid_note(rows: &[OverviewRow]) -> Option<&'static str> {
    let has_invalid = rows.iter().any(|r| r.invalid.is_some());
    has_invalid.then_some("✗: a median of repeats that are not valid. No verdict uses it.")
}

/// The sign before a peak that may be higher, or that is a mean of several levels; else nothing.
pub(crate) const fn peak_mark(r: &OverviewRow) -> &'static str {
    match (r.peak_is_lower_bound, r.peak_mixture.is_some()) {
        (true, true) => "≥ ~ ",
        (true, false) => "≥ ",
        (false, true) => "~ ",
        (false, false) => "",
    }
}

/// The meaning of `~`, if it occurs.
pub(crate) fn mixture_note(rows: &[OverviewRow]) -> Option<&'static str> {
    const NOTE: &str = "~: throughput changed its level within the measured windows, so the server \
                        never sustained this mean.";
    rows.iter()
        .any(|row| row.highest_throughput().is_some() && row.peak_mixture.is_some())
        .then_some(NOTE)
}

/// Number of a subject's starts that had to be killed; `None`: none was stopped.
pub(crate) fn killed_starts(s: &SubjectResult) -> Option<usize> {
    Some(s.stop_killed).filter(|_| !s.stop_ms.values.is_empty())
}

/// `3/4`: the checks that a subject passed, of all its checks, with a mark if its file lets it fail
/// some; `–` if it had none.
pub(crate) fn passed_checks_text(r: &OverviewRow) -> String {
    or_dash(Some(r.checks).filter(|n| *n > 0), |n| match r.checks_waived {
        0 => format!("{}/{n}", r.checks_passed),
        waived => format!("{}/{n} ✗ {waived} waived", r.checks_passed),
    })
}

/// `1`, or `1–3` where tests leave several places open; `–`: nothing does.
pub(crate) fn place(r: &OverviewRow) -> String {
    or_dash(r.places, |p| {
        if p.best == p.worst { p.best.to_string() } else { format!("{}–{}", p.best, p.worst) }
    })
}

/// Columns of every text form, between a subject's name and its limiter.
pub(crate) const COLUMNS: [OverviewColumn; 12] = [
    column("peak req/s", "Peak requests/s", |_, r| peak(r)),
    column("at", "At", |_, r| {
        let at = r.highest_throughput().map(|(_, at)| at).or(r.invalid.and_then(|of| of.peak_at));
        or_dash(at, label)
    }),
    column("range", "Range", |_, r| {
        let spread = r.highest_throughput().and_then(|(most, _)| most.spread());
        or_dash(spread, |(a, b)| format!("{}–{}", number(a), number(b)))
    }),
    column("place", "Place", |_, r| place(r)),
    column("reference", "Reference", |_, r| {
        let is_measured =
            r.response_p50_us.or(r.cpu_us_per_request).is_some() || r.invalid.is_some();
        or_dash(Some(r.reference_at).filter(|_| is_measured), label)
    }),
    column("p50", "p50", |report, r| wait_at_reference(report, r, Quantile::P50)),
    column("p99", "p99", |report, r| wait_at_reference(report, r, Quantile::P99)),
    column("CPU/req", "CPU per request", |_, r| cpu(r)),
    column("memory", "Memory", |_, r| or_dash(r.memory_peak_bytes, bytes)),
    column("start-up", "Start-up", |_, r| or_dash(r.startup_ms, millis)),
    column("errors", "Errors", |_, r| count(r.errors)),
    column("checks", "Checks", |_, r| passed_checks_text(r)),
];

/// Note below the overview: the step that each figure belongs to.
const OF_WHICH_STEP: &str = "Range: of the repeats, or, from five on, the 95 % interval of their \
                             median. Peak, range, place and limit: of the step under \"at\" \
                             (connections), which has the best median throughput. Steps with three \
                             valid repeats or more are preferred. ≥: a lower bound, because \
                             repeats that do not count may hide a higher peak. p50, p99 and CPU: \
                             of the step under \"reference\", the last pass of the workload's step \
                             nearest to 64 in flight. Memory: the maximum of all steps. Errors: \
                             the sum of all steps.";

/// The notes below the overview.
pub(crate) fn notes(rows: &[OverviewRow]) -> String {
    let all = [OF_WHICH_STEP].into_iter().chain(mixture_note(rows)).chain(invalid_note(rows));
    all.collect::<Vec<_>>().join(" ")
}

/// `64` (connections), or `64 × 10 streams × 4 pipelined at 1,000/s (2)`: factors of 1, a missing
/// rate and a first pass are left out.
pub(crate) fn label(at: Shape) -> String {
    let times = |n: u32, what: &str| if n > 1 { format!(" × {n} {what}") } else { String::new() };
    let rate = at.rate_text(number);
    let pass = if at.pass > 1 { format!(" ({})", at.pass) } else { String::new() };
    format!(
        "{}{}{}{rate}{pass}",
        at.connections,
        times(at.streams, "streams"),
        times(at.pipeline, "pipelined")
    )
}

/// `1,000`, `500–1,500/s`; `–` in a closed loop.
pub(crate) fn rate_cell(at: Shape) -> String {
    let schedule = || at.schedule.map_or_else(|| "–".into(), |schedule| schedule.label(number));
    at.rate.map_or_else(schedule, number)
}

/// [`label`] within a sentence: `64 connections × 10 streams`.
pub(crate) fn label_in_words(at: Shape) -> String {
    let whole = label(at);
    let rest = whole.strip_prefix(&at.connections.to_string()).unwrap_or_default();
    format!("{}{rest}", plural(u64::from(at.connections), "connection"))
}

/// `elsewhere (likely)`: what limited a step, and how sure the verdict is.
pub(crate) fn limiter_text(resource: Resource, confidence: Confidence) -> String {
    format!("{}{}", resource.name().replace('_', " "), confidence.mark(resource))
}

#[cfg(test)]
mod tests {
    use dyno_analysis::cell::RateChange;

    use super::*;

    #[test]
    fn reference_is_said_in_what_all_rows_share() {
        use Reference::{Connections, InFlight};
        assert_eq!(common_reference(&[Connections(64), Connections(64)]), Some(Connections(64)));
        assert_eq!(common_reference(&[Connections(100), InFlight(100)]), Some(InFlight(100)));
        assert_eq!(common_reference(&[Connections(100), InFlight(1000)]), None);
        assert_eq!(common_reference(&[]), None);
        assert_eq!(Connections(1).in_words(), "1 connection");
        assert_eq!(InFlight(100).in_words(), "100 in flight");
    }

    #[test]
    fn step_is_named_by_what_is_not_one() {
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
    fn limit_says_how_sure_it_is() {
        assert_eq!(limiter_text(Resource::ServerCpu, Confidence::High), "server cpu");
        assert_eq!(limiter_text(Resource::Elsewhere, Confidence::Medium), "elsewhere (likely)");
        assert_eq!(limiter_text(Resource::Concurrency, Confidence::Low), "concurrency (a guess)");
        assert_eq!(limiter_text(Resource::Unknown, Confidence::Low), "unknown");
    }
}
