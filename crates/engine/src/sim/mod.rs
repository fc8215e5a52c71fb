//! A simulated world: a virtual clock, a network and servers with a known model, all driven by a
//! seed. Tests compare the measured times with the true ones (`tests/all/truth.rs`).
//!
//! [`SimDriver`] implements [`Driver`]. Its clock jumps from event to event, so hours of load take
//! moments. The same seed gives the same run.

mod datagrams;
mod fault;
mod server;
mod service;
mod sessions;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use datagrams::DatagramSocket;
use dyno_model::load::TcpCounters;
use dyno_model::sample::ThreadUse;

pub use fault::Fault;
pub use server::{
    AcceptedResponse, ExpectBehavior, Pause, Queue, RequestIdentity, ServerModel, Truth,
};
use server::{NextConnectionState, ServerAction, SimulatedConnection, SimulatedServer};
pub use service::ServiceTime;
pub use sessions::{SessionTruth, Sessions};

use crate::driver::{
    Completion, CompletionKind, ConnId, ConnectError, Driver, QueuedBytes, StreamDriver, Turn, Wait,
};
use crate::rng::Rng;
use crate::{Instant, Stop, Worker, WorkerConfig, WorkerReport};

/// Network between generator and server.
#[derive(Clone, Copy, Debug)]
pub struct Net {
    /// One-way delay.
    pub delay_ns: u64,
    /// Probability that a delivery is split in two at a random position.
    pub cut: f64,
    /// Probability that an attempt to connect is refused.
    pub refuse: f64,
}

/// Time during which another program uses the CPU of the generator.
#[derive(Clone, Copy, Debug)]
pub struct Theft {
    /// Earliest start, nanoseconds on the clock of the world.
    pub at_ns: u64,
    /// Length, nanoseconds.
    pub for_ns: u64,
    pub when: TheftTime,
}

/// Activity of the generator that a theft interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TheftTime {
    /// A sleep: the generator wakes late.
    Asleep,
    /// Work between wake-up and hand-over: the generator is busy for longer.
    Working,
}

/// All inputs of a simulated run.
#[derive(Clone, Debug)]
pub struct World {
    pub seed: u64,
    pub net: Net,
    pub server: ServerModel,
    pub thefts: Vec<Theft>,
}

impl World {
    #[must_use]
    pub fn new(seed: u64, server: ServerModel) -> World {
        World {
            seed,
            net: Net { delay_ns: 10_000, cut: 0.0, refuse: 0.0 },
            server,
            thefts: Vec::new(),
        }
    }
}

/// Results of one simulated run.
#[derive(Debug)]
pub struct SimulationResult {
    pub report: WorkerReport,
    pub intervals: Vec<dyno_model::Interval>,
    pub truth: Truth,
    /// Start of the load, on the clock of the world.
    pub began: Instant,
}

/// Time from the instant at which the connections are open to the begin of the load.
const BEGIN_NOTICE_NS: u64 = 1_000_000;

/// Runs one worker in a world, from its first connection to its end.
#[must_use]
pub fn simulate(world: World, config: WorkerConfig) -> SimulationResult {
    simulate_until(world, config, || Stop::No)
}

/// Runs a worker as [`simulate`] does, and polls `stop` every turn.
#[must_use]
pub fn simulate_until(
    world: World,
    config: WorkerConfig,
    mut stop: impl FnMut() -> Stop,
) -> SimulationResult {
    simulate_with(world, config, |_, _| stop())
}

/// Runs a worker as [`simulate`] does, but cuts the load short, `at_ns` after its begin.
#[must_use]
pub fn simulate_cut(world: World, config: WorkerConfig, at_ns: u64) -> SimulationResult {
    simulate_with(world, config, |begin, now| {
        let end = begin.map(|begin| begin.plus(at_ns)).filter(|end| *end <= now);
        end.map_or(Stop::No, Stop::Now)
    })
}

/// Runs a worker, and calls `stop` every turn with the begin of the load and the present instant.
/// `None`: the connections are not open yet.
fn simulate_with(
    world: World,
    config: WorkerConfig,
    mut stop: impl FnMut(Option<Instant>, Instant) -> Stop,
) -> SimulationResult {
    let mut driver = SimDriver::new(world);
    let mut worker = Worker::new(config);
    let mut intervals = Vec::new();
    let begin = std::cell::Cell::new(None);
    let clock = std::rc::Rc::new(std::cell::Cell::new(0));
    let shared_clock = clock.clone();
    driver.clock = Some(clock);
    crate::run(
        &mut worker,
        &mut driver,
        || {
            begin.set(begin.get().or(Some(Instant(shared_clock.get()).plus(BEGIN_NOTICE_NS))));
            begin.get()
        },
        |_| stop(begin.get(), Instant(shared_clock.get())),
        |interval| intervals.push(interval),
    );
    let began = begin.get().unwrap_or_default();
    SimulationResult { report: worker.report(), intervals, truth: driver.server.truth, began }
}

