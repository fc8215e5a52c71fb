//! Counters of TCP in a network namespace: `/proc/PID/net/{snmp,netstat}` (proc_pid_net(5)).

use dyno_archive::sample::NetworkUse;

use crate::files::Files;

/// The counters of the network that a process is in; `None`: they cannot be read.
pub(crate) fn counters(pid: u32, files: &Files) -> Option<NetworkUse> {
    let snmp = files.read(format!("/proc/{pid}/net/snmp"))?;
    Some(parse(&snmp, &files.read(format!("/proc/{pid}/net/netstat")).unwrap_or_default()))
}

fn parse(snmp: &str, netstat: &str) -> NetworkUse {
    let (tcp, extended) = (Pairs::of(snmp, "Tcp:"), Pairs::of(netstat, "TcpExt:"));
    NetworkUse {
        listen_overflows: extended.get("ListenOverflows"),
        listen_drops: extended.get("ListenDrops"),
        segments_out: tcp.get("OutSegs"),
        segments_retransmitted: tcp.get("RetransSegs"),
        retransmit_timeouts: extended.get("TCPTimeouts"),
        delayed_acks: extended.get("DelayedACKs"),
    }
}

/// A line of names and a line of numbers, each after the same word.
struct Pairs<'a> {
    names: Vec<&'a str>,
    numbers: Vec<&'a str>,
}

impl<'a> Pairs<'a> {
    fn of(text: &'a str, word: &str) -> Pairs<'a> {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(word));
        let mut next = || lines.next().unwrap_or_default().split_ascii_whitespace().collect();
        Pairs { names: next(), numbers: next() }
    }

    fn get(&self, name: &str) -> Option<u64> {
        let place = self.names.iter().position(|n| *n == name)?;
        self.numbers.get(place)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let snmp = "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm MaxConn OutSegs RetransSegs\nTcp: 1 -1 700 3\n";
        let netstat = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPTimeouts\nTcpExt: 0 5 6 2\nIpExt: A\nIpExt: 1\n";
        let read = parse(snmp, netstat);
        assert_eq!((read.segments_out, read.segments_retransmitted), (Some(700), Some(3)));
        assert_eq!((read.listen_overflows, read.listen_drops), (Some(5), Some(6)));
        assert_eq!((read.retransmit_timeouts, read.delayed_acks), (Some(2), None));
        assert_eq!(parse("", ""), NetworkUse::default());
        assert!(counters(std::process::id(), &Files::default()).unwrap().segments_out.is_some());
    }
}
