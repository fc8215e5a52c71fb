//! The simulated world: a virtual clock, a network and servers with a known model, all driven by a
//! seed.
//!
//! [`SimDriver`] implements [`Driver`]. Its clock jumps from event to event, so hours of load take
//! moments, and the same seed gives the same run. Because the world is ours, the truth is known:
//! see `tests/truth.rs`.

mod server;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use dyno_archive::load::TcpCounters;
use dyno_archive::sample::ThreadUse;

pub use server::{
    Answered, Expecting, Fault, Pause, Queue, RequestIdentity, ServerModel, ServiceTime, Truth,
};
use server::{NextConnectionState, ServerAction, SimulatedConnection, SimulatedServer};

use crate::driver::{Completion, CompletionKind, ConnId, ConnectError, Driver, Queued, Turn, Wait};
use crate::rng::Rng;
use crate::{Instant, Stop, Worker, WorkerConfig, WorkerReport};

/// The network between generator and server.
#[derive(Clone, Copy, Debug)]
pub struct Net {
    /// One way.
    pub delay_ns: u64,
    /// Probability that a delivery is cut into two at a random place.
    pub cut: f64,
    /// Probability that an attempt to connect is refused.
    pub refuse: f64,
}

/// Time taken from the generator by another program on its CPU.
#[derive(Clone, Copy, Debug)]
pub struct Theft {
    /// When it may begin, nanoseconds on the world's clock.
    pub at_ns: u64,
    /// Its length, nanoseconds.
    pub for_ns: u64,
    pub when: TheftTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TheftTime {
    /// While the generator sleeps: it wakes late.
    Asleep,
    /// Between waking and handing over: it is busy for longer.
    Working,
}

/// Everything that decides a simulated run.
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

/// The results of one simulated run.
#[derive(Debug)]
pub struct SimulationResult {
    pub report: WorkerReport,
    pub intervals: Vec<dyno_archive::Interval>,
    pub truth: Truth,
    /// When the load began, on the world's clock.
    pub began: Instant,
}

/// Runs one worker in a world, from its first connection to its end.
#[must_use]
pub fn play(world: World, config: WorkerConfig) -> SimulationResult {
    play_until(world, config, || Stop::No)
}

/// As [`play`], asking `stop` every turn.
#[must_use]
pub fn play_until(
    world: World,
    config: WorkerConfig,
    mut stop: impl FnMut() -> Stop,
) -> SimulationResult {
    let mut driver = SimDriver::new(world);
    let mut worker = Worker::new(config);
    let mut intervals = Vec::new();
    // The load begins a millisecond after the connections are up, as the runner does it.
    let mut begin = None;
    let clock = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = clock.clone();
    driver.clock = Some(clock);
    crate::run(
        &mut worker,
        &mut driver,
        || Some(*begin.get_or_insert(Instant(seen.get()).plus(1_000_000))),
        |_| stop(),
        |interval| intervals.push(interval),
    );
    let began = begin.unwrap_or_default();
    SimulationResult { report: worker.report(), intervals, truth: driver.server.truth, began }
}

/// A [`Driver`] whose kernel, network and server are simulated.
#[derive(Debug)]
pub struct SimDriver {
    world: World,
    now: u64,
    rng: Rng,
    server: SimulatedServer,
    events: BinaryHeap<Reverse<(u64, u64, EventKey)>>,
    payloads: BTreeMap<u64, Event>,
    next_event: u64,
    conns: BTreeMap<ConnId, Conn>,
    generations: u64,
    queued: Vec<ConnId>,
    completed: VecDeque<(Completion, Delivery)>,
    current: Vec<u8>,
    thefts: VecDeque<Theft>,
    /// CPU time that thefts took so far.
    stolen_ns: u64,
    /// Bytes that have left, on all connections.
    sent_bytes: u64,
    /// Lets the outside of a [`crate::run`] read the virtual time.
    clock: Option<std::rc::Rc<std::cell::Cell<u64>>>,
}

/// Orders events of the same instant by the order in which they were made.
type EventKey = u64;

#[derive(Debug)]
struct Conn {
    generation: u64,
    out: Vec<u8>,
    /// Bytes that have left.
    taken: u64,
    peer: SimulatedConnection,
    /// Deliveries to the generator keep their order even if cut.
    last_arrival: u64,
    /// Deliveries to the server keep their order, too, over several flushes at one instant.
    last_departure: u64,
    tcp: TcpCounters,
}

#[derive(Debug)]
enum Event {
    Opened { conn: ConnId, generation: u64, outcome: Result<(), ConnectError> },
    AtServer { conn: ConnId, generation: u64, bytes: Vec<u8> },
    WorkDone { conn: ConnId, generation: u64, stream: u32 },
    AtGenerator { conn: ConnId, generation: u64, what: Arrival },
}

/// The bytes that come with a completion.
#[derive(Debug, Default)]
struct Delivery {
    bytes: Vec<u8>,
    /// The request whose correct response is complete with these bytes.
    answers: Option<RequestIdentity>,
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
            next_event: 0,
            conns: BTreeMap::new(),
            generations: 0,
            queued: Vec::new(),
            completed: VecDeque::new(),
            current: Vec::new(),
            thefts: thefts.into(),
            stolen_ns: 0,
            sent_bytes: 0,
            clock: None,
            world,
        }
    }

    #[must_use]
    pub fn truth(&self) -> &Truth {
        &self.server.truth
    }

    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.next_event += 1;
        self.payloads.insert(self.next_event, event);
        self.events.push(Reverse((at_ns, self.next_event, self.next_event)));
    }

    fn set_now(&mut self, now: u64) {
        self.now = self.now.max(now);
        if let Some(clock) = &self.clock {
            clock.set(self.now);
        }
    }

    /// A theft of this kind that falls due by now, taken once.
    fn theft(&mut self, when: TheftTime) -> u64 {
        match self.thefts.front() {
            Some(theft) if theft.when == when && theft.at_ns <= self.now => {
                let for_ns = self.thefts.pop_front().map_or(0, |t| t.for_ns);
                self.stolen_ns += for_ns;
                for_ns
            }
            _ => 0,
        }
    }

    /// Takes bytes to the other side, perhaps in two parts.
    fn cut(&mut self, bytes: Vec<u8>) -> Vec<Vec<u8>> {
        if bytes.len() < 2 || !self.rng.chance(self.world.net.cut) {
            return vec![bytes];
        }
        let (a, b) = bytes.split_at(1 + self.rng.next_below(bytes.len() as u64 - 1) as usize);
        vec![a.to_vec(), b.to_vec()]
    }

    /// Everything due by now happens: some of it makes completions, some of it new events.
    fn run_due_events(&mut self) {
        while let Some(&Reverse((at, _, key))) = self.events.peek() {
            if at > self.now {
                break;
            }
            self.events.pop();
            match self.payloads.remove(&key).expect("each event has its payload") {
                Event::Opened { conn, generation, outcome }
                    if self.is_current(conn, generation) =>
                {
                    if outcome.is_err() {
                        self.conns.remove(&conn);
                    }
                    let what = outcome
                        .map_or_else(CompletionKind::ConnectFailed, |()| CompletionKind::Connected);
                    let at = Instant(self.now);
                    self.completed.push_back((Completion { conn, what, at }, Delivery::default()));
                }
                Event::AtServer { conn, generation, bytes }
                    if self.is_current(conn, generation) =>
                {
                    let peer = &mut self.conns.get_mut(&conn).expect("is current").peer;
                    let acts = self.server.receive(peer, &bytes, at);
                    acts.into_iter().for_each(|act| self.act(conn, generation, act));
                }
                Event::WorkDone { conn, generation, stream }
                    if self.is_current(conn, generation) =>
                {
                    let peer = &mut self.conns.get_mut(&conn).expect("is current").peer;
                    if let Some(act) = self.server.finish(peer, stream, at) {
                        self.act(conn, generation, act);
                    }
                }
                Event::AtGenerator { conn, generation, what }
                    if self.is_current(conn, generation) =>
                {
                    self.arrive(conn, what);
                }
                _ => {}
            }
        }
    }

    fn is_current(&self, conn: ConnId, generation: u64) -> bool {
        self.conns.get(&conn).is_some_and(|c| c.generation == generation)
    }

    fn act(&mut self, conn: ConnId, generation: u64, act: ServerAction) {
        let (at_ns, bytes, then, answers) = match act {
            ServerAction::Say { at_ns, bytes, then, answers } => (at_ns, bytes, then, answers),
            ServerAction::Work { until_ns, stream } => {
                return self.schedule(until_ns, Event::WorkDone { conn, generation, stream });
            }
        };
        let mut arrival = at_ns + self.world.net.delay_ns;
        let parts = if bytes.is_empty() { Vec::new() } else { self.cut(bytes) };
        let last = parts.len().saturating_sub(1);
        for (i, bytes) in parts.into_iter().enumerate() {
            arrival = self.arrival_after(conn, arrival);
            let what = Arrival::Bytes(Delivery { bytes, answers: answers.filter(|_| i == last) });
            self.schedule(arrival, Event::AtGenerator { conn, generation, what });
        }
        let what = match then {
            NextConnectionState::KeepOpen => return,
            NextConnectionState::Close => Arrival::Eof,
            NextConnectionState::Reset => Arrival::Reset,
        };
        let arrival = self.arrival_after(conn, arrival);
        self.schedule(arrival, Event::AtGenerator { conn, generation, what });
    }

    /// No delivery overtakes an earlier one of its connection.
    fn arrival_after(&mut self, conn: ConnId, at: u64) -> u64 {
        let connection = self.conns.get_mut(&conn).expect("is current");
        connection.last_arrival = at.max(connection.last_arrival + 1);
        connection.last_arrival
    }

    fn arrive(&mut self, conn: ConnId, what: Arrival) {
        let (what, delivery) = match what {
            Arrival::Bytes(delivery) => {
                let tcp = &mut self.conns.get_mut(&conn).expect("is current").tcp;
                tcp.data_segments_in += 1;
                tcp.segments_in += 1;
                (CompletionKind::Received, delivery)
            }
            Arrival::Eof => (CompletionKind::Eof, Delivery::default()),
            Arrival::Reset => (CompletionKind::Reset, Delivery::default()),
        };
        self.completed.push_back((Completion { conn, what, at: Instant(self.now) }, delivery));
    }
}

