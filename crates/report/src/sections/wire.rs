//! Arranges the section on network traffic: protocol, streams, frames and segments.

use std::collections::{BTreeMap, BTreeSet};

use dyno_analysis::load::Http2Result;
use dyno_analysis::metric::{MetricId, Unit};
use dyno_analysis::peak::RatioBound;
use dyno_analysis::protocols::ProtocolComparison;
use dyno_analysis::report::Report;
use dyno_analysis::stats::Repeated;
use dyno_analysis::trial::TrialResult;
use dyno_analysis::wire::WireResult;
use dyno_model::load::TlsUse;

use super::{REQUESTS_PER_SECOND, count_cell, every_trial, trial_table};
use crate::format::{count, micros, number, percent, protocol_name, quantity};
use crate::present::block::Block;
use crate::present::part_scope::PartScope;
use crate::present::table::{Column, ReportTable, TableCell, text, value};

/// Returns tables of segments and HTTP/2 frames, with a row per subject and protocol. The tables of
/// all trials are folded.
pub(super) fn wire(report: &Report) -> Block {
    let h2_trials: Vec<Http2Trial<'_>> =
        report.trials.iter().filter_map(|t| Some((t, t.load.http2.as_ref()?))).collect();
    let h2_rows: Vec<&WireResult> = report.wire.iter().filter(|w| w.protocol.is_h2()).collect();
    let is_shared = |w: &WireResult| workloads_of(report, w).len() > 1;
    let note_on_workloads =
        if report.wire.iter().any(is_shared) { COMBINED_WORKLOADS_NOTE } else { "" };
    let mut blocks = vec![
        Block::note(&format!(
            "Each number is the median over all trials of a subject and protocol. The lowest and \
             the highest trial are in smaller text or in parentheses.{note_on_workloads}"
        )),
        grouped_rows(report, &report.wire.iter().collect::<Vec<_>>(), &SEGMENTS),
        every_trial(segments_of_every_trial(report)),
        by_protocol(report),
    ];
    if !h2_trials.is_empty() {
        blocks.extend([
            Block::Heading("HTTP/2: frames and segments".into()),
            Block::note(FRAMES_NOTE),
            grouped_rows(report, &h2_rows, &FRAMES),
            every_trial(frames_of_every_trial(report, &h2_trials)),
        ]);
    }
    Block::Group(blocks)
}

const FRAMES_NOTE: &str = "A server that writes HEADERS and DATA together needs one segment for a \
                           small response. A server that writes each frame separately needs one \
                           segment per frame. Several responses may share a segment if there are \
                           many streams.";

const COMBINED_WORKLOADS_NOTE: &str = " Workloads of one protocol are combined.";

