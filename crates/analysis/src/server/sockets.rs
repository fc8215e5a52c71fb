//! The server's TCP: its sockets, and the counters of the network that it is in.

use dyno_archive::sample::{ListenerUse, NetworkUse, SocketsUse};
use schemars::JsonSchema;
use serde::Serialize;

/// A server's TCP sockets at one instant of the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Sockets {
    pub connections: u64,
    pub listeners: Vec<Listener>,
    /// Segments that the server sent again on these connections since they are there.
    pub retransmitted: u64,
    /// Shares of the time in which it had something to send that the client's window, and its own send buffer, held it up: 0 to 1. `None`:
    /// it had nothing to send.
    pub window_limited: Option<f64>,
    pub buffer_limited: Option<f64>,
    /// Shares of the connections looked at that have TCP_NODELAY, and TCP_CORK: 0 to 1. `None`: this user may not look.
    pub nodelay: Option<f64>,
    pub cork: Option<f64>,
}

/// A socket that takes connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listener {
    pub port: u16,
    /// Connections that wait to be accepted, and the most that may.
    pub queued: u64,
    pub backlog: u64,
}

impl Sockets {
    pub(super) fn new(seen: &SocketsUse) -> Sockets {
        let share = |n: u64, of: u64| (of > 0).then(|| n as f64 / of as f64);
        let listener = |l: &ListenerUse| Listener { port: l.port, queued: l.queued, backlog: l.backlog };
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

/// What TCP counted in the measured window; `None` where the kernel has no such counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Network {
    /// Connections that found the queue of a listener full.
    pub listen_overflows: Option<u64>,
    /// Connections that a listener dropped, for whatever reason.
    pub listen_drops: Option<u64>,
    pub segments_out: Option<u64>,
    pub segments_retransmitted: Option<u64>,
    /// Retransmissions after a time-out.
    pub retransmit_timeouts: Option<u64>,
    pub delayed_acks: Option<u64>,
}

impl Network {
    /// What was counted in two stretches of time.
    pub(super) fn and(self, next: Network) -> Network {
        let sum = |pick: fn(&Network) -> Option<u64>| Some(pick(&self)? + pick(&next)?);
        Network {
            listen_overflows: sum(|n| n.listen_overflows),
            listen_drops: sum(|n| n.listen_drops),
            segments_out: sum(|n| n.segments_out),
            segments_retransmitted: sum(|n| n.segments_retransmitted),
            retransmit_timeouts: sum(|n| n.retransmit_timeouts),
            delayed_acks: sum(|n| n.delayed_acks),
        }
    }

    pub(super) fn between(first: &NetworkUse, last: &NetworkUse) -> Network {
        let since = |pick: fn(&NetworkUse) -> Option<u64>| Some(pick(last)?.saturating_sub(pick(first)?));
        Network {
            listen_overflows: since(|n| n.listen_overflows),
            listen_drops: since(|n| n.listen_drops),
            segments_out: since(|n| n.segments_out),
            segments_retransmitted: since(|n| n.segments_retransmitted),
            retransmit_timeouts: since(|n| n.retransmit_timeouts),
            delayed_acks: since(|n| n.delayed_acks),
        }
    }
}
