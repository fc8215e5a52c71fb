//! Tests servers whose threads and processes end at any instant: each reported value is correct or
//! empty.

use std::collections::BTreeMap;

use dyno_model::cpus::AllowedCpus;
use dyno_model::host::HostUse;
use dyno_model::sample::{
    CgroupUse, EndedThreads, Party, PartyUse, ProcessUse, SchedulerRecord, StateTimes, ThreadState,
    ThreadUse,
};
use dyno_model::{LoadRecord, Sample};

use super::{TICKS_S, UNSEEN_BIRTHS};
use crate::fixture::{self, MS};
use crate::server::watch::watch_record;
use crate::server::{ServerUse, server_use};

const TICK: u64 = 10 * MS;

/// Returns a thread of process `pid` with this run time. It has one context switch and two page
/// faults per millisecond.
fn thread(pid: u32, tid: u32, run_ms: u64) -> ThreadUse {
    ThreadUse {
        pid,
        tid,
        run_ns: run_ms * MS,
        run_delay_ns: Some(run_ms * MS),
        switches_voluntary: Some(run_ms),
        switches_involuntary: Some(0),
        faults_minor: Some(2 * run_ms),
        faults_major: Some(0),
        ..ThreadUse::default()
    }
}

/// Returns the totals of a process as the kernel reports them: times are rounded down to ticks.
fn process(pid: u32, run_ms: u64, children_ms: u64) -> ProcessUse {
    let ticks = |ms: u64| ms * MS / TICK * TICK;
    ProcessUse {
        pid,
        user_ns: ticks(run_ms / 2),
        sys_ns: ticks(run_ms - run_ms / 2),
        faults_minor: 2 * run_ms,
        children_user_ns: ticks(children_ms / 2),
        children_sys_ns: ticks(children_ms - children_ms / 2),
        children_faults_minor: 2 * children_ms,
        ..ProcessUse::default()
    }
}

fn sample(
    at_ms: u64,
    threads: Vec<ThreadUse>,
    each: Vec<ProcessUse>,
    group_ms: Option<u64>,
) -> Sample {
    let used = PartyUse {
        cgroup: group_ms.map(|ms| CgroupUse { cpu_ns: Some(ms * MS), ..CgroupUse::default() }),
        threads,
        each,
        ..PartyUse::empty(Party::SUBJECT)
    };
    Sample { at_ns: at_ms * MS, parties: vec![used], ..Sample::default() }
}

/// Returns the record of one second with 1,000 responses.
fn record(samples: Vec<Sample>) -> LoadRecord {
    LoadRecord { samples, ..fixture::record(1000) }
}

fn used(samples: Vec<Sample>) -> ServerUse {
    server_use(&record(samples), Party::SUBJECT, &AllowedCpus::any(1.0))
}

/// Returns the use of a server whose two connection threads end right before the last sample.
fn use_of_closed_connections(each: bool, grouped: bool) -> ServerUse {
    let at = |at_ms, threads: Vec<ThreadUse>, total_ms| {
        let each = if each { vec![process(1, total_ms, 0)] } else { Vec::new() };
        sample(at_ms, threads, each, grouped.then_some(total_ms))
    };
    used(vec![
        at(0, vec![thread(1, 1, 1), thread(1, 2, 50), thread(1, 3, 50)], 101),
        at(500, vec![thread(1, 1, 1), thread(1, 2, 300), thread(1, 3, 300)], 601),
        at(1000, vec![thread(1, 1, 1)], 1001),
    ])
}

#[test]
fn ended_threads_leave_counters_unknown() {
    for (each, grouped, cpu_s) in
        [(true, false, Some(0.9)), (false, false, None), (false, true, Some(0.9))]
    {
        let server = use_of_closed_connections(each, grouped);
        let got_s = server.cpus;
        assert_eq!(got_s.is_some(), cpu_s.is_some(), "{each} {grouped}");
        assert!(
            got_s.zip(cpu_s).is_none_or(|(got, want)| (got - want).abs() <= TICKS_S),
            "{got_s:?}"
        );
        assert_eq!((server.per_request.context_switches, server.run_delay_s), (None, None));
        assert_eq!((server.busiest_thread_utilisation, server.busy_threads), (None, None));
        assert_eq!(server.busiest_serving_utilisation, None);
        assert_eq!(server.others_cpu_s, None);
        let unread = server.unread_counters.unwrap();
        assert_eq!((unread.threads, unread.unknown.contains(&"CPU time")), (2, cpu_s.is_none()));
        // Totals of processes include the faults of ended threads.
        assert_eq!(server.page_faults_minor, each.then_some(1800));
    }
}