impl Driver for SimDriver {
    fn now(&self) -> Instant {
        Instant(self.now)
    }

    fn connect(&mut self, conn: ConnId) {
        self.generations += 1;
        let generation = self.generations;
        let connection = Conn {
            generation,
            out: Vec::new(),
            taken: 0,
            peer: SimulatedConnection::default(),
            last_arrival: 0,
            last_departure: 0,
            tcp: TcpCounters::default(),
        };
        self.conns.insert(conn, connection);
        let outcome = if self.rng.chance(self.world.net.refuse) {
            Err(ConnectError::Refused)
        } else {
            Ok(())
        };
        // A connection takes a round trip.
        let at = self.now + 2 * self.world.net.delay_ns;
        self.schedule(at, Event::Opened { conn, generation, outcome });
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        let connection = self.conns.get_mut(&conn).expect("only open connections are sent on");
        if connection.out.is_empty() {
            self.queued.push(conn);
        }
        connection.out.extend_from_slice(bytes);
    }

    fn close(&mut self, conn: ConnId) {
        self.conns.remove(&conn);
        self.completed.retain(|(c, _)| c.conn != conn);
    }

    fn queued(&self, conn: ConnId) -> Queued {
        self.conns.get(&conn).map_or_else(Queued::default, |c| Queued {
            taken: c.taken,
            waiting: c.out.len() as u64,
        })
    }

    fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    fn unsent(&self, _: ConnId) -> u64 {
        0
    }

    fn flush(&mut self, handed: &mut dyn FnMut(ConnId, Instant)) {
        for conn in std::mem::take(&mut self.queued) {
            let Some(connection) = self.conns.get_mut(&conn) else { continue };
            if self.world.server.reads.is_some_and(|most| connection.taken >= most) {
                // Behind what the server does not read; so is all that will be queued.
                continue;
            }
            let generation = connection.generation;
            let bytes = std::mem::take(&mut connection.out);
            connection.taken += bytes.len() as u64;
            self.sent_bytes += bytes.len() as u64;
            connection.tcp.segments_out += 1;
            handed(conn, Instant(self.now));
            let arrives = (self.now + self.world.net.delay_ns).max(connection.last_departure + 1);
            let parts = self.cut(bytes);
            self.conns.get_mut(&conn).expect("was there above").last_departure =
                arrives + parts.len() as u64;
            for (at, part) in (arrives..).zip(parts) {
                self.schedule(at, Event::AtServer { conn, generation, bytes: part });
            }
        }
    }

    fn turn(&mut self, wait: Wait, handed: &mut dyn FnMut(ConnId, Instant)) -> Turn {
        let until = wait.until;
        let stolen = self.theft(TheftTime::Working);
        self.set_now(self.now + stolen);
        let entered = Instant(self.now);
        self.flush(handed);
        while self.completed.is_empty() {
            let next = self.events.peek().map_or(u64::MAX, |Reverse((at, _, _))| *at);
            assert!(
                next.min(until.0) < u64::MAX,
                "the world has stopped: nothing will ever happen"
            );
            self.set_now(next.min(until.0));
            self.run_due_events();
            if self.now >= until.0 {
                break;
            }
        }
        let stolen = self.theft(TheftTime::Asleep);
        self.set_now(self.now + stolen);
        self.run_due_events();
        // Polling and sleeping are the same here: the simulated generator wakes on time.
        Turn { entered, woke: Instant(self.now), spun_ns: 0 }
    }

    fn next(&mut self) -> Option<Completion> {
        let (completion, delivery) = self.completed.pop_front()?;
        self.current = delivery.bytes;
        if let Some(to) = delivery.answers {
            // Taken at the completion's instant: the worker reads it before time goes on.
            self.server.truth.answered.push(Answered { to, at_ns: completion.at.0 });
        }
        Some(completion)
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.current
    }

    fn tcp(&mut self, conn: ConnId) -> Option<TcpCounters> {
        self.conns.get(&conn).map(|c| c.tcp)
    }

    fn thread_use(&self) -> ThreadUse {
        // The simulated generator uses no CPU time at all, and waits for a CPU while a program
        // has stolen it.
        ThreadUse { run_delay_ns: Some(self.stolen_ns), ..ThreadUse::default() }
    }

    fn thread_run_ns(&self) -> u64 {
        0
    }
}
