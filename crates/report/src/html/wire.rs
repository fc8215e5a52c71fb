//! Traffic on the wire: protocol, streams, frames and segments.

use std::collections::{BTreeMap, BTreeSet};

use dyno_analysis::load::Http2Result;
use dyno_analysis::protocols::ProtocolComparison;
use dyno_analysis::report::Report;
use dyno_analysis::stats::Repeated;
use dyno_analysis::trial::TrialResult;
use dyno_analysis::wire::WireResult;
use dyno_archive::Protocol;
use dyno_archive::load::TlsUse;
use maud::{Markup, html};

use super::part_scope::PartScope;
use super::table::{Column, TableCell, table_of, text, value};
use super::{count_cell, more, note, trial_table};
use crate::format::{count, micros, number, percent};

/// Segments, and HTTP/2's frames, in a row per subject and protocol; every trial folded.
pub(super) fn wire(report: &Report) -> Markup {
    let over_h2: Vec<Http2OfTrial<'_>> =
        report.trials.iter().filter_map(|t| Some((t, t.load.http2.as_ref()?))).collect();
    let in_h2: Vec<&WireResult> = report.wire.iter().filter(|w| w.protocol.is_h2()).collect();
    let is_shared = |w: &WireResult| workloads_of(report, w).len() > 1;
    let together = if report.wire.iter().any(is_shared) { TOGETHER } else { "" };
    html! {
        (note(&format!("Medians over all trials of a subject and protocol. Below them: the lowest \
                        and highest trial.{together}")))
        (grouped_rows(report, &report.wire.iter().collect::<Vec<_>>(), &SEGMENTS))
        (more("Every trial", &trial_table(report, &report.trials, |t| t, &EVERY_TRIAL)))
        (by_protocol(report))
        @if !over_h2.is_empty() {
            h3 { "HTTP/2: frames and segments" } "\n"
            (note("A server that writes HEADERS and DATA together needs one segment for a small \
                   response. A server that writes each frame by itself needs one segment per \
                   frame. Several responses may share a segment if there are many streams."))
            (grouped_rows(report, &in_h2, &FRAMES))
            (more("Every trial", &frames_of_every_trial(report, &over_h2)))
        }
    }
}

const TOGETHER: &str = " Workloads of one protocol are combined.";

/// A column: its head, its metric's key, and how a value is shown.
type WireMetric = (&'static str, &'static str, fn(f64) -> String);

const SEGMENTS: [WireMetric; 4] = [
    ("#Segments per response", "segments_per_response", two_places),
    ("#Bytes in per response", "bytes_in_per_response", number),
    ("#Bytes out per response", "bytes_out_per_response", number),
    ("#Retransmits", "retransmits", whole_number),
];

const FRAMES: [WireMetric; 8] = [
    ("#Frames per response", "frames_per_response", two_places),
    ("#Frames per segment", "frames_per_segment", two_places),
    ("#Segments per response", "http2_segments_per_response", two_places),
    ("#Responses per receive", "responses_per_receive", two_places),
    ("#HPACK saves, in", "header_bytes_saved_in", percent),
    ("#HPACK saves, out", "header_bytes_saved_out", percent),
    ("#Window stalls", "window_stalls", whole_number),
    ("#Sent again", "requests_retried", whole_number),
];

