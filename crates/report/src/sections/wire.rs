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
use dyno_model::Protocol;
use dyno_model::load::TlsUse;

use super::{count_cell, every_trial, trial_table};
use crate::format::{count, micros, number, percent, quantity};
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
    let trials = trial_table(report, &report.trials, |t| t, &EVERY_TRIAL);
    let mut blocks = vec![
        Block::note(&format!(
            "Each number is the median over all trials of a subject and protocol. The lowest and \
             the highest trial are in smaller text or in parentheses.{note_on_workloads}"
        )),
        grouped_rows(report, &report.wire.iter().collect::<Vec<_>>(), &SEGMENTS),
        every_trial(trials),
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

/// A column: its head, the key of its metric, and the function that formats a value. A head with
/// the prefix `#` marks a column of numbers.
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

/// Returns the name of a protocol: `h2 over TLS`.
fn protocol_name(protocol: Protocol) -> String {
    let tls = if protocol.is_tls() { " over TLS" } else { "" };
    format!("{}{tls}", protocol.base_name())
}

/// Formats a number with two decimals.
fn two_places(n: f64) -> String {
    format!("{n:.2}")
}

/// Formats a count, or a median of counts, which may be a fraction.
fn count_text(n: f64) -> String {
    quantity(Unit::Count, n)
}

const EVERY_TRIAL: [Column<'_, TrialResult>; 7] = [
    ("Protocol", &|t| text(t.load.config.protocol.base_name())),
    ("#Requests/s", &|t| value(Some(t.load.throughput_rps), number)),
    ("#Segments per response", &|t| value(t.load.tcp.data_segments_per_response, two_places)),
    ("#Bytes received per response", &|t| {
        value(t.load.bytes.per_response(t.load.bytes.received), number)
    }),
    ("#Bytes sent per response", &|t| value(t.load.bytes.per_response(t.load.bytes.sent), number)),
    ("#Retransmits", &|t| value(t.load.tcp.retransmits.map(|n| n as f64), count_text)),
    ("TLS", &|t| text(t.load.tls.as_ref().map_or("–".into(), tls_text))),
];

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
    ("#Requests/s, ratio", &|c| throughput_ratios_cell(c)),
    ("#Response p99, ratio", &|c| ratios_cell(c.ratio(MetricId::ResponseP99))),
    ("#CPU per request, ratio", &|c| ratios_cell(c.ratio(MetricId::Cpu))),
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

/// Returns a cell with the ratio of throughput of each pair of repeats, marked if it is a bound.
fn throughput_ratios_cell(c: &ProtocolComparison) -> TableCell {
    let mark = match c.throughput_bound {
        RatioBound::AtLeast => "≥ ",
        RatioBound::AtMost => "≤ ",
        RatioBound::Exact | RatioBound::Unknown => "",
    };
    marked_ratios_cell(mark, c.ratio(MetricId::Throughput))
}

/// Returns a cell with the ratio of each pair of repeats.
fn ratios_cell(q: &Repeated) -> TableCell {
    marked_ratios_cell("", q)
}

/// Returns a cell with a ratio per pair of repeats, each after `mark`.
fn marked_ratios_cell(mark: &str, q: &Repeated) -> TableCell {
    let ratios: Vec<String> =
        q.values.iter().map(|r| format!("{mark}{}", two_places(*r))).collect();
    text(ratios.join("  ")).sorted_by(q.median)
}

type Http2Trial<'a> = (&'a TrialResult, &'a Http2Result);

/// Returns the table of HTTP/2 frames, streams and errors of each trial.
fn frames_of_every_trial(report: &Report, trials: &[Http2Trial<'_>]) -> ReportTable {
    trial_table(
        report,
        trials,
        |(t, _)| t,
        &[
            ("#Streams requested", &|(_, h)| count_cell(u64::from(h.streams.asked))),
            ("#Streams allowed", &|(_, h)| value(h.streams.granted.map(f64::from), count_text)),
            ("#Streams reached", &|(_, h)| count_cell(h.streams.max_open)),
            ("Frames per response", &|(_, h)| text(frames_text(h))),
            ("#Frames per segment", &|(_, h)| value(h.frames_per_segment, two_places)),
            ("#Segments per response", &|(_, h)| value(h.segments_per_response, two_places)),
            ("#Responses per receive", &|(_, h)| value(h.responses_per_receive, two_places)),
            ("#Records per response", &|(_, h)| value(h.tls_records_per_response, two_places)),
            ("#WINDOW_UPDATE sent per response", &|(_, h)| {
                value(h.window_updates_out_per_response, |n| format!("{n:.4}"))
            }),
            ("#HPACK savings, received", &|(_, h)| value(h.header_fields_in.saved, percent)),
            ("#HPACK savings, sent", &|(_, h)| value(h.header_fields_out.saved, percent)),
            ("#Window stalls", &|(_, h)| count_cell(h.window_stall_us.count)),
            ("#Stall p50", &|(_, h)| value(h.window_stall_us.p50, micros)),
            ("#PINGs", &|(_, h)| count_cell(h.pings_in)),
            ("Resets", &|(_, h)| text(counts_by_code(&h.resets_in, &h.resets_out))),
            ("GOAWAY", &|(_, h)| text(counts_by_code(&h.goaways, &h.goaways_out))),
            ("#Retried", &|(_, h)| count_cell(h.retried)),
        ],
    )
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