/// A [`Driver`] whose kernel, network and server are simulated.
#[derive(Debug)]
pub struct SimDriver {
    world: World,
    now: u64,
    rng: Rng,
    server: SimulatedServer,
    /// Instants and keys of scheduled events, the next event first.
    events: BinaryHeap<Reverse<(u64, EventKey)>>,
    /// Scheduled events by key.
    payloads: BTreeMap<EventKey, Event>,
    /// Key of the event that was scheduled last.
    last_key: EventKey,
    conns: BTreeMap<ConnId, Conn>,
    /// Number of connections begun so far.
    generations: u64,
    /// Connections with bytes to flush.
    queued: Vec<ConnId>,
    /// Completions that have not been reported, with their bytes.
    completed: VecDeque<(Completion, Delivery)>,
    /// Bytes of the completion that was reported last.
    current: Vec<u8>,
    thefts: VecDeque<Theft>,
    /// CPU time lost to thefts so far, nanoseconds.
    stolen_ns: u64,
    /// Bytes sent on all connections.
    taken_bytes: u64,
    /// Copy of the virtual time for the caller of [`crate::run`].
    clock: Option<std::rc::Rc<std::cell::Cell<u64>>>,
}

/// Number of an event in the order of creation. Events of the same instant happen in this order.
type EventKey = u64;

#[derive(Debug)]
struct Conn {
    /// Number of this connection. Events of earlier connections in the same slot have other numbers
    /// and are ignored.
    generation: u64,
    /// Bytes that wait for a flush.
    out: Vec<u8>,
    /// Bytes sent.
    taken: u64,
    /// `None`: a stream.
    datagrams: Option<DatagramSocket>,
    peer: SimulatedConnection,
    /// Instant of the last arrival at the generator. The next arrival is later, so that the parts
    /// of a split delivery remain in order.
    last_arrival: u64,
    /// Instant of the last arrival at the server. The next arrival is later, so that the deliveries
    /// of several flushes at one instant remain in order.
    last_arrival_at_server: u64,
    tcp: TcpCounters,
}

#[derive(Debug)]
enum Event {
    Opened { conn: ConnId, generation: u64, outcome: Result<(), ConnectError> },
    AtServer { conn: ConnId, generation: u64, bytes: Vec<u8> },
    WorkDone { conn: ConnId, generation: u64, stream: u32 },
    AtGenerator { conn: ConnId, generation: u64, arrival: Arrival },
}

/// Bytes that come with a completion.
#[derive(Debug, Default)]
struct Delivery {
    bytes: Vec<u8>,
    /// Request whose correct response these bytes complete.
    completes: Option<RequestIdentity>,
}

#[derive(Debug)]
enum Arrival {
    Bytes(Delivery),
    Eof,
    Reset,
}

impl SimDriver {
    #[must_use]
    pub fn new(world: World) -> Self {
        let mut rng = Rng::new(world.seed);
        let server = SimulatedServer::new(world.server.clone(), Rng::new(rng.next_u64()));
        let mut thefts: Vec<Theft> = world.thefts.clone();
        thefts.sort_by_key(|t| t.at_ns);
        SimDriver {
            now: 0,
            rng,
            server,
            events: BinaryHeap::new(),
            payloads: BTreeMap::new(),
            last_key: 0,
            conns: BTreeMap::new(),
            generations: 0,
            queued: Vec::new(),
            completed: VecDeque::new(),
            current: Vec::new(),
            thefts: thefts.into(),
            stolen_ns: 0,
            taken_bytes: 0,
            clock: None,
            world,
        }
    }

    #[must_use]
    pub fn truth(&self) -> &Truth {
        &self.server.truth
    }

