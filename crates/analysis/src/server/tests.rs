//! Tests the use of a server against samples made by hand.

use dyno_model::host::HostUse;
use dyno_model::sample::{PartyUse, ThreadUse};

use super::*;
use crate::fixture::record_with_threads;

#[test]
fn unreadable_server_has_no_cpu_time() {
    let mut record = record_with_threads(&[(500, 0)]);
    record.samples.iter_mut().for_each(|s| s.party_use_mut(Party::SUBJECT).cgroup = None);
    let used = |record: &LoadRecord| {
        let server = server_use(record, Party::SUBJECT, &AllowedCpus::any(1.0));
        (server.cpu_utilisation, server.intervals[0].cpu)
    };
    assert_eq!(used(&record), (Some(0.5), Some(0.5)));
    record.samples.iter_mut().for_each(|s| s.party_use_mut(Party::SUBJECT).threads.clear());
    assert_eq!(used(&record), (None, None));
}

#[test]
fn throttling_is_share_of_periods() {
    let server =
        server_use(&record_with_threads(&[(500, 0)]), Party::SUBJECT, &AllowedCpus::any(1.0));
    assert_eq!(server.throttling, Some(Throttling { periods: 10, throttled_periods: 4 }));
    assert_eq!((server.throttling.unwrap().share(), server.throttled_s), (0.4, Some(1.6)));
}

const MS: u64 = 1_000_000;

fn thread(name: &str, run_user_sys_delay_ms: [u64; 4], switches: [u64; 2]) -> ThreadUse {
    let [run, user, sys, delay] = run_user_sys_delay_ms.map(|ms| ms * MS);
    let tid = name.len() as u32;
    ThreadUse {
        tid,
        name: name.into(),
        run_ns: run,
        user_ns: user,
        sys_ns: sys,
        run_delay_ns: Some(delay),
        switches_voluntary: Some(switches[0]),
        switches_involuntary: Some(switches[1]),
        ..ThreadUse::default()
    }
}

/// Counters of a control group: CPU time in milliseconds, periods of its quota, memory in
/// megabytes.
fn cgroup_counters(
    user_sys_throttled_ms: [u64; 3],
    periods: [u64; 2],
    memory: [u64; 4],
) -> CgroupUse {
    let [user, sys, throttled] = user_sys_throttled_ms.map(|ms| ms * MS);
    let [all, peak, anon, file] = memory.map(|mb| Some(mb * 1_000_000));
    CgroupUse {
        cpu_ns: Some(user + sys),
        cpu_user_ns: Some(user),
        cpu_sys_ns: Some(sys),
        periods: Some(periods[0]),
        throttled_periods: Some(periods[1]),
        throttled_ns: Some(throttled),
        memory_bytes: all,
        memory_peak_bytes: peak,
        memory_anon_bytes: anon,
        memory_file_bytes: file,
        ..CgroupUse::default()
    }
}

/// Returns a sample at `at_s` seconds that took `took_ms`, with counters of the subject, the
/// generator's only thread and the machine.
fn sample_at(
    (at_s, took_ms): (u64, u64),
    subject: (CgroupUse, Vec<ThreadUse>, u64),
    generator_ms: u64,
    busy_idle_steal_ms: [u64; 3],
) -> Sample {
    let [busy_ns, idle_ns, steal_ns] = busy_idle_steal_ms.map(|ms| ms * MS);
    let (cgroup, threads, rss_mb) = subject;
    let server = PartyUse {
        processes: threads.len() as u32 - 1,
        cgroup: Some(cgroup),
        threads,
        rss_bytes: Some(rss_mb * 1_000_000),
        ..PartyUse::empty(Party::SUBJECT)
    };
    let generator = PartyUse {
        threads: vec![thread("g", [generator_ms, 0, 0, 0], [0, 0])],
        ..PartyUse::empty(Party::GENERATOR)
    };
    Sample {
        co_runners: None,
        at_ns: at_s * 1000 * MS,
        took_ns: took_ms * MS,
        delayed_ns: 0,
        parties: vec![server, generator],
        host: Some(HostUse { busy_ns, idle_ns, steal_ns, ..HostUse::default() }),
    }
}

