//! Contract tests of [`Driver`] and [`StreamDriver`]. The same tests run on the simulator, epoll
//! and io_uring.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixListener;
use std::thread;

use dyno_driver::{Endpoint, Epoll, PeerAddress, Stamps, Uring};
use dyno_engine::driver::Wait;
use dyno_engine::sim::{Fault, Queue, ServerModel, ServiceTime, SimDriver, World};
use dyno_engine::{
    Completion, CompletionKind, ConnId, ConnectError, Driver, Instant, StreamDriver,
};
use dyno_wire::h1::{encode, request};

const RESPONSE_BODY: &[u8] = b"Hello, World!";

/// A driver under test with its server.
trait DriverUnderTest {
    type Driver: StreamDriver;
    /// Creates a driver whose server responds correctly, or with `fault` to every request.
    fn driver(fault: Option<Fault>, connections: u32) -> Self::Driver;
    /// Creates a driver whose server does not exist.
    fn unreachable_server() -> Self::Driver;
}

struct Simulated;

impl DriverUnderTest for Simulated {
    type Driver = SimDriver;

    fn driver(fault: Option<Fault>, _: u32) -> SimDriver {
        let mut model = ServerModel::new(ServiceTime::Fixed { ns: 50_000 }, Queue::PerConnection);
        model.faults = fault.map(|f| (f, 1.0)).into_iter().collect();
        SimDriver::new(World::new(1, model))
    }

    fn unreachable_server() -> SimDriver {
        let mut world =
            World::new(1, ServerModel::new(ServiceTime::Fixed { ns: 1 }, Queue::PerConnection));
        world.net.refuse = 1.0;
        SimDriver::new(world)
    }
}

struct OverEpoll;

impl DriverUnderTest for OverEpoll {
    type Driver = Epoll;

    fn driver(fault: Option<Fault>, connections: u32) -> Epoll {
        Epoll::new(&serve(fault).into(), connections).unwrap()
    }

    fn unreachable_server() -> Epoll {
        Epoll::new(&closed_port().into(), 4).unwrap()
    }
}

struct OverUring;

impl DriverUnderTest for OverUring {
    type Driver = Uring;

    fn driver(fault: Option<Fault>, connections: u32) -> Uring {
        Uring::new(&serve(fault).into(), connections).unwrap()
    }

    fn unreachable_server() -> Uring {
        Uring::new(&closed_port().into(), 4).unwrap()
    }
}

#[path = "../../../../tests/support/port.rs"]
mod ports;

fn closed_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], ports::free_port()))
}

/// Starts a blocking server with one thread per connection. It ends with the test process.
fn serve(fault: Option<Fault>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || serve_connection(stream, fault));
        }
    });
    addr
}

fn serve_connection(mut stream: TcpStream, fault: Option<Fault>) {
    let mut reader = request::RequestReader::new();
    let mut buffer = vec![0; 16384];
    loop {
        let Ok(n @ 1..) = stream.read(&mut buffer) else { return };
        let mut bytes = &buffer[..n];
        loop {
            let (used, event) = reader.next(bytes).unwrap();
            bytes = &bytes[used..];
            match event {
                request::RequestEvent::NeedMore => break,
                request::RequestEvent::Head(_) | request::RequestEvent::Body(_) => {}
                request::RequestEvent::End => {
                    if !respond(&mut stream, fault) {
                        return;
                    }
                }
            }
        }
    }
}

/// Responds to a request. Returns whether the connection stays open.
fn respond(stream: &mut TcpStream, fault: Option<Fault>) -> bool {
    let ok = |close| {
        encode::response(200, "OK", "text/plain", RESPONSE_BODY.len(), close, RESPONSE_BODY)
    };
    match fault {
        None => stream.write_all(&ok(false)).is_ok(),
        Some(Fault::PoliteClose) => {
            let _ = stream.write_all(&ok(true));
            let _ = stream.shutdown(Shutdown::Write);
            // Wait for the peer, so that its late requests do not turn the close into a reset.
            let _ = stream.read_to_end(&mut Vec::new());
            false
        }
        Some(Fault::Reset) => {
            reset_on_close(stream);
            false
        }
        Some(Fault::Silence) => true,
        Some(other) => panic!("{other:?} is not supported here"),
    }
}