    /// Puts a new connection, or datagram socket, into a slot. Returns its number.
    fn insert_connection(&mut self, conn: ConnId, datagrams: Option<DatagramSocket>) -> u64 {
        self.generations += 1;
        let connection = Conn {
            generation: self.generations,
            out: Vec::new(),
            taken: 0,
            datagrams,
            peer: SimulatedConnection::default(),
            last_arrival: 0,
            last_arrival_at_server: 0,
            tcp: TcpCounters::default(),
        };
        self.conns.insert(conn, connection);
        self.generations
    }

    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.last_key += 1;
        self.payloads.insert(self.last_key, event);
        self.events.push(Reverse((at_ns, self.last_key)));
    }

    fn set_now(&mut self, now: u64) {
        self.now = self.now.max(now);
        if let Some(clock) = &self.clock {
            clock.set(self.now);
        }
    }

    /// Removes the next theft if the theft is due and interrupts the activity `when`. Returns the
    /// length of the theft; 0: no such theft.
    fn take_theft(&mut self, when: TheftTime) -> u64 {
        match self.thefts.front() {
            Some(theft) if theft.when == when && theft.at_ns <= self.now => {
                let for_ns = self.thefts.pop_front().map_or(0, |t| t.for_ns);
                self.stolen_ns += for_ns;
                for_ns
            }
            _ => 0,
        }
    }

    /// Splits a delivery in two, with the probability [`Net::cut`].
    fn split(&mut self, bytes: Vec<u8>) -> Vec<Vec<u8>> {
        if bytes.len() < 2 || !self.rng.chance(self.world.net.cut) {
            return vec![bytes];
        }
        let (a, b) = bytes.split_at(1 + self.rng.next_below(bytes.len() as u64 - 1) as usize);
        vec![a.to_vec(), b.to_vec()]
    }

    /// Runs the events up to the current time. They cause completions and further events.
    fn run_due_events(&mut self) {
        while let Some(&Reverse((at, key))) = self.events.peek() {
            if at > self.now {
                break;
            }
            self.events.pop();
            match self.payloads.remove(&key).expect("each key should have its event") {
                Event::Opened { conn, generation, outcome }
                    if self.is_current(conn, generation) =>
                {
                    if outcome.is_err() {
                        self.conns.remove(&conn);
                    }
                    let kind = outcome
                        .map_or_else(CompletionKind::ConnectFailed, |()| CompletionKind::Connected);
                    let at = Instant(self.now);
                    self.completed.push_back((Completion { conn, kind, at }, Delivery::default()));
                }
                Event::AtServer { conn, generation, bytes }
                    if self.is_current(conn, generation) =>
                {
                    let peer = &mut self
                        .conns
                        .get_mut(&conn)
                        .expect("the connection should be current")
                        .peer;
                    let actions = self.server.receive(peer, &bytes, at);
                    actions.into_iter().for_each(|action| self.perform(conn, generation, action));
                }
                Event::WorkDone { conn, generation, stream }
                    if self.is_current(conn, generation) =>
                {
                    let peer = &mut self
                        .conns
                        .get_mut(&conn)
                        .expect("the connection should be current")
                        .peer;
                    if let Some(action) = self.server.finish(peer, stream, at) {
                        self.perform(conn, generation, action);
                    }
                }
                Event::AtGenerator { conn, generation, arrival }
                    if self.is_current(conn, generation) =>
                {
                    self.arrive(conn, arrival);
                }
                _ => {}
            }
        }
    }

    fn is_current(&self, conn: ConnId, generation: u64) -> bool {
        self.conns.get(&conn).is_some_and(|c| c.generation == generation)
    }

    /// Schedules the effects of an action of the server.
    fn perform(&mut self, conn: ConnId, generation: u64, action: ServerAction) {
        let (at_ns, bytes, next_state, completes) = match action {
            ServerAction::Send { at_ns, bytes, next_state, completes } => {
                (at_ns, bytes, next_state, completes)
            }
            ServerAction::Work { until_ns, stream } => {
                return self.schedule(until_ns, Event::WorkDone { conn, generation, stream });
            }
        };
        let mut arrival_ns = at_ns + self.world.net.delay_ns;
        let parts = if bytes.is_empty() { Vec::new() } else { self.split(bytes) };
        let last = parts.len().saturating_sub(1);
        for (i, bytes) in parts.into_iter().enumerate() {
            arrival_ns = self.arrival_after(conn, arrival_ns);
            let arrival =
                Arrival::Bytes(Delivery { bytes, completes: completes.filter(|_| i == last) });
            self.schedule(arrival_ns, Event::AtGenerator { conn, generation, arrival });
        }
        let arrival = match next_state {
            NextConnectionState::KeepOpen => return,
            NextConnectionState::Close => Arrival::Eof,
            NextConnectionState::Reset => Arrival::Reset,
        };
        let arrival_ns = self.arrival_after(conn, arrival_ns);
        self.schedule(arrival_ns, Event::AtGenerator { conn, generation, arrival });
    }

    /// Returns the instant at which a delivery arrives: `at`, or right after the last arrival of
    /// the connection if that is later.
    fn arrival_after(&mut self, conn: ConnId, at: u64) -> u64 {
        let connection = self.conns.get_mut(&conn).expect("the connection should be current");
        connection.last_arrival = at.max(connection.last_arrival + 1);
        connection.last_arrival
    }

    /// Reports an arrival at the generator.
    fn arrive(&mut self, conn: ConnId, arrival: Arrival) {
        let (kind, delivery) = match arrival {
            Arrival::Bytes(delivery) => {
                let tcp =
                    &mut self.conns.get_mut(&conn).expect("the connection should be current").tcp;
                tcp.data_segments_in += 1;
                tcp.segments_in += 1;
                (CompletionKind::Received, delivery)
            }
            Arrival::Eof => (CompletionKind::Eof, Delivery::default()),
            Arrival::Reset => (CompletionKind::Reset, Delivery::default()),
        };
        self.completed.push_back((Completion { conn, kind, at: Instant(self.now) }, delivery));
    }
}

