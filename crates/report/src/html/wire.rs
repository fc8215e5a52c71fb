//! What went over the wire: protocol, streams, frames and segments.

use std::collections::BTreeMap;

use dyno_analysis::load::Http2;
use dyno_analysis::metric::Metric;
use dyno_analysis::protocols::ProtocolComparison;
use dyno_analysis::report::Report;
use dyno_analysis::stats::Repeated;
use dyno_analysis::trial::TrialResult;
use maud::{Markup, html};

use super::table::{Cell, table, text, value};
use super::{more, note};
use crate::format::{count, micros, number, percent};

type Column<'a> = (&'a str, &'a dyn Fn(&TrialResult) -> Option<f64>, fn(f64) -> String);

/// What each server did, in a row for each protocol, and HTTP/2's frames; every trial on demand.
pub(super) fn wire(report: &Report) -> Markup {
    let over_h2: Vec<&TrialResult> = report.trials.iter().filter(|t| t.load.http2.is_some()).collect();
    html! {
        (note("Medians over all trials of a subject and protocol, below them the least and the most of any trial."))
        (segments(&report.trials.iter().collect::<Vec<_>>()))
        (more("Every trial", &every_trial(report)))
        (by_protocol(report))
        @if !over_h2.is_empty() {
            h3 { "HTTP/2: frames and segments" } "\n"
            (note("A server that puts HEADERS and DATA into one write needs one segment for a small response; one that writes each frame by itself needs as many as there are frames. Several responses may share a segment where streams are many."))
            (frames(&over_h2))
            (more("Every trial", &frames_of_every_trial(&over_h2)))
        }
    }
}

