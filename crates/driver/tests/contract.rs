//! The contract of [`Driver`]: the same bodies run on the simulator, on epoll and on io_uring.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixListener;
use std::thread;

use dyno_driver::{Endpoint, Epoll, PeerAddress, Stamps, Uring};
use dyno_engine::driver::Wait;
use dyno_engine::sim::{Fault, Queue, ServerModel, ServiceTime, SimDriver, World};
use dyno_engine::{Completion, CompletionKind, ConnId, ConnectError, Driver, Instant};
use dyno_wire::h1::{encode, request};

const ANSWER_BODY: &[u8] = b"Hello, World!";

/// Where a driver under test finds its server.
trait Arena {
    type Driver: Driver;
    /// A driver whose server answers right, or with `fault` to every request.
    fn driver(fault: Option<Fault>, connections: u32) -> Self::Driver;
    /// A driver whose server does not exist.
    fn unreachable_server() -> Self::Driver;
}

struct Simulated;

impl Arena for Simulated {
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

impl Arena for OverEpoll {
    type Driver = Epoll;

    fn driver(fault: Option<Fault>, connections: u32) -> Epoll {
        Epoll::new(&serve(fault).into(), connections).unwrap()
    }

    fn unreachable_server() -> Epoll {
        Epoll::new(&closed_port().into(), 4).unwrap()
    }
}

struct OverUring;

impl Arena for OverUring {
    type Driver = Uring;

    fn driver(fault: Option<Fault>, connections: u32) -> Uring {
        Uring::new(&serve(fault).into(), connections).unwrap()
    }

    fn unreachable_server() -> Uring {
        Uring::new(&closed_port().into(), 4).unwrap()
    }
}

#[path = "../../../tests/support/port.rs"]
mod ports;

fn closed_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], ports::free_port()))
}

/// A blocking server with one thread per connection, gone with the test process.
fn serve(fault: Option<Fault>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || serve_one(stream, fault));
        }
    });
    addr
}

fn serve_one(mut stream: TcpStream, fault: Option<Fault>) {
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
                    if !answer(&mut stream, fault) {
                        return;
                    }
                }
            }
        }
    }
}