impl Driver for SimDriver {
    fn now(&self) -> Instant {
        Instant(self.now)
    }

    fn close(&mut self, conn: ConnId) {
        self.conns.remove(&conn);
        self.completed.retain(|(c, _)| c.conn != conn);
    }

    fn queued_bytes(&self, conn: ConnId) -> QueuedBytes {
        self.conns.get(&conn).map_or_else(QueuedBytes::default, |c| QueuedBytes {
            taken: c.taken,
            waiting: c.out.len() as u64,
        })
    }

    fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    fn flush(&mut self, on_handed_over: &mut dyn FnMut(ConnId, Instant)) {
        for conn in std::mem::take(&mut self.queued) {
            let Some(connection) = self.conns.get_mut(&conn) else { continue };
            if self.world.server.reads.is_some_and(|limit| connection.taken >= limit) {
                // The server reads neither these bytes nor any later ones.
                continue;
            }
            let generation = connection.generation;
            let bytes = std::mem::take(&mut connection.out);
            connection.taken += bytes.len() as u64;
            self.taken_bytes += bytes.len() as u64;
            connection.tcp.segments_out += 1;
            on_handed_over(conn, Instant(self.now));
            if connection.datagrams.is_some() {
                self.deliver_datagrams(conn, &bytes);
                continue;
            }
            let arrives =
                (self.now + self.world.net.delay_ns).max(connection.last_arrival_at_server + 1);
            let parts = self.split(bytes);
            self.conns
                .get_mut(&conn)
                .expect("the connection should still exist")
                .last_arrival_at_server = arrives + parts.len() as u64;
            for (at, part) in (arrives..).zip(parts) {
                self.schedule(at, Event::AtServer { conn, generation, bytes: part });
            }
        }
    }

    fn turn(&mut self, wait: Wait, on_handed_over: &mut dyn FnMut(ConnId, Instant)) -> Turn {
        let until = wait.until;
        let stolen = self.take_theft(TheftTime::Working);
        self.set_now(self.now + stolen);
        let entered = Instant(self.now);
        self.flush(on_handed_over);
        while self.completed.is_empty() {
            let next = self.events.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
            assert!(
                next.min(until.0) < u64::MAX,
                "the simulation is stuck: no events and no deadline"
            );
            self.set_now(next.min(until.0));
            self.run_due_events();
            if self.now >= until.0 {
                break;
            }
        }
        let stolen = self.take_theft(TheftTime::Asleep);
        self.set_now(self.now + stolen);
        self.run_due_events();
        // The simulated generator wakes from a sleep on time unless a theft delays it, so polling
        // is not simulated.
        Turn { entered, woke: Instant(self.now), spun_ns: 0 }
    }

    fn next(&mut self) -> Option<Completion> {
        let (completion, delivery) = self.completed.pop_front()?;
        self.current = delivery.bytes;
        if let Some(request) = delivery.completes {
            // The response is recorded here, because the worker reads it before virtual time
            // advances.
            self.server.truth.accepted.push(AcceptedResponse { request, at_ns: completion.at.0 });
        }
        Some(completion)
    }

    fn received_bytes(&mut self) -> &mut [u8] {
        &mut self.current
    }

    fn thread_use(&self) -> ThreadUse {
        // The simulated generator uses no CPU time. It waits for the CPU during thefts.
        ThreadUse { run_delay_ns: Some(self.stolen_ns), ..ThreadUse::default() }
    }

    fn thread_run_ns(&self) -> u64 {
        0
    }
}

impl StreamDriver for SimDriver {
    fn connect(&mut self, conn: ConnId) {
        let generation = self.insert_connection(conn, None);
        let outcome = if self.rng.chance(self.world.net.refuse) {
            Err(ConnectError::Refused)
        } else {
            Ok(())
        };
        // Connecting takes a round trip.
        let at = self.now + 2 * self.world.net.delay_ns;
        self.schedule(at, Event::Opened { conn, generation, outcome });
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        let connection = self.conns.get_mut(&conn).expect("the connection should be open");
        if connection.out.is_empty() {
            self.queued.push(conn);
        }
        connection.out.extend_from_slice(bytes);
    }

    fn unsent_bytes(&self, _: ConnId) -> u64 {
        0
    }

    fn tcp_counters(&mut self, conn: ConnId) -> Option<TcpCounters> {
        self.conns.get(&conn).filter(|c| c.datagrams.is_none()).map(|c| c.tcp)
    }
}
