//! A load and its server, as an archive has them.

use dyno_archive::drops::{PathUse, TrackingUse};
use dyno_archive::interval::Interval;
use dyno_archive::load::TcpCounters;
use dyno_archive::machine::{CpuUse, HeatUse, MachineUse};
use dyno_archive::outcome::Outcome;
use dyno_archive::plan::{Arrivals, Load, Step, Workload};
use dyno_archive::sample::{
    CallUse, CallsUse, CgroupUse, HostUse, LinkUse, NetworkUse, Party, PartyUse, SchedulerRecord,
    SocketsUse, StateTimes, ThreadState, ThreadUse,
};
use dyno_archive::start::{StartRecord, WarmUpEnd};
use dyno_archive::times::Recording;
use dyno_archive::trial::CheckResult;
use dyno_archive::{Facts, LoadRecord, Phase, Sample, Times};

use super::Judged;
use crate::backend::BackendUse;
use crate::caveat::Caveat;
use crate::duet::DuetResult;
use crate::fixture;
use crate::load::{Ceiling, LoadConfig, LoadResult};
use crate::machine::MachineResult;
use crate::server::{ServerUse, server_use};
use crate::turns::TurnsResult;
use crate::verdict::{self, Context, Limiter, TrialContext};
use crate::window_levels::{intervals, steadiness};

pub(super) const S: u64 = 1_000_000_000;
pub(super) const MS: u64 = 1_000_000;

/// The command that measured a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandKind {
    /// `dyno run`, which watches the server.
    Run,
    /// `dyno load`, which does not.
    Load,
}

/// A record of one second of load, with everything that it is judged by.
pub(super) struct JudgedWorld {
    pub(super) command: CommandKind,
    pub(super) record: LoadRecord,
    pub(super) checks: Vec<CheckResult>,
    pub(super) plan: Load,
    pub(super) step: Step,
    pub(super) workload: Workload,
    pub(super) ceiling: Option<Ceiling>,
    pub(super) control: bool,
    pub(super) refuses: bool,
    pub(super) allowed_cpus: f64,
    pub(super) backends: Vec<BackendUse>,
    pub(super) start: StartRecord,
    pub(super) facts: Facts,
    pub(super) turns: Option<TurnsResult>,
    pub(super) pace: Option<Vec<f64>>,
    pub(super) is_out_of_turn: bool,
    pub(super) duet: Option<DuetResult>,
    /// From when on its window counts, nanoseconds since the load began.
    pub(super) counts_from: Option<u64>,
}

impl Default for JudgedWorld {
    /// A closed loop of 1,000 answers of 1 ms each; the generator used 30 % of its CPU and the
    /// server half of its own.
    fn default() -> Self {
        JudgedWorld::with_answers(1000)
    }
}

impl Judged for JudgedWorld {
    fn caveats(&self) -> Vec<Caveat> {
        let load = self.result();
        match self.command {
            CommandKind::Load => load.caveats,
            CommandKind::Run => {
                let steadiness = steadiness(&intervals(&load, &self.server()));
                let steadiness = steadiness.map(|seen| seen.with_counted_start(self.counts_from));
                let inputs = TrialContext {
                    record: &self.record,
                    party: Party::SUBJECT,
                    part: self.start.subject(),
                    checks: &self.checks,
                    facts: &self.facts,
                    machine: &MachineResult::new(&self.record),
                    turns: self.turns.as_ref(),
                    pace: self.pace.clone(),
                    is_out_of_turn: self.is_out_of_turn,
                    duet: self.duet.as_ref(),
                    steadiness: steadiness.as_ref(),
                };
                verdict::trial(&load, Some(&self.server()), &inputs)
            }
        }
    }
}

