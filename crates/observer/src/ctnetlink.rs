//! Reads the counters of connection tracking by netlink (`IPCTNL_MSG_CT_GET_STATS_CPU`), for
//! kernels whose `/proc` does not show them. The query needs CAP_NET_ADMIN. Without it only the
//! number of entries is known.

use std::io;

use dyno_model::tracking::TrackingUse;
use netlink_sys::{Socket, SocketAddr};

/// Netlink protocol of netfilter (linux/netlink.h).
const NETLINK_NETFILTER: isize = 12;

/// Number of the connection-tracking subsystem, `NFNL_SUBSYS_CTNETLINK`
/// (linux/netfilter/nfnetlink.h).
const SUBSYSTEM_CTNETLINK: u16 = 1;

/// Message for the counters of each CPU, `IPCTNL_MSG_CT_GET_STATS_CPU`
/// (linux/netfilter/nfnetlink_conntrack.h).
const MESSAGE_GET_STATS_CPU: u16 = 4;

/// Type of the request: the subsystem in the high byte, and its message in the low byte.
const GET_STATS_CPU: u16 = (SUBSYSTEM_CTNETLINK << 8) | MESSAGE_GET_STATS_CPU;

/// Flag of a request, `NLM_F_REQUEST` (linux/netlink.h).
const REQUEST: u16 = 0x1;

/// Flags of a request for all entries, `NLM_F_DUMP` (linux/netlink.h).
const DUMP: u16 = 0x300;

/// Attribute of a response: connections that could not be added to the table.
const INSERT_FAILED: u16 = 9;

/// Attribute of a response: dropped packets.
const DROP: u16 = 10;

/// Attribute of a response: unreplied entries that were evicted from a full table.
const EARLY_DROP: u16 = 11;

/// Type of a message that ends a response with an error.
const ERROR: u16 = 2;

/// Type of a message that ends a complete response.
const DONE: u16 = 3;

/// Bytes of a netlink message's header.
const HEADER: usize = 16;
/// Bytes of netfilter's own header: family, version, resource.
const NETFILTER_HEADER: usize = 4;

/// Returns the connection-tracking counters of this thread's network namespace. Without
/// CAP_NET_ADMIN they are `None`. `entries`: number of entries in the namespace's table.
pub(crate) fn counters(entries: u64) -> TrackingUse {
    with_entries(entries, dump())
}

fn with_entries(entries: u64, response: io::Result<Option<TrackingUse>>) -> TrackingUse {
    TrackingUse { entries, ..response.ok().flatten().unwrap_or_default() }
}

fn dump() -> io::Result<Option<TrackingUse>> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&request(), 0)?;
    let mut sum = None;
    loop {
        let (response, _) = socket.recv_from_full()?;
        if parse_responses(&response, &mut sum)? {
            return Ok(sum);
        }
    }
}

fn request() -> Vec<u8> {
    let length = (HEADER + NETFILTER_HEADER) as u32;
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(GET_STATS_CPU.to_ne_bytes());
    bytes.extend((REQUEST | DUMP).to_ne_bytes());
    bytes.resize(length as usize, 0);
    bytes
}

/// Parses received messages and adds their counters. Returns whether the last message was among
/// them.
fn parse_responses(mut bytes: &[u8], sum: &mut Option<TrackingUse>) -> io::Result<bool> {
    while let Some((length, kind)) = length_and_kind(bytes) {
        let message = bytes.get(HEADER..length).ok_or(io::ErrorKind::InvalidData)?;
        match kind {
            DONE => return Ok(true),
            ERROR => return Err(io::ErrorKind::PermissionDenied.into()),
            _ => add_cpu(message.get(NETFILTER_HEADER..).unwrap_or_default(), sum),
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    // The rest of the bytes is not a message, so the last message would never be found.
    if bytes.is_empty() { Ok(false) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn length_and_kind(bytes: &[u8]) -> Option<(usize, u16)> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    (length >= HEADER).then_some((length, kind))
}

/// Adds the counters of one CPU.
fn add_cpu(mut attributes: &[u8], sum: &mut Option<TrackingUse>) {
    let sum = sum.get_or_insert_default();
    while let Some((kind, value, rest)) = split_attribute(attributes) {
        let counter = match kind {
            INSERT_FAILED => Some(&mut sum.insert_failed),
            DROP => Some(&mut sum.dropped),
            EARLY_DROP => Some(&mut sum.evicted),
            _ => None,
        };
        if let Some(counter) = counter {
            *counter = Some(counter.unwrap_or(0) + value);
        }
        attributes = rest;
    }
}

/// Splits off the first attribute. Returns its kind, its value and the remaining bytes.
fn split_attribute(bytes: &[u8]) -> Option<(u16, u64, &[u8])> {
    let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
    // An attribute of another length than four bytes is not a counter.
    let value = bytes.get(4..length)?.try_into().map_or(0, u32::from_be_bytes);
    Some((kind, value.into(), bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    fn cpu(counters: &[(u16, u32)]) -> Vec<u8> {
        let mut body = vec![0; NETFILTER_HEADER];
        for (kind, value) in counters {
            body.extend(8u16.to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(value.to_be_bytes());
        }
        message(GET_STATS_CPU, &body)
    }

    #[test]
    fn counters_of_all_cpus_are_added() {
        let mut sum = None;
        let first = [cpu(&[(2, 99), (INSERT_FAILED, 1), (DROP, 2)]), cpu(&[(EARLY_DROP, 3)])];
        assert!(!parse_responses(&first.concat(), &mut sum).unwrap());
        let last = [cpu(&[(DROP, 5)]), message(DONE, &[0; 4])];
        assert!(parse_responses(&last.concat(), &mut sum).unwrap());
        let expected =
            TrackingUse { entries: 0, dropped: Some(7), evicted: Some(3), insert_failed: Some(1) };
        assert_eq!(sum, Some(expected));
        assert_eq!(with_entries(5, Ok(sum)), TrackingUse { entries: 5, ..expected });
    }

    /// The answer to an ordinary user, on a kernel whose `/proc` does not show the counters.
    #[test]
    fn entries_are_known_without_counters() {
        let expected = TrackingUse { entries: 5, ..TrackingUse::default() };
        assert_eq!(with_entries(5, Err(io::ErrorKind::PermissionDenied.into())), expected);
        assert_eq!(with_entries(5, Ok(None)), expected);
        assert_eq!(expected.dropped, None, "unknown is not zero");
    }

    #[test]
    fn error_and_malformed_messages_are_errors() {
        assert!(parse_responses(&message(ERROR, &[0; 20]), &mut None).is_err());
        assert!(
            parse_responses(&[7; 40], &mut None).is_err(),
            "a message longer than the response"
        );
        assert!(parse_responses(&[0; 40], &mut None).is_err(), "a message without a length");
        let mut sum = None;
        assert!(parse_responses(&message(DONE, &[]), &mut sum).unwrap());
        assert_eq!(sum, None, "no CPU reported a value");
    }

    /// Runs only if this user can read both sources.
    #[test]
    fn netlink_and_proc_agree() {
        let from_proc = crate::network::counters_here(&crate::Files::default());
        let from_proc = from_proc.and_then(|network| network.tracking);
        if let (Some(earlier), Ok(Some(now))) = (from_proc, dump()) {
            assert!(now.dropped >= earlier.dropped && now.insert_failed >= earlier.insert_failed);
        }
    }
}