#[test]
fn children_are_counted_if_reaped() {
    let use_with = |children_ms| {
        used(vec![
            sample(
                0,
                vec![thread(1, 1, 10), thread(9, 9, 30)],
                vec![process(1, 10, 0), process(9, 30, 0)],
                None,
            ),
            sample(1000, vec![thread(1, 1, 20)], vec![process(1, 20, children_ms)], None),
        ])
    };
    let reaped = use_with(830);
    assert!((reaped.cpus.unwrap() - 0.81).abs() <= TICKS_S, "{:?}", reaped.cpus);
    assert_eq!(reaped.page_faults_minor, Some(1620));
    let ignored = use_with(0);
    assert_eq!(
        (ignored.cpus, ignored.page_faults_minor, ignored.cpu_us_per_request),
        (None, None, None)
    );
}

/// Processes that had 9 ms before the window (no tick), and are reaped in it.
#[test]
fn earlier_use_of_reaped_children_is_deducted_without_ticks() {
    let children = 2..22;
    let threads = children.clone().map(|pid| thread(pid, pid, 9));
    let each = children.map(|pid| process(pid, 9, 0));
    let server = used(vec![
        sample(
            0,
            [thread(1, 1, 100)].into_iter().chain(threads).collect(),
            [process(1, 100, 0)].into_iter().chain(each).collect(),
            None,
        ),
        sample(1000, vec![thread(1, 1, 300)], vec![process(1, 300, 20 * 14)], None),
    ]);
    // 200 ms of the parent, and 5 ms of each child.
    assert!((server.cpus.unwrap() - 0.3).abs() < 1e-9, "{:?}", server.cpus);
}

/// Another thread of the process calls execve(2). The first thread then has its run time.
#[test]
fn thread_that_executes_leaves_counters_of_threads_unknown() {
    let at = |at_ms, run_ms, total_ms, is_grouped: bool| {
        let thread = ThreadUse { began_ticks: Some(7), ..thread(1, 1, run_ms) };
        let process = ProcessUse { began_ticks: 7, ..process(1, total_ms, 0) };
        sample(at_ms, vec![thread], vec![process], is_grouped.then_some(total_ms))
    };
    let server = |run_ms, is_grouped| {
        used(vec![at(0, 5, 905, is_grouped), at(1000, run_ms, 1105, is_grouped)])
    };
    assert!((server(205, false).cpus.unwrap() - 0.2).abs() < 1e-9);
    assert_eq!(server(1100, false).cpus, None);
    let grouped = server(1100, true);
    assert!((grouped.cpus.unwrap() - 0.2).abs() < 1e-9);
    assert_eq!((grouped.busiest_thread_utilisation, grouped.run_delay_s), (None, None));
    assert!(grouped.by_thread_role.is_empty(), "{:?}", grouped.by_thread_role);
}

/// The kernel splits the use of short processes wrongly.
#[test]
fn split_of_short_children_is_unknown() {
    let user_s = |own_ms, children| {
        let at = |at_ms, own_ms, children_ms, births| Sample {
            host: Some(HostUse { births: Some(births), ..HostUse::default() }),
            ..sample(at_ms, vec![thread(1, 1, own_ms)], vec![process(1, own_ms, children_ms)], None)
        };
        used(vec![at(0, 0, 0, 0), at(1000, own_ms, 400, children)]).cpu_user_s
    };
    assert_eq!(user_s(200, 2000), None, "0.2 ms each");
    assert!(user_s(200, 4).is_some(), "100 ms each");
    assert!(user_s(500, 2000).is_some(), "the server itself used most of it");
}

