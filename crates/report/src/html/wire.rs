//! What went over the wire: protocol, streams, frames and segments.

use std::collections::BTreeMap;

use dyno_analysis::report::{Report, TrialResult};
use dyno_analysis::stats::Repeated;

use super::table::{Cell, table, text, value};
use crate::format::{count, micros, number, percent};

/// A table of segments for all trials, and one of frames for those over HTTP/2.
pub(super) fn wire(report: &Report) -> String {
    let segments: Vec<Vec<Cell>> = report.trials.iter().map(segments_row).collect();
    let segments = table(
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
            "#Bytes out per request",
            "#Retransmits",
            "TLS",
        ],
        &segments,
    );
    let segments = format!("{segments}{}", by_protocol(report));
    let frames: Vec<Vec<Cell>> = report.trials.iter().filter_map(frames_row).collect();
    if frames.is_empty() {
        return segments;
    }
    let frames = table(
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
        &frames,
    );
    format!(
        "{segments}<h3>HTTP/2: frames and segments</h3>\n<p class=\"note\">A server that puts HEADERS and DATA into one write needs one segment for a small response; one that writes each frame by itself needs as many as there are frames. Several responses may share a segment where streams are many.</p>\n{frames}"
    )
}

/// HTTP/2 against HTTP/1.1; empty unless a suite asks the same in both.
fn by_protocol(report: &Report) -> String {
    let range = |q: &Repeated| {
        let each: Vec<String> = q.values.iter().map(|r| format!("{r:.2}")).collect();
        Cell { html: each.join("  "), ..value(q.median, |r| format!("{r:.2}")) }
    };
    let rows: Vec<Vec<Cell>> = report
        .protocols
        .iter()
        .map(|c| {
            vec![
                text(&c.subject),
                text(&c.workload),
                text(if c.baseline_subject == c.subject {
                    c.baseline.clone()
                } else {
                    format!("{} of {}", c.baseline, c.baseline_subject)
                }),
                value(Some(c.in_flight as f64), |n| count(n as u64)),
                value(Some(f64::from(c.connections)), |n| count(n as u64)),
                value(Some(f64::from(c.streams)), |n| count(n as u64)),
                value(Some(f64::from(c.baseline_connections)), |n| count(n as u64)),
                value(Some(f64::from(c.baseline_pipeline)), |n| count(n as u64)),
                range(&c.throughput_ratio),
                range(&c.response_p99_ratio),
                range(&c.cpu_per_request_ratio),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
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
    format!(
        "<h3>By protocol</h3>\n<p class=\"note\">The same request to the same server at equal requests in flight, as ratios to HTTP/1.1, one number per repeat. Connections differ: HTTP/2 needs fewer for the same concurrency, and that is part of the comparison.</p>\n{}",
        table("sortable", &head, &rows)
    )
}

fn segments_row(t: &TrialResult) -> Vec<Cell> {
    let l = &t.load;
    let per = |n: u64| Some(n as f64 / l.exchanges.completed as f64).filter(|_| l.exchanges.completed > 0);
    vec![
        text(&t.subject_id),
        text(&t.workload),
        text(&l.config.protocol),
        value(Some(f64::from(t.step.connections)), |n| count(n as u64)),
        value(Some(f64::from(t.step.streams)), |n| count(n as u64)),
        value(Some(f64::from(t.repeat)), |n| count(n as u64)),
        value(Some(l.throughput_rps), number),
        value(l.tcp.data_segments_per_response, |n| format!("{n:.2}")),
        value(per(l.bytes.received), number),
        value(per(l.bytes.sent), number),
        value(l.tcp.retransmits.map(|n| n as f64), |n| count(n as u64)),
        text(l.tls.as_ref().map_or("–".into(), |tls| {
            let word = |of: &Option<String>| of.clone().unwrap_or_else(|| "–".into());
            format!("{} {}, ALPN {}", word(&tls.version), word(&tls.cipher_suite), word(&tls.alpn))
        })),
    ]
}

fn frames_row(t: &TrialResult) -> Option<Vec<Cell>> {
    let h = t.load.http2.as_ref()?;
    let n = |n: u64| value(Some(n as f64), |n| count(n as u64));
    let ratio = |r: Option<f64>| value(r, |r| format!("{r:.2}"));
    let share = |r: Option<f64>| value(r, percent);
    let frames: Vec<String> = h
        .frames_per_response
        .iter()
        .filter(|(_, n)| **n >= 0.0005)
        .map(|(kind, n)| format!("{n:.3} {kind}"))
        .collect();
    Some(vec![
        text(&t.subject_id),
        text(&t.workload),
        n(u64::from(t.step.connections)),
        n(u64::from(h.streams.asked)),
        value(h.streams.granted.map(f64::from), |n| count(n as u64)),
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
    ])
}

/// `3 CANCEL in, 1 NO_ERROR out`.
fn by_code(received: &BTreeMap<String, u64>, sent: &BTreeMap<String, u64>) -> String {
    let received = received.iter().map(|(code, n)| format!("{} {code} in", count(*n)));
    let sent = sent.iter().map(|(code, n)| format!("{} {code} out", count(*n)));
    let all: Vec<String> = received.chain(sent).collect();
    if all.is_empty() { "–".into() } else { all.join(", ") }
}
