//! Tables for people and for spreadsheets.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::caveat::Severity;
use crate::stats::Repeated;
use crate::summary::OverviewRow;
use crate::trial::TrialResult;

/// A table for people and for spreadsheets.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Table {
    pub name: &'static str,
    pub title: &'static str,
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<Value>>,
}

/// The overview as a table.
#[must_use]
pub fn overview_table(rows: &[OverviewRow]) -> Table {
    let cells = |r: &OverviewRow| -> Vec<Value> {
        vec![
            json!(r.subject),
            json!(r.workload),
            json!(r.language),
            json!(r.peak_rps.as_ref().and_then(|p| p.median)),
            json!(r.peak_rps.as_ref().and_then(Repeated::spread).map(|s| s.0)),
            json!(r.peak_rps.as_ref().and_then(Repeated::spread).map(|s| s.1)),
            json!(r.peak_connections),
            json!(r.peak_streams),
            json!(r.tie_group),
            json!(r.response_p50_us),
            json!(r.response_p99_us),
            json!(r.reference_step),
            json!(r.cpu_us_per_request),
            json!(r.memory_peak_bytes),
            json!(r.startup_ms),
            json!(r.errors),
            json!(format!("{}/{}", r.checks_passed, r.checks)),
            json!(r.limiter),
            json!(r.limiter_confidence),
            json!(r.absent),
        ]
    };
    Table {
        name: "overview",
        title: "Overview",
        columns: vec![
            "subject",
            "workload",
            "language",
            "peak_rps",
            "peak_rps_low",
            "peak_rps_high",
            "peak_connections",
            "peak_streams",
            "tie_group",
            "response_p50_us",
            "response_p99_us",
            "reference_step",
            "cpu_us_per_request",
            "memory_peak_bytes",
            "startup_ms",
            "errors",
            "checks",
            "limiter",
            "limiter_confidence",
            "absent",
        ],
        rows: rows.iter().map(cells).collect(),
    }
}

/// Every trial as a row.
#[must_use]
pub fn trials_table(trials: &[TrialResult]) -> Table {
    let cells = |t: &TrialResult| -> Vec<Value> {
        let codes: Vec<&str> =
            t.caveats.iter().filter(|c| c.severity > Severity::Info).map(|c| c.code.name()).collect();
        vec![
            json!(t.subject_id),
            json!(t.workload),
            json!(t.block),
            json!(t.repeat),
            json!(t.step.connections),
            json!(t.step.streams),
            json!(t.step.pipeline),
            json!(t.step.rate),
            json!(t.step.duration_s),
            json!(t.valid),
            json!(t.load.throughput_rps),
            json!(t.load.exchanges.started),
            json!(t.load.exchanges.completed),
            json!(t.load.exchanges.failed),
            json!(t.load.exchanges.dropped),
            json!(t.load.exchanges.in_flight_at_end),
            json!(t.load.response_time_us.p50),
            json!(t.load.response_time_us.p90),
            json!(t.load.response_time_us.p99),
            json!(t.load.response_time_us.p99_9),
            json!(t.load.response_time_us.max),
            json!(t.load.response_time_us.unanswered),
            json!(t.load.response_time_us.longest_wait),
            json!(t.load.service_time_us.p50),
            json!(t.load.service_time_us.p99),
            json!(t.load.send_lag_us.p99),
            json!(t.server.cpu_us_per_request),
            json!(t.server.cpu_user_s),
            json!(t.server.cpu_sys_s),
            json!(t.server.cpu_utilisation),
            json!(t.server.throttled_s),
            json!(t.server.memory_anon_bytes),
            json!(t.server.memory_peak_bytes),
            json!(t.server.rss_bytes),
            json!(t.server.memory_mb_s_per_request),
            json!(t.server.per_request.context_switches),
            json!(t.load.client.busiest_thread_utilisation),
            json!(t.load.client.cpu_us_per_exchange),
            json!(t.load.config.protocol.base_name()),
            json!(t.load.config.protocol.is_tls()),
            json!(t.load.tcp.data_segments_per_response),
            json!(t.load.http2.as_ref().and_then(|h| h.frames_per_segment)),
            json!(t.load.http2.as_ref().and_then(|h| h.responses_per_receive)),
            json!(t.load.pages.as_ref().map(|p| p.per_second)),
            json!(t.load.pages.as_ref().and_then(|p| p.time_us.p50)),
            json!(t.load.pages.as_ref().and_then(|p| p.time_us.p99)),
            json!(t.limiter.resource),
            json!(t.limiter.confidence),
            json!(codes.join(" ")),
        ]
    };
    Table {
        name: "trials",
        title: "Trials",
        columns: TRIAL_COLUMNS.to_vec(),
        rows: trials.iter().map(cells).collect(),
    }
}

const TRIAL_COLUMNS: [&str; 49] = [
    "subject",
    "workload",
    "block",
    "repeat",
    "connections",
    "streams",
    "pipeline",
    "rate",
    "duration_s",
    "valid",
    "throughput_rps",
    "started",
    "completed",
    "failed",
    "dropped",
    "in_flight_at_end",
    "response_p50_us",
    "response_p90_us",
    "response_p99_us",
    "response_p99_9_us",
    "response_max_us",
    "unanswered",
    "longest_wait_us",
    "service_p50_us",
    "service_p99_us",
    "send_lag_p99_us",
    "server_cpu_us_per_request",
    "server_cpu_user_s",
    "server_cpu_sys_s",
    "server_cpu_utilisation",
    "server_throttled_s",
    "server_memory_anon_bytes",
    "server_memory_peak_bytes",
    "server_rss_bytes",
    "server_memory_mb_s_per_request",
    "server_context_switches_per_request",
    "generator_busiest_thread",
    "generator_cpu_us_per_exchange",
    "protocol",
    "tls",
    "segments_per_response",
    "frames_per_segment",
    "responses_per_receive",
    "pages_per_second",
    "page_p50_us",
    "page_p99_us",
    "limiter",
    "limiter_confidence",
    "caveats",
];