fn reset_on_close(stream: &TcpStream) {
    let linger = [1i32, 0];
    // SAFETY: `linger` has the layout of struct linger and lives through the call.
    #[allow(unsafe_code)]
    let ok = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            linger.as_ptr().cast(),
            8,
        )
    };
    assert_eq!(ok, 0);
}

/// A driver with a record of its reports, so that tests can wait for them.
struct RecordedDriver<D> {
    driver: D,
    completions: Vec<(Completion, Vec<u8>)>,
    hand_overs: Vec<(ConnId, Instant)>,
    last: Instant,
    /// Start of polling instead of sleeping.
    spin_from: Instant,
    /// Whether a `Received` can have no bytes: datagrams can be empty.
    may_receive_nothing: bool,
}

impl<D: StreamDriver> RecordedDriver<D> {
    fn new(driver: D) -> Self {
        RecordedDriver {
            driver,
            completions: Vec::new(),
            hand_overs: Vec::new(),
            last: Instant(0),
            spin_from: Instant::NEVER,
            may_receive_nothing: false,
        }
    }

    fn turn(&mut self, until: Instant) {
        let wait = Wait { until, spin_from: self.spin_from };
        let turn = self.driver.turn(wait, &mut |conn, at| self.hand_overs.push((conn, at)));
        assert!(
            turn.entered >= self.last && turn.woke >= turn.entered,
            "the clock went backwards: {turn:?}"
        );
        self.last = turn.woke;
        while let Some(completion) = self.driver.next() {
            assert!(completion.at >= self.last, "{completion:?} before {:?}", self.last);
            self.last = completion.at;
            let is_received = completion.kind == CompletionKind::Received;
            let bytes =
                if is_received { self.driver.received_bytes().to_vec() } else { Vec::new() };
            assert!(!is_received || !bytes.is_empty() || self.may_receive_nothing);
            self.completions.push((completion, bytes));
        }
    }

    /// Runs turns until `done`; panics after two minutes.
    fn wait_until(&mut self, event: &str, done: impl Fn(&Self) -> bool) {
        let limit = self.driver.now().plus(120_000_000_000);
        while !done(self) {
            assert!(
                self.driver.now() < limit,
                "no {event} within two minutes; got {:?}",
                self.kinds()
            );
            let soon = self.driver.now().plus(100_000_000);
            self.turn(soon);
        }
    }

    fn kinds(&self) -> Vec<(ConnId, CompletionKind)> {
        self.completions.iter().map(|(c, _)| (c.conn, c.kind)).collect()
    }

    fn count(&self, conn: ConnId, kind: CompletionKind) -> usize {
        self.completions.iter().filter(|(c, _)| c.conn == conn && c.kind == kind).count()
    }

    fn bytes(&self, conn: ConnId) -> Vec<u8> {
        self.completions
            .iter()
            .filter(|(c, _)| c.conn == conn)
            .flat_map(|(_, b)| b.clone())
            .collect()
    }

    fn connect(&mut self, conn: ConnId) {
        let before = self.count(conn, CompletionKind::Connected);
        self.driver.connect(conn);
        self.wait_until("connection", |log| log.count(conn, CompletionKind::Connected) > before);
    }
}

fn get() -> Vec<u8> {
    encode::request("GET", "/", "h", &[], b"").unwrap()
}

fn correct_response() -> Vec<u8> {
    encode::response(200, "OK", "text/plain", RESPONSE_BODY.len(), false, RESPONSE_BODY)
}

fn each_connection_gets_its_responses<A: DriverUnderTest>() {
    let mut log = RecordedDriver::new(A::driver(None, 3));
    for conn in 0..3 {
        log.connect(conn);
    }
    for round in 1..=5 {
        for conn in 0..3 {
            log.driver.send(conn, &get());
        }
        log.wait_until("set of three responses", |log| {
            (0..3).all(|conn| log.bytes(conn).len() == round * correct_response().len())
        });
    }
    for conn in 0..3 {
        assert_eq!(log.bytes(conn), correct_response().repeat(5));
    }
}

