//! Configuration of a worker.

use std::sync::Arc;

use dyno_model::Protocol;
use dyno_model::outcome::Outcome;
use dyno_model::plan::Http2;
use serde::{Deserialize, Serialize};

use crate::exchange::Exchange;
use crate::recorder::Window;
use crate::tls::Tls;
use crate::traffic::{Draws, Traffic};
use crate::{Instant, Schedule, limits};

/// Configuration of a worker: requests, connections and schedule.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Index of this worker among the workers of the load, from 0.
    pub worker: u32,
    /// Connections of this worker, at least 1.
    pub connections: u32,
    pub protocol: Protocol,
    pub http2: Http2,
    /// Pipeline depth: requests in flight per HTTP/1.1 connection, at least 1.
    pub pipeline: u32,
    /// Open streams per HTTP/2 connection, at least 1; fewer if the server allows fewer.
    pub streams: u32,
    pub schedule: Schedule,
    /// Total number of requests to start; `None`: as many as the window allows.
    pub total: Option<u64>,
    pub traffic: Arc<Traffic>,
    /// Connections per visitor, who loads page after page as a browser does. The traffic is one
    /// page: the first request is the document, the other requests are its resources. `None`: no
    /// pages, and requests are independent.
    pub page_connections: Option<u32>,
    pub draws: Draws,
    /// One in this many responses is checked in full; 1: all, 0: none.
    pub check_one_in: u64,
    pub policy: Policy,
    /// `None`: no TLS.
    pub tls: Option<Tls>,
    pub spin: SpinPolicy,
    pub window: Window,
}

/// Time-outs, and when connections are opened and replaced. All times are in nanoseconds. The
/// hand-over of a request is the instant at which the driver gives it to the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Time-out from the hand-over of a request to the end of its response. The same limit applies
    /// from queueing a request on a connection to its hand-over.
    pub timeout_ns: u64,
    /// Time-out from the hand-over of a request to the first byte of its response; `None`: no
    /// time-out.
    pub first_byte_timeout_ns: Option<u64>,
    /// Connect time-out, TLS handshake included.
    pub connect_timeout_ns: u64,
    /// Number of requests after which a connection is closed and a new one opened; `None`: never.
    pub requests_per_connection: Option<u64>,
    /// Time from the beginning of the load over which the connections are opened one by one;
    /// `None`: all connections are opened before the load.
    pub ramp_ns: Option<u64>,
    /// Whether a slot waits longer after each consecutive connection failure.
    pub backs_off: bool,
    /// Maximum number of arrivals that wait for a connection; further arrivals are dropped. `None`:
    /// [`limits::WAITING_ARRIVALS`], which larger numbers do not exceed.
    pub max_waiting: Option<u64>,
}

impl Default for Policy {
    /// Returns the policy of a load without options: time-outs of 10 s and 5 s, and no other limit.
    fn default() -> Policy {
        const SECOND: u64 = 1_000_000_000;
        Policy {
            timeout_ns: 10 * SECOND,
            first_byte_timeout_ns: None,
            connect_timeout_ns: 5 * SECOND,
            requests_per_connection: None,
            ramp_ns: None,
            backs_off: true,
            max_waiting: None,
        }
    }
}

impl Policy {
    /// Returns the maximum number of arrivals that wait for a connection.
    pub(crate) fn max_waiting(&self) -> usize {
        let limit = limits::WAITING_ARRIVALS;
        self.max_waiting.and_then(|n| usize::try_from(n).ok()).map_or(limit, |n| n.min(limit))
    }

    /// Returns the shortest of all time-outs.
    pub(crate) fn shortest_timeout_ns(&self) -> u64 {
        self.shortest_response_timeout_ns().min(self.connect_timeout_ns)
    }

    /// Returns the instant at which an exchange on a connection times out, and the outcome of this
    /// time-out.
    pub(crate) fn exchange_timeout(&self, exchange: &Exchange) -> (Instant, Outcome) {
        if exchange.sent == Instant::NEVER {
            // The request is queued after bytes that the server does not read. This wait has the
            // same limit.
            return (exchange.queued.plus(self.timeout_ns), Outcome::Timeout);
        }
        let response_deadline = exchange.sent.plus(self.timeout_ns);
        if exchange.first_byte == Instant::NEVER
            && let Some(ns) = self.first_byte_timeout_ns
            && exchange.sent.plus(ns) < response_deadline
        {
            return (exchange.sent.plus(ns), Outcome::TimeoutFirstByte);
        }
        (response_deadline, Outcome::Timeout)
    }

    /// Returns the shorter of the response time-out and the first-byte time-out.
    pub(crate) fn shortest_response_timeout_ns(&self) -> u64 {
        self.timeout_ns.min(self.first_byte_timeout_ns.unwrap_or(u64::MAX))
    }
}

/// Whether to poll instead of sleeping when a late wake-up would distort times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpinPolicy {
    Never,
    /// Near a deadline, and while a response is expected soon.
    Near,
    Always,
}
