//! Reads the counters of TCP and of connection tracking in a network namespace. The counters show
//! dropped and retransmitted segments between the generator and the server.
//!
//! Source: `/proc/PID/net/{snmp,netstat,stat/nf_conntrack}` (proc_pid_net(5)).

use dyno_model::sample::NetworkUse;
use dyno_model::tracking::TrackingUse;

use crate::columns::parse_columns;
use crate::counter_source::network_namespaces;
use crate::files::Files;
use crate::{ctnetlink, proc, tracking};

/// Returns the counters of a process's network namespace. `None`: the counters cannot be read.
fn counters(pid: u32, files: &Files) -> Option<NetworkUse> {
    let of_process = counters_in(&format!("/proc/{pid}/net"), files);
    of_process.or_else(|| {
        let folder = proc::other_thread_folder(pid)?.join("net");
        counters_in(folder.to_str()?, files)
    })
}

/// Returns the counters of the network namespace of all these processes. `None`: the counters
/// cannot be read, there are no processes, or they have several namespaces.
pub(crate) fn common_counters(pids: &[u32], files: &Files) -> Option<NetworkUse> {
    let first = *pids.first()?;
    // Most servers have one process, which needs no comparison.
    let is_common = pids.len() == 1 || network_namespaces(pids).len() <= 1;
    if is_common { counters(first, files) } else { None }
}

/// Returns the counters of this thread's network namespace. `None`: the counters cannot be read.
pub(crate) fn counters_here(files: &Files) -> Option<NetworkUse> {
    let observed = counters_in("/proc/thread-self/net", files)?;
    // The query is made only if there is a table. Without a table, the query would load the
    // kernel's module of connection tracking.
    let by_netlink = || tracking::entries().map(ctnetlink::counters);
    Some(NetworkUse { tracking: observed.tracking.or_else(by_netlink), ..observed })
}

fn counters_in(folder: &str, files: &Files) -> Option<NetworkUse> {
    let snmp = files.read(format!("{folder}/snmp"))?;
    let read = |name: &str| files.read(format!("{folder}/{name}")).unwrap_or_default();
    Some(NetworkUse {
        tracking: parse_tracking(&read("stat/nf_conntrack")),
        ..parse(&snmp, &read("netstat"))
    })
}

fn parse(snmp: &str, netstat: &str) -> NetworkUse {
    let (tcp, extended) = (Pairs::from_text(snmp, "Tcp:"), Pairs::from_text(netstat, "TcpExt:"));
    NetworkUse {
        listen_overflows: extended.get("ListenOverflows"),
        listen_drops: extended.get("ListenDrops"),
        segments_out: tcp.get("OutSegs"),
        segments_retransmitted: tcp.get("RetransSegs"),
        retransmit_timeouts: extended.get("TCPTimeouts"),
        delayed_acks: extended.get("DelayedACKs"),
        syn_queue_drops: extended.get("TCPReqQFullDrop"),
        syn_cookies: extended.get("TCPReqQFullDoCookies"),
        memory_pressures: extended.get("TCPMemoryPressures"),
        aborts_on_memory: extended.get("TCPAbortOnMemory"),
        receive_queue_drops: extended.get("TCPRcvQDrop"),
        socket_backlog_drops: extended.get("TCPBacklogDrop"),
        prunes: extended.get("PruneCalled"),
        reserve_drops: extended.get("PFMemallocDrop"),
        tracking: None,
    }
}

/// Parses `stat/nf_conntrack`. The file has one line per CPU, but each line shows the number of
/// entries of the whole table (net/netfilter/nf_conntrack_standalone.c). `None`: no line has these
/// columns.
fn parse_tracking(text: &str) -> Option<TrackingUse> {
    let columns = parse_columns(text);
    let sum = |name: &str| columns.sum(name);
    Some(TrackingUse {
        entries: columns.max("entries")?,
        dropped: Some(sum("drop")?),
        evicted: Some(sum("early_drop")?),
        insert_failed: Some(sum("insert_failed")?),
    })
}

