//! Computes TCP values of the server: its sockets, and the counters of its network namespace. These
//! values show full queues and lost segments. A counter that reports show is a cell of
//! [`socket_rows`].

use dyno_model::sample::{ListenerUse, NetworkUse, OpenFiles, SocketsUse};
use schemars::JsonSchema;
use serde::Serialize;

use super::ServerUse;
use crate::unit::Unit;
use crate::use_row::{NO_COUNTER, UseCell, UseRow, cell, row, unknown};

/// A server's TCP sockets at one instant of the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Sockets {
    pub connections: u64,
    pub listeners: Vec<ListenQueue>,
    /// Segments that the server retransmitted on these connections since they were opened.
    pub retransmitted: u64,
    /// Shares of the time with data to send in which the client's receive window, or the server's
    /// own send buffer, delayed sending: 0 to 1. `None`: the server had nothing to send.
    pub window_limited: Option<f64>,
    pub buffer_limited: Option<f64>,
    /// Shares of the connections with TCP_NODELAY, and with TCP_CORK: 0 to 1. `None`: this user
    /// cannot read them.
    pub nodelay: Option<f64>,
    pub cork: Option<f64>,
    /// Open files of the process that has the smallest part of its limit left; `None`: this user
    /// cannot read them.
    pub open_files: Option<OpenFiles>,
}

/// A listening socket and its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Listener")]
pub struct ListenQueue {
    pub port: u16,
    /// Connections that wait to be accepted, and the maximum (`backlog`).
    pub queued: u64,
    pub backlog: u64,
}

impl Sockets {
    pub(super) fn new(record: &SocketsUse) -> Sockets {
        let share = |n: u64, total: u64| (total > 0).then(|| n as f64 / total as f64);
        let listener =
            |l: &ListenerUse| ListenQueue { port: l.port, queued: l.queued, backlog: l.backlog };
        Sockets {
            connections: record.connections,
            listeners: record.listeners.iter().map(listener).collect(),
            retransmitted: record.retransmitted,
            window_limited: share(record.window_limited_ns, record.busy_ns),
            buffer_limited: share(record.buffer_limited_ns, record.busy_ns),
            nodelay: share(record.nodelay, record.options_of),
            cork: share(record.cork, record.options_of),
            open_files: record.open_files,
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
    pub(super) fn merge(self, next: TcpLosses) -> TcpLosses {
        self.combine(next, u64::checked_add)
    }

    /// Computes the growth of the counters. A counter that decreased is unknown, because it is that
    /// of another network namespace.
    pub(super) fn from_readings(first: &NetworkUse, last: &NetworkUse) -> TcpLosses {
        TcpLosses::from(last).combine(TcpLosses::from(first), u64::checked_sub)
    }

    /// Combines each counter of two values. A counter that is unknown in one of them is `None`.
    fn combine(self, other: TcpLosses, operation: fn(u64, u64) -> Option<u64>) -> TcpLosses {
        let combined = |a: Option<u64>, b: Option<u64>| operation(a?, b?);
        TcpLosses {
            listen_overflows: combined(self.listen_overflows, other.listen_overflows),
            listen_drops: combined(self.listen_drops, other.listen_drops),
            syn_queue_drops: combined(self.syn_queue_drops, other.syn_queue_drops),
            segments_out: combined(self.segments_out, other.segments_out),
            segments_retransmitted: combined(
                self.segments_retransmitted,
                other.segments_retransmitted,
            ),
            retransmit_timeouts: combined(self.retransmit_timeouts, other.retransmit_timeouts),
            delayed_acks: combined(self.delayed_acks, other.delayed_acks),
        }
    }
}

/// Reads the counters since the network namespace was created.
impl From<&NetworkUse> for TcpLosses {
    fn from(record: &NetworkUse) -> TcpLosses {
        let &NetworkUse {
            listen_overflows,
            listen_drops,
            syn_queue_drops,
            segments_out,
            segments_retransmitted,
            retransmit_timeouts,
            delayed_acks,
            ..
        } = record;
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

/// Returns the rows of the server's sockets in the table of the USE method. `link`: utilisation of
/// the machine's busiest network device.
pub(crate) fn socket_rows(server: &ServerUse, link: UseCell) -> Vec<UseRow> {
    let count = |pick: fn(TcpLosses) -> Option<u64>, note| {
        let counter = server.network.and_then(pick);
        cell(counter.map(|n| n as f64), Unit::Count, note, NO_COUNTER)
    };
    let network = row(
        "network and accept queue",
        link,
        count(|tcp| tcp.listen_overflows, "connections found the accept queue full"),
        count(|tcp| tcp.segments_retransmitted, "segments retransmitted"),
    );
    vec![network, open_files_row(server.sockets.as_ref())]
}

fn open_files_row(sockets: Option<&Sockets>) -> UseRow {
    let files = sockets.and_then(|sockets| sockets.open_files);
    let waiting = sockets.map(|sockets| sockets.listeners.iter().map(|l| l.queued).sum::<u64>());
    row(
        "the server's open files",
        cell(
            files.map(OpenFiles::share),
            Unit::Share,
            "of the limit of the process nearest to its limit (`ulimit -n`)",
            NOT_READ,
        ),
        cell(
            waiting.map(|n| n as f64),
            Unit::Count,
            "connections waited to be accepted at that instant",
            NOT_READ,
        ),
        unknown("calls that fail for this reason are not counted"),
    )
}

const NOT_READ: &str = "the server's sockets were not read";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_row_has_share_of_limit_and_waiting_connections() {
        let listener = |queued| ListenerUse { port: 80, queued, backlog: 8 };
        let record = SocketsUse {
            listeners: vec![listener(2), listener(3)],
            open_files: Some(OpenFiles { open: 512, limit: 1024 }),
            ..SocketsUse::default()
        };
        let row = open_files_row(Some(&Sockets::new(&record)));
        assert_eq!((row.utilisation.value, row.saturation.value), (Some(0.5), Some(5.0)));
        let unread = open_files_row(None);
        assert_eq!((unread.utilisation.value, unread.utilisation.note), (None, NOT_READ));
    }

    #[test]
    fn decreasing_network_counters_are_unknown() {
        let counters = |segments_out, listen_drops| NetworkUse {
            segments_out: Some(segments_out),
            listen_drops: Some(listen_drops),
            ..NetworkUse::default()
        };
        let losses = TcpLosses::from_readings(&counters(500, 2), &counters(3, 4));
        assert_eq!((losses.segments_out, losses.listen_drops), (None, Some(2)));
        assert_eq!(losses.merge(losses).segments_out, None);
    }
}