fn queued_bytes_leave_in_order_with_one_timestamp<A: DriverUnderTest>() {
    let mut log = RecordedDriver::new(A::driver(None, 1));
    log.connect(0);
    let before = log.driver.now();
    for _ in 0..20 {
        log.driver.send(0, &get());
    }
    log.wait_until("set of twenty responses", |log| {
        log.bytes(0).len() == 20 * correct_response().len()
    });
    assert_eq!(log.hand_overs.len(), 1);
    assert!(
        log.hand_overs[0].1 >= before
            && log.hand_overs[0].1 <= log.completions.last().unwrap().0.at
    );
}

fn flush_hands_over_immediately<A: DriverUnderTest>() {
    let mut log = RecordedDriver::new(A::driver(None, 1));
    log.connect(0);
    log.driver.send(0, &get());
    let mut hand_overs = 0;
    log.driver.flush(&mut |_, _| hand_overs += 1);
    assert_eq!(hand_overs, 1);
    log.wait_until("response", |log| log.bytes(0) == correct_response());
    assert!(log.hand_overs.is_empty(), "reported twice");
}

fn sleep_ends_at_deadline<A: DriverUnderTest>() {
    let mut log = RecordedDriver::new(A::driver(Some(Fault::Silence), 1));
    log.connect(0);
    log.driver.send(0, &get());
    log.turn(Instant(0));
    for _ in 0..3 {
        let until = log.driver.now().plus(5_000_000);
        let count = log.completions.len();
        log.turn(until);
        assert_eq!(log.completions.len(), count, "a silent server completes nothing");
        assert!(log.last >= until, "woke before its deadline");
    }
}

fn polling_ends_at_deadline_or_completion<A: DriverUnderTest>() {
    let mut log = RecordedDriver::new(A::driver(Some(Fault::Silence), 1));
    log.connect(0);
    log.driver.send(0, &get());
    log.turn(Instant(0));
    for ahead in [0, 2_000_000, 5_000_000] {
        let until = log.driver.now().plus(5_000_000);
        log.spin_from = Instant(until.0 - ahead);
        let count = log.completions.len();
        log.turn(until);
        assert_eq!(log.completions.len(), count, "a silent server completes nothing");
        assert!(log.last >= until, "woke before its deadline");
    }
    let mut log = RecordedDriver::new(A::driver(None, 1));
    log.spin_from = Instant(0);
    log.connect(0);
    log.driver.send(0, &get());
    log.wait_until("response", |log| log.bytes(0) == correct_response());
}

fn closed_connection_reports_nothing<A: DriverUnderTest>() {
    let mut log = RecordedDriver::new(A::driver(None, 2));
    log.connect(0);
    log.connect(1);
    for round in 1..=20 {
        log.driver.send(0, &get());
        log.driver.send(1, &get());
        log.turn(Instant(0));
        let reported = log.completions.iter().filter(|(c, _)| c.conn == 0).count();
        log.driver.close(0);
        log.wait_until("response on the other connection", |log| {
            log.bytes(1).len() == round * correct_response().len()
        });
        assert_eq!(log.completions.iter().filter(|(c, _)| c.conn == 0).count(), reported);
        // The slot can be reused, and its responses belong to the new connection.
        log.connect(0);
        let from = log.bytes(0).len();
        log.driver.send(0, &get());
        log.wait_until("response on the new connection", |log| {
            log.bytes(0).len() == from + correct_response().len()
        });
    }
}

fn connecting_slot_can_be_closed<A: DriverUnderTest>() {
    let mut log = RecordedDriver::new(A::driver(None, 1));
    for _ in 0..10 {
        log.driver.connect(0);
        log.driver.close(0);
    }
    log.turn(Instant(0));
    assert_eq!(log.kinds(), []);
    log.connect(0);
    log.driver.send(0, &get());
    log.wait_until("response", |log| log.bytes(0) == correct_response());
}

fn connect_to_closed_port_is_refused<A: DriverUnderTest>() {
    let mut log = RecordedDriver::new(A::unreachable_server());
    for conn in [0, 1, 0] {
        log.driver.connect(conn);
        let before = log.completions.len();
        log.wait_until("refusal", |log| log.completions.len() > before);
        let last = log.completions.last().unwrap().0;
        assert_eq!(
            (last.conn, last.kind),
            (conn, CompletionKind::ConnectFailed(ConnectError::Refused))
        );
    }
}