/// A line of names and a line of numbers. Both begin with the same word, such as `Tcp:`.
struct Pairs<'a> {
    names: Vec<&'a str>,
    numbers: Vec<&'a str>,
}

impl<'a> Pairs<'a> {
    fn from_text(text: &'a str, word: &str) -> Pairs<'a> {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(word));
        let mut next = || lines.next().unwrap_or_default().split_ascii_whitespace().collect();
        Pairs { names: next(), numbers: next() }
    }

    fn get(&self, name: &str) -> Option<u64> {
        let index = self.names.iter().position(|n| *n == name)?;
        self.numbers.get(index)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_counters_are_found_by_name() {
        let snmp = "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm MaxConn OutSegs RetransSegs\nTcp: 1 \
                    -1 700 3\n";
        let netstat = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPTimeouts\nTcpExt: 0 5 \
                       6 2\nIpExt: A\nIpExt: 1\n";
        let read = parse(snmp, netstat);
        assert_eq!((read.segments_out, read.segments_retransmitted), (Some(700), Some(3)));
        assert_eq!((read.listen_overflows, read.listen_drops), (Some(5), Some(6)));
        assert_eq!((read.retransmit_timeouts, read.delayed_acks), (Some(2), None));
        assert_eq!(parse("", ""), NetworkUse::default());
        let own_counters = counters(std::process::id(), &Files::default()).unwrap();
        assert!(own_counters.segments_out.is_some());
    }

    #[test]
    fn tcp_drop_counters_are_found_by_name() {
        let netstat = "TcpExt: TCPReqQFullDrop TCPReqQFullDoCookies TCPMemoryPressures \
            TCPAbortOnMemory TCPRcvQDrop TCPBacklogDrop PruneCalled PFMemallocDrop\n\
            TcpExt: 1 2 3 4 5 6 7 8\n";
        let read = parse("", netstat);
        let expected = NetworkUse {
            syn_queue_drops: Some(1),
            syn_cookies: Some(2),
            memory_pressures: Some(3),
            aborts_on_memory: Some(4),
            receive_queue_drops: Some(5),
            socket_backlog_drops: Some(6),
            prunes: Some(7),
            reserve_drops: Some(8),
            ..NetworkUse::default()
        };
        assert_eq!(read, expected);
    }

    /// The columns and their order differ between Linux 6.18, 5.4 and 4.19.
    #[test]
    fn tracking_is_read_by_column_names() {
        let new = "entries  clashres found new invalid ignore delete chainlength insert \
            insert_failed drop early_drop icmp_error  expect_new expect_create expect_delete \
            search_restart\n\
            00000029  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 \
            00000001 0000000a 00000002 00000000  00000000 00000000 00000000 00000000\n\
            00000029  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 \
            00000000 000000ff 00000001 00000000  00000000 00000000 00000000 00000000\n";
        let used = |entries, dropped, evicted, insert_failed| TrackingUse {
            entries,
            dropped: Some(dropped),
            evicted: Some(evicted),
            insert_failed: Some(insert_failed),
        };
        let expected = used(41, 265, 3, 1);
        assert_eq!(parse_tracking(new), Some(expected));
        let old = "entries  searched found drop early_drop insert_failed\n\
            00000002  00000000 00000000 00000001 00000000 00000003\n";
        let expected = used(2, 1, 0, 3);
        assert_eq!(parse_tracking(old), Some(expected));
    }

    #[test]
    fn tracking_without_its_columns_is_unknown() {
        assert_eq!(parse_tracking(""), None, "the file is missing");
        assert_eq!(parse_tracking("entries drop early_drop insert_failed\n"), None, "no CPU");
        assert_eq!(parse_tracking("entries found\n00000001 00000000\n"), None);
        assert_eq!(parse_tracking("entries drop early_drop insert_failed\nx y z w\n"), None);
        // A truncated line is ignored without affecting other lines.
        let cut = "entries drop early_drop insert_failed\n5 1 0 0\n5\n";
        assert_eq!(parse_tracking(cut).and_then(|observed| observed.dropped), Some(1));
    }
}
