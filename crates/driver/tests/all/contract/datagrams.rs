//! Contract tests of [`DatagramDriver`].

use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::thread;

use dyno_driver::{Endpoint, Epoll, PeerAddress, Stamps, Uring, limits};
use dyno_engine::driver::QueuedBytes;
use dyno_engine::{CompletionKind, ConnId, DatagramDriver, Driver, Instant, StreamDriver};

use super::{DriverUnderTest, OverEpoll, OverUring, RecordedDriver, Simulated, serve};

/// A driver under test whose server returns each datagram to its sender.
trait WithEcho: DriverUnderTest<Driver: DatagramDriver> {
    fn with_echo(connections: u32) -> Self::Driver;
}

impl WithEcho for Simulated {
    fn with_echo(connections: u32) -> Self::Driver {
        Self::driver(None, connections)
    }
}

impl WithEcho for OverEpoll {
    fn with_echo(connections: u32) -> Self::Driver {
        Epoll::new(&echo().into(), connections).unwrap()
    }
}

impl WithEcho for OverUring {
    fn with_echo(connections: u32) -> Self::Driver {
        Uring::new(&echo().into(), connections).unwrap()
    }
}

/// Starts a server that returns datagrams, and responds to requests over TCP at the same address.
/// It ends with the test process.
fn echo() -> SocketAddr {
    // Another socket can have the same port for datagrams.
    let socket = std::iter::repeat_with(|| UdpSocket::bind(serve(None))).find_map(Result::ok);
    let socket = socket.unwrap();
    let addr = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 2 * limits::BUFFER_BYTES];
        while let Ok((n, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..n], from);
        }
    });
    addr
}

/// Opens a datagram socket in a slot.
fn open<D: DatagramDriver + StreamDriver>(log: &mut RecordedDriver<D>, conn: ConnId) {
    log.may_receive_nothing = true;
    let before = log.count(conn, CompletionKind::Connected);
    log.driver.open_datagrams(conn);
    log.wait_until("socket", |log| log.count(conn, CompletionKind::Connected) > before);
}

/// Returns the datagrams that a socket received, in order.
fn received<D>(log: &RecordedDriver<D>, conn: ConnId) -> Vec<Vec<u8>> {
    let is_datagram = |kind| kind == CompletionKind::Received;
    let all = log.completions.iter().filter(|(c, _)| c.conn == conn && is_datagram(c.kind));
    all.map(|(_, bytes)| bytes.clone()).collect()
}

fn datagrams_keep_their_boundaries<A: WithEcho>() {
    let mut log = RecordedDriver::new(A::with_echo(2));
    open(&mut log, 0);
    open(&mut log, 1);
    let before = log.driver.now();
    let longest = vec![7; limits::BUFFER_BYTES];
    let sent: [&[u8]; 5] = [b"a", b"bcd", &longest, b"", b"e"];
    for datagram in sent {
        log.driver.send_datagram(0, datagram);
    }
    log.driver.send_datagram(1, b"other");
    assert_eq!(log.driver.queued_bytes(0), QueuedBytes { taken: 0, waiting: 8197 });
    log.wait_until("set of datagrams", |log| {
        received(log, 0).len() == sent.len() && received(log, 1).len() == 1
    });
    assert_eq!(received(&log, 0), sent);
    assert_eq!(received(&log, 1), [b"other"]);
    assert!(log.hand_overs.iter().all(|(_, at)| *at >= before && *at <= log.last));
    assert_eq!(log.hand_overs.len(), 2);
    assert_eq!(log.driver.queued_bytes(0), QueuedBytes { taken: 8197, waiting: 0 });
    assert_eq!(log.driver.taken_bytes(), 8197 + 5);
    assert!(log.driver.tcp_counters(0).is_none());
}

/// More datagrams than the submission queue of a ring has room for.
fn many_datagrams_are_handed_over_at_once<A: WithEcho>() {
    const COUNT: u32 = 3 * limits::SUBMISSIONS;
    let mut log = RecordedDriver::new(A::with_echo(1));
    open(&mut log, 0);
    let before = log.driver.now();
    for number in 0..COUNT {
        log.driver.send_datagram(0, &number.to_be_bytes());
    }
    let all = QueuedBytes { taken: u64::from(4 * COUNT), waiting: 0 };
    log.wait_until("departure of all datagrams", |log| log.driver.queued_bytes(0) == all);
    assert_eq!(log.hand_overs.len(), 1);
    // The kernel can drop some of the others.
    log.wait_until("first datagram", |log| !received(log, 0).is_empty());
    let arrived = log.completions.iter().find(|(_, bytes)| bytes == &[0; 4]).unwrap().0.at;
    assert!(before <= log.hand_overs[0].1 && log.hand_overs[0].1 <= arrived);
}