fn close_is_reported_after_last_bytes<A: DriverUnderTest>() {
    let mut log = RecordedDriver::new(A::driver(Some(Fault::PoliteClose), 1));
    log.connect(0);
    log.driver.send(0, &get());
    log.wait_until("close", |log| log.count(0, CompletionKind::Eof) == 1);
    assert_eq!(log.kinds().last(), Some(&(0, CompletionKind::Eof)));
    assert!(log.bytes(0).ends_with(RESPONSE_BODY));
}

fn reset_is_reported_as_reset<A: DriverUnderTest>() {
    let mut log = RecordedDriver::new(A::driver(Some(Fault::Reset), 1));
    log.connect(0);
    log.driver.send(0, &get());
    log.wait_until("reset", |log| log.count(0, CompletionKind::Reset) == 1);
    assert_eq!(log.count(0, CompletionKind::Eof), 0);
}

/// The kernel reports a reset once. A reset that a send reported must not be lost.
fn reset_found_by_send_is_reported_as_reset<A: DriverUnderTest>() {
    let mut log = RecordedDriver::new(A::driver(Some(Fault::Reset), 1));
    log.connect(0);
    log.driver.send(0, &get());
    log.driver.flush(&mut |_, _| {});
    // Time for the reset to arrive before the next request leaves.
    thread::sleep(std::time::Duration::from_millis(50));
    log.driver.send(0, &get());
    log.wait_until("reset", |log| log.count(0, CompletionKind::Reset) == 1);
    assert_eq!(log.count(0, CompletionKind::Eof), 0);
}

fn megabyte_body_is_sent_completely<A: DriverUnderTest>() {
    let mut log = RecordedDriver::new(A::driver(None, 1));
    log.connect(0);
    let body = vec![b'x'; 1 << 20];
    let post = encode::request("POST", "/", "h", &[], &body).unwrap();
    for round in 1..=3 {
        log.driver.send(0, &post);
        log.driver.send(0, &get());
        log.wait_until("pair of responses", |log| {
            log.bytes(0).len() == round * 2 * correct_response().len()
        });
    }
}

fn two_hundred_connections_work_concurrently<A: DriverUnderTest>() {
    let mut log = RecordedDriver::new(A::driver(None, 200));
    for conn in 0..200 {
        log.driver.connect(conn);
    }
    log.wait_until("completion of all connects", |log| {
        (0..200).all(|conn| log.count(conn, CompletionKind::Connected) == 1)
    });
    for conn in 0..200 {
        log.driver.send(conn, &get());
    }
    log.wait_until("response on every connection", |log| {
        (0..200).all(|conn| log.bytes(conn) == correct_response())
    });
}

fn tcp_segments_are_counted<A: DriverUnderTest>() {
    let mut log = RecordedDriver::new(A::driver(None, 1));
    log.connect(0);
    let before = log.driver.tcp_counters(0).unwrap();
    for round in 1..=10 {
        log.driver.send(0, &get());
        log.wait_until("response", |log| log.bytes(0).len() == round * correct_response().len());
    }
    let since = log.driver.tcp_counters(0).unwrap().growth_since(&before);
    // A stalled machine may make the kernel retransmit a segment.
    assert!((10..=12).contains(&since.data_segments_in) && since.retransmits <= 2, "{since:?}");
    assert!(since.segments_in >= 10 && since.segments_out >= 10, "{since:?}");
    log.driver.close(0);
    assert!(log.driver.tcp_counters(0).is_none());
}

