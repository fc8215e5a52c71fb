//! Counts that exist only for HTTP/2, such as frames and reset streams.

use std::collections::BTreeMap;

use dyno_model::Protocol;
use dyno_model::load::{Http2Direction, Http2Use};
use dyno_wire::h2::counts::{DirectionCounts, FrameCounts};
use dyno_wire::h2::{ErrorCode, frame::Kind};

/// Counts over all HTTP/2 connections of a worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Http2Counts {
    pub(crate) counts: FrameCounts,
    /// Connections that use HTTP/2.
    pub(crate) connections: u64,
    /// Connections on which ALPN chose another protocol although HTTP/2 was requested.
    pub(crate) fallen_back: u64,
    /// TLS connections of a load with automatic protocol on which the server chose HTTP/1.1.
    pub(crate) http1_chosen: u64,
    /// Requests for an upgrade to which the server responded without upgrading.
    pub(crate) declined: u64,
    /// Number of receive operations that returned data of HTTP/2 connections.
    pub(crate) receives: u64,
    /// Complete responses on HTTP/2 connections.
    pub(crate) responses: u64,
    /// TLS records with application data.
    pub(crate) tls_records: u64,
    /// Requests retried because the server had not processed them.
    pub(crate) retried: u64,
    /// Smallest limit of open streams that the server announced; `None`: it announced no limit.
    pub(crate) granted: Option<u32>,
}

impl Http2Counts {
    /// Returns the counts since `earlier`, an older copy. Counts of connections still cover the
    /// whole time.
    pub(crate) fn growth_since(&self, earlier: &Http2Counts) -> Http2Counts {
        Http2Counts {
            counts: self.counts.growth_since(&earlier.counts),
            receives: self.receives - earlier.receives,
            responses: self.responses - earlier.responses,
            tls_records: self.tls_records - earlier.tls_records,
            retried: self.retried - earlier.retried,
            ..self.clone()
        }
    }

    /// Returns the record of a load. `window`: the counts of its measured window.
    pub(crate) fn report(
        &self,
        window: &Http2Counts,
        protocol: Protocol,
        requested_streams: u32,
    ) -> Option<Http2Use> {
        if self.connections == 0 && !protocol.is_h2() {
            return None;
        }
        Some(Http2Use {
            connections: self.connections,
            fallen_back: self.fallen_back,
            upgrades_declined: self.declined,
            streams_asked: requested_streams,
            streams_granted: self.granted,
            max_open_streams: self.counts.max_open_streams,
            received: direction(&window.counts.received),
            sent: direction(&window.counts.sent),
            pings: window.counts.pings,
            receives: window.receives,
            responses: window.responses,
            tls_records: window.tls_records,
            retried: window.retried,
        })
    }
}

fn direction(counts: &DirectionCounts) -> Http2Direction {
    let by_name = |counts: Vec<(&'static str, u64)>| -> BTreeMap<String, u64> {
        counts.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name.to_string(), n)).collect()
    };
    let by_code = |codes: &[u64; ErrorCode::COUNT]| {
        by_name(ErrorCode::all().map(|c| (c.name(), codes[c as usize])).collect())
    };
    Http2Direction {
        frames: by_name(Kind::all().map(|kind| (kind.name(), counts.frames(kind))).collect()),
        resets: by_code(&counts.resets),
        go_aways: by_code(&counts.go_aways),
        block_bytes: counts.block_bytes,
        field_bytes: counts.field_bytes,
    }
}