/// Forty children with 22 ms each wait to be reaped. Their totals are rounded down to 20 ms.
#[test]
fn short_unreaped_processes_leave_cpu_time_unknown() {
    let use_with = |children: u32, run_ms: u64| {
        let dead = (0..children).map(|n| process(100 + n, run_ms, 0));
        let each = std::iter::once(process(1, 20, 0)).chain(dead).collect();
        used(vec![
            sample(0, vec![thread(1, 1, 10)], vec![process(1, 10, 0)], None),
            sample(1000, vec![thread(1, 1, 20)], each, None),
        ])
    };
    let short = use_with(40, 22);
    assert_eq!((short.cpus, short.cpu_us_per_request), (None, None));
    assert!(short.unread_counters.unwrap().unknown.contains(&"CPU time"));
    // A process that ended before the window does not affect it.
    let each = |run_ms| vec![process(1, run_ms, 0), process(100, 900, 0)];
    let before = used(vec![
        sample(0, vec![thread(1, 1, 10)], each(10), None),
        sample(1000, vec![thread(1, 1, 510)], each(510), None),
    ]);
    assert!((before.cpus.unwrap() - 0.5).abs() < 1e-9, "{:?}", before.cpus);
}

#[test]
fn unsampled_births_leave_counters_unknown() {
    let use_with = |births| {
        let mut samples = vec![
            sample(0, vec![thread(1, 1, 10)], vec![process(1, 10, 0)], None),
            sample(1000, vec![thread(1, 1, 110)], vec![process(1, 110, 0)], None),
        ];
        for (sample, births) in samples.iter_mut().zip([7, 7 + births]) {
            sample.host = Some(HostUse { births: Some(births), ..HostUse::default() });
        }
        used(samples)
    };
    let few = use_with(UNSEEN_BIRTHS as u64);
    assert!((few.cpus.unwrap() - 0.1).abs() < 1e-9 && few.unread_counters.is_none());
    let each_request = use_with(1000);
    assert_eq!((each_request.cpus, each_request.per_request.context_switches), (None, None));
}

/// The kernel does not add children to the totals of a process that ignores SIGCHLD.
#[test]
fn ignored_children_leave_cpu_time_unknown() {
    let known_values_with = |births: u64, ignores_children| {
        let each = |run_ms| vec![ProcessUse { ignores_children, ..process(1, run_ms, 0) }];
        let mut samples = vec![
            sample(0, vec![thread(1, 1, 10)], each(10), None),
            sample(1000, vec![thread(1, 1, 110)], each(110), None),
        ];
        for (sample, births) in samples.iter_mut().zip([7, 7 + births]) {
            sample.host = Some(HostUse { births: Some(births), ..HostUse::default() });
        }
        let record = watch_record(0, &samples[0], &samples[1]).unwrap();
        (record.cpus, record.page_faults_per_s, record.context_switches_per_s, used(samples).cpus)
    };
    for (births, ignores) in [(9, true), (50, false)] {
        let (cpus, faults, switches, trial_cpus) = known_values_with(births, ignores);
        assert!(cpus.is_some() && faults.is_some() && switches.is_some() && trial_cpus.is_some());
    }
    assert_eq!(known_values_with(10, true), (None, None, None, None));
}

#[test]
fn observed_thread_ends_leave_counters_known() {
    let ended = |threads, run_ms| {
        let mut threads_that_ended =
            EndedThreads { name: "C2 CompilerThre".into(), threads, ..EndedThreads::default() };
        threads_that_ended.seen.states.running_ns = run_ms * MS;
        threads_that_ended.seen.states.runnable_ns = run_ms * MS;
        threads_that_ended.seen.wakeups = threads;
        vec![threads_that_ended]
    };
    let mut samples = vec![
        sample(0, vec![thread(1, 1, 0)], Vec::new(), Some(0)),
        sample(1000, vec![thread(1, 1, 600)], Vec::new(), Some(640)),
    ];
    samples[0].party_use_mut(Party::SUBJECT).ended = Some(Vec::new());
    samples[1].party_use_mut(Party::SUBJECT).ended = Some(ended(1, 40));
    let server = used(samples.clone());
    assert_eq!(
        (server.context_switches_voluntary, server.busiest_thread_utilisation),
        (Some(600), Some(0.6))
    );
    assert!((server.run_delay_s.unwrap() - 0.64).abs() < 1e-9, "{:?}", server.run_delay_s);
    samples[1].party_use_mut(Party::SUBJECT).ended = Some(ended(100, 40));
    let server = used(samples);
    assert_eq!(server.context_switches_voluntary, None, "each of a hundred threads switched");
    assert!(server.run_delay_s.is_some() && server.busiest_thread_utilisation.is_some());
}