/// Returns a record with a window from 11 s to 13 s and 1,000 responses. It has one sample per
/// second in the window, and one before and after it.
fn example_record() -> LoadRecord {
    let mut record = crate::fixture::record(1000);
    (record.began_ns, record.window_ns) = (10_000 * MS, (1000 * MS, 3000 * MS));
    (record.intervals[0].start_ns, record.intervals[0].end_ns) = record.window_ns;
    let first = [
        thread("main", [1000, 600, 400, 10], [100, 10]),
        thread("C2 CompilerThre", [200, 200, 0, 0], [0, 0]),
    ];
    let second = [
        thread("main", [1400, 900, 500, 40], [150, 12]),
        thread("C2 CompilerThre", [300, 300, 0, 20], [5, 1]),
    ];
    // The last thread started between the second and the third sample.
    let third = [
        thread("main", [2200, 1500, 700, 110], [300, 30]),
        thread("C2 CompilerThre", [700, 700, 0, 50], [15, 5]),
        thread("worker", [300, 100, 200, 20], [5, 2]),
    ];
    let fourth = [thread("main", [2700, 1800, 900, 130], [330, 40])];
    let fourth = [&fourth[..], &third[1..]].concat();
    let third = third.into();
    record.samples = vec![
        sample_at(
            (9, 500),
            (cgroup_counters([0; 3], [0; 2], [900; 4]), first.clone().into(), 900),
            0,
            [0; 3],
        ),
        sample_at(
            (11, 1),
            (cgroup_counters([900, 400, 5], [10, 1], [50, 70, 30, 10]), first.into(), 40),
            100,
            [2000, 6000, 0],
        ),
        sample_at(
            (12, 2),
            (cgroup_counters([1300, 600, 5], [20, 1], [90, 95, 60, 12]), second.into(), 80),
            300,
            [3000, 9000, 0],
        ),
        sample_at(
            (13, 4),
            (cgroup_counters([3300, 1000, 25], [30, 6], [80, 100, 50, 11]), third, 70),
            600,
            [6100, 9500, 400],
        ),
        sample_at(
            (15, 500),
            (cgroup_counters([3900, 1400, 65], [50, 8], [900; 4]), fourth, 900),
            1000,
            [9000, 9900, 900],
        ),
    ];
    record
}

fn assert_near(pairs: &[(&str, Option<f64>, f64)]) {
    for (name, actual, expected) in pairs {
        let is_near =
            actual.is_some_and(|actual| (actual - expected).abs() <= 1e-9 * expected.abs());
        assert!(is_near, "{name}: {actual:?} and not {expected}");
    }
}

#[test]
fn server_use_is_between_samples_at_window_edges() {
    let server = server_use(&example_record(), Party::SUBJECT, &AllowedCpus::any(4.0));
    assert_near(&[
        ("window", Some(server.window_s), 2.0),
        ("user", server.cpu_user_s, 2.4),
        ("sys", server.cpu_sys_s, 0.6),
        ("CPUs", server.cpus, 1.5),
        ("per request", server.cpu_us_per_request, 3000.0),
        ("user per request", server.per_request.cpu_user_us, 2400.0),
        ("sys per request", server.per_request.cpu_sys_us, 600.0),
        ("allowed", server.cpu_allowed_s, 8.0),
        ("utilisation", server.cpu_utilisation, 0.375),
        ("throttled", server.throttled_s, 0.02),
        ("memory and time", server.memory_mb_s_per_request, 60.0 * 2.0 / 1000.0),
        ("busiest", server.busiest_thread_utilisation, 0.6),
        ("others", server.others_cpu_s, 4.1 - 0.5 - 3.0),
        ("looking", server.probe_s, 0.007),
        ("stolen", server.steal_share, 0.05),
        ("compiled", server.role_share("jit"), 0.5 / 3.0),
    ]);
    assert_eq!(server.throttling, Some(Throttling { periods: 20, throttled_periods: 5 }));
    let mb = |bytes: Option<u64>| bytes.map(|bytes| bytes / 1_000_000);
    let memory = [
        server.memory_peak_bytes,
        server.memory_anon_bytes,
        server.memory_file_bytes,
        server.rss_bytes,
    ];
    assert_eq!(memory.map(mb), [Some(100), Some(60), Some(12), Some(80)], "the highest within");
    assert_eq!(mb(server.memory_held_bytes), Some(60), "anonymous memory");
    assert_eq!((server.threads, server.processes), (Some(3), Some(2)));
    let roles: Vec<_> =
        server.by_thread_role.iter().map(|(name, role)| (*name, role.threads)).collect();
    // The group used one second more than its living threads, so threads ended. Only their CPU time
    // is known.
    let unread = server.unread_counters.as_ref().unwrap();
    assert_eq!(unread.unknown, ["run delay", "context switches", "thread states"]);
    assert_eq!(
        (server.run_delay_s, server.context_switches_voluntary, server.busy_threads),
        (None, None, None)
    );
    assert_eq!(roles, [("jit", 1), ("unattributed", 0), ("work", 2)]);
    let work = &server.by_thread_role["work"];
    assert_near(&[("work", Some(work.cpu_s), 1.5)]);
    assert_eq!(work.run_delay_s, None);
}

