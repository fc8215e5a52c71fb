//! HTTP/2 use of a load: counts, and counts per response.

use std::collections::BTreeMap;

use dyno_archive::LoadRecord;
use dyno_archive::load::{Http2Direction, Http2Use};
use schemars::JsonSchema;
use serde::Serialize;

use super::percentiles::Percentiles;
use super::sums::after_warmup;

/// HTTP/2 use within the measured window; connections and streams are of the whole load. Quotients
/// are `None` if the divisor is 0.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Http2Result {
    /// Connections that spoke HTTP/2.
    pub connections: u64,
    /// Connections that should speak HTTP/2 and did not: ALPN chose another protocol, or an upgrade
    /// was declined.
    pub fallen_back: u64,
    pub streams: StreamCounts,
    /// Frames that came, by type; types that did not occur are left out.
    pub frames_in: BTreeMap<String, u64>,
    /// Frames that we sent, by type.
    pub frames_out: BTreeMap<String, u64>,
    /// Frames that came, per TCP segment with data.
    pub frames_per_segment: Option<f64>,
    /// TCP segments with data that came, per response.
    pub segments_per_response: Option<f64>,
    /// Frames that came, per response, by type.
    pub frames_per_response: BTreeMap<String, f64>,
    /// Complete responses per receive: how far responses arrive together.
    pub responses_per_receive: Option<f64>,
    /// TLS records with data per response; `None` without TLS.
    pub tls_records_per_response: Option<f64>,
    /// WINDOW_UPDATE frames that we sent, per response.
    pub window_updates_out_per_response: Option<f64>,
    /// RST_STREAM frames that came, by code.
    pub resets_in: BTreeMap<String, u64>,
    /// RST_STREAM frames that we sent, by code.
    pub resets_out: BTreeMap<String, u64>,
    /// GOAWAY frames that came, by code.
    pub goaways: BTreeMap<String, u64>,
    /// GOAWAY frames that we sent, by code: when we close a connection, or because the server broke
    /// a rule.
    pub goaways_out: BTreeMap<String, u64>,
    /// Streams that the server refused (RST_STREAM with REFUSED_STREAM).
    pub streams_refused: u64,
    /// Requests sent again because the server had stated that it did not process them.
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
    /// Streams that the load wants open at once.
    pub asked: u32,
    /// Lowest limit that the server announced (SETTINGS_MAX_CONCURRENT_STREAMS); `None`: no limit.
    pub granted: Option<u32>,
    /// Most streams that were open at once on one connection.
    pub most: u64,
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
        HeaderBytes { fields, wire, saved: per(wire, fields).map(|share| 1.0 - share) }
    }
}

pub(super) fn http2(record: &LoadRecord) -> Option<Http2Result> {
    let used: &Http2Use = record.http2.as_ref()?;
    let segments = record.tcp.as_ref().map_or(0, |tcp| tcp.data_segments_in);
    let per_response = |n: u64| per(n, used.responses);
    let (received, sent) = (&used.received, &used.sent);
    let of =
        |direction: &Http2Direction, name: &str| direction.frames.get(name).copied().unwrap_or(0);
    let each =
        received.frames.iter().filter_map(|(kind, n)| Some((kind.clone(), per_response(*n)?)));
    Some(Http2Result {
        connections: used.connections,
        fallen_back: used.fallen_back + used.upgrades_declined,
        streams: StreamCounts {
            asked: used.streams_asked,
            granted: used.streams_granted,
            most: used.streams_most,
        },
        frames_per_segment: per(received.all_frames(), segments),
        segments_per_response: per_response(segments).filter(|_| segments > 0),
        frames_per_response: each.collect(),
        responses_per_receive: per(used.responses, used.receives),
        tls_records_per_response: per_response(used.tls_records).filter(|_| used.tls_records > 0),
        window_updates_out_per_response: per_response(of(sent, "WINDOW_UPDATE")),
        frames_in: received.frames.clone(),
        frames_out: sent.frames.clone(),
        resets_in: received.resets.clone(),
        resets_out: sent.resets.clone(),
        goaways: received.go_aways.clone(),
        goaways_out: sent.go_aways.clone(),
        streams_refused: received.resets.get("REFUSED_STREAM").copied().unwrap_or(0),
        retried: used.retried,
        pings_in: used.pings,
        header_fields_in: HeaderBytes::new(received),
        header_fields_out: HeaderBytes::new(sent),
        window_stall_us: Percentiles::new(&after_warmup(record, |i| &i.window_stall)),
    })
}

impl Http2Result {
    /// RST_STREAM frames that came.
    #[must_use]
    pub fn resets_in_total(&self) -> u64 {
        self.resets_in.values().sum()
    }

    /// GOAWAY frames that came.
    #[must_use]
    pub fn goaways_total(&self) -> u64 {
        self.goaways.values().sum()
    }
}

fn per(n: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| n as f64 / of as f64)
}

#[cfg(test)]
mod tests {
    use dyno_archive::load::TcpCounters;

    use super::*;
    use crate::fixture;

    #[test]
    fn header_bytes_saved_are_what_is_not_on_the_wire() {
        let direction =
            Http2Direction { block_bytes: 10, field_bytes: 100, ..Http2Direction::default() };
        assert_eq!(HeaderBytes::new(&direction).saved, Some(0.9));
        assert_eq!(HeaderBytes::new(&Http2Direction::default()).saved, None);
    }

    /// Twenty responses on two connections.
    fn used() -> Http2Use {
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
    fn use_per_response_is_a_quotient() {
        let is = result(used(), 10);
        assert_eq!((is.frames_per_segment, is.segments_per_response), (Some(6.0), Some(0.5)));
        assert_eq!((is.frames_per_response["HEADERS"], is.frames_per_response["DATA"]), (1.0, 2.0));
        assert_eq!((is.responses_per_receive, is.tls_records_per_response), (Some(2.5), Some(1.5)));
        assert_eq!(is.window_updates_out_per_response, Some(0.25));
        assert_eq!((is.fallen_back, is.streams_refused), (12, 3));
        assert_eq!((is.resets_in_total(), is.goaways_total()), (7, 2));
    }

    #[test]
    fn quotients_without_a_divisor_are_not_known() {
        let none = result(Http2Use::default(), 0);
        assert_eq!((none.frames_per_segment, none.responses_per_receive), (None, None));
        assert_eq!(
            (none.segments_per_response, none.window_updates_out_per_response),
            (None, None)
        );
        // A count of 0 segments or TLS records means that they were not counted.
        let uncounted = result(Http2Use { tls_records: 0, ..used() }, 0);
        assert_eq!(
            (uncounted.segments_per_response, uncounted.tls_records_per_response),
            (None, None)
        );
        assert_eq!((uncounted.resets_in_total(), none.streams_refused), (7, 0));
    }
}
