//! A driver around another one that counts its calls and simulates CPU use.

use std::cell::Cell;
use std::rc::Rc;

use dyno_engine::driver::{
    Completion, CompletionKind, ConnId, Driver, QueuedBytes, StreamDriver, Turn, Wait,
};
use dyno_engine::{Instant, Stop, Worker, WorkerConfig, WorkerReport};
use dyno_model::load::TcpCounters;
use dyno_model::sample::ThreadUse;
use serde_json::{Value, json};

/// A driver that counts its calls. Its thread uses a third of all time, and half of each wait is
/// polling.
pub struct ObservedDriver<D> {
    inner: D,
    clock: Rc<Cell<u64>>,
    connects: u64,
    closes: u64,
    sends: u64,
    bytes: u64,
    turns: u64,
    /// Turns that poll from the start, that poll near their end, and that only sleep.
    polling: [u64; 3],
    /// Sum of the longest waits of all turns, nanoseconds, except unlimited ones.
    patience_ns: u64,
    /// The server closes every n-th connection as soon as it is open; `None`: no connection.
    hang_up_every: Option<u64>,
    connected: u64,
    /// Connections that the server closes next.
    closing: Vec<ConnId>,
}

impl<D: Driver> ObservedDriver<D> {
    fn new(inner: D, hang_up_every: Option<u64>) -> ObservedDriver<D> {
        let clock = Rc::new(Cell::new(0));
        let (connects, closes, sends, bytes, turns, patience_ns) = (0, 0, 0, 0, 0, 0);
        let (connected, closing, polling) = (0, Vec::new(), [0; 3]);
        ObservedDriver {
            inner,
            clock,
            connects,
            closes,
            sends,
            bytes,
            turns,
            polling,
            patience_ns,
            hang_up_every,
            connected,
            closing,
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

impl<D: Driver> Driver for ObservedDriver<D> {
    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn close(&mut self, conn: ConnId) {
        self.closes += 1;
        self.closing.retain(|owner| *owner != conn);
        self.inner.close(conn);
    }

    fn queued_bytes(&self, conn: ConnId) -> QueuedBytes {
        self.inner.queued_bytes(conn)
    }

    fn taken_bytes(&self) -> u64 {
        self.inner.taken_bytes()
    }

    fn flush(&mut self, on_handed_over: &mut dyn FnMut(ConnId, Instant)) {
        self.inner.flush(on_handed_over);
    }

    fn turn(&mut self, wait: Wait, on_handed_over: &mut dyn FnMut(ConnId, Instant)) -> Turn {
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
        let turn = self.inner.turn(wait, on_handed_over);
        self.clock.set(turn.woke.0);
        let spun_ns =
            if wait.spin_from < turn.woke { turn.woke.ns_since(turn.entered) / 2 } else { 0 };
        Turn { spun_ns, ..turn }
    }

    fn next(&mut self) -> Option<Completion> {
        if let Some(conn) = self.closing.pop() {
            return Some(Completion { conn, kind: CompletionKind::Eof, at: self.inner.now() });
        }
        let completion = self.inner.next()?;
        if completion.kind == CompletionKind::Connected {
            self.connected += 1;
            let hangs_up =
                self.hang_up_every.is_some_and(|every| self.connected.is_multiple_of(every));
            self.closing.extend(hangs_up.then_some(completion.conn));
        }
        Some(completion)
    }

    fn received_bytes(&mut self) -> &mut [u8] {
        self.inner.received_bytes()
    }

    fn received_at(&self) -> Option<Instant> {
        Some(Instant(self.inner.now().0 - 3_000))
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

impl<D: StreamDriver> StreamDriver for ObservedDriver<D> {
    fn connect(&mut self, conn: ConnId) {
        self.connects += 1;
        self.inner.connect(conn);
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        self.sends += 1;
        self.bytes += bytes.len() as u64;
        self.inner.send(conn, bytes);
    }

    fn unsent_bytes(&self, conn: ConnId) -> u64 {
        self.inner.unsent_bytes(conn)
    }

    fn tcp_counters(&mut self, conn: ConnId) -> Option<TcpCounters> {
        self.inner.tcp_counters(conn)
    }
}

/// Results of an observed run.
pub struct ObservedRun {
    pub report: WorkerReport,
    pub intervals: Vec<dyno_model::Interval>,
    /// When each interval was sealed, nanoseconds since the load began.
    pub sealed_ns: Vec<u64>,
    /// Counts of calls of the driver.
    pub calls: Value,
}

/// Runs a worker to its end. `stop` is polled every turn, with the start of the load and the time
/// since, nanoseconds.
pub fn run_observed<D: StreamDriver>(
    driver: D,
    config: WorkerConfig,
    stop: impl Fn(Instant, u64) -> Stop,
) -> ObservedRun {
    run(ObservedDriver::new(driver, None), config, stop)
}

/// Runs a worker to its end. The server closes every n-th connection as soon as it is open.
pub fn run_with_hang_ups<D: StreamDriver>(
    driver: D,
    config: WorkerConfig,
    every: u64,
) -> ObservedRun {
    run(ObservedDriver::new(driver, Some(every)), config, |_, _| Stop::No)
}

fn run<D: StreamDriver>(
    mut driver: ObservedDriver<D>,
    config: WorkerConfig,
    stop: impl Fn(Instant, u64) -> Stop,
) -> ObservedRun {
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
    ObservedRun { report: worker.report(), intervals, sealed_ns, calls: driver.counts() }
}