impl JudgedWorld {
    /// The default world with this many responses.
    pub(super) fn with_answers(answers: u64) -> JudgedWorld {
        let mut record = fixture::record(answers);
        record.tcp = Some(TcpCounters::default());
        record.client.threads = vec![thread(300 * MS, 0)];
        record.client.machine = Some(machine(&[300 * MS]));
        record.samples = vec![sample(0, 0), sample(1, 500 * MS)];
        JudgedWorld {
            command: CommandKind::Run,
            record,
            checks: Vec::new(),
            plan: fixture::load(),
            step: fixture::step(Arrivals::Closed),
            workload: fixture::workload(),
            ceiling: None,
            control: false,
            refuses: false,
            allowed_cpus: 1.0,
            backends: Vec::new(),
            start: fixture::warm_up(WarmUpEnd::Steady, 0, Some(60 * MS)),
            facts: Facts::default(),
            turns: None,
            pace: None,
            is_out_of_turn: false,
            duet: None,
            counts_from: None,
        }
    }

    pub(super) fn result(&self) -> LoadResult {
        let server = self.server();
        let server = (self.command == CommandKind::Run).then_some(&server);
        let planned = LoadConfig::new(&self.workload, &self.plan, &self.step, 1);
        let context = Context {
            ceiling: self.ceiling.clone(),
            server,
            control: self.control,
            refuses: self.refuses,
            checks: &self.checks,
        };
        verdict::load(&self.record, planned, &context)
    }

    pub(super) fn limiter(&self) -> Limiter {
        let machine = MachineResult::new(&self.record);
        verdict::limiter(&self.result(), &self.server(), &self.backends, &machine)
    }

    fn server(&self) -> ServerUse {
        server_use(&self.record, Party::SUBJECT, self.allowed_cpus)
    }

    /// The growth of the counters of dropped packets around the load.
    pub(super) fn path(&mut self) -> &mut PathUse {
        self.machine().path.as_mut().expect("it was read")
    }

    /// Evicts so many entries from the table of tracked connections.
    pub(super) fn track_evictions(&mut self, evicted: u64) {
        let tracking = TrackingUse { evicted, ..TrackingUse::default() };
        self.path().network =
            Some(NetworkUse { tracking: Some(tracking), ..NetworkUse::default() });
    }

    /// Loopback is tracked: so many entries of 64 at the end, and so many dropped packets.
    pub(super) fn track(&mut self, entries: u64, dropped: u64) {
        let tracking = TrackingUse { entries, dropped, ..TrackingUse::default() };
        let network = NetworkUse { tracking: Some(tracking), ..NetworkUse::default() };
        *self.path() =
            PathUse { network: Some(network), tracking_most: Some(64), ..PathUse::default() };
    }

    /// Sends so many bytes over a link of 1 Gbit/s.
    pub(super) fn carry(&mut self, bytes: u64) {
        for (sample, bytes_out) in self.record.samples.iter_mut().zip([0, bytes]) {
            let link = LinkUse {
                name: "eth0".into(),
                bytes_in: 0,
                bytes_out,
                bits_per_s: Some(1_000_000_000),
            };
            sample.host.get_or_insert_default().links = Some(vec![link]);
        }
    }

    /// At a fixed rate instead of a closed loop.
    pub(super) fn set_rate(&mut self, rate: f64) {
        self.step.arrivals = Arrivals::Constant { rate };
    }

    /// Adds `n` requests that end with this outcome.
    pub(super) fn end(&mut self, n: u64, outcome: Outcome) {
        let books = &mut self.record.books;
        books.scheduled += n;
        books.started += n;
        let ended = if outcome.is_completed() { &mut books.completed } else { &mut books.failed };
        *ended += n;
        (0..n).for_each(|_| self.interval().outcomes.count(outcome));
    }

    /// Adds `n` dropped requests.
    pub(super) fn drop(&mut self, n: u64) {
        self.record.books.scheduled += n;
        self.record.books.dropped += n;
    }

