//! Reads the counters of packets that the kernel drops between the generator and the server. A load
//! with lost packets measures the network stack's limits, not the server.

use dyno_model::drops::PathUse;
use dyno_model::host::{BacklogUse, TcpMemoryUse};

use crate::columns::parse_columns;
use crate::files::Files;
use crate::{network, tracking};

/// Reads all counters.
#[must_use]
pub fn counters(files: &Files) -> PathUse {
    PathUse {
        network: network::counters_here(files),
        backlog: backlog_use(files),
        neighbour_overflows: neighbour_overflows(files),
        tcp_memory: tcp_memory(files),
        max_tracking_entries: tracking::max_connections(),
    }
}

/// Returns the counters of the queues of received packets. `None`: the kernel does not show them.
pub(crate) fn backlog_use(files: &Files) -> Option<BacklogUse> {
    parse_backlog(&files.read("/proc/net/softnet_stat")?)
}

/// Sums the counters of all CPUs. The columns have no names. The number of columns depends on the
/// kernel, but the first three are the same in all versions (net/core/net-procfs.c).
fn parse_backlog(text: &str) -> Option<BacklogUse> {
    let parse_cpu = |line: &str| {
        let number = |word: &str| u64::from_str_radix(word, 16).ok();
        let mut numbers = line.split_ascii_whitespace().map_while(number);
        let mut next = || numbers.next();
        Some(BacklogUse { processed: next()?, dropped: next()?, squeezed: next()? })
    };
    let add = |a: BacklogUse, b: BacklogUse| BacklogUse {
        processed: a.processed + b.processed,
        dropped: a.dropped + b.dropped,
        squeezed: a.squeezed + b.squeezed,
    };
    text.lines().filter_map(parse_cpu).reduce(add)
}

/// Returns the number of times that the neighbour tables (ARP and NDISC) were full. `None`: the
/// kernel does not count them.
pub(crate) fn neighbour_overflows(files: &Files) -> Option<u64> {
    let overflows = |name: &str| {
        // The table belongs to the whole machine, and is not visible in other network namespaces.
        let text = files
            .read(format!("/proc/1/net/stat/{name}"))
            .or_else(|| files.read(format!("/proc/net/stat/{name}")))?;
        parse_columns(&text).sum("table_fulls")
    };
    // A kernel without IPv6 has only the first table.
    let tables = [overflows("arp_cache"), overflows("ndisc_cache")];
    tables.into_iter().flatten().reduce(|a, b| a + b)
}

/// Returns the memory of the TCP sockets of all network namespaces, with its limits. `None`: the
/// kernel does not show it.
pub(crate) fn tcp_memory(files: &Files) -> Option<TcpMemoryUse> {
    parse_tcp_memory(&files.read("/proc/net/sockstat")?, &files.read("/proc/sys/net/ipv4/tcp_mem")?)
}

fn parse_tcp_memory(sockstat: &str, tcp_mem: &str) -> Option<TcpMemoryUse> {
    let tcp = sockstat.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    let mut fields = tcp.split_ascii_whitespace().skip_while(|word| *word != "mem").skip(1);
    let limits: Vec<u64> = tcp_mem.split_ascii_whitespace().map_while(|n| n.parse().ok()).collect();
    let [_, pressure_pages, max_pages] = limits[..] else { return None };
    Some(TcpMemoryUse { pages: fields.next()?.parse().ok()?, pressure_pages, max_pages })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backlog_is_summed_for_any_number_of_columns() {
        let new = "0000000a 00000001 00000002 00000000 00000000 00000000 00000000 00000000\n\
            00000dd6 000000ff 00000000 00000000\n";
        let expected = BacklogUse { processed: 0xde0, dropped: 0x100, squeezed: 2 };
        assert_eq!(parse_backlog(new), Some(expected));
        assert_eq!(parse_backlog(""), None);
        assert_eq!(parse_backlog("0000000a 00000001\n"), None, "fewer columns than any kernel has");
        assert_eq!(parse_backlog("cpu drops squeezed\n1 2 3\n").map(|used| used.dropped), Some(2));
    }

    #[test]
    fn tcp_memory_is_read_with_its_limits() {
        let sockstat =
            "sockets: used 27\nTCP: inuse 1 orphan 0 tw 1 alloc 1 mem 94\nUDP: inuse 0 mem 7\n";
        let expected = TcpMemoryUse { pages: 94, pressure_pages: 20, max_pages: 30 };
        assert_eq!(parse_tcp_memory(sockstat, "10\t20\t30\n"), Some(expected));
        assert_eq!(parse_tcp_memory("TCP: inuse 1\n", "10\t20\t30\n"), None);
        assert_eq!(parse_tcp_memory(sockstat, "10\n"), None);
        assert_eq!(parse_tcp_memory("", ""), None);
    }

    #[test]
    fn overflows_without_their_column_are_unknown() {
        let new = "entries  allocs   unresolved_discards table_fulls\n\
            00000002 00000000 00000000            00000003\n\
            00000002 00000002 00000000            0000000a\n";
        assert_eq!(parse_columns(new).sum("table_fulls"), Some(13));
        assert_eq!(parse_columns("entries allocs\n00000002 00000000\n").sum("table_fulls"), None);
    }

    #[test]
    fn counters_of_this_machine_are_read() {
        let (first, last) = (counters(&Files::default()), counters(&Files::default()));
        assert!(last.network.unwrap().segments_out.is_some());
        assert!(last.growth_since(first).backlog.is_some());
    }
}
