//! The server's TCP: its sockets, and the counters of the network that it is in.

use dyno_archive::sample::{ListenerUse, NetworkUse, SocketsUse};
use schemars::JsonSchema;
use serde::Serialize;

/// A server's TCP sockets at one instant of the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Sockets {
    pub connections: u64,
    pub listeners: Vec<ListenQueue>,
    /// Segments that the server retransmitted on these connections since they were opened.
    pub retransmitted: u64,
    /// Shares of the time with data to send in which the client's window, and the server's own send
    /// buffer, held it up: 0 to 1. `None`: the server had nothing to send.
    pub window_limited: Option<f64>,
    pub buffer_limited: Option<f64>,
    /// Shares of the connections with TCP_NODELAY, and with TCP_CORK: 0 to 1. `None`: this user may
    /// not read them.
    pub nodelay: Option<f64>,
    pub cork: Option<f64>,
}

/// A socket that takes connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Listener")]
pub struct ListenQueue {
    pub port: u16,
    /// Connections that wait to be accepted, and the most that may.
    pub queued: u64,
    pub backlog: u64,
}

impl Sockets {
    pub(super) fn new(seen: &SocketsUse) -> Sockets {
        let share = |n: u64, of: u64| (of > 0).then(|| n as f64 / of as f64);
        let listener =
            |l: &ListenerUse| ListenQueue { port: l.port, queued: l.queued, backlog: l.backlog };
        Sockets {
            connections: seen.connections,
            listeners: seen.listeners.iter().map(listener).collect(),
            retransmitted: seen.retransmitted,
            window_limited: share(seen.window_limited_ns, seen.busy_ns),
            buffer_limited: share(seen.buffer_limited_ns, seen.busy_ns),
            nodelay: share(seen.nodelay, seen.options_of),
            cork: share(seen.cork, seen.options_of),
        }
    }
}

/// TCP counters of the measured window; `None`: the kernel has no such counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Network")]
pub struct TcpLosses {
    /// Connections that found the queue of a listener full.
    pub listen_overflows: Option<u64>,
    /// Connections that a listener dropped, for any reason.
    pub listen_drops: Option<u64>,
    /// Connections that were dropped because the queue of half-open connections was full, without
    /// cookies.
    pub syn_queue_drops: Option<u64>,
    pub segments_out: Option<u64>,
    pub segments_retransmitted: Option<u64>,
    /// Retransmissions after a time-out.
    pub retransmit_timeouts: Option<u64>,
    pub delayed_acks: Option<u64>,
}

impl TcpLosses {
    /// Adds the counters of the next stretch of time.
    pub(super) fn and(self, next: TcpLosses) -> TcpLosses {
        self.combine(next, |here, there| here + there)
    }

    pub(super) fn from_readings(first: &NetworkUse, last: &NetworkUse) -> TcpLosses {
        TcpLosses::from(last).combine(TcpLosses::from(first), u64::saturating_sub)
    }

    /// Combines each counter of both; a counter that one of them lacks is `None`.
    fn combine(self, other: TcpLosses, of: fn(u64, u64) -> u64) -> TcpLosses {
        let both = |a: Option<u64>, b: Option<u64>| Some(of(a?, b?));
        TcpLosses {
            listen_overflows: both(self.listen_overflows, other.listen_overflows),
            listen_drops: both(self.listen_drops, other.listen_drops),
            syn_queue_drops: both(self.syn_queue_drops, other.syn_queue_drops),
            segments_out: both(self.segments_out, other.segments_out),
            segments_retransmitted: both(self.segments_retransmitted, other.segments_retransmitted),
            retransmit_timeouts: both(self.retransmit_timeouts, other.retransmit_timeouts),
            delayed_acks: both(self.delayed_acks, other.delayed_acks),
        }
    }
}

/// Counters since the network is there.
impl From<&NetworkUse> for TcpLosses {
    fn from(seen: &NetworkUse) -> TcpLosses {
        let &NetworkUse {
            listen_overflows,
            listen_drops,
            syn_queue_drops,
            segments_out,
            segments_retransmitted,
            retransmit_timeouts,
            delayed_acks,
            ..
        } = seen;
        TcpLosses {
            listen_overflows,
            listen_drops,
            syn_queue_drops,
            segments_out,
            segments_retransmitted,
            retransmit_timeouts,
            delayed_acks,
        }
    }
}