#[test]
fn server_intervals_are_rates_between_samples() {
    let intervals = server_use(&example_record(), Party::SUBJECT, &AllowedCpus::any(4.0)).intervals;
    assert_eq!(intervals.len(), 4);
    let [second, last] = [&intervals[1], &intervals[3]];
    assert_near(&[
        ("start", Some(second.start_s), 1.0),
        ("end", Some(second.end_s), 2.0),
        ("cpu", second.cpu, 0.6),
        ("generator", second.generator_cpu, 0.2),
        ("throttled", second.throttled_s, 0.0),
        // The last interval takes 2 s.
        ("start", Some(last.start_s), 3.0),
        ("end", Some(last.end_s), 5.0),
        ("cpu", last.cpu, 0.5),
        ("user", last.cpu_user, 0.3),
        ("sys", last.cpu_sys, 0.2),
        ("generator", last.generator_cpu, 0.2),
        ("throttled", last.throttled_s, 0.04),
    ]);
    // The threads of the group have fewer counters than the group.
    assert_eq!((second.run_delay_s, second.context_switches_per_s), (None, None));
    let memory = (second.memory_bytes, second.memory_anon_bytes, second.memory_file_bytes);
    assert_eq!(memory, (Some(90_000_000), Some(60_000_000), Some(12_000_000)));
    assert_eq!((second.threads, last.threads), (2, 3));
}

#[test]
fn server_use_without_group_is_of_threads() {
    let mut record = example_record();
    record.samples.iter_mut().for_each(|s| s.party_use_mut(Party::SUBJECT).cgroup = None);
    let held_bytes = |record: &LoadRecord| {
        server_use(record, Party::SUBJECT, &AllowedCpus::any(4.0)).memory_held_bytes
    };
    assert_eq!(held_bytes(&record), None, "the memory of several processes at the end is unknown");
    let closing = record.samples[3].party_use_mut(Party::SUBJECT);
    (closing.rss_anon_bytes, closing.rss_shmem_bytes) = (Some(60_000_000), Some(10_000_000));
    let server = server_use(&record, Party::SUBJECT, &AllowedCpus::any(4.0));
    // 1.2 and 0.5 and 0.3 s; 0.9 and 0.5 and 0.1 s of it in user mode.
    assert_near(&[
        ("user", server.cpu_user_s, 1.5),
        ("sys", server.cpu_sys_s, 0.5),
        ("memory and time", server.memory_mb_s_per_request, 80.0 * 2.0 / 1000.0),
        ("waited", server.run_delay_s, 0.17),
        ("waited per request", server.per_request.run_delay_us, 170.0),
        ("switches per request", server.per_request.context_switches, 0.247),
        ("work waited", server.by_thread_role["work"].run_delay_s, 0.12),
        ("waited in the second", server.intervals[1].run_delay_s, 0.05),
        ("switches in the second", server.intervals[1].context_switches_per_s, 58.0),
        ("switches in the last", server.intervals[3].context_switches_per_s, 20.0),
    ]);
    let switches = (server.context_switches_voluntary, server.context_switches_involuntary);
    assert_eq!((switches, server.busy_threads), ((Some(220), Some(27)), Some(2)));
    assert_eq!((server.memory_anon_bytes, server.throttling), (None, None));
    assert_eq!(server.memory_held_bytes, Some(80_000_000));
    assert_eq!(server.intervals[1].memory_anon_bytes, Some(80_000_000));
    let [first, last] = [&record.samples[1], &record.samples[3]];
    let used = UseBetweenSamples::from_samples(Party::SUBJECT, first, last).unwrap();
    assert_near(&[
        ("seconds", Some(used.seconds), 2.0),
        ("cpu", used.cpu_s, 2.0),
        ("jit", used.jit_s, 0.5),
    ]);
    // The kernel's tick sampled neither user nor system time.
    for sample in &mut record.samples {
        sample
            .party_use_mut(Party::SUBJECT)
            .threads
            .iter_mut()
            .for_each(|t| (t.user_ns, t.sys_ns) = (0, 0));
    }
    let server = server_use(&record, Party::SUBJECT, &AllowedCpus::any(4.0));
    assert_eq!((server.per_request.cpu_user_us, server.per_request.cpu_sys_us), (None, None));
    assert_near(&[
        ("sys", server.cpu_sys_s, 2.0),
        ("per request", server.cpu_us_per_request, 2000.0),
    ]);
}

#[test]
fn server_quotients_without_divisor_are_none() {
    let mut record = example_record();
    record.intervals.clear();
    let server = server_use(&record, Party::SUBJECT, &AllowedCpus::any(4.0));
    assert_eq!((server.cpu_us_per_request, server.memory_mb_s_per_request), (None, None));
    let clear_threads = |s: &mut Sample| s.party_use_mut(Party::SUBJECT).threads.clear();
    record.samples.iter_mut().for_each(clear_threads);
    let server = server_use(&record, Party::SUBJECT, &AllowedCpus::any(4.0));
    assert_eq!(
        (server.busy_threads, server.threads, server.role_share("jit")),
        (None, Some(0), None)
    );
    // With all counters of the machine at 0 the share of steal time is unknown.
    record.samples.iter_mut().for_each(|s| s.host = Some(HostUse::default()));
    assert_eq!(server_use(&record, Party::SUBJECT, &AllowedCpus::any(4.0)).steal_share, None);
    // A window without length has no use.
    record.window_ns = (1000 * MS, 1000 * MS);
    assert_eq!(server_use(&record, Party::SUBJECT, &AllowedCpus::any(4.0)), ServerUse::default());
}