fn closed_datagram_socket_reports_nothing<A: WithEcho>() {
    let mut log = RecordedDriver::new(A::with_echo(1));
    for round in 1..=10 {
        open(&mut log, 0);
        log.driver.send_datagram(0, b"returned too late");
        log.driver.flush(&mut |_, _| {});
        log.driver.send_datagram(0, b"not sent");
        log.driver.close(0);
        open(&mut log, 0);
        log.driver.send_datagram(0, b"kept");
        log.wait_until("datagram", |log| received(log, 0).len() == round);
        log.driver.close(0);
    }
    assert_eq!(received(&log, 0), [b"kept"; 10]);
    // The slot can be used for a stream.
    log.connect(0);
    log.driver.send(0, &super::get());
    log.wait_until("response", |log| log.bytes(0).ends_with(super::RESPONSE_BODY));
}

fn refused_datagrams_are_reported_once<A: WithEcho>() {
    let mut log = RecordedDriver::new(A::unreachable_server());
    open(&mut log, 0);
    // The kernel reports the refusal of the first datagram to the second send, or to a receive.
    for datagram in [b"1", b"2", b"3"] {
        log.driver.send_datagram(0, datagram);
        log.driver.flush(&mut |_, _| {});
    }
    log.wait_until("refusal", |log| log.count(0, CompletionKind::Reset) > 0);
    for datagram in [b"4", b"5"] {
        log.driver.send_datagram(0, datagram);
        log.turn(Instant(0));
    }
    assert_eq!(log.kinds(), [(0, CompletionKind::Connected), (0, CompletionKind::Reset)]);
}

contract! {
    datagrams_keep_their_boundaries
    many_datagrams_are_handed_over_at_once
    closed_datagram_socket_reports_nothing
    refused_datagrams_are_reported_once
}

/// The queue of a Unix socket has room for a few datagrams. The others must leave once the peer
/// reads.
fn assert_stuck_datagrams_leave<D: DatagramDriver + StreamDriver>(
    make: impl FnOnce(&Endpoint) -> D,
) {
    const COUNT: u32 = 100;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let peer = UnixDatagram::bind(&path).unwrap();
    let endpoint = Endpoint {
        peer: PeerAddress::Unix(path),
        sources: Vec::new(),
        stamps: Stamps::None,
        proxy: None,
    };
    let mut log = RecordedDriver::new(make(&endpoint));
    open(&mut log, 0);
    for number in 0..COUNT {
        log.driver.send_datagram(0, &number.to_be_bytes());
    }
    log.turn(Instant(0));
    assert!(log.driver.queued_bytes(0).waiting > 0, "the queue has room for all datagrams");
    let reader = thread::spawn(move || {
        let read_number = || {
            let mut bytes = [0; 8];
            assert_eq!(peer.recv(&mut bytes).unwrap(), 4);
            u32::from_be_bytes(bytes[..4].try_into().unwrap())
        };
        (0..COUNT).map(|_| read_number()).collect::<Vec<_>>()
    });
    let all = QueuedBytes { taken: u64::from(4 * COUNT), waiting: 0 };
    log.wait_until("departure of all datagrams", |log| log.driver.queued_bytes(0) == all);
    assert_eq!(log.hand_overs.len(), 1);
    let mut numbers = reader.join().unwrap();
    // Sends that wait for room can overtake each other in a ring.
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..COUNT), "datagrams were lost or repeated");
}

#[test]
fn epoll_sends_stuck_datagrams_once_there_is_room() {
    assert_stuck_datagrams_leave(|endpoint| Epoll::new(endpoint, 1).unwrap());
}

#[test]
fn io_uring_sends_stuck_datagrams_once_there_is_room() {
    assert_stuck_datagrams_leave(|endpoint| Uring::new(endpoint, 1).unwrap());
}
