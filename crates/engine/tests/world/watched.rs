//! A simulated machine around a driver: it counts what is asked of the driver, and uses CPU time.

use std::cell::Cell;
use std::rc::Rc;

use dyno_archive::load::TcpCounters;
use dyno_archive::sample::ThreadUse;
use dyno_engine::driver::{Completion, CompletionKind, ConnId, Driver, Queued, Turn, Wait};
use dyno_engine::{Instant, Stop, Worker, WorkerConfig, WorkerReport};
use serde_json::{Value, json};

/// A driver whose calls are counted. Its thread uses a third of all time, and half of each wait is
/// polling.
pub struct Watched<D> {
    inner: D,
    clock: Rc<Cell<u64>>,
    connects: u64,
    closes: u64,
    sends: u64,
    bytes: u64,
    turns: u64,
    /// Turns that would poll from their beginning, poll close to their end, and sleep throughout.
    polling: [u64; 3],
    /// Sum of how long turns would wait at most, nanoseconds; those without an end not counted.
    patience_ns: u64,
    /// Every so many connections one is closed by the server as soon as it is there; `None`: none.
    hangs_up_every: Option<u64>,
    connected: u64,
    /// Connections that are closed next.
    hung_up: Vec<ConnId>,
}

impl<D: Driver> Watched<D> {
    fn new(inner: D, hangs_up_every: Option<u64>) -> Watched<D> {
        let clock = Rc::new(Cell::new(0));
        let (connects, closes, sends, bytes, turns, patience_ns) = (0, 0, 0, 0, 0, 0);
        let (connected, hung_up, polling) = (0, Vec::new(), [0; 3]);
        Watched {
            inner,
            clock,
            connects,
            closes,
            sends,
            bytes,
            turns,
            polling,
            patience_ns,
            hangs_up_every,
            connected,
            hung_up,
        }
    }

    fn counts(&self) -> Value {
        json!({
            "connects": self.connects, "closes": self.closes, "sends": self.sends,
            "bytes": self.bytes,
            "turns": self.turns, "polls_at_once_near_never": self.polling,
            "patience_ns": self.patience_ns,
        })
    }
}

impl<D: Driver> Driver for Watched<D> {
    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn connect(&mut self, conn: ConnId) {
        self.connects += 1;
        self.inner.connect(conn);
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        self.sends += 1;
        self.bytes += bytes.len() as u64;
        self.inner.send(conn, bytes);
    }

    fn close(&mut self, conn: ConnId) {
        self.closes += 1;
        self.hung_up.retain(|of| *of != conn);
        self.inner.close(conn);
    }

    fn queued(&self, conn: ConnId) -> Queued {
        self.inner.queued(conn)
    }

    fn sent_bytes(&self) -> u64 {
        self.inner.sent_bytes()
    }

    fn unsent(&self, conn: ConnId) -> u64 {
        self.inner.unsent(conn)
    }

    fn flush(&mut self, handed: &mut dyn FnMut(ConnId, Instant)) {
        self.inner.flush(handed);
    }

    fn turn(&mut self, wait: Wait, handed: &mut dyn FnMut(ConnId, Instant)) -> Turn {
        self.turns += 1;
        self.polling[if wait.spin_from.0 == 0 {
            0
        } else if wait.spin_from < wait.until {
            1
        } else {
            2
        }] += 1;
        if wait.until != Instant::NEVER {
            self.patience_ns += wait.until.ns_since(self.inner.now());
        }
        let turn = self.inner.turn(wait, handed);
        self.clock.set(turn.woke.0);
        let spun_ns =
            if wait.spin_from < turn.woke { turn.woke.ns_since(turn.entered) / 2 } else { 0 };
        Turn { spun_ns, ..turn }
    }

    fn next(&mut self) -> Option<Completion> {
        if let Some(conn) = self.hung_up.pop() {
            return Some(Completion { conn, what: CompletionKind::Eof, at: self.inner.now() });
        }
        let completion = self.inner.next()?;
        if completion.what == CompletionKind::Connected {
            self.connected += 1;
            let hangs_up =
                self.hangs_up_every.is_some_and(|every| self.connected.is_multiple_of(every));
            self.hung_up.extend(hangs_up.then_some(completion.conn));
        }
        Some(completion)
    }

    fn bytes(&mut self) -> &mut [u8] {
        self.inner.bytes()
    }

    fn received_at(&self) -> Option<Instant> {
        Some(Instant(self.inner.now().0 - 3_000))
    }

    fn tcp(&mut self, conn: ConnId) -> Option<TcpCounters> {
        self.inner.tcp(conn)
    }

    fn thread_use(&self) -> ThreadUse {
        let now = self.inner.now().0;
        ThreadUse {
            run_ns: now / 3,
            user_ns: now / 5,
            sys_ns: now / 7,
            run_delay_ns: Some(now / 11),
            switches_voluntary: Some(now / 1_000_000),
            switches_involuntary: Some(now / 10_000_000),
            ..ThreadUse::default()
        }
    }

    fn thread_run_ns(&self) -> u64 {
        self.inner.now().0 / 3
    }
}

/// The results of a run under observation.
pub struct Seen {
    pub report: WorkerReport,
    pub intervals: Vec<dyno_archive::Interval>,
    /// When each of them was handed over, nanoseconds since the load began.
    pub sealed_ns: Vec<u64>,
    /// Calls of the driver.
    pub calls: Value,
}

/// Runs a worker to its end. `stop`: asked every turn, with the time since the load began,
/// nanoseconds.
pub fn watch<D: Driver>(
    driver: D,
    config: WorkerConfig,
    stop: impl Fn(Instant, u64) -> Stop,
) -> Seen {
    play(Watched::new(driver, None), config, stop)
}

/// The same, and of every so many connections the server closes one as soon as it is there.
pub fn watch_hung_up<D: Driver>(driver: D, config: WorkerConfig, every: u64) -> Seen {
    play(Watched::new(driver, Some(every)), config, |_, _| Stop::No)
}

fn play<D: Driver>(
    mut driver: Watched<D>,
    config: WorkerConfig,
    stop: impl Fn(Instant, u64) -> Stop,
) -> Seen {
    let clock = driver.clock.clone();
    let begin = Cell::new(None);
    let mut worker = Worker::new(config);
    let (mut intervals, mut sealed_ns) = (Vec::new(), Vec::new());
    dyno_engine::run(
        &mut worker,
        &mut driver,
        || {
            begin.set(begin.get().or(Some(Instant(clock.get()).plus(1_000_000))));
            begin.get()
        },
        |_| {
            begin
                .get()
                .map_or(Stop::No, |began: Instant| stop(began, clock.get().saturating_sub(began.0)))
        },
        |interval| {
            intervals.push(interval);
            sealed_ns.push(clock.get().saturating_sub(begin.get().unwrap_or_default().0));
        },
    );
    Seen { report: worker.report(), intervals, sealed_ns, calls: driver.counts() }
}
