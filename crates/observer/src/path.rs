//! Counters of dropped packets on the path of a load, of this thread's network and of the whole
//! machine.

use dyno_archive::drops::{BacklogUse, PathUse, TcpMemoryUse};

use crate::columns::hexadecimal;
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
        tracking_most: tracking::max_connections(),
    }
}

/// Queues of received packets. `None`: the kernel does not show them.
pub(crate) fn backlog_use(files: &Files) -> Option<BacklogUse> {
    backlog(&files.read("/proc/net/softnet_stat")?)
}

/// The columns have no names, and newer kernels have more of them: the first three are the same in
/// all (net/core/net-procfs.c).
fn backlog(text: &str) -> Option<BacklogUse> {
    let cpu = |line: &str| {
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
    text.lines().filter_map(cpu).reduce(add)
}

/// Neighbours of IPv4 and IPv6 for which the table had no room. `None`: the kernel does not count.
pub(crate) fn neighbour_overflows(files: &Files) -> Option<u64> {
    let of = |name: &str| {
        // The table is the machine's, and networks of servers' own do not show it.
        let text = files
            .read(format!("/proc/1/net/stat/{name}"))
            .or_else(|| files.read(format!("/proc/net/stat/{name}")))?;
        hexadecimal(&text).sum("table_fulls")
    };
    // A kernel without IPv6 has the first alone.
    [of("arp_cache"), of("ndisc_cache")].into_iter().flatten().reduce(|a, b| a + b)
}

/// Memory of TCP sockets of all networks. `None`: the kernel does not show it.
pub(crate) fn tcp_memory(files: &Files) -> Option<TcpMemoryUse> {
    memory(&files.read("/proc/net/sockstat")?, &files.read("/proc/sys/net/ipv4/tcp_mem")?)
}

fn memory(sockstat: &str, tcp_mem: &str) -> Option<TcpMemoryUse> {
    let tcp = sockstat.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = tcp.split_ascii_whitespace().skip_while(|word| *word != "mem").skip(1);
    let limits: Vec<u64> = tcp_mem.split_ascii_whitespace().map_while(|n| n.parse().ok()).collect();
    let [_, pressure_pages, most_pages] = limits[..] else { return None };
    Some(TcpMemoryUse { pages: words.next()?.parse().ok()?, pressure_pages, most_pages })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backlog_adds_cpus_of_any_number_of_columns() {
        let new = "0000000a 00000001 00000002 00000000 00000000 00000000 00000000 00000000\n\
            00000dd6 000000ff 00000000 00000000\n";
        let expected = BacklogUse { processed: 0xde0, dropped: 0x100, squeezed: 2 };
        assert_eq!(backlog(new), Some(expected));
        assert_eq!(backlog(""), None);
        assert_eq!(backlog("0000000a 00000001\n"), None, "no kernel has so few");
        assert_eq!(backlog("cpu drops squeezed\n1 2 3\n").map(|seen| seen.dropped), Some(2));
    }

    #[test]
    fn tcp_memory_is_read_with_its_limits() {
        let sockstat =
            "sockets: used 27\nTCP: inuse 1 orphan 0 tw 1 alloc 1 mem 94\nUDP: inuse 0 mem 7\n";
        let expected = TcpMemoryUse { pages: 94, pressure_pages: 20, most_pages: 30 };
        assert_eq!(memory(sockstat, "10\t20\t30\n"), Some(expected));
        assert_eq!(memory("TCP: inuse 1\n", "10\t20\t30\n"), None);
        assert_eq!(memory(sockstat, "10\n"), None);
        assert_eq!(memory("", ""), None);
    }

    #[test]
    fn overflows_need_their_column() {
        let new = "entries  allocs   unresolved_discards table_fulls\n\
            00000002 00000000 00000000            00000003\n\
            00000002 00000002 00000000            0000000a\n";
        assert_eq!(hexadecimal(new).sum("table_fulls"), Some(13));
        assert_eq!(hexadecimal("entries allocs\n00000002 00000000\n").sum("table_fulls"), None);
    }

    #[test]
    fn counters_of_this_machine_are_read() {
        let (first, last) = (counters(&Files::default()), counters(&Files::default()));
        assert!(last.network.unwrap().segments_out.is_some());
        assert!(last.growth_since(first).backlog.is_some());
    }
}