    /// Adds `n` requests that never end.
    pub(super) fn leave_in_flight(&mut self, n: u64) {
        self.record.books.scheduled += n;
        self.record.books.started += n;
        self.record.books.in_flight_at_end += n;
    }

    pub(super) fn interval(&mut self) -> &mut Interval {
        &mut self.record.intervals[0]
    }

    /// Sets the time integral of the number in flight; 1 s of it is one request in flight on
    /// average. Little's law is not checked.
    pub(super) fn hold(&mut self, in_flight_ns: u64) {
        self.interval().in_flight_ns = in_flight_ns;
        self.record.edges = None;
    }

    pub(super) fn machine(&mut self) -> &mut MachineUse {
        self.record.client.machine.as_mut().expect("a machine")
    }

    /// Sets the generator's threads (run and wait in ns), each on a CPU of its own.
    pub(super) fn generate(&mut self, threads: &[(u64, u64)]) {
        self.record.client.threads =
            threads.iter().map(|(run, delay)| thread(*run, *delay)).collect();
        let run: Vec<u64> = threads.iter().map(|(run, _)| *run).collect();
        self.record.client.machine = Some(machine(&run));
    }

    /// The same, all on one CPU.
    pub(super) fn generate_on_one(&mut self, threads: &[(u64, u64)]) {
        self.generate(threads);
        self.record.client.machine = Some(machine(&[threads.iter().map(|(run, _)| run).sum()]));
    }

    /// The sample at the window's end. At its beginning all counters are 0.
    pub(super) fn sample(&mut self) -> &mut Sample {
        self.record.samples.last_mut().expect("a sample")
    }

    /// The server's counters in the last sample.
    pub(super) fn used(&mut self) -> &mut PartyUse {
        self.sample().party_use_mut(Party::SUBJECT)
    }

    /// The server's counters in each sample.
    pub(super) fn each_used(&mut self) -> impl Iterator<Item = &mut PartyUse> {
        self.record.samples.iter_mut().map(|sample| sample.party_use_mut(Party::SUBJECT))
    }

    pub(super) fn group(&mut self) -> &mut CgroupUse {
        self.used().cgroup.as_mut().expect("a group")
    }

    /// Lets the server use this much CPU time in the second, in one thread.
    pub(super) fn serve(&mut self, cpu_ns: u64) {
        *self.sample() = sample(1, cpu_ns);
    }

    /// Sets the server's threads (run and wait in ns), and the CPU time that others used on the
    /// machine.
    pub(super) fn serve_by(&mut self, threads: &[(u64, u64)], others_ns: u64) {
        let run: u64 = threads.iter().map(|(run, _)| run).sum();
        self.serve(run);
        let switches_voluntary = Some(1000);
        let thread = |run, delay| ThreadUse { switches_voluntary, ..thread(run, delay) };
        self.used().threads = (0..)
            .zip(threads)
            .map(|(tid, (run, delay))| ThreadUse { tid, ..thread(*run, *delay) })
            .collect();
        self.sample().host.as_mut().expect("a machine").busy_ns += others_ns;
    }

    /// Has the server so many threads, each woken up 100 times, and in this state for so many
    /// milliseconds of the second; what they did else was running.
    pub(super) fn spend(&mut self, threads: u32, state: ThreadState, ms: u64) {
        let cpu_ns = self.group().cpu_ns.expect("a time");
        let mut states = StateTimes { running_ns: S - ms * MS, ..StateTimes::default() };
        states.add(state, ms * MS);
        let seen = SchedulerRecord { states, wakeups: 100, ..SchedulerRecord::default() };
        let one = ThreadUse { seen: Some(seen), ..thread(cpu_ns / u64::from(threads), 0) };
        self.used().threads = (0..threads).map(|tid| ThreadUse { tid, ..one.clone() }).collect();
    }

    /// Has the server's threads make so many voluntary context switches.
    pub(super) fn sleep_times(&mut self, switches: u64) {
        self.used().threads[0].switches_voluntary = Some(switches);
    }