/// The probe's table had no space for some ended threads. The probes still see the living thread.
#[test]
fn ended_threads_without_space_are_in_totals() {
    let living = |run_ms: u64| {
        let states = StateTimes { running_ns: run_ms * MS, ..StateTimes::default() };
        let seen = SchedulerRecord { states, wakeups: run_ms, ..SchedulerRecord::default() };
        ThreadUse { seen: Some(seen), ..thread(1, 1, run_ms) }
    };
    let use_with = |each: fn(u64) -> Vec<ProcessUse>| {
        used(vec![
            sample(0, vec![living(10)], each(10), None),
            sample(500, vec![living(110), thread(1, 2, 100)], each(510), None),
            sample(1000, vec![living(210)], each(910), None),
        ])
    };
    let server = use_with(|total_ms| vec![process(1, total_ms, 0)]);
    assert!((server.cpus.unwrap() - 0.9).abs() <= TICKS_S, "{:?}", server.cpus);
    assert_eq!((server.wakeups, server.serving, server.run_delay_s), (None, None, None));
    assert!(server.unread_counters.is_some());
    assert_eq!(use_with(|_| Vec::new()).cpus, None);
}

/// Returns the lock share of a thread that waited for a lock for 900 ms and ran for 100 ms, next to
/// serving threads that ended; `None`: states are unknown.
fn lock_share_with_ended_threads(ended: u64, each_lived_ms: u64, each_ran_ms: u64) -> Option<f64> {
    let mut living = thread(1, 1, 100);
    let mut scheduler = SchedulerRecord { wakeups: 100, ..SchedulerRecord::default() };
    (scheduler.states.lock_ns, scheduler.states.running_ns) = (900 * MS, 100 * MS);
    living.seen = Some(scheduler);
    let mut samples = vec![
        sample(0, vec![thread(1, 1, 0)], Vec::new(), Some(0)),
        sample(1000, vec![living], Vec::new(), Some(100 + ended * each_ran_ms)),
    ];
    let mut gone =
        EndedThreads { name: "server".into(), threads: ended, ..EndedThreads::default() };
    gone.seen.states.running_ns = ended * each_ran_ms * MS;
    gone.seen.states.network_ns = ended * (each_lived_ms - each_ran_ms) * MS;
    samples[0].party_use_mut(Party::SUBJECT).ended = Some(Vec::new());
    samples[1].party_use_mut(Party::SUBJECT).ended = Some(vec![gone]);
    let server = used(samples);
    let is_empty =
        server.unread_counters.is_some_and(|unread| unread.unknown.contains(&"thread states"));
    assert_eq!(server.serving.is_none(), is_empty);
    server.serving.map(|serving| serving.share(ThreadState::Lock))
}

#[test]
fn long_or_busy_ended_threads_hide_states() {
    // Two short-lived threads, such as threads that respond to the checks of a load.
    assert_eq!(lock_share_with_ended_threads(2, 2, 1), Some(0.9));
    assert_eq!(lock_share_with_ended_threads(2, 400, 1), None, "they lived for 44 % of the time");
    assert_eq!(lock_share_with_ended_threads(10, 2, 2), None, "they used 17 % of the CPU time");
}

#[test]
fn shared_memory_is_held_by_server() {
    let mut samples = vec![sample(0, vec![thread(1, 1, 1)], Vec::new(), None); 2];
    samples[1].at_ns = 1000 * MS;
    for sample in &mut samples {
        let used = sample.party_use_mut(Party::SUBJECT);
        (used.rss_bytes, used.rss_anon_bytes, used.rss_shmem_bytes) =
            (Some(900), Some(30), Some(200));
    }
    let memory = |server: ServerUse| (server.memory_held_bytes, server.memory_shmem_bytes);
    assert_eq!(memory(used(samples.clone())), (Some(230), Some(200)));
    for sample in &mut samples {
        sample.party_use_mut(Party::SUBJECT).cgroup = Some(CgroupUse {
            memory_anon_bytes: Some(40),
            memory_file_bytes: Some(700),
            memory_shmem_bytes: Some(600),
            ..CgroupUse::default()
        });
    }
    assert_eq!(memory(used(samples)), (Some(640), Some(600)));
}

