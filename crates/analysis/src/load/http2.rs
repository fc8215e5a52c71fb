//! Computes the HTTP/2 counts of a load, in total and per response. They show how a server groups
//! frames, segments and responses.

use std::collections::BTreeMap;

use dyno_model::LoadRecord;
use dyno_model::load::{Http2Direction, Http2Use};
use schemars::JsonSchema;
use serde::Serialize;

use super::percentiles::Percentiles;
use super::sums::times_after_warmup;

/// HTTP/2 use within the measured window; `connections` and `streams` cover the whole load.
/// Quotients are `None` if the divisor is 0.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Http2Result {
    /// Connections that spoke HTTP/2.
    pub connections: u64,
    /// Connections that should speak HTTP/2 and did not: ALPN chose another protocol, or an upgrade
    /// was declined.
    pub fallen_back: u64,
    pub streams: StreamCounts,
    /// Frames received, by type. Types that did not occur are omitted.
    pub frames_in: BTreeMap<String, u64>,
    /// Frames sent, by type.
    pub frames_out: BTreeMap<String, u64>,
    /// Frames received, per received TCP segment with data.
    pub frames_per_segment: Option<f64>,
    /// Received TCP segments with data, per response.
    pub segments_per_response: Option<f64>,
    /// Frames received, per response, by type.
    pub frames_per_response: BTreeMap<String, f64>,
    /// Complete responses per receive. Above 1, several responses arrive together.
    pub responses_per_receive: Option<f64>,
    /// TLS records with data per response; `None` without TLS.
    pub tls_records_per_response: Option<f64>,
    /// WINDOW_UPDATE frames sent, per response.
    pub window_updates_out_per_response: Option<f64>,
    /// RST_STREAM frames received, by code.
    pub resets_in: BTreeMap<String, u64>,
    /// RST_STREAM frames sent, by code.
    pub resets_out: BTreeMap<String, u64>,
    /// GOAWAY frames received, by code.
    pub goaways: BTreeMap<String, u64>,
    /// GOAWAY frames sent, by code: dyno closed a connection, or the server broke a rule.
    pub goaways_out: BTreeMap<String, u64>,
    /// Streams that the server refused (RST_STREAM with REFUSED_STREAM).
    pub streams_refused: u64,
    /// Requests retried because the server had stated that it did not process them.
    pub retried: u64,
    pub pings_in: u64,
    pub header_fields_in: HeaderBytes,
    pub header_fields_out: HeaderBytes,
    /// Time for which flow-control windows held up request bodies; `count` is the number of stalls.
    pub window_stall_us: Percentiles,
}

/// Streams per connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Streams")]
pub struct StreamCounts {
    /// Streams per connection that the load asks for.
    pub asked: u32,
    /// Lowest limit that the server announced (SETTINGS_MAX_CONCURRENT_STREAMS); `None`: no limit.
    pub granted: Option<u32>,
    /// Most streams that were open at once on one connection.
    #[serde(rename = "most")]
    pub max_open: u64,
}

/// Size of header fields before and after HPACK.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HeaderBytes {
    /// Bytes of names and values.
    pub fields: u64,
    /// Bytes of the header blocks on the wire.
    pub wire: u64,
    /// Share of bytes saved: 1 − wire / fields. `None` without fields.
    pub saved: Option<f64>,
}

impl HeaderBytes {
    fn new(direction: &Http2Direction) -> HeaderBytes {
        let (fields, wire) = (direction.field_bytes, direction.block_bytes);
        HeaderBytes { fields, wire, saved: quotient(wire, fields).map(|share| 1.0 - share) }
    }
}

/// Computes the HTTP/2 counts of a load. `None`: HTTP/2 was neither requested nor used.
pub(super) fn http2(record: &LoadRecord) -> Option<Http2Result> {
    let http2_use: &Http2Use = record.http2.as_ref()?;
    let segments = record.tcp.as_ref().map_or(0, |tcp| tcp.data_segments_in);
    let per_response = |n: u64| quotient(n, http2_use.responses);
    let (received, sent) = (&http2_use.received, &http2_use.sent);
    let frame_count =
        |direction: &Http2Direction, name: &str| direction.frames.get(name).copied().unwrap_or(0);
    let frames_per_response =
        received.frames.iter().filter_map(|(kind, n)| Some((kind.clone(), per_response(*n)?)));
    Some(Http2Result {
        connections: http2_use.connections,
        fallen_back: http2_use.fallen_back + http2_use.upgrades_declined,
        streams: StreamCounts {
            asked: http2_use.streams_asked,
            granted: http2_use.streams_granted,
            max_open: http2_use.max_open_streams,
        },
        frames_per_segment: quotient(received.all_frames(), segments),
        segments_per_response: per_response(segments).filter(|_| segments > 0),
        frames_per_response: frames_per_response.collect(),
        responses_per_receive: quotient(http2_use.responses, http2_use.receives),
        tls_records_per_response: per_response(http2_use.tls_records)
            .filter(|_| http2_use.tls_records > 0),
        window_updates_out_per_response: per_response(frame_count(sent, "WINDOW_UPDATE")),
        frames_in: received.frames.clone(),
        frames_out: sent.frames.clone(),
        resets_in: received.resets.clone(),
        resets_out: sent.resets.clone(),
        goaways: received.go_aways.clone(),
        goaways_out: sent.go_aways.clone(),
        streams_refused: received.resets.get("REFUSED_STREAM").copied().unwrap_or(0),
        retried: http2_use.retried,
        pings_in: http2_use.pings,
        header_fields_in: HeaderBytes::new(received),
        header_fields_out: HeaderBytes::new(sent),
        window_stall_us: Percentiles::new(&times_after_warmup(record, |i| &i.window_stall)),
    })
}