/// A row per subject and protocol, in the order in which they first ran.
fn grouped_rows(report: &Report, rows: &[&WireResult], measured: &[WireMetric]) -> Markup {
    let named: [Column<'_, &WireResult>; 3] = [
        ("Subject", &|w| text(&w.subject)),
        ("Protocol", &|w| text(protocol(w.protocol))),
        ("#Trials", &|w| count_cell(w.trials as u64)),
    ];
    let cells: Vec<_> = measured
        .iter()
        .map(|(name, key, show)| {
            (*name, move |w: &&WireResult| spread_cell(w.metrics.get(key), *show))
        })
        .collect();
    let columns = cells.iter().map(|(name, cell)| -> Column<'_, &WireResult> { (name, cell) });
    table_of("sortable", &named.into_iter().chain(columns).collect::<Vec<_>>(), rows, |w| {
        PartScope::subject(report, &w.subject).with_workloads(report, workloads_of(report, w))
    })
}

/// The workloads that a row of [`grouped_rows`] is over.
fn workloads_of(report: &Report, w: &WireResult) -> BTreeSet<usize> {
    let is_own =
        |t: &&TrialResult| t.subject_id == w.subject && t.load.config.protocol == w.protocol;
    report.trials.iter().filter(is_own).map(|t| t.cell.workload).collect()
}

/// The median, below it the least and the most where they differ.
fn spread_cell(over: Option<&Repeated>, show: fn(f64) -> String) -> TableCell {
    let cell = value(over.and_then(|q| q.median), show);
    let ends = over.and_then(|q| q.min.map(show).zip(q.max.map(show)));
    match ends {
        Some((least, most)) if least != most => cell.with_small(format!("{least}–{most}")),
        _ => cell,
    }
}

fn protocol(protocol: Protocol) -> String {
    let tls = if protocol.is_tls() { " over TLS" } else { "" };
    format!("{}{tls}", protocol.base_name())
}

fn two_places(n: f64) -> String {
    format!("{n:.2}")
}

fn whole_number(n: f64) -> String {
    count(n as u64)
}

const EVERY_TRIAL: [Column<'_, TrialResult>; 7] = [
    ("Protocol", &|t| text(t.load.config.protocol.base_name())),
    ("#Requests/s", &|t| value(Some(t.load.throughput_rps), number)),
    ("#Segments per response", &|t| value(t.load.tcp.data_segments_per_response, two_places)),
    ("#Bytes in per response", &|t| {
        value(t.load.bytes.per_response(t.load.bytes.received), number)
    }),
    ("#Bytes out per response", &|t| value(t.load.bytes.per_response(t.load.bytes.sent), number)),
    ("#Retransmits", &|t| value(t.load.tcp.retransmits.map(|n| n as f64), whole_number)),
    ("TLS", &|t| text(t.load.tls.as_ref().map_or("–".into(), tls_text))),
];

/// TLS version, cipher suite and ALPN protocol.
fn tls_text(tls: &TlsUse) -> String {
    let word = |of: &Option<String>| of.clone().unwrap_or_else(|| "–".into());
    format!("{} {}, ALPN {}", word(&tls.version), word(&tls.cipher_suite), word(&tls.alpn))
}

/// HTTP/2 against HTTP/1.1. Empty unless the suite has the same requests in both.
fn by_protocol(report: &Report) -> Markup {
    if report.protocols.is_empty() {
        return Markup::default();
    }
    html! {
        h3 { "By protocol" } "\n"
        (note("The same request to the same server with equally many requests in flight: ratios to \
               HTTP/1.1, one per repeat. HTTP/2 needs fewer connections for that, which is part of \
               the comparison."))
        (by_protocol_table(report))
    }
}

fn by_protocol_table(report: &Report) -> Markup {
    let of: [Column<'_, ProtocolComparison>; 2] =
        [("Subject", &|c| text(&c.subject)), ("Workload", &|c| text(&c.workload))];
    table_of(
        "sortable",
        &of.into_iter().chain(BY_PROTOCOL).collect::<Vec<_>>(),
        &report.protocols,
        |c| {
            PartScope::subject(report, &c.subject).with_workloads(report, both_workloads(report, c))
        },
    )
}

/// The workloads over HTTP/2 and over HTTP/1.1.
fn both_workloads(report: &Report, c: &ProtocolComparison) -> impl Iterator<Item = usize> {
    let all = report.run.workloads.iter().enumerate();
    all.filter(|(_, w)| w.name == c.workload || w.name == c.baseline).map(|(index, _)| index)
}

const BY_PROTOCOL: [Column<'_, ProtocolComparison>; 9] = [
    ("Against", &|c| text(compared_with_text(c))),
    ("#In flight", &|c| count_cell(c.in_flight)),
    ("#Connections", &|c| connections(c)),
    ("#Streams", &|c| count_cell(u64::from(c.streams))),
    ("#HTTP/1.1 connections", &|c| count_cell(u64::from(c.baseline_connections))),
    ("#HTTP/1.1 pipeline", &|c| count_cell(u64::from(c.baseline_pipeline))),
    ("#Requests/s, ratio", &|c| each(&c.throughput_ratio)),
    ("#Response p99, ratio", &|c| each(&c.response_p99_ratio)),
    ("#CPU per request, ratio", &|c| each(&c.cpu_per_request_ratio)),
];

/// With the pass, where steps come again.
fn connections(c: &ProtocolComparison) -> TableCell {
    match c.pass {
        1 => count_cell(u64::from(c.connections)),
        pass => text(format!("{} ({pass})", c.connections)),
    }
}

fn compared_with_text(c: &ProtocolComparison) -> String {
    if c.baseline_subject == c.subject {
        c.baseline.clone()
    } else {
        format!("{} of {}", c.baseline, c.baseline_subject)
    }
}

/// The ratio of each pair of repeats.
fn each(q: &Repeated) -> TableCell {
    let each: Vec<String> = q.values.iter().map(|r| two_places(*r)).collect();
    text(each.join("  ")).sorted_by(q.median)
}

type Http2OfTrial<'a> = (&'a TrialResult, &'a Http2Result);

fn frames_of_every_trial(report: &Report, trials: &[Http2OfTrial<'_>]) -> Markup {
    trial_table(
        report,
        trials,
        |(t, _)| t,
        &[
            ("#Streams requested", &|(_, h)| count_cell(u64::from(h.streams.asked))),
            ("#Allowed", &|(_, h)| value(h.streams.granted.map(f64::from), whole_number)),
            ("#Most", &|(_, h)| count_cell(h.streams.most)),
            ("Frames per response", &|(_, h)| text(frames(h))),
            ("#Frames per segment", &|(_, h)| value(h.frames_per_segment, two_places)),
            ("#Segments per response", &|(_, h)| value(h.segments_per_response, two_places)),
            ("#Responses per receive", &|(_, h)| value(h.responses_per_receive, two_places)),
            ("#Records per response", &|(_, h)| value(h.tls_records_per_response, two_places)),
            ("#WINDOW_UPDATE sent per response", &|(_, h)| {
                value(h.window_updates_out_per_response, |n| format!("{n:.4}"))
            }),
            ("#HPACK saves, in", &|(_, h)| value(h.header_fields_in.saved, percent)),
            ("#HPACK saves, out", &|(_, h)| value(h.header_fields_out.saved, percent)),
            ("#Window stalls", &|(_, h)| count_cell(h.window_stall_us.count)),
            ("#Stall p50", &|(_, h)| value(h.window_stall_us.p50, micros)),
            ("#PINGs", &|(_, h)| count_cell(h.pings_in)),
            ("Resets", &|(_, h)| text(by_code(&h.resets_in, &h.resets_out))),
            ("GOAWAY", &|(_, h)| text(by_code(&h.goaways, &h.goaways_out))),
            ("#Sent again", &|(_, h)| count_cell(h.retried)),
        ],
    )
}

/// Frames per response by kind; kinds that would read 0.000 are left out.
fn frames(h: &Http2Result) -> String {
    let often = h.frames_per_response.iter().filter(|(_, n)| **n >= 0.0005);
    often.map(|(kind, n)| format!("{n:.3} {kind}")).collect::<Vec<_>>().join(", ")
}

/// `3 CANCEL in, 1 NO_ERROR out`.
fn by_code(received: &BTreeMap<String, u64>, sent: &BTreeMap<String, u64>) -> String {
    let received = received.iter().map(|(code, n)| format!("{} {code} in", count(*n)));
    let sent = sent.iter().map(|(code, n)| format!("{} {code} out", count(*n)));
    let all: Vec<String> = received.chain(sent).collect();
    if all.is_empty() { "–".into() } else { all.join(", ") }
}