#[test]
fn huge_pages_are_held_with_and_without_group() {
    let held = |huge_bytes, cgroup: Option<CgroupUse>| {
        let mut samples = vec![sample(0, vec![thread(1, 1, 1)], Vec::new(), None); 2];
        samples[1].at_ns = 1000 * MS;
        for sample in &mut samples {
            let used = sample.party_use_mut(Party::SUBJECT);
            (used.rss_anon_bytes, used.rss_shmem_bytes) = (Some(30), Some(10));
            (used.huge_bytes, used.cgroup) = (huge_bytes, cgroup.clone());
        }
        used(samples).memory_held_bytes
    };
    let group = CgroupUse { memory_anon_bytes: Some(7), ..CgroupUse::default() };
    assert_eq!(held(Some(0), None), Some(40));
    assert_eq!(held(Some(500), None), Some(540));
    assert_eq!(held(Some(500), Some(group)), Some(517));
    assert_eq!(held(None, None), None);
}

/// The sum over several processes would include shared pages several times.
#[test]
fn resident_memory_of_several_processes_is_not_held() {
    let held = |processes: u32| {
        let mut samples = vec![sample(0, vec![thread(1, 1, 1)], Vec::new(), None); 2];
        samples[1].at_ns = 1000 * MS;
        for sample in &mut samples {
            let used = sample.party_use_mut(Party::SUBJECT);
            (used.rss_bytes, used.processes) = (Some(900), processes);
        }
        used(samples).memory_held_bytes
    };
    assert_eq!((held(1), held(2)), (Some(900), None));
}

/// A group of version 1 without `cpuacct` counts no CPU time.
#[test]
fn group_without_cpu_counter_uses_process_totals() {
    let cpus_with = |has_totals: bool, ends_thread: bool| {
        let at = |at_ms, threads, total_ms| {
            let each = if has_totals { vec![process(1, total_ms, 0)] } else { Vec::new() };
            let mut sample = sample(at_ms, threads, each, None);
            sample.party_use_mut(Party::SUBJECT).cgroup = Some(CgroupUse::default());
            sample
        };
        let last = match ends_thread {
            true => vec![thread(1, 1, 1)],
            false => vec![thread(1, 1, 1), thread(1, 2, 850)],
        };
        let first = at(0, vec![thread(1, 1, 1), thread(1, 2, 50)], 51);
        let last = at(1000, last, 851);
        watch_record(first.at_ns, &first, &last).unwrap().cpus
    };
    for (has_totals, ends_thread) in [(true, true), (true, false), (false, false)] {
        let cpus = cpus_with(has_totals, ends_thread);
        assert!((cpus.unwrap() - 0.8).abs() <= TICKS_S, "{has_totals} {ends_thread} {cpus:?}");
    }
}

/// Only reaped children used CPU time, and no living thread did.
#[test]
fn watch_record_splits_time_of_reaped_children() {
    let at = |at_ms: u64, children_ms: u64| {
        let main = ProcessUse { children_user_ns: children_ms * MS, ..process(1, 100, 0) };
        sample(at_ms, vec![thread(1, 1, 100)], vec![main], None)
    };
    let record = watch_record(0, &at(0, 0), &at(1000, 600)).unwrap();
    assert_eq!((record.cpus_user, record.cpus_sys), (Some(0.6), Some(0.0)));
}

#[test]
fn group_without_charged_memory_uses_processes() {
    let bytes = |group_bytes: u64| {
        let mut samples = vec![sample(0, vec![thread(1, 1, 1)], Vec::new(), None); 2];
        samples[1].at_ns = 1000 * MS;
        for sample in &mut samples {
            let used = sample.party_use_mut(Party::SUBJECT);
            (used.rss_bytes, used.rss_anon_bytes) = (Some(900), Some(30));
            used.cgroup =
                Some(CgroupUse { memory_anon_bytes: Some(group_bytes), ..CgroupUse::default() });
        }
        let used = used(samples);
        (used.memory_anon_bytes, used.memory_held_bytes)
    };
    assert_eq!(bytes(0), (Some(30), Some(30)));
    assert_eq!(bytes(7), (Some(7), Some(7)));
}

/// Pseudo-random numbers, the same in each run.
struct Random(u64);

impl Random {
    const fn next_below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A process of the simulated server.
#[derive(Default)]
struct Process {
    threads: BTreeMap<u32, u64>,
    total_ms: u64,
    children_ms: u64,
    is_sampled: bool,
}

/// A server whose threads and processes start and end at random.
struct Server {
    random: Random,
    processes: BTreeMap<u32, Process>,
    next: u32,
    /// Whether the first process waits for its children.
    reaps: bool,
    used_ms: u64,
}

impl Server {
    fn new(seed: u64) -> Server {
        let first = Process { threads: [(1, 0)].into(), ..Process::default() };
        let processes = [(1, first)].into();
        Server {
            random: Random(seed),
            processes,
            next: 2,
            reaps: seed.is_multiple_of(2),
            used_ms: 0,
        }
    }

