//! The default world of the tests: one second of load and its server, as an archive records them.
//! Cases change it, so that each case shows only the difference.

use dyno_model::cpus::AllowedCpus;
use dyno_model::drops::PathUse;
use dyno_model::host::{HostUse, LinkUse};
use dyno_model::interval::Interval;
use dyno_model::load::{Connections, TcpCounters, UnansweredAges};
use dyno_model::machine::{CpuUse, HeatUse, MachineUse, Stops};
use dyno_model::outcome::Outcome;
use dyno_model::plan::{Arrivals, Load, Step, Workload};
use dyno_model::sample::{
    CallUse, CallsUse, CgroupUse, NetworkUse, Party, PartyUse, SchedulerRecord, SocketsUse,
    StateTimes, ThreadState, ThreadUse,
};
use dyno_model::start::{StartRecord, WarmUpEnd};
use dyno_model::times::Recording;
use dyno_model::tracking::TrackingUse;
use dyno_model::trial::CheckResult;
use dyno_model::{Facts, LoadRecord, Phase, Sample, Times};

use super::CaveatSource;
use crate::backend_use::BackendUse;
use crate::caveat::Caveat;
use crate::duet::DuetResult;
use crate::fixture;
use crate::load::{Ceiling, LoadConfig, LoadResult};
use crate::machine::MachineResult;
use crate::server::group_memory::MemorySource;
use crate::server::{ServerUse, WithoutRequests, server_use};
use crate::turns::TurnsResult;
use crate::verdict::{self, Context, Limiter, TrialContext};
use crate::window_levels::{intervals, steadiness};

/// A second, in nanoseconds.
pub(in crate::verdict) const S: u64 = 1_000_000_000;
/// A millisecond, in nanoseconds.
pub(in crate::verdict) const MS: u64 = 1_000_000;

/// The command that measured a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::verdict) enum CommandKind {
    /// `dyno run`, which monitors the server.
    Run,
    /// `dyno load`, which does not monitor it.
    Load,
}

/// The record of one second of load, and the other inputs of the rules.
pub(in crate::verdict) struct TrialWorld {
    pub(in crate::verdict) command: CommandKind,
    pub(in crate::verdict) record: LoadRecord,
    pub(in crate::verdict) checks: Vec<CheckResult>,
    pub(in crate::verdict) plan: Load,
    pub(in crate::verdict) step: Step,
    pub(in crate::verdict) workload: Workload,
    pub(in crate::verdict) ceiling: Option<Ceiling>,
    pub(in crate::verdict) control: bool,
    pub(in crate::verdict) refuses: bool,
    pub(in crate::verdict) allowed_cpus: f64,
    /// CPUs that the server used without requests. `None`: not measured.
    pub(in crate::verdict) idle_cpus: Option<f64>,
    /// Numbers of the server's CPUs. Empty: unknown.
    pub(in crate::verdict) cpu_ids: Vec<u32>,
    pub(in crate::verdict) backends: Vec<BackendUse>,
    pub(in crate::verdict) start: StartRecord,
    pub(in crate::verdict) facts: Facts,
    pub(in crate::verdict) turns: Option<TurnsResult>,
    pub(in crate::verdict) pace: Option<Vec<f64>>,
    pub(in crate::verdict) is_out_of_turn: bool,
    pub(in crate::verdict) lacks_final_check: bool,
    pub(in crate::verdict) duet: Option<DuetResult>,
    /// Start of the part of the window that is used, nanoseconds since the load began.
    pub(in crate::verdict) counts_from: Option<u64>,
}

impl Default for TrialWorld {
    /// A closed loop of 1,000 responses of 1 ms each. The generator used 30 % of its CPU, and the
    /// server used 50 % of its CPU.
    fn default() -> Self {
        TrialWorld::with_responses(1000)
    }
}

impl CaveatSource for TrialWorld {
    fn caveats(&self) -> Vec<Caveat> {
        let load = self.result();
        match self.command {
            CommandKind::Load => load.caveats,
            CommandKind::Run => {
                let steadiness = steadiness(&intervals(&load, &self.server()));
                let steadiness =
                    steadiness.map(|steadiness| steadiness.with_counted_start(self.counts_from));
                let inputs = TrialContext {
                    record: &self.record,
                    party: Party::SUBJECT,
                    memory: MemorySource::new(
                        &self.record,
                        Party::SUBJECT,
                        self.start.strays_before_ready(Party::SUBJECT),
                    ),
                    part: self.start.subject(),
                    workload: 0,
                    checks: &self.checks,
                    facts: &self.facts,
                    machine: &MachineResult::new(&self.record),
                    turns: self.turns.as_ref(),
                    pace: self.pace.clone(),
                    is_out_of_turn: self.is_out_of_turn,
                    lacks_final_check: self.lacks_final_check,
                    duet: self.duet.as_ref(),
                    steadiness: steadiness.as_ref(),
                };
                verdict::trial(&load, Some(&self.server()), &inputs)
            }
        }
    }
}

