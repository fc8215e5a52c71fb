//! Resource use of simulated servers, and of the generator that loads them, as samples of a load
//! have it.

use dyno_model::facts::CgroupVersion;
use dyno_model::host::HostUse;
use dyno_model::sample::{
    CallUse, CallsUse, CgroupUse, Party, PartyUse, SchedulerRecord, StateTimes, ThreadUse,
};
use dyno_model::{Facts, LoadRecord, Sample};

const MS: u64 = 1_000_000;

/// CPU time of the generator for each request, nanoseconds.
const GENERATOR_NS: u64 = 1_500;

/// CPUs of the machine.
const CPUS: u64 = 2;

/// Resource use of a simulated server.
#[derive(Clone, Debug)]
pub struct ServerCosts {
    pub pid: u32,
    /// CPU time of each response, microseconds.
    pub cpu_us: f64,
    /// CPUs that its just-in-time compiler uses at any time, in a separate thread.
    pub compiler_cpus: f64,
    pub memory_mib: u64,
}

impl Default for ServerCosts {
    fn default() -> ServerCosts {
        ServerCosts { pid: 2, cpu_us: 0.0, compiler_cpus: 0.0, memory_mib: 0 }
    }
}

/// Fills the samples of a simulated load, of which only the instants are known, with the resource
/// use of these servers and of the generator.
///
/// # Panics
/// The record has no sample.
pub fn add(record: &mut LoadRecord, servers: &[(Party, ServerCosts)]) {
    let began_ns = record.began_ns;
    let responses_by = |at_ns: u64| -> u64 {
        let ended = record.intervals.iter().filter(|i| began_ns + i.end_ns <= at_ns);
        ended
            .flat_map(|i| i.outcomes.iter())
            .filter(|(outcome, _)| outcome.is_completed())
            .map(|(_, n)| n)
            .sum()
    };
    let sample_at = |at_ns: u64| {
        let work = Work { lived_ns: at_ns - began_ns, responses: responses_by(at_ns) };
        work.sample(at_ns, servers)
    };
    record.samples = record.samples.iter().map(|sample| sample_at(sample.at_ns)).collect();
    let run_ns = |sample: &Sample| {
        sample.party_use(Party::GENERATOR).map_or(0, |used| used.threads[0].run_ns)
    };
    let (first, last) = (record.samples.first(), record.samples.last());
    let (first, last) = first.zip(last).expect("a load should have samples");
    let generator_ns = run_ns(last) - run_ns(first);
    record.client.threads = vec![ThreadUse {
        run_ns: generator_ns,
        user_ns: generator_ns / 5,
        sys_ns: generator_ns - generator_ns / 5,
        ..ThreadUse::default()
    }];
    record.client.rss_peak_bytes = Some(8 << 20);
}

/// Work of a load so far.
#[derive(Clone, Copy)]
struct Work {
    /// Time since the load began.
    lived_ns: u64,
    responses: u64,
}

impl Work {
    /// Returns a sample of the machine after this work.
    fn sample(self, at_ns: u64, servers: &[(Party, ServerCosts)]) -> Sample {
        let generator_ns = self.responses * GENERATOR_NS;
        let parties: Vec<PartyUse> =
            servers.iter().map(|(party, costs)| self.server_use(*party, costs)).collect();
        let busy_ns = generator_ns + parties.iter().filter_map(PartyUse::cpu_ns).sum::<u64>();
        let generator = PartyUse {
            threads: vec![self.thread("worker-0", 2, generator_ns)],
            ..PartyUse::empty(Party::GENERATOR)
        };
        Sample {
            at_ns,
            took_ns: MS / 10,
            delayed_ns: 0,
            co_runners: None,
            parties: parties.into_iter().chain([generator]).collect(),
            host: Some(HostUse {
                busy_ns,
                idle_ns: (CPUS * self.lived_ns).saturating_sub(busy_ns),
                steal_ns: 0,
                context_switches: 2 * self.responses,
                ..HostUse::default()
            }),
        }
    }