    /// Simulates ten milliseconds.
    fn step(&mut self) {
        for process in self.processes.values_mut() {
            for run_ms in process.threads.values_mut() {
                let ran_ms = self.random.next_below(4);
                *run_ms += ran_ms;
                process.total_ms += ran_ms;
                self.used_ms += ran_ms;
            }
        }
        let pids: Vec<u32> = self.processes.keys().copied().collect();
        let pid = pids[self.random.next_below(pids.len() as u64) as usize];
        match self.random.next_below(12) {
            0 | 1 => self.start_thread(pid),
            2 => self.end_thread(pid),
            3 => {
                let pid = self.next;
                self.processes.insert(pid, Process::default());
                self.start_thread(pid);
            }
            4 => self.end_process(pid),
            _ => (),
        }
    }

    fn start_thread(&mut self, pid: u32) {
        self.processes.get_mut(&pid).unwrap().threads.insert(self.next, 0);
        self.next += 1;
    }

    fn end_thread(&mut self, pid: u32) {
        let threads = &mut self.processes.get_mut(&pid).unwrap().threads;
        let ends = threads.keys().copied().find(|tid| *tid != pid);
        ends.map(|tid| threads.remove(&tid));
    }

    fn end_process(&mut self, pid: u32) {
        // If no parent waits for children, a child that is in no sample cannot be detected.
        if pid == 1 || !self.reaps && !self.processes[&pid].is_sampled {
            return;
        }
        let ended = self.processes.remove(&pid).unwrap();
        if self.reaps {
            self.processes.get_mut(&1).unwrap().children_ms += ended.total_ms + ended.children_ms;
        }
    }