impl TrialWorld {
    /// The default world with this many responses.
    pub(in crate::verdict) fn with_responses(responses: u64) -> TrialWorld {
        let mut record = fixture::record(responses);
        record.tcp = Some(TcpCounters::default());
        record.client.threads = vec![thread(300 * MS, 0)];
        record.client.machine = Some(machine(&[300 * MS]));
        record.samples = vec![sample(0, 0), sample(1, 500 * MS)];
        TrialWorld {
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
            idle_cpus: None,
            cpu_ids: Vec::new(),
            backends: Vec::new(),
            start: fixture::warm_up(WarmUpEnd::Steady, 0, Some(60 * MS)),
            facts: Facts::default(),
            turns: None,
            pace: None,
            is_out_of_turn: false,
            lacks_final_check: false,
            duet: None,
            counts_from: None,
        }
    }

    pub(in crate::verdict) fn result(&self) -> LoadResult {
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

    pub(in crate::verdict) fn limiter(&self) -> Limiter {
        let machine = MachineResult::new(&self.record);
        verdict::limiter(&self.result(), &self.server(), &self.backends, &machine)
    }

    fn server(&self) -> ServerUse {
        let allowed = AllowedCpus { count: self.allowed_cpus, ids: self.cpu_ids.clone() };
        let server = server_use(&self.record, Party::SUBJECT, &allowed);
        let without_requests =
            self.idle_cpus.map_or(WithoutRequests::Unknown, WithoutRequests::from_cpus);
        ServerUse { without_requests, ..server }
    }

    /// Counters of dropped packets during the load.
    pub(in crate::verdict) fn drop_counters(&mut self) -> &mut PathUse {
        self.machine().path.as_mut().expect("drop counters")
    }

    /// Sets the entries that the kernel evicted from the table of tracked connections.
    pub(in crate::verdict) fn set_tracking_evictions(&mut self, evicted: u64) {
        let tracking = TrackingUse {
            dropped: Some(0),
            evicted: Some(evicted),
            insert_failed: Some(0),
            ..TrackingUse::default()
        };
        self.drop_counters().network =
            Some(NetworkUse { tracking: Some(tracking), ..NetworkUse::default() });
    }

    /// Sets connection tracking of loopback: entries at the end (of at most 64), and dropped
    /// packets. `None`: this user cannot read the counters.
    pub(in crate::verdict) fn set_tracking(&mut self, entries: u64, dropped: Option<u64>) {
        let known = dropped.map(|_| 0);
        let tracking = TrackingUse { entries, dropped, evicted: known, insert_failed: known };
        let network = NetworkUse { tracking: Some(tracking), ..NetworkUse::default() };
        let networks = self.record.samples.iter_mut().flat_map(|sample| &mut sample.parties);
        for network in networks.filter_map(|party| party.network.as_mut()) {
            // A user who cannot read these counters cannot read them in samples either.
            network.tracking = network.tracking.filter(|_| dropped.is_some());
        }
        *self.drop_counters() = PathUse {
            network: Some(network),
            max_tracking_entries: Some(64),
            ..PathUse::default()
        };
    }

    /// Sends bytes over a link of 1 Gbit/s.
    pub(in crate::verdict) fn send_bytes(&mut self, bytes: u64) {
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

    /// Sets a constant rate instead of a closed loop.
    pub(in crate::verdict) fn set_rate(&mut self, rate: f64) {
        self.step.arrivals = Arrivals::Constant { rate };
    }

    /// Adds `n` requests that end with this outcome.
    pub(in crate::verdict) fn add_outcomes(&mut self, n: u64, outcome: Outcome) {
        let books = &mut self.record.books;
        books.scheduled += n;
        books.started += n;
        let ended = if outcome.is_completed() { &mut books.completed } else { &mut books.failed };
        *ended += n;
        (0..n).for_each(|_| self.interval().outcomes.count(outcome));
    }

    /// Makes the server a control that refuses `n` connections, one per request.
    pub(in crate::verdict) fn refuse_connections(&mut self, n: u64) {
        *self = TrialWorld::with_responses(0);
        self.refuses = true;
        let connections = &mut self.record.connections;
        *connections = Connections { asked: connections.asked, ..Connections::default() };
        self.start.parts[0].warmup = None;
        self.fail_connections(n, Outcome::ConnectRefused);
        self.add_outcomes(n, Outcome::ConnectRefused);
    }

    /// Sets the number of connections that were opened over the load, each within `open_ns`. At the
    /// end of the window `established` of these connections are open.
    pub(in crate::verdict) fn replace_connections(
        &mut self,
        n: u64,
        open_ns: u64,
        established: u64,
    ) {
        self.record.connections.opened = n;
        self.record.connections.established = established;
        let mut times = Recording::new();
        (0..n).for_each(|_| times.record(open_ns));
        self.interval().connect = times.seal();
    }

    /// Adds `n` failed attempts to connect.
    pub(in crate::verdict) fn fail_connections(&mut self, n: u64, outcome: Outcome) {
        *self.record.connection_failures.entry(outcome.name().into()).or_default() += n;
    }

    /// Adds `n` dropped requests.
    pub(in crate::verdict) fn drop_requests(&mut self, n: u64) {
        self.record.books.scheduled += n;
        self.record.books.dropped += n;
    }

    /// Adds `n` requests that never end.
    pub(in crate::verdict) fn leave_in_flight(&mut self, n: u64) {
        self.record.books.scheduled += n;
        self.record.books.started += n;
        self.record.books.in_flight_at_end += n;
    }

    /// Ends the load early while `n` requests have been in flight for this time.
    pub(in crate::verdict) fn cut_off(&mut self, n: u64, age_ns: u64) {
        self.leave_in_flight(n);
        self.record.cut_short = true;
        let ages = (UnansweredAges::AT_END.into(), equal_times(n, age_ns));
        self.record.unanswered.ages = [ages].into();
    }

    pub(in crate::verdict) fn interval(&mut self) -> &mut Interval {
        &mut self.record.intervals[0]
    }

    /// Sets the sum of all times in flight: 1 s means one request in flight on average. Little's
    /// law is not checked.
    pub(in crate::verdict) fn set_in_flight_time(&mut self, in_flight_ns: u64) {
        self.interval().in_flight_ns = in_flight_ns;
        self.record.edges = None;
    }

    pub(in crate::verdict) fn machine(&mut self) -> &mut MachineUse {
        self.record.client.machine.as_mut().expect("a machine")
    }

    /// Sets the times in which the control thread was stopped: their number and sum.
    pub(in crate::verdict) fn set_stops(&mut self, count: u64, ns: u64) {
        self.machine().stopped = Some(Stops { count, ns });
    }

    /// Sets the generator's threads (run and wait in ns), each on a separate CPU.
    pub(in crate::verdict) fn set_generator_threads(&mut self, threads: &[(u64, u64)]) {
        self.record.client.threads =
            threads.iter().map(|(run, delay)| thread(*run, *delay)).collect();
        let run: Vec<u64> = threads.iter().map(|(run, _)| *run).collect();
        self.record.client.machine = Some(machine(&run));
    }

    /// Sets the generator's threads, all of them on one CPU.
    pub(in crate::verdict) fn set_generator_on_one_cpu(&mut self, threads: &[(u64, u64)]) {
        self.set_generator_threads(threads);
        self.record.client.machine = Some(machine(&[threads.iter().map(|(run, _)| run).sum()]));
    }

    /// The sample at the window's end. At its beginning all counters are 0.
    pub(in crate::verdict) fn last_sample(&mut self) -> &mut Sample {
        self.record.samples.last_mut().expect("a sample")
    }

    /// The server's counters in the last sample.
    pub(in crate::verdict) fn server_counters(&mut self) -> &mut PartyUse {
        self.last_sample().party_use_mut(Party::SUBJECT)
    }

    /// The server's counters in each sample.
    pub(in crate::verdict) fn all_server_counters(
        &mut self,
    ) -> impl Iterator<Item = &mut PartyUse> {
        self.record.samples.iter_mut().map(|sample| sample.party_use_mut(Party::SUBJECT))
    }

    pub(in crate::verdict) fn server_cgroup(&mut self) -> &mut CgroupUse {
        self.server_counters().cgroup.as_mut().expect("a group")
    }

    /// Lets the server use this much CPU time in the second, in one thread.
    pub(in crate::verdict) fn set_server_cpu(&mut self, cpu_ns: u64) {
        *self.last_sample() = sample(1, cpu_ns);
    }

    /// Sets the server's threads (run and wait in ns), and the CPU time of other programs.
    pub(in crate::verdict) fn set_server_threads(
        &mut self,
        threads: &[(u64, u64)],
        others_ns: u64,
    ) {
        let run: u64 = threads.iter().map(|(run, _)| run).sum();
        self.set_server_cpu(run);
        let switches_voluntary = Some(1000);
        let thread = |run, delay| ThreadUse { switches_voluntary, ..thread(run, delay) };
        self.server_counters().threads = (0..)
            .zip(threads)
            .map(|(tid, (run, delay))| ThreadUse { tid, ..thread(*run, *delay) })
            .collect();
        self.last_sample().host.as_mut().expect("a machine").busy_ns += others_ns;
    }

    /// Sets the server's threads. Each is in this state for `ms` of the second, runs for the rest,
    /// and was woken up 100 times. Threads that wait for a lock call futex once per response.
    pub(in crate::verdict) fn set_thread_states(
        &mut self,
        threads: u32,
        state: ThreadState,
        ms: u64,
    ) {
        let cpu_ns = self.server_cgroup().cpu_ns.expect("a time");
        let mut states = StateTimes { running_ns: S - ms * MS, ..StateTimes::default() };
        states.add(state, ms * MS);
        let scheduler = SchedulerRecord { states, wakeups: 100, ..SchedulerRecord::default() };
        let template =
            ThreadUse { seen: Some(scheduler), ..thread(cpu_ns / u64::from(threads), 0) };
        self.server_counters().threads =
            (0..threads).map(|tid| ThreadUse { tid, ..template.clone() }).collect();
        if state == ThreadState::Lock {
            self.set_calls("futex(wait)", CallUse { count: 1000, ..CallUse::default() });
        }
    }

    /// Sets the voluntary context switches of the server's first thread.
    pub(in crate::verdict) fn set_voluntary_switches(&mut self, switches: u64) {
        self.server_counters().threads[0].switches_voluntary = Some(switches);
    }

    /// Adds a sleep per response, of 1,000 responses.
    pub(in crate::verdict) fn sleep_once_per_response(&mut self) {
        self.set_calls("clock_nanosleep", CallUse { count: 1000, ..CallUse::default() });
    }

    /// Sets the uses of a system call.
    pub(in crate::verdict) fn set_calls(&mut self, name: &str, call: CallUse) {
        let calls = self.server_counters().calls.as_mut().expect("calls");
        calls.by_name.insert(name.into(), call);
    }

    /// Sets on how many of eight connections TCP_NODELAY is set.
    pub(in crate::verdict) fn set_nodelay(&mut self, nodelay: u64) {
        self.server_counters().sockets =
            Some(SocketsUse { connections: 8, options_of: 8, nodelay, ..SocketsUse::default() });
    }

    /// Adds a thread of a garbage collector. Its time is part of the server's CPU time.
    pub(in crate::verdict) fn add_collector_thread(&mut self, cpu_ns: u64) {
        let collector = ThreadUse { tid: 98, name: "GC Thread#0".into(), ..thread(cpu_ns, 0) };
        self.server_counters().threads.push(collector);
    }

    /// Sets connections on which each response takes `ms`, and the writes per ten responses. Each
    /// response waits for a delayed acknowledgement, and takes 1 ms of CPU time.
    pub(in crate::verdict) fn delay_responses(
        &mut self,
        connections: u32,
        ms: u64,
        writes_of_ten: u64,
    ) {
        let responses = u64::from(connections) * 1000 / ms;
        *self = TrialWorld::with_responses(responses);
        self.step.connections = connections;
        let times = equal_times(responses, ms * MS);
        self.interval().times.response = times.clone();
        self.interval().times.service = times;
        self.set_in_flight_time(u64::from(connections) * S);
        let calls = self.server_counters().calls.as_mut().expect("calls");
        let write = calls.by_name.get_mut("write").expect("writes");
        write.count = calls.responses.expect("a generator") * writes_of_ten / 10;
        self.record.tcp =
            Some(TcpCounters { data_segments_in: 2 * responses, ..TcpCounters::default() });
        self.set_nodelay(0);
        self.set_delayed_acks(responses);
        self.server_cgroup().cpu_ns = Some(responses * MS);
        self.server_counters().threads[0].run_ns = responses * MS;
    }

    /// Sets the acknowledgements that were delayed in the server's network namespace.
    pub(in crate::verdict) fn set_delayed_acks(&mut self, acks: u64) {
        self.server_counters().network.as_mut().expect("a network").delayed_acks = Some(acks);
    }

    /// Adds a thread of a JIT compiler. Its time is part of the server's CPU time.
    pub(in crate::verdict) fn add_compiler_thread(&mut self, cpu_ns: u64) {
        let compiler = ThreadUse { tid: 99, name: "C2 CompilerThre".into(), ..thread(cpu_ns, 0) };
        self.server_counters().threads.push(compiler);
    }

    /// Replaces the load by one second per entry: responses, and the server's CPU time in ns.
    pub(in crate::verdict) fn set_seconds(&mut self, seconds: &[(u64, u64)]) {
        let record = &mut self.record;
        record.window_ns = (0, seconds.len() as u64 * S);
        record.intervals.clear();
        record.samples.truncate(1);
        let (mut responses, mut cpu_ns) = (0, 0);
        for (second, (rate, cpu)) in (0..).zip(seconds) {
            let mut interval = Interval::new(Phase::Measured, second * S, (second + 1) * S);
            (0..*rate).for_each(|_| interval.outcomes.count(Outcome::Ok));
            interval.times.response = equal_times(*rate, MS);
            interval.times.service = interval.times.response.clone();
            interval.started = *rate;
            interval.in_flight_ns = rate * MS;
            record.intervals.push(interval);
            responses += rate;
            cpu_ns += cpu;
            record.samples.push(sample(second + 1, cpu_ns));
        }
        let books = &mut record.books;
        (books.scheduled, books.started, books.completed) = (responses, responses, responses);
    }
}

/// Returns `n` times the same duration, in ns.
pub(in crate::verdict) fn equal_times(n: u64, ns: u64) -> Times {
    build_times(&[(n, ns)])
}

/// Returns each duration (in ns) `n` times. Durations up to 2,047 ns are exact.
pub(in crate::verdict) fn build_times(durations: &[(u64, u64)]) -> Times {
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

/// A second of CPUs to which the generator's threads are bound. No other program used them.
fn machine(busy_ns: &[u64]) -> MachineUse {
    let cpu = |(cpu, busy_ns): (u32, &u64)| CpuUse {
        cpu,
        busy_ns: *busy_ns,
        idle_ns: S.saturating_sub(*busy_ns),
        steal_ns: 0,
        interrupt_ns: None,
    };
    MachineUse {
        length_ns: S,
        cpus: (4..).zip(busy_ns).map(cpu).collect(),
        remaining_cpus: Vec::new(),
        bound: true,
        own_ns: busy_ns.iter().sum(),
        quota: None,
        others: Vec::new(),
        everywhere: Some(Vec::new()),
        everywhere_ns: Some(S),
        kernel_threads_ns: Some(0),
        heat: Some(HeatUse::default()),
        path: Some(PathUse::default()),
        suspended_ns: Some(0),
        stopped: Some(Stops::default()),
    }
}

/// A read and a write per response. All calls were counted.
fn calls(seconds: u64) -> CallsUse {
    let call =
        CallUse { count: 1000 * seconds, returned: Some(100_000 * seconds), ..CallUse::default() };
    CallsUse {
        counted_ns: seconds * S,
        slices: 10 * seconds,
        responses: Some(1000 * seconds),
        by_name: ["read", "write"].map(|name| (name.to_string(), call)).into(),
        ..CallsUse::default()
    }
}

/// Counters after this many seconds on a machine with four CPUs. The server used `cpu_ns` in one
/// thread, and the generator used 30 % of a CPU.
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
        // The server sleeps once per response.
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
            tracking: Some(TrackingUse {
                entries: 0,
                dropped: Some(0),
                evicted: Some(0),
                insert_failed: Some(0),
            }),
            aborts_on_memory: Some(0),
            syn_queue_drops: Some(0),
            ..NetworkUse::default()
        }),
        calls: Some(calls(seconds)),
        ended: Some(Vec::new()),
        ..PartyUse::empty(Party::SUBJECT)
    };
    let generator = PartyUse {
        threads: vec![ThreadUse { tid: 500, ..thread(generator_ns, 0) }],
        ..PartyUse::empty(Party::GENERATOR)
    };
    Sample {
        co_runners: None,
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

/// Counters after a second, read at `at_ns`.
pub(in crate::verdict) fn sample_at(at_ns: u64, cpu_ns: u64) -> Sample {
    Sample { at_ns, ..sample(1, cpu_ns) }
}