    /// Has each of 1,000 responses sleep once.
    pub(super) fn sleep_each(&mut self) {
        self.call("clock_nanosleep", CallUse { count: 1000, ..CallUse::default() });
    }

    /// Sets the system calls of a name.
    pub(super) fn call(&mut self, name: &str, made: CallUse) {
        let calls = self.used().calls.as_mut().expect("calls");
        calls.by_name.insert(name.into(), made);
    }

    /// Sets TCP_NODELAY on so many of eight connections.
    pub(super) fn set_nodelay(&mut self, nodelay: u64) {
        self.used().sockets =
            Some(SocketsUse { connections: 8, options_of: 8, nodelay, ..SocketsUse::default() });
    }

    /// Adds threads of a garbage collector. Their CPU time counts as part of what the server used.
    pub(super) fn collect(&mut self, cpu_ns: u64) {
        let collector = ThreadUse { tid: 98, name: "GC Thread#0".into(), ..thread(cpu_ns, 0) };
        self.used().threads.push(collector);
    }

    /// Has every response take so long on each of so many connections, and be written in so many
    /// parts.
    pub(super) fn delay(&mut self, connections: u32, ms: u64, writes_of_ten: u64) {
        let answers = u64::from(connections) * 1000 / ms;
        *self = JudgedWorld::with_answers(answers);
        self.step.connections = connections;
        let times = same(answers, ms * MS);
        self.interval().times.response = times.clone();
        self.interval().times.service = times;
        self.hold(u64::from(connections) * S);
        let calls = self.used().calls.as_mut().expect("calls");
        let write = calls.by_name.get_mut("write").expect("writes");
        write.count = calls.answers.expect("answers") * writes_of_ten / 10;
        self.record.tcp =
            Some(TcpCounters { data_segments_in: 2 * answers, ..TcpCounters::default() });
        self.set_nodelay(0);
    }

    /// Adds a compiler thread. Its CPU time counts as part of what the server used.
    pub(super) fn compile(&mut self, cpu_ns: u64) {
        let compiler = ThreadUse { tid: 99, name: "C2 CompilerThre".into(), ..thread(cpu_ns, 0) };
        self.used().threads.push(compiler);
    }

    /// Replaces the load by one second per entry: number of responses, and the server's CPU time in
    /// ns.
    pub(super) fn set_seconds(&mut self, seconds: &[(u64, u64)]) {
        let record = &mut self.record;
        record.window_ns = (0, seconds.len() as u64 * S);
        record.intervals.clear();
        record.samples.truncate(1);
        let (mut answers, mut cpu_ns) = (0, 0);
        for (second, (rate, cpu)) in (0..).zip(seconds) {
            let mut interval = Interval::new(Phase::Measured, second * S, (second + 1) * S);
            (0..*rate).for_each(|_| interval.outcomes.count(Outcome::Ok));
            interval.times.response = same(*rate, MS);
            interval.times.service = interval.times.response.clone();
            interval.started = *rate;
            interval.in_flight_ns = rate * MS;
            record.intervals.push(interval);
            answers += rate;
            cpu_ns += cpu;
            record.samples.push(sample(second + 1, cpu_ns));
        }
        let books = &mut record.books;
        (books.scheduled, books.started, books.completed) = (answers, answers, answers);
    }
}

/// `n` times the same duration.
pub(super) fn same(n: u64, ns: u64) -> Times {
    mixed(&[(n, ns)])
}

/// Each duration (in ns) `n` times. Up to 2,047 ns they are kept to the nanosecond.
pub(super) fn mixed(durations: &[(u64, u64)]) -> Times {
    let mut times = Recording::new();
    for (n, ns) in durations {
        (0..*n).for_each(|_| times.record(*ns));
    }
    times.seal()
}