    /// Returns the resource use of a server.
    fn server_use(self, party: Party, costs: &ServerCosts) -> PartyUse {
        let work_ns = (self.responses as f64 * costs.cpu_us * 1e3) as u64;
        let compiler_ns = (self.lived_ns as f64 * costs.compiler_cpus) as u64;
        let cpu_ns = work_ns + compiler_ns;
        let mut threads = vec![self.thread("server", costs.pid, work_ns)];
        if costs.compiler_cpus > 0.0 {
            let compiler = self.thread("C2 CompilerThre", costs.pid, compiler_ns);
            threads.push(ThreadUse { tid: costs.pid + 1, ..compiler });
        }
        PartyUse {
            cgroup: Some(CgroupUse {
                cpu_ns: Some(cpu_ns),
                cpu_user_ns: Some(cpu_ns / 4),
                cpu_sys_ns: Some(cpu_ns - cpu_ns / 4),
                throttled_ns: Some(0),
                memory_bytes: Some((costs.memory_mib + 1) << 20),
                memory_peak_bytes: Some((costs.memory_mib + 2) << 20),
                memory_anon_bytes: Some(costs.memory_mib << 20),
                memory_file_bytes: Some(1 << 20),
                memory_kernel_bytes: Some(300 << 10),
                ..CgroupUse::default()
            }),
            threads,
            processes: 1,
            rss_bytes: Some((costs.memory_mib + 2) << 20),
            calls: Some(self.calls()),
            ended: Some(Vec::new()),
            ..PartyUse::empty(party)
        }
    }

    fn thread(self, name: &str, pid: u32, run_ns: u64) -> ThreadUse {
        ThreadUse {
            pid,
            tid: pid,
            began_ticks: None,
            name: name.into(),
            run_ns,
            user_ns: run_ns / 4,
            sys_ns: run_ns - run_ns / 4,
            run_delay_ns: Some(run_ns / 100),
            switches_voluntary: Some(self.responses),
            switches_involuntary: Some(self.responses / 100),
            faults_minor: Some(self.responses / 50),
            faults_major: Some(0),
            seen: Some(self.scheduler_record(run_ns)),
        }
    }

    /// Returns the scheduler record of a thread that ran for this time and waited for peers
    /// otherwise.
    fn scheduler_record(self, running_ns: u64) -> SchedulerRecord {
        let runnable_ns = running_ns / 100;
        let network_ns = self.lived_ns.saturating_sub(running_ns + runnable_ns);
        let states = StateTimes { running_ns, runnable_ns, network_ns, ..StateTimes::default() };
        SchedulerRecord { states, wakeups: self.responses, migrations: 0, modes: None }
    }

    /// Returns system calls: a read and a write per response, and a wait per four responses.
    fn calls(self) -> CallsUse {
        let call =
            |count, each| CallUse { count, returned: Some(count * each), ..CallUse::default() };
        let calls = [
            ("read", call(self.responses, 60)),
            ("writev", call(self.responses, 150)),
            ("epoll_wait", call(self.responses / 4, 4)),
        ];
        CallsUse {
            counted_ns: self.lived_ns,
            slices: self.lived_ns / (100 * MS),
            responses: Some(self.responses),
            by_name: calls.map(|(name, call)| (name.to_string(), call)).into(),
            ..CallsUse::default()
        }
    }
}

/// Returns the facts of the simulated machine.
#[must_use]
pub fn facts() -> Facts {
    Facts {
        cpu_model: Some("Simulated CPU".into()),
        cpus: CPUS as u32,
        online_cpus: Some(CPUS as u32),
        memory_bytes: Some(1 << 30),
        kernel: Some("6.0.0-sim".into()),
        cgroup: CgroupVersion::V2,
        tick_accounting: Some(false),
        dyno_version: "0.0.0".into(),
        ..Facts::default()
    }
}