/// A column of tables of medians and of tables of trials: its head, its metric, and the function
/// that formats a value. A head with the prefix `#` marks a column of numbers.
type WireMetric = (&'static str, MetricId, fn(f64) -> String);

const SEGMENTS: [WireMetric; 4] = [
    ("#Segments per response", MetricId::Segments, two_places),
    ("#Bytes received per response", MetricId::BytesReceived, number),
    ("#Bytes sent per response", MetricId::BytesSent, number),
    ("#Retransmits", MetricId::Retransmits, count_text),
];

const FRAMES: [WireMetric; 8] = [
    ("#Frames per response", MetricId::Frames, two_places),
    ("#Frames per segment", MetricId::FramesPerSegment, two_places),
    ("#Segments per response", MetricId::Http2Segments, two_places),
    ("#Responses per receive", MetricId::ResponsesPerReceive, two_places),
    ("#HPACK savings, received", MetricId::HeaderBytesSavedIn, percent),
    ("#HPACK savings, sent", MetricId::HeaderBytesSavedOut, percent),
    ("#Window stalls", MetricId::WindowStalls, count_text),
    ("#Retried", MetricId::RequestsRetried, count_text),
];

/// Returns a table with a row per subject and protocol, in the order in which they first ran.
fn grouped_rows(report: &Report, rows: &[&WireResult], metrics: &[WireMetric]) -> Block {
    let name_columns: [Column<'_, &WireResult>; 3] = [
        ("Subject", &|w| text(&w.subject)),
        ("Protocol", &|w| text(protocol_name(w.protocol))),
        ("#Trials", &|w| count_cell(w.trials as u64)),
    ];
    let cells: Vec<_> = metrics
        .iter()
        .map(|(name, id, show)| {
            (*name, move |w: &&WireResult| spread_cell(w.metrics.get(id), *show))
        })
        .collect();
    let columns = cells.iter().map(|(name, cell)| -> Column<'_, &WireResult> { (name, cell) });
    Block::Table(ReportTable::scoped(
        "sortable",
        &name_columns.into_iter().chain(columns).collect::<Vec<_>>(),
        rows,
        |w| PartScope::subject(report, &w.subject).with_workloads(report, workloads_of(report, w)),
    ))
}

/// Returns the workloads that a row of [`grouped_rows`] combines.
fn workloads_of(report: &Report, w: &WireResult) -> BTreeSet<usize> {
    let is_in_row =
        |t: &&TrialResult| t.subject_id == w.subject && t.load.config.protocol == w.protocol;
    report.trials.iter().filter(is_in_row).map(|t| t.cell.workload).collect()
}

/// Returns the cell of the median. The lowest and the highest value are below it if they differ.
fn spread_cell(values: Option<&Repeated>, show: fn(f64) -> String) -> TableCell {
    let cell = value(values.and_then(|q| q.median), show);
    let ends = values.and_then(|q| q.min.map(show).zip(q.max.map(show)));
    match ends {
        Some((lowest, highest)) if lowest != highest => {
            cell.with_small(format!("{lowest}–{highest}"))
        }
        _ => cell,
    }
}

/// Formats a number with two decimals.
fn two_places(n: f64) -> String {
    format!("{n:.2}")
}

/// Formats a count, or a median of counts, which may be a fraction.
fn count_text(n: f64) -> String {
    quantity(Unit::Count, n)
}

/// Returns the table of segments of each trial.
fn segments_of_every_trial(report: &Report) -> ReportTable {
    let first: [Column<'_, TrialResult>; 2] =
        [("Protocol", &|t| text(t.load.config.protocol.base_name())), REQUESTS_PER_SECOND];
    let last: [Column<'_, TrialResult>; 1] =
        [("TLS", &|t| text(t.load.tls.as_ref().map_or("–".into(), tls_text)))];
    metrics_of_trials(report, &report.trials, |t| t, (&first, &SEGMENTS, &last))
}

/// Returns a table with a row per trial or part of a trial: columns, columns of metrics, and more
/// columns.
fn metrics_of_trials<T>(
    report: &Report,
    rows: &[T],
    trial: fn(&T) -> &TrialResult,
    (first, metrics, last): (&[Column<'_, T>], &[WireMetric], &[Column<'_, T>]),
) -> ReportTable {
    let cells: Vec<_> = metrics
        .iter()
        .map(|(name, id, show)| {
            (*name, move |row: &T| value((id.metric().pick)(trial(row)), *show))
        })
        .collect();
    let metrics = cells.iter().map(|(name, cell)| -> Column<'_, T> { (name, cell) });
    let columns: Vec<Column<'_, T>> =
        first.iter().copied().chain(metrics).chain(last.iter().copied()).collect();
    trial_table(report, rows, trial, &columns)
}

/// Formats TLS version, cipher suite and ALPN protocol.
fn tls_text(tls: &TlsUse) -> String {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".into());
    format!("{} {}, ALPN {}", or_dash(&tls.version), or_dash(&tls.cipher_suite), or_dash(&tls.alpn))
}

/// Returns the comparison of HTTP/2 with HTTP/1.1. Empty if no request of the suite uses both.
fn by_protocol(report: &Report) -> Block {
    let table = ReportTable::scoped("sortable", &BY_PROTOCOL, &report.protocols, |c| {
        PartScope::subject(report, &c.subject).with_workloads(report, both_workloads(report, c))
    });
    Block::part("By protocol", BY_PROTOCOL_NOTE, table, "")
}

const BY_PROTOCOL_NOTE: &str = "Each ratio is HTTP/2 divided by HTTP/1.1, for the same request, \
                                server and number of requests in flight. Each repeat has a ratio. \
                                HTTP/2 uses fewer connections for the same number of requests in \
                                flight. ≥ or ≤ marks a bound, because some repeats of one protocol \
                                are excluded.";

/// Returns the workloads of a comparison, over HTTP/2 and over HTTP/1.1.
fn both_workloads(report: &Report, c: &ProtocolComparison) -> impl Iterator<Item = usize> {
    let workloads = report.run.workloads.iter().enumerate();
    workloads.filter(|(_, w)| w.name == c.workload || w.name == c.baseline).map(|(index, _)| index)
}

const BY_PROTOCOL: [Column<'_, ProtocolComparison>; 11] = [
    ("Subject", &|c| text(&c.subject)),
    ("Workload", &|c| text(&c.workload)),
    ("Compared with", &|c| text(baseline_text(c))),
    ("#In flight", &|c| count_cell(c.in_flight)),
    ("#Connections", &|c| connections_cell(c)),
    ("#Streams", &|c| count_cell(u64::from(c.streams))),
    ("#HTTP/1.1 connections", &|c| count_cell(u64::from(c.baseline_connections))),
    ("#HTTP/1.1 pipeline", &|c| count_cell(u64::from(c.baseline_pipeline))),
    ("#Requests/s, ratio", &|c| ratios_cell(bound_sign(c), c.ratio(MetricId::Throughput))),
    ("#Response p99, ratio", &|c| ratios_cell("", c.ratio(MetricId::ResponseP99))),
    ("#CPU per request, ratio", &|c| ratios_cell("", c.ratio(MetricId::Cpu))),
];

/// Returns the cell of the connections, with the pass if the steps were run again.
fn connections_cell(c: &ProtocolComparison) -> TableCell {
    match c.pass {
        1 => count_cell(u64::from(c.connections)),
        pass => text(format!("{} (pass {pass})", c.connections)),
    }
}

/// Names the workload to compare with, and its subject if that differs.
fn baseline_text(c: &ProtocolComparison) -> String {
    if c.baseline_subject == c.subject {
        c.baseline.clone()
    } else {
        format!("{} of {}", c.baseline, c.baseline_subject)
    }
}

/// Returns the sign before ratios of throughput that are bounds.
const fn bound_sign(c: &ProtocolComparison) -> &'static str {
    match c.throughput_bound {
        RatioBound::AtLeast => "≥ ",
        RatioBound::AtMost => "≤ ",
        RatioBound::Exact | RatioBound::Unknown => "",
    }
}

/// Returns a cell with the ratio of each pair of repeats, each after `sign`.
fn ratios_cell(sign: &str, q: &Repeated) -> TableCell {
    let ratios: Vec<String> =
        q.values.iter().map(|r| format!("{sign}{}", two_places(*r))).collect();
    text(ratios.join("  ")).sorted_by(q.median)
}

type Http2Trial<'a> = (&'a TrialResult, &'a Http2Result);

/// Returns the table of HTTP/2 frames, streams and errors of each trial. It has frames per response
/// by kind.
fn frames_of_every_trial(report: &Report, trials: &[Http2Trial<'_>]) -> ReportTable {
    let first: [Column<'_, Http2Trial<'_>>; 4] = [
        ("#Streams requested", &|(_, h)| count_cell(u64::from(h.streams.asked))),
        ("#Streams allowed", &|(_, h)| value(h.streams.granted.map(f64::from), count_text)),
        ("#Streams reached", &|(_, h)| count_cell(h.streams.max_open)),
        ("Frames per response", &|(_, h)| text(frames_text(h))),
    ];
    let last: [Column<'_, Http2Trial<'_>>; 6] = [
        ("#Records per response", &|(_, h)| value(h.tls_records_per_response, two_places)),
        ("#WINDOW_UPDATE sent per response", &|(_, h)| {
            value(h.window_updates_out_per_response, |n| format!("{n:.4}"))
        }),
        ("#Stall p50", &|(_, h)| value(h.window_stall_us.p50, micros)),
        ("#PINGs", &|(_, h)| count_cell(h.pings_in)),
        ("Resets", &|(_, h)| text(counts_by_code(&h.resets_in, &h.resets_out))),
        ("GOAWAY", &|(_, h)| text(counts_by_code(&h.goaways, &h.goaways_out))),
    ];
    metrics_of_trials(report, trials, |(t, _)| t, (&first, &FRAMES[1..], &last))
}

/// Lists frames per response by kind. Kinds that would read 0.000 are omitted.
fn frames_text(h: &Http2Result) -> String {
    let frequent = h.frames_per_response.iter().filter(|(_, n)| **n >= 0.0005);
    frequent.map(|(kind, n)| format!("{n:.3} {kind}")).collect::<Vec<_>>().join(", ")
}

/// Formats counts by code: `3 CANCEL in, 1 NO_ERROR out`.
fn counts_by_code(received: &BTreeMap<String, u64>, sent: &BTreeMap<String, u64>) -> String {
    let received = received.iter().map(|(code, n)| format!("{} {code} in", count(*n)));
    let sent = sent.iter().map(|(code, n)| format!("{} {code} out", count(*n)));
    let counts: Vec<String> = received.chain(sent).collect();
    if counts.is_empty() { "–".into() } else { counts.join(", ") }
}
