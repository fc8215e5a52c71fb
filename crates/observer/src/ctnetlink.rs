//! Reads the counters of connection tracking by netlink (`IPCTNL_MSG_CT_GET_STATS_CPU`), for
//! kernels whose `/proc` does not show them. It needs CAP_NET_ADMIN.

use std::io;

use dyno_archive::drops::TrackingUse;
use netlink_sys::{Socket, SocketAddr};

/// Netlink protocol of netfilter (linux/netlink.h).
const NETLINK_NETFILTER: isize = 12;

/// Type of the request for the counters of each CPU (linux/netfilter/nfnetlink_conntrack.h).
const GET_STATS_CPU: u16 = 1 << 8 | 4;
const REQUEST_AND_DUMP: u16 = 0x1 | 0x300;

/// Attributes of a response.
const INSERT_FAILED: u16 = 9;
const DROP: u16 = 10;
const EARLY_DROP: u16 = 11;

/// Types of messages that end a response.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// Bytes of a netlink message's header.
const HEADER: usize = 16;
/// Bytes of netfilter's own header: family, version, resource.
const NETFILTER_HEADER: usize = 4;

/// Reads the counters of this thread's network. `entries`: number of entries of its table.
pub(crate) fn counters(entries: u64) -> Option<TrackingUse> {
    dump().ok()?.map(|counters| TrackingUse { entries, ..counters })
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
    bytes.extend(REQUEST_AND_DUMP.to_ne_bytes());
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
        match kind {
            INSERT_FAILED => sum.insert_failed += value,
            DROP => sum.dropped += value,
            EARLY_DROP => sum.evicted += value,
            _ => {}
        }
        attributes = rest;
    }
}

/// Splits off the first attribute. Returns its kind, its value and the remaining bytes.
fn split_attribute(bytes: &[u8]) -> Option<(u16, u64, &[u8])> {
    let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
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
        let expected = TrackingUse { entries: 0, dropped: 7, evicted: 3, insert_failed: 1 };
        assert_eq!(sum, Some(expected));
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

    /// Checked only where this user can read both sources.
    #[test]
    fn netlink_and_proc_agree() {
        let from_proc = crate::network::counters_here(&crate::Files::default());
        let from_proc = from_proc.and_then(|network| network.tracking);
        if let (Some(earlier), Some(now)) = (from_proc, counters(0)) {
            assert!(now.dropped >= earlier.dropped && now.insert_failed >= earlier.insert_failed);
        }
    }
}