impl Http2Result {
    /// Returns the received GOAWAY frames whose code is an error, by code.
    pub(crate) fn error_goaways(&self) -> impl Iterator<Item = (&str, u64)> {
        let counts = self.goaways.iter().map(|(code, n)| (code.as_str(), *n));
        counts.filter(|(code, n)| *code != "NO_ERROR" && *n > 0)
    }

    /// RST_STREAM frames received.
    #[must_use]
    pub fn resets_in_total(&self) -> u64 {
        self.resets_in.values().sum()
    }

    /// GOAWAY frames received.
    #[must_use]
    pub fn goaways_total(&self) -> u64 {
        self.goaways.values().sum()
    }
}

/// Returns n ÷ divisor. `None`: the divisor is 0.
fn quotient(n: u64, divisor: u64) -> Option<f64> {
    (divisor > 0).then(|| n as f64 / divisor as f64)
}

#[cfg(test)]
mod tests {
    use dyno_model::load::TcpCounters;

    use super::*;
    use crate::fixture;

    #[test]
    fn header_bytes_report_saved_share() {
        let direction =
            Http2Direction { block_bytes: 10, field_bytes: 100, ..Http2Direction::default() };
        assert_eq!(HeaderBytes::new(&direction).saved, Some(0.9));
        assert_eq!(HeaderBytes::new(&Http2Direction::default()).saved, None);
    }

    /// Twenty responses on two connections.
    fn example_use() -> Http2Use {
        let counts =
            |all: &[(&str, u64)]| all.iter().map(|(name, n)| ((*name).to_string(), *n)).collect();
        let received = Http2Direction {
            frames: counts(&[("HEADERS", 20), ("DATA", 40)]),
            resets: counts(&[("REFUSED_STREAM", 3), ("CANCEL", 4)]),
            go_aways: counts(&[("NO_ERROR", 1), ("INTERNAL_ERROR", 1)]),
            ..Http2Direction::default()
        };
        let sent =
            Http2Direction { frames: counts(&[("WINDOW_UPDATE", 5)]), ..Http2Direction::default() };
        Http2Use {
            connections: 2,
            fallen_back: 5,
            upgrades_declined: 7,
            responses: 20,
            receives: 8,
            tls_records: 30,
            received,
            sent,
            ..Http2Use::default()
        }
    }

    fn result(used: Http2Use, segments: u64) -> Http2Result {
        let tcp = TcpCounters { data_segments_in: segments, ..TcpCounters::default() };
        http2(&LoadRecord { http2: Some(used), tcp: Some(tcp), ..fixture::record(20) }).unwrap()
    }

    #[test]
    fn http2_result_divides_by_responses() {
        let result = result(example_use(), 10);
        assert_eq!(
            (result.frames_per_segment, result.segments_per_response),
            (Some(6.0), Some(0.5))
        );
        assert_eq!(
            (result.frames_per_response["HEADERS"], result.frames_per_response["DATA"]),
            (1.0, 2.0)
        );
        assert_eq!(
            (result.responses_per_receive, result.tls_records_per_response),
            (Some(2.5), Some(1.5))
        );
        assert_eq!(result.window_updates_out_per_response, Some(0.25));
        assert_eq!((result.fallen_back, result.streams_refused), (12, 3));
        assert_eq!((result.resets_in_total(), result.goaways_total()), (7, 2));
    }

    #[test]
    fn http2_quotients_without_divisor_are_none() {
        let empty = result(Http2Use::default(), 0);
        assert_eq!((empty.frames_per_segment, empty.responses_per_receive), (None, None));
        assert_eq!(
            (empty.segments_per_response, empty.window_updates_out_per_response),
            (None, None)
        );
        // A count of 0 segments or TLS records means that they were not counted.
        let uncounted = result(Http2Use { tls_records: 0, ..example_use() }, 0);
        assert_eq!(
            (uncounted.segments_per_response, uncounted.tls_records_per_response),
            (None, None)
        );
        assert_eq!((uncounted.resets_in_total(), empty.streams_refused), (7, 0));
    }
}