/// A row per subject and protocol, in the order in which they first ran.
fn grouped(trials: &[&TrialResult], columns: &[Column<'_>]) -> Markup {
    let mut groups: Vec<((&str, String), Vec<&TrialResult>)> = Vec::new();
    for &t in trials {
        let key = (t.subject_id.as_str(), protocol(t));
        match groups.iter_mut().find(|(k, _)| *k == key) {
            Some((_, own)) => own.push(t),
            None => groups.push((key, vec![t])),
        }
    }
    let head: Vec<String> = ["Subject", "Protocol", "#Trials"]
        .into_iter()
        .map(String::from)
        .chain(columns.iter().map(|(name, ..)| format!("#{name}")))
        .collect();
    let row = |((subject, protocol), own): &((&str, String), Vec<&TrialResult>)| {
        let mut row = vec![text(subject), text(protocol), value(Some(own.len() as f64), |n| format!("{n}"))];
        row.extend(columns.iter().map(|(_, pick, show)| spread_cell(own, *pick, *show)));
        row
    };
    let rows: Vec<Vec<Cell>> = groups.iter().map(row).collect();
    table("sortable", &head.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
}

/// The median, below it the least and the most where they differ.
fn spread_cell(
    trials: &[&TrialResult],
    pick: &dyn Fn(&TrialResult) -> Option<f64>,
    show: fn(f64) -> String,
) -> Cell {
    let over = Repeated::new(trials.iter().filter_map(|t| pick(t)).collect());
    let cell = value(over.median, show);
    match over.min.map(show).zip(over.max.map(show)) {
        Some((least, most)) if least != most => cell.with_small(format!("{least}–{most}")),
        _ => cell,
    }
}

fn protocol(t: &TrialResult) -> String {
    let protocol = t.load.config.protocol;
    let tls = if protocol.is_tls() { " over TLS" } else { "" };
    format!("{}{tls}", protocol.base_name())
}

fn segments(trials: &[&TrialResult]) -> Markup {
    let columns: [Column<'_>; 4] = [
        ("Segments per response", &Metric::named("segments_per_response").pick, two_places),
        ("Bytes in per response", &Metric::named("bytes_in_per_response").pick, number),
        ("Bytes out per response", &Metric::named("bytes_out_per_response").pick, number),
        ("Retransmits", &Metric::named("retransmits").pick, whole_number),
    ];
    grouped(trials, &columns)
}

fn two_places(n: f64) -> String {
    format!("{n:.2}")
}

fn whole_number(n: f64) -> String {
    count(n as u64)
}

fn every_trial(report: &Report) -> Markup {
    let rows: Vec<Vec<Cell>> = report.trials.iter().map(segments_row).collect();
    table(
        "sortable",
        &[
            "Subject",
            "Workload",
            "Protocol",
            "#Connections",
            "#Streams",
            "#Repeat",
            "#Requests/s",
            "#Segments per response",
            "#Bytes in per response",
            "#Bytes out per response",
            "#Retransmits",
            "TLS",
        ],
        &rows,
    )
}

fn segments_row(t: &TrialResult) -> Vec<Cell> {
    let l = &t.load;
    vec![
        text(&t.subject_id),
        text(&t.workload),
        text(l.config.protocol.base_name()),
        n(u64::from(t.step.connections)),
        n(u64::from(t.step.streams)),
        n(u64::from(t.repeat)),
        value(Some(l.throughput_rps), number),
        value(l.tcp.data_segments_per_response, two_places),
        value(l.bytes.per_response(l.bytes.received), number),
        value(l.bytes.per_response(l.bytes.sent), number),
        value(l.tcp.retransmits.map(|n| n as f64), whole_number),
        text(l.tls.as_ref().map_or("–".into(), |tls| {
            let word = |of: &Option<String>| of.clone().unwrap_or_else(|| "–".into());
            format!("{} {}, ALPN {}", word(&tls.version), word(&tls.cipher_suite), word(&tls.alpn))
        })),
    ]
}

/// HTTP/2 against HTTP/1.1; empty unless a suite asks the same in both.
fn by_protocol(report: &Report) -> Markup {
    if report.protocols.is_empty() {
        return Markup::default();
    }
    let range = |q: &Repeated| {
        let each: Vec<String> = q.values.iter().map(|r| two_places(*r)).collect();
        text(each.join("  ")).sorted_by(q.median)
    };
    let row = |c: &ProtocolComparison| {
        vec![
            text(&c.subject),
            text(&c.workload),
            text(if c.baseline_subject == c.subject {
                c.baseline.clone()
            } else {
                format!("{} of {}", c.baseline, c.baseline_subject)
            }),
            n(c.in_flight),
            n(u64::from(c.connections)),
            n(u64::from(c.streams)),
            n(u64::from(c.baseline_connections)),
            n(u64::from(c.baseline_pipeline)),
            range(&c.throughput_ratio),
            range(&c.response_p99_ratio),
            range(&c.cpu_per_request_ratio),
        ]
    };
    let rows: Vec<Vec<Cell>> = report.protocols.iter().map(row).collect();
    let head = [
        "Subject",
        "Workload",
        "Against",
        "#In flight",
        "#Connections",
        "#Streams",
        "#Connections there",
        "#Pipeline there",
        "#Requests/s, ratio",
        "#Response p99, ratio",
        "#CPU per request, ratio",
    ];
    html! {
        h3 { "By protocol" } "\n"
        (note("The same request to the same server at equal requests in flight, as ratios to HTTP/1.1, one number per repeat. Connections differ: HTTP/2 needs fewer for the same concurrency, and that is part of the comparison."))
        (table("sortable", &head, &rows))
    }
}

fn frames(trials: &[&TrialResult]) -> Markup {
    fn h2(t: &TrialResult) -> Option<&Http2> {
        t.load.http2.as_ref()
    }
    let columns: [Column<'_>; 8] = [
        ("Frames per response", &|t| Some(h2(t)?.frames_per_response.values().sum()), two_places),
        ("Frames per segment", &|t| h2(t)?.frames_per_segment, two_places),
        ("Segments per response", &|t| h2(t)?.segments_per_response, two_places),
        ("Responses per receive", &|t| h2(t)?.responses_per_receive, two_places),
        ("HPACK saves, in", &|t| h2(t)?.header_fields_in.saved, percent),
        ("HPACK saves, out", &|t| h2(t)?.header_fields_out.saved, percent),
        ("Stalls on windows", &|t| Some(h2(t)?.window_stall_us.count as f64), whole_number),
        ("Asked again", &|t| Some(h2(t)?.retried as f64), whole_number),
    ];
    grouped(trials, &columns)
}

fn frames_of_every_trial(trials: &[&TrialResult]) -> Markup {
    let rows: Vec<Vec<Cell>> =
        trials.iter().filter_map(|t| Some(frames_row(t, t.load.http2.as_ref()?))).collect();
    table(
        "sortable",
        &[
            "Subject",
            "Workload",
            "#Connections",
            "#Streams asked",
            "#Allowed",
            "#Most",
            "#Repeat",
            "Frames per response",
            "#Frames per segment",
            "#Segments per response",
            "#Responses per receive",
            "#Records per response",
            "#WINDOW_UPDATE sent per response",
            "#HPACK saves, in",
            "#HPACK saves, out",
            "#Stalls on windows",
            "#Stall p50",
            "#PINGs",
            "Resets",
            "GOAWAY",
            "#Asked again",
        ],
        &rows,
    )
}

fn frames_row(t: &TrialResult, h: &Http2) -> Vec<Cell> {
    let ratio = |r: Option<f64>| value(r, two_places);
    let share = |r: Option<f64>| value(r, percent);
    let frames: Vec<String> = h
        .frames_per_response
        .iter()
        .filter(|(_, n)| **n >= 0.0005)
        .map(|(kind, n)| format!("{n:.3} {kind}"))
        .collect();
    vec![
        text(&t.subject_id),
        text(&t.workload),
        n(u64::from(t.step.connections)),
        n(u64::from(h.streams.asked)),
        value(h.streams.granted.map(f64::from), whole_number),
        n(h.streams.most),
        n(u64::from(t.repeat)),
        text(frames.join(", ")),
        ratio(h.frames_per_segment),
        ratio(h.segments_per_response),
        ratio(h.responses_per_receive),
        ratio(h.tls_records_per_response),
        value(h.window_updates_out_per_response, |n| format!("{n:.4}")),
        share(h.header_fields_in.saved),
        share(h.header_fields_out.saved),
        n(h.window_stall_us.count),
        value(h.window_stall_us.p50, micros),
        n(h.pings_in),
        text(by_code(&h.resets_in, &h.resets_out)),
        text(by_code(&h.goaways, &h.goaways_out)),
        n(h.retried),
    ]
}

fn n(n: u64) -> Cell {
    value(Some(n as f64), whole_number)
}

/// `3 CANCEL in, 1 NO_ERROR out`.
fn by_code(received: &BTreeMap<String, u64>, sent: &BTreeMap<String, u64>) -> String {
    let received = received.iter().map(|(code, n)| format!("{} {code} in", count(*n)));
    let sent = sent.iter().map(|(code, n)| format!("{} {code} out", count(*n)));
    let all: Vec<String> = received.chain(sent).collect();
    if all.is_empty() { "–".into() } else { all.join(", ") }
}