    fn sample(&mut self, at_ms: u64, is_grouped: bool) -> Sample {
        self.processes.values_mut().for_each(|process| process.is_sampled = true);
        let threads = self.processes.iter().flat_map(|(pid, process)| {
            process.threads.iter().map(|(tid, run_ms)| thread(*pid, *tid, *run_ms))
        });
        let each =
            self.processes.iter().map(|(pid, p)| self::process(*pid, p.total_ms, p.children_ms));
        sample(at_ms, threads.collect(), each.collect(), is_grouped.then_some(self.used_ms))
    }
}

#[test]
fn random_thread_ends_yield_truth_or_none() {
    let (mut known, mut unknown) = (0, 0);
    for seed in 0..600 {
        let is_grouped = seed % 3 == 0;
        let mut server = Server::new(seed);
        (0..20).for_each(|_| server.step());
        let mut samples = vec![server.sample(0, is_grouped)];
        let before_ms = server.used_ms;
        for step in 1..=100 {
            server.step();
            if step % 25 == 0 {
                samples.push(server.sample(step * 10, is_grouped));
            }
        }
        let truth_s = (server.used_ms - before_ms) as f64 / 1e3;
        let processes = samples[4].party_use(Party::SUBJECT).unwrap().each.len();
        // Each process has four totals, each rounded down to ticks.
        let tolerance_s = if is_grouped { 0.001 } else { 2.0 * TICKS_S * (processes + 1) as f64 };
        let least_s = truth_s * 0.98 - tolerance_s;
        let used = used(samples);
        let reported = [
            used.cpus,
            used.context_switches_voluntary.map(|n| n as f64 / 1e3),
            used.run_delay_s,
            used.page_faults_minor.map(|n| n as f64 / 2e3),
        ];
        for (index, reported_s) in reported.into_iter().enumerate() {
            let is_true =
                reported_s.is_none_or(|s| s >= least_s && s <= truth_s * 1.02 + tolerance_s);
            assert!(is_true, "seed {seed}, counter {index}: {reported_s:?} of {truth_s}");
            if reported_s.is_some() { known += 1 } else { unknown += 1 }
        }
    }
    assert!(known > 300 && unknown > 300, "{known} {unknown}");
}

/// Returns a server that used a clock tick of system time itself, in two samples. Children ended
/// whose end the probes saw. `children_ms`: CPU time of the children that the server waited for.
fn samples_with_children(observed_ms: u64, children_ms: u64) -> [Sample; 2] {
    [(0, 0), (1000, 1)].map(|(at_ms, share)| {
        let main = ThreadUse { sys_ns: 10 * MS * share, ..thread(1, 1, 10 * share) };
        let each = ProcessUse {
            user_ns: 0,
            sys_ns: 10 * MS * share,
            ..process(1, 10 * share, children_ms * share)
        };
        let mut sample = sample(at_ms, vec![main], vec![each], None);
        let running_ns = observed_ms * MS * share;
        sample.parties[0].ended = Some(vec![EndedThreads {
            name: "child".into(),
            threads: 20 * share,
            run_ns: Some(running_ns),
            ..EndedThreads::default()
        }]);
        sample
    })
}

/// CPU time is known from the probes, but only the totals of processes split that of children.
#[test]
fn split_without_ended_children_is_unknown() {
    let records = |observed_ms, children_ms| {
        let samples = samples_with_children(observed_ms, children_ms);
        (watch_record(0, &samples[0], &samples[1]).unwrap(), used(samples.to_vec()))
    };
    let (waited_for, waited_for_run) = records(400, 400);
    assert!((waited_for.cpus.unwrap() - 0.41).abs() < 1e-9);
    assert!((waited_for.cpus_user.unwrap() - 0.2).abs() < 1e-9, "{waited_for:?}");
    assert!((waited_for_run.cpu_user_s.unwrap() - 0.2).abs() < 1e-9, "{waited_for_run:?}");
    let (lost, lost_run) = records(400, 0);
    assert!((lost.cpus.unwrap() - 0.41).abs() < 1e-9);
    assert_eq!((lost.cpus_user, lost.cpus_sys), (None, None));
    assert_eq!((lost_run.cpu_user_s, lost_run.cpu_split_by), (None, None));
    assert!(lost_run.cpus.is_some() && lost_run.cpu_us_per_request.is_some());
    assert!(lost_run.unread_counters.unwrap().unknown.contains(&"user and system time"));
    // The known part does not show the split of the whole.
    let both = waited_for.merge(&lost);
    assert!(both.cpus.is_some());
    assert_eq!((both.cpus_user, both.cpus_sys), (None, None));
}

/// A process that joined had children before that were not counted.
#[test]
fn cpu_time_is_unknown_if_a_process_joined() {
    let [first, mut last] = samples_with_children(400, 400);
    last.parties[0].has_joined = true;
    let record = watch_record(0, &first, &last).unwrap();
    assert_eq!((record.cpus, record.cpus_user, record.context_switches_per_s), (None, None, None));
    assert_eq!(record.page_faults_per_s, None);
    assert_eq!(record.clone().merge(&record).cpus, None);
    assert!(record.by_thread_role.is_empty());
}

/// The group counts the CPU time of a joined process only from then on, but the threads and the
/// totals of the process include its earlier use.
#[test]
fn counters_of_threads_are_unknown_if_a_process_joined_a_group() {
    let first = sample(0, vec![thread(1, 1, 10)], vec![process(1, 10, 0)], Some(10));
    let threads = vec![thread(1, 1, 110), thread(2, 2, 700)];
    let each = vec![process(1, 110, 0), process(2, 700, 0)];
    let mut last = sample(1000, threads, each, Some(510));
    last.party_use_mut(Party::SUBJECT).has_joined = true;
    let record = watch_record(0, &first, &last).unwrap();
    assert_eq!(record.cpus, Some(0.5));
    assert_eq!((record.page_faults_per_s, record.context_switches_per_s), (None, None));
    assert_eq!((record.run_delay_s_per_s, record.busiest_thread_utilisation), (None, None));
}

/// Another thread has the number of a thread that ended.
#[test]
fn reused_thread_number_is_another_thread() {
    let with_start =
        |began_ticks, thread: ThreadUse| ThreadUse { began_ticks: Some(began_ticks), ..thread };
    let first = sample(0, vec![with_start(5, thread(1, 2, 500))], Vec::new(), Some(500));
    let last = sample(1000, vec![with_start(90, thread(1, 2, 600))], Vec::new(), Some(1100));
    let record = watch_record(0, &first, &last).unwrap();
    assert_eq!((record.cpus, record.busiest_thread_utilisation), (Some(0.6), Some(0.6)));
}