fn thread(run_ns: u64, delay_ns: u64) -> ThreadUse {
    ThreadUse {
        run_ns,
        run_delay_ns: Some(delay_ns),
        switches_voluntary: Some(10),
        switches_involuntary: Some(1),
        ..ThreadUse::default()
    }
}

/// A second of these CPUs, to which the generator's threads are bound and which nothing else used.
fn machine(busy_ns: &[u64]) -> MachineUse {
    let cpu = |(cpu, busy_ns): (u32, &u64)| CpuUse {
        cpu,
        busy_ns: *busy_ns,
        idle_ns: S.saturating_sub(*busy_ns),
        steal_ns: 0,
    };
    MachineUse {
        length_ns: S,
        cpus: (4..).zip(busy_ns).map(cpu).collect(),
        bound: true,
        own_ns: busy_ns.iter().sum(),
        quota: None,
        others: Vec::new(),
        everywhere: Some(Vec::new()),
        everywhere_ns: Some(S),
        heat: Some(HeatUse::default()),
        path: Some(PathUse::default()),
        suspended_ns: Some(0),
    }
}

/// A read and a write per response, counted all the time.
fn calls(seconds: u64) -> CallsUse {
    let call =
        CallUse { count: 1000 * seconds, returned: Some(100_000 * seconds), ..CallUse::default() };
    CallsUse {
        counted_ns: seconds * S,
        slices: 10 * seconds,
        answers: Some(1000 * seconds),
        by_name: ["read", "write"].map(|name| (name.to_string(), call)).into(),
    }
}

/// Counters after this many seconds on a machine of four CPUs: a server that has used `cpu_ns` in
/// one thread, and a generator that uses 30 % of a CPU.
fn sample(seconds: u64, cpu_ns: u64) -> Sample {
    let generator_ns = 300 * MS * seconds;
    let server = PartyUse {
        cgroup: Some(CgroupUse {
            cpu_ns: Some(cpu_ns),
            cpu_user_ns: Some(cpu_ns),
            cpu_sys_ns: Some(0),
            periods: Some(1000 * seconds),
            throttled_periods: Some(0),
            throttled_ns: Some(0),
            memory_bytes: Some(4 * MS),
            memory_peak_bytes: Some(4 * MS),
            memory_anon_bytes: Some(3 * MS),
            memory_file_bytes: Some(MS),
            ..CgroupUse::default()
        }),
        // It sleeps once per response.
        threads: vec![ThreadUse { switches_voluntary: Some(1000 * seconds), ..thread(cpu_ns, 0) }],
        processes: 1,
        rss_bytes: Some(5 * MS),
        network: Some(NetworkUse {
            listen_overflows: Some(0),
            listen_drops: Some(0),
            segments_out: Some(1000 * seconds),
            segments_retransmitted: Some(0),
            retransmit_timeouts: Some(0),
            delayed_acks: Some(0),
            tracking: Some(TrackingUse::default()),
            aborts_on_memory: Some(0),
            syn_queue_drops: Some(0),
            ..NetworkUse::default()
        }),
        calls: Some(calls(seconds)),
        ended: Some(Vec::new()),
        ..PartyUse::nothing(Party::SUBJECT)
    };
    let generator = PartyUse {
        threads: vec![ThreadUse { tid: 500, ..thread(generator_ns, 0) }],
        ..PartyUse::nothing(Party::GENERATOR)
    };
    Sample {
        beside: None,
        at_ns: seconds * S,
        parties: vec![server, generator],
        host: Some(HostUse {
            busy_ns: cpu_ns + generator_ns,
            idle_ns: (4 * S * seconds).saturating_sub(cpu_ns + generator_ns),
            ..HostUse::default()
        }),
        ..Sample::default()
    }
}

/// The counters of the server, read at this instant.
pub(super) fn sample_at(at_ns: u64, cpu_ns: u64) -> Sample {
    Sample { at_ns, ..sample(1, cpu_ns) }
}