macro_rules! contract {
    ($($body:ident)*) => {
        mod simulated { $(#[test] fn $body() { super::$body::<super::Simulated>(); })* }
        mod epoll { $(#[test] fn $body() { super::$body::<super::OverEpoll>(); })* }
        mod uring { $(#[test] fn $body() { super::$body::<super::OverUring>(); })* }
    };
}

mod datagrams;

contract! {
    each_connection_gets_its_responses
    queued_bytes_leave_in_order_with_one_timestamp
    flush_hands_over_immediately
    sleep_ends_at_deadline
    polling_ends_at_deadline_or_completion
    closed_connection_reports_nothing
    connecting_slot_can_be_closed
    connect_to_closed_port_is_refused
    close_is_reported_after_last_bytes
    reset_is_reported_as_reset
    reset_found_by_send_is_reported_as_reset
    megabyte_body_is_sent_completely
    two_hundred_connections_work_concurrently
    tcp_segments_are_counted
}

/// Passes a request function to `check` for an epoll and an io_uring driver of one endpoint. The
/// function returns the response.
fn with_each_driver(endpoint: &Endpoint, check: impl Fn(&mut dyn FnMut() -> Vec<u8>)) {
    fn request<D: StreamDriver>(driver: D) -> impl FnMut() -> Vec<u8> {
        let mut log = RecordedDriver::new(driver);
        log.connect(0);
        move || {
            let from = log.bytes(0).len();
            log.driver.send(0, &get());
            log.wait_until("response", |log| log.bytes(0).len() == from + correct_response().len());
            log.bytes(0).split_off(from)
        }
    }
    check(&mut request(Epoll::new(endpoint, 1).unwrap()));
    check(&mut request(Uring::new(endpoint, 1).unwrap()));
}

#[test]
fn unix_socket_carries_requests() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut buffer = [0; 1024];
                while let Ok(1..) = stream.read(&mut buffer) {
                    stream.write_all(&correct_response()).unwrap();
                }
            });
        }
    });
    let endpoint = Endpoint {
        peer: PeerAddress::Unix(path),
        sources: Vec::new(),
        stamps: Stamps::None,
        proxy: None,
    };
    with_each_driver(&endpoint, |request| {
        assert_eq!((request(), request()), (correct_response(), correct_response()));
    });
    let long = Endpoint { peer: PeerAddress::Unix("x".repeat(200).into()), ..endpoint };
    assert!(Epoll::new(&long, 1).unwrap_err().to_string().contains("107"));
}

#[test]
fn connections_use_sources_in_rotation() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = PeerAddress::Tcp(listener.local_addr().unwrap());
    let sources = ["127.0.0.2".parse().unwrap(), "127.0.0.3".parse().unwrap()].to_vec();
    let endpoint = Endpoint { peer, sources, stamps: Stamps::None, proxy: None };
    fn connect_all<D: StreamDriver>(driver: D, listener: &TcpListener) -> Vec<String> {
        let mut log = RecordedDriver::new(driver);
        (0..3).for_each(|conn| log.connect(conn));
        // A reopened connection takes the next source, like any other.
        log.driver.close(2);
        log.connect(2);
        (0..4).map(|_| listener.accept().unwrap().1.ip().to_string()).collect()
    }
    let expected = ["127.0.0.2", "127.0.0.3", "127.0.0.2", "127.0.0.3"];
    assert_eq!(connect_all(Epoll::new(&endpoint, 4).unwrap(), &listener), expected);
    assert_eq!(connect_all(Uring::new(&endpoint, 4).unwrap(), &listener), expected);
}