/// Whether the connection goes on.
fn answer(stream: &mut TcpStream, fault: Option<Fault>) -> bool {
    let ok =
        |close| encode::response(200, "OK", "text/plain", ANSWER_BODY.len(), close, ANSWER_BODY);
    match fault {
        None => stream.write_all(&ok(false)).is_ok(),
        Some(Fault::PoliteClose) => {
            let _ = stream.write_all(&ok(true));
            let _ = stream.shutdown(Shutdown::Write);
            // Wait for the other side, so that its late requests do not turn the close into a
            // reset.
            let _ = stream.read_to_end(&mut Vec::new());
            false
        }
        Some(Fault::Reset) => {
            reset_on_close(stream);
            false
        }
        Some(Fault::Silence) => true,
        Some(other) => panic!("{other:?} is not needed here"),
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

/// Keeps what a driver reports, so that test bodies can wait for it.
struct Log<D> {
    driver: D,
    seen: Vec<(Completion, Vec<u8>)>,
    handed: Vec<(ConnId, Instant)>,
    last: Instant,
    /// From when on turns poll instead of sleeping.
    spin_from: Instant,
}

impl<D: Driver> Log<D> {
    fn new(driver: D) -> Self {
        Log {
            driver,
            seen: Vec::new(),
            handed: Vec::new(),
            last: Instant(0),
            spin_from: Instant::NEVER,
        }
    }

    fn turn(&mut self, until: Instant) {
        let wait = Wait { until, spin_from: self.spin_from };
        let turn = self.driver.turn(wait, &mut |conn, at| self.handed.push((conn, at)));
        assert!(
            turn.entered >= self.last && turn.woke >= turn.entered,
            "the clock went backwards: {turn:?}"
        );
        self.last = turn.woke;
        while let Some(completion) = self.driver.next() {
            assert!(completion.at >= self.last, "{completion:?} before {:?}", self.last);
            self.last = completion.at;
            let received = completion.what == CompletionKind::Received;
            let bytes = if received { self.driver.bytes().to_vec() } else { Vec::new() };
            assert_eq!(received, !bytes.is_empty());
            self.seen.push((completion, bytes));
        }
    }

    /// Takes turns until `done`; fails the test if that does not come about.
    fn wait_until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let limit = self.driver.now().plus(120_000_000_000);
        while !done(self) {
            assert!(self.driver.now() < limit, "waited in vain for {what}; saw {:?}", self.whats());
            let soon = self.driver.now().plus(100_000_000);
            self.turn(soon);
        }
    }

    fn whats(&self) -> Vec<(ConnId, CompletionKind)> {
        self.seen.iter().map(|(c, _)| (c.conn, c.what)).collect()
    }

    fn count(&self, conn: ConnId, what: CompletionKind) -> usize {
        self.seen.iter().filter(|(c, _)| c.conn == conn && c.what == what).count()
    }

    fn bytes(&self, conn: ConnId) -> Vec<u8> {
        self.seen.iter().filter(|(c, _)| c.conn == conn).flat_map(|(_, b)| b.clone()).collect()
    }

    fn connect(&mut self, conn: ConnId) {
        let before = self.count(conn, CompletionKind::Connected);
        self.driver.connect(conn);
        self.wait_until("a connection", |log| log.count(conn, CompletionKind::Connected) > before);
    }
}

fn get() -> Vec<u8> {
    encode::request("GET", "/", "h", &[], b"").unwrap()
}

fn right_answer() -> Vec<u8> {
    encode::response(200, "OK", "text/plain", ANSWER_BODY.len(), false, ANSWER_BODY)
}

fn requests_are_answered_on_each_connection<A: Arena>() {
    let mut log = Log::new(A::driver(None, 3));
    for conn in 0..3 {
        log.connect(conn);
    }
    for round in 1..=5 {
        for conn in 0..3 {
            log.driver.send(conn, &get());
        }
        log.wait_until("three answers", |log| {
            (0..3).all(|conn| log.bytes(conn).len() == round * right_answer().len())
        });
    }
    for conn in 0..3 {
        assert_eq!(log.bytes(conn), right_answer().repeat(5));
    }
}

fn what_is_queued_leaves_in_order_and_is_stamped_once<A: Arena>() {
    let mut log = Log::new(A::driver(None, 1));
    log.connect(0);
    let before = log.driver.now();
    for _ in 0..20 {
        log.driver.send(0, &get());
    }
    log.wait_until("twenty answers", |log| log.bytes(0).len() == 20 * right_answer().len());
    assert_eq!(log.handed.len(), 1);
    assert!(log.handed[0].1 >= before && log.handed[0].1 <= log.seen.last().unwrap().0.at);
}

fn a_flush_hands_over_at_once<A: Arena>() {
    let mut log = Log::new(A::driver(None, 1));
    log.connect(0);
    log.driver.send(0, &get());
    let mut handed = 0;
    log.driver.flush(&mut |_, _| handed += 1);
    assert_eq!(handed, 1);
    log.wait_until("the answer", |log| log.bytes(0) == right_answer());
    assert!(log.handed.is_empty(), "handed over twice");
}

fn a_sleep_ends_at_its_deadline<A: Arena>() {
    let mut log = Log::new(A::driver(Some(Fault::Silence), 1));
    log.connect(0);
    log.driver.send(0, &get());
    log.turn(Instant(0));
    for _ in 0..3 {
        let until = log.driver.now().plus(5_000_000);
        let seen = log.seen.len();
        log.turn(until);
        assert_eq!(log.seen.len(), seen, "nothing completes in silence");
        assert!(log.last >= until, "woke before its deadline");
    }
}

fn polling_ends_like_sleeping<A: Arena>() {
    let mut log = Log::new(A::driver(Some(Fault::Silence), 1));
    log.connect(0);
    log.driver.send(0, &get());
    log.turn(Instant(0));
    for ahead in [0, 2_000_000, 5_000_000] {
        let until = log.driver.now().plus(5_000_000);
        log.spin_from = Instant(until.0 - ahead);
        let seen = log.seen.len();
        log.turn(until);
        assert_eq!(log.seen.len(), seen, "nothing completes in silence");
        assert!(log.last >= until, "woke before its deadline");
    }
    let mut log = Log::new(A::driver(None, 1));
    log.spin_from = Instant(0);
    log.connect(0);
    log.driver.send(0, &get());
    log.wait_until("the answer", |log| log.bytes(0) == right_answer());
}

fn a_closed_connection_is_never_heard_of_again<A: Arena>() {
    let mut log = Log::new(A::driver(None, 2));
    log.connect(0);
    log.connect(1);
    for round in 1..=20 {
        log.driver.send(0, &get());
        log.driver.send(1, &get());
        log.turn(Instant(0));
        let heard = log.seen.iter().filter(|(c, _)| c.conn == 0).count();
        log.driver.close(0);
        log.wait_until("the other answer", |log| {
            log.bytes(1).len() == round * right_answer().len()
        });
        assert_eq!(log.seen.iter().filter(|(c, _)| c.conn == 0).count(), heard);
        // The slot serves again, and responses are those of its new connection.
        log.connect(0);
        let from = log.bytes(0).len();
        log.driver.send(0, &get());
        log.wait_until("the new answer", |log| log.bytes(0).len() == from + right_answer().len());
    }
}

fn a_connection_can_be_closed_while_it_is_made<A: Arena>() {
    let mut log = Log::new(A::driver(None, 1));
    for _ in 0..10 {
        log.driver.connect(0);
        log.driver.close(0);
    }
    log.turn(Instant(0));
    assert_eq!(log.whats(), []);
    log.connect(0);
    log.driver.send(0, &get());
    log.wait_until("an answer", |log| log.bytes(0) == right_answer());
}

fn closed_port_is_refused<A: Arena>() {
    let mut log = Log::new(A::unreachable_server());
    for conn in [0, 1, 0] {
        log.driver.connect(conn);
        let before = log.seen.len();
        log.wait_until("a refusal", |log| log.seen.len() > before);
        let last = log.seen.last().unwrap().0;
        assert_eq!(
            (last.conn, last.what),
            (conn, CompletionKind::ConnectFailed(ConnectError::Refused))
        );
    }
}

fn a_close_comes_after_the_last_bytes<A: Arena>() {
    let mut log = Log::new(A::driver(Some(Fault::PoliteClose), 1));
    log.connect(0);
    log.driver.send(0, &get());
    log.wait_until("the close", |log| log.count(0, CompletionKind::Eof) == 1);
    assert_eq!(log.whats().last(), Some(&(0, CompletionKind::Eof)));
    assert!(log.bytes(0).ends_with(ANSWER_BODY));
}

fn reset_differs_from_close<A: Arena>() {
    let mut log = Log::new(A::driver(Some(Fault::Reset), 1));
    log.connect(0);
    log.driver.send(0, &get());
    log.wait_until("the reset", |log| log.count(0, CompletionKind::Reset) == 1);
    assert_eq!(log.count(0, CompletionKind::Eof), 0);
}

/// The kernel reports a reset once. A reset that a send reports still counts.
fn a_reset_that_a_send_meets_is_still_a_reset<A: Arena>() {
    let mut log = Log::new(A::driver(Some(Fault::Reset), 1));
    log.connect(0);
    log.driver.send(0, &get());
    log.driver.flush(&mut |_, _| {});
    // Long enough for the reset to be there before the next request leaves.
    thread::sleep(std::time::Duration::from_millis(50));
    log.driver.send(0, &get());
    log.wait_until("the reset", |log| log.count(0, CompletionKind::Reset) == 1);
    assert_eq!(log.count(0, CompletionKind::Eof), 0);
}

fn a_megabyte_leaves_whole<A: Arena>() {
    let mut log = Log::new(A::driver(None, 1));
    log.connect(0);
    let body = vec![b'x'; 1 << 20];
    let post = encode::request("POST", "/", "h", &[], &body).unwrap();
    for round in 1..=3 {
        log.driver.send(0, &post);
        log.driver.send(0, &get());
        log.wait_until("two answers", |log| log.bytes(0).len() == round * 2 * right_answer().len());
    }
}

fn two_hundred_connections_work_at_once<A: Arena>() {
    let mut log = Log::new(A::driver(None, 200));
    for conn in 0..200 {
        log.driver.connect(conn);
    }
    log.wait_until("all connections", |log| {
        (0..200).all(|conn| log.count(conn, CompletionKind::Connected) == 1)
    });
    for conn in 0..200 {
        log.driver.send(conn, &get());
    }
    log.wait_until("all answers", |log| (0..200).all(|conn| log.bytes(conn) == right_answer()));
}

fn segments_are_counted<A: Arena>() {
    let mut log = Log::new(A::driver(None, 1));
    log.connect(0);
    let before = log.driver.tcp(0).unwrap();
    for round in 1..=10 {
        log.driver.send(0, &get());
        log.wait_until("an answer", |log| log.bytes(0).len() == round * right_answer().len());
    }
    let since = log.driver.tcp(0).unwrap().growth_since(&before);
    // A machine that stalls in the wrong place lets the kernel send one again.
    assert!((10..=12).contains(&since.data_segments_in) && since.retransmits <= 2, "{since:?}");
    assert!(since.segments_in >= 10 && since.segments_out >= 10, "{since:?}");
    log.driver.close(0);
    assert!(log.driver.tcp(0).is_none());
}

macro_rules! contract {
    ($($body:ident)*) => {
        mod simulated { $(#[test] fn $body() { super::$body::<super::Simulated>(); })* }
        mod epoll { $(#[test] fn $body() { super::$body::<super::OverEpoll>(); })* }
        mod uring { $(#[test] fn $body() { super::$body::<super::OverUring>(); })* }
    };
}

contract! {
    requests_are_answered_on_each_connection
    what_is_queued_leaves_in_order_and_is_stamped_once
    a_flush_hands_over_at_once
    a_sleep_ends_at_its_deadline
    polling_ends_like_sleeping
    a_closed_connection_is_never_heard_of_again
    a_connection_can_be_closed_while_it_is_made
    closed_port_is_refused
    a_close_comes_after_the_last_bytes
    reset_differs_from_close
    a_reset_that_a_send_meets_is_still_a_reset
    a_megabyte_leaves_whole
    two_hundred_connections_work_at_once
    segments_are_counted
}

/// A driver of each kind for one endpoint, at work until `check` has seen it.
fn with_each(endpoint: &Endpoint, check: impl Fn(&mut dyn FnMut() -> Vec<u8>)) {
    fn answer<D: Driver>(driver: D) -> impl FnMut() -> Vec<u8> {
        let mut log = Log::new(driver);
        log.connect(0);
        move || {
            let from = log.bytes(0).len();
            log.driver.send(0, &get());
            log.wait_until("an answer", |log| log.bytes(0).len() == from + right_answer().len());
            log.bytes(0).split_off(from)
        }
    }
    check(&mut answer(Epoll::new(endpoint, 1).unwrap()));
    check(&mut answer(Uring::new(endpoint, 1).unwrap()));
}

#[test]
fn unix_socket_is_as_good_as_a_port() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut buffer = [0; 1024];
                while let Ok(1..) = stream.read(&mut buffer) {
                    stream.write_all(&right_answer()).unwrap();
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
    with_each(&endpoint, |answer| {
        assert_eq!((answer(), answer()), (right_answer(), right_answer()));
    });
    let long = Endpoint { peer: PeerAddress::Unix("x".repeat(200).into()), ..endpoint };
    assert!(Epoll::new(&long, 1).unwrap_err().to_string().contains("107"));
}

#[test]
fn connections_come_from_the_sources_in_turn() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = PeerAddress::Tcp(listener.local_addr().unwrap());
    let sources = ["127.0.0.2".parse().unwrap(), "127.0.0.3".parse().unwrap()].to_vec();
    let endpoint = Endpoint { peer, sources, stamps: Stamps::None, proxy: None };
    fn connect_all<D: Driver>(driver: D, listener: &TcpListener) -> Vec<String> {
        let mut log = Log::new(driver);
        (0..3).for_each(|conn| log.connect(conn));
        // A connection that is opened again takes its turn like any other.
        log.driver.close(2);
        log.connect(2);
        (0..4).map(|_| listener.accept().unwrap().1.ip().to_string()).collect()
    }
    let expected = ["127.0.0.2", "127.0.0.3", "127.0.0.2", "127.0.0.3"];
    assert_eq!(connect_all(Epoll::new(&endpoint, 4).unwrap(), &listener), expected);
    assert_eq!(connect_all(Uring::new(&endpoint, 4).unwrap(), &listener), expected);
}

#[test]
fn proxy_header_is_the_first_thing_sent() {
    fn first_bytes<D: Driver>(driver: D, listener: &TcpListener) {
        let mut log = Log::new(driver);
        log.connect(0);
        log.driver.send(0, b"GET");
        log.driver.flush(&mut |_, _| {});
        let (mut stream, from) = listener.accept().unwrap();
        let to = listener.local_addr().unwrap();
        let expected =
            format!("PROXY TCP4 {} {} {} {}\r\nGET", from.ip(), to.ip(), from.port(), to.port());
        let mut seen = vec![0; expected.len()];
        stream.read_exact(&mut seen).unwrap();
        assert_eq!(String::from_utf8_lossy(&seen), expected);
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Some(dyno_archive::plan::ProxyProtocol::V1);
    let endpoint = Endpoint { proxy, ..listener.local_addr().unwrap().into() };
    first_bytes(Epoll::new(&endpoint, 1).unwrap(), &listener);
    first_bytes(Uring::new(&endpoint, 1).unwrap(), &listener);
}

#[test]
fn kernel_stamps_what_it_received() {
    let endpoint = Endpoint { stamps: Stamps::Kernel, ..serve(None).into() };
    let mut log = Log::new(Epoll::new(&endpoint, 1).unwrap());
    log.connect(0);
    // The kernel begins to stamp a while after it was first asked to.
    let stamped = (1..10_000).find_map(|round| {
        let sent = log.driver.now();
        log.driver.send(0, &get());
        log.wait_until("the answer", |log| log.bytes(0).len() == round * right_answer().len());
        log.driver.received_at().map(|stamp| (sent, stamp))
    });
    let (sent, stamp) = stamped.expect("asked for");
    assert!(stamp >= sent && stamp <= log.last, "{sent:?} {stamp:?} {:?}", log.last);
}

/// Two messages are queued behind one that the peer has not read, and the peer then reads only the
/// first of them: the driver must report it as sent, although the rest of the queue is not.
fn sent_message_is_reported<D: Driver>(make: impl FnOnce(SocketAddr) -> D) {
    // More than the kernel keeps for a peer that does not read.
    const MANY: usize = 64 << 20;
    const SOME: usize = 4 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut log = Log::new(make(listener.local_addr().unwrap()));
    log.connect(0);
    let mut peer = listener.accept().unwrap().0;
    log.driver.send(0, &vec![b'x'; MANY]);
    log.turn(Instant(0));
    assert_eq!(log.handed.len(), 1);
    log.driver.send(0, &vec![b'y'; SOME]);
    log.driver.send(0, &vec![b'z'; MANY]);
    log.turn(Instant(0));
    assert_eq!((log.handed.len(), log.driver.queued(0).waiting > (MANY + SOME) as u64), (1, true));
    let reader = thread::spawn(move || {
        let mut all = vec![0; MANY + SOME];
        peer.read_exact(&mut all).unwrap();
        (all[MANY - 1], all[MANY], all[MANY + SOME - 1], peer)
    });
    log.wait_until("the peer to have read two of three", |_| reader.is_finished());
    assert_eq!(log.handed.len(), 2, "the driver did not report a sent message");
    let (x, y, last, _peer) = reader.join().unwrap();
    assert_eq!((x, y, last), (b'x', b'y', b'y'));
    assert!(log.driver.queued(0).waiting > 0, "the third cannot have left");
}

#[test]
fn epoll_sent_message_is_reported() {
    sent_message_is_reported(|addr| Epoll::new(&addr.into(), 1).unwrap());
}

#[test]
fn io_uring_sent_message_is_reported() {
    sent_message_is_reported(|addr| Uring::new(&addr.into(), 1).unwrap());
}