#[test]
fn proxy_header_is_sent_first() {
    fn first_bytes<D: StreamDriver>(driver: D, listener: &TcpListener) {
        let mut log = RecordedDriver::new(driver);
        log.connect(0);
        log.driver.send(0, b"GET");
        log.driver.flush(&mut |_, _| {});
        let (mut stream, from) = listener.accept().unwrap();
        let to = listener.local_addr().unwrap();
        let expected =
            format!("PROXY TCP4 {} {} {} {}\r\nGET", from.ip(), to.ip(), from.port(), to.port());
        let mut received = vec![0; expected.len()];
        stream.read_exact(&mut received).unwrap();
        assert_eq!(String::from_utf8_lossy(&received), expected);
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Some(dyno_model::plan::ProxyProtocol::V1);
    let endpoint = Endpoint { proxy, ..listener.local_addr().unwrap().into() };
    first_bytes(Epoll::new(&endpoint, 1).unwrap(), &listener);
    first_bytes(Uring::new(&endpoint, 1).unwrap(), &listener);
}

#[test]
fn kernel_timestamps_received_bytes() {
    let endpoint = Endpoint { stamps: Stamps::Kernel, ..serve(None).into() };
    let mut log = RecordedDriver::new(Epoll::new(&endpoint, 1).unwrap());
    log.connect(0);
    // The kernel starts to timestamp some time after the first request for it.
    let stamped = (1..10_000).find_map(|round| {
        let sent = log.driver.now();
        log.driver.send(0, &get());
        log.wait_until("response", |log| log.bytes(0).len() == round * correct_response().len());
        log.driver.received_at().map(|stamp| (sent, stamp))
    });
    let (sent, stamp) = stamped.expect("the kernel timestamps received bytes");
    assert!(stamp >= sent && stamp <= log.last, "{sent:?} {stamp:?} {:?}", log.last);
}

/// Two messages are queued after one that the peer does not read. The peer then reads only the
/// first of the two. The driver must report it as sent, although the last one still waits.
fn assert_sent_message_is_reported<D: StreamDriver>(make: impl FnOnce(SocketAddr) -> D) {
    // More than the kernel buffers for a peer that does not read.
    const MANY: usize = 64 << 20;
    const SOME: usize = 4 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut log = RecordedDriver::new(make(listener.local_addr().unwrap()));
    log.connect(0);
    let mut peer = listener.accept().unwrap().0;
    log.driver.send(0, &vec![b'x'; MANY]);
    log.turn(Instant(0));
    assert_eq!(log.hand_overs.len(), 1);
    log.driver.send(0, &vec![b'y'; SOME]);
    log.driver.send(0, &vec![b'z'; MANY]);
    log.turn(Instant(0));
    assert_eq!(
        (log.hand_overs.len(), log.driver.queued_bytes(0).waiting > (MANY + SOME) as u64),
        (1, true)
    );
    let reader = thread::spawn(move || {
        let mut bytes = vec![0; MANY + SOME];
        peer.read_exact(&mut bytes).unwrap();
        (bytes[MANY - 1], bytes[MANY], bytes[MANY + SOME - 1], peer)
    });
    log.wait_until("read of two messages by the peer", |_| reader.is_finished());
    assert_eq!(log.hand_overs.len(), 2, "the driver did not report a sent message");
    let (x, y, last, _peer) = reader.join().unwrap();
    assert_eq!((x, y, last), (b'x', b'y', b'y'));
    assert!(log.driver.queued_bytes(0).waiting > 0, "the third message cannot have left");
}

#[test]
fn epoll_reports_sent_message_behind_unread_one() {
    assert_sent_message_is_reported(|addr| Epoll::new(&addr.into(), 1).unwrap());
}

#[test]
fn io_uring_reports_sent_message_behind_unread_one() {
    assert_sent_message_is_reported(|addr| Uring::new(&addr.into(), 1).unwrap());
}

/// A connection ends twice for the kernel: the peer closes its socket, which then responds to late
/// bytes with a reset. The driver must report one end.
fn assert_end_is_reported_once<D: StreamDriver>(make: impl FnOnce(SocketAddr) -> D) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut log = RecordedDriver::new(make(listener.local_addr().unwrap()));
    log.connect(0);
    let mut peer = listener.accept().unwrap().0;
    log.connect(1);
    let mut other_peer = listener.accept().unwrap().0;
    peer.write_all(b"last").unwrap();
    drop(peer);
    log.wait_until("last bytes", |log| log.bytes(0) == b"last");
    log.driver.send(0, b"late");
    log.driver.flush(&mut |_, _| {});
    // These bytes arrive after the reset.
    other_peer.write_all(b"other").unwrap();
    let ends = |log: &RecordedDriver<D>| {
        log.count(0, CompletionKind::Eof) + log.count(0, CompletionKind::Reset)
    };
    log.wait_until("end", |log| ends(log) > 0 && log.bytes(1) == b"other");
    assert_eq!(ends(&log), 1, "{:?}", log.kinds());
}

#[test]
fn epoll_reports_one_end() {
    assert_end_is_reported_once(|addr| Epoll::new(&addr.into(), 2).unwrap());
}

#[test]
fn io_uring_reports_one_end() {
    assert_end_is_reported_once(|addr| Uring::new(&addr.into(), 2).unwrap());
}
