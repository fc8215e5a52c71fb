use dyno_model::cpus::AllowedCpus;
use dyno_model::host::{HostUse, PressureUse};
use dyno_model::outcome::Outcome;
use dyno_model::sample::{CgroupUse, OtherPartiesUse, PartyUse, ThreadUse};

use super::*;
use crate::fixture;
use crate::server::server_use;

const MS: u64 = 1_000_000;

/// Returns the record of load A in two rounds of turns of 400 ms with load B: A B B A, B A A B.
///
/// A responds to 10 requests in each quarter of a turn, and to 4 more right after its turn. Each
/// request costs 1 ms of CPU time. While idle, A uses `idle_ms` in each quarter.
fn record(idle_ms: u64) -> LoadRecord {
    let slices =
        vec![(0, 400 * MS), (1200 * MS, 1600 * MS), (2000 * MS, 2400 * MS), (2400 * MS, 2800 * MS)];
    let mut record = LoadRecord {
        began_ns: 77 * MS,
        window_ns: (0, 3200 * MS),
        slices_ns: Some(slices.clone()),
        concurrent_loads: None,
        ..fixture::record(0)
    };
    record.intervals.clear();
    record.samples.clear();
    let mut cpu_ns = 0;
    for k in 0..32 {
        let (start, end) = (k * 100 * MS, (k + 1) * 100 * MS);
        record.samples.push(sample(77 * MS + start, cpu_ns));
        let is_own = slices.iter().any(|(from, to)| (*from..*to).contains(&start));
        let is_after = slices.iter().any(|(_, to)| *to == start) && !is_own;
        let responses = if is_own { 10 } else { 4 * u64::from(is_after) };
        let mut interval = Interval::new(Phase::Measured, start, end);
        (0..responses).for_each(|_| interval.outcomes.count(Outcome::Ok));
        record.intervals.push(interval);
        cpu_ns += responses * MS + u64::from(!is_own) * idle_ms * MS;
    }
    record.samples.push(sample(77 * MS + 3200 * MS, cpu_ns));
    record
}

fn sample(at_ns: u64, cpu_ns: u64) -> Sample {
    let cgroup = Some(CgroupUse { cpu_ns: Some(cpu_ns), ..CgroupUse::default() });
    let party = PartyUse { cgroup, ..PartyUse::empty(Party::SUBJECT) };
    Sample { at_ns, parties: vec![party], ..Sample::default() }
}

#[test]
fn pace_is_rate_of_own_turns_by_round() {
    let mut record = record(0);
    assert_eq!(pace(&record), Some(vec![1.0, 1.0]));
    let is_late = |interval: &Interval| interval.start_ns >= 1600 * MS;
    for interval in record.intervals.iter_mut().filter(|interval| is_late(interval)) {
        let responses = interval.responses();
        (0..2 * responses).for_each(|_| interval.outcomes.count(Outcome::Ok));
    }
    assert_eq!(pace(&record), Some(vec![0.5, 1.5]), "three times as fast");
    record.intervals.retain(|interval| !is_late(interval));
    assert_eq!(pace(&record), None, "a round without responses");
    record.slices_ns = None;
    assert_eq!(pace(&record), None);
}

#[test]
fn own_time_has_no_gaps_and_all_responses() {
    let record = record(0);
    let converted = to_own_time(&record);
    assert_eq!((converted.window_ns, converted.slices_ns.clone()), ((0, 1600 * MS), None));
    let responses =
        |record: &LoadRecord| record.intervals.iter().map(Interval::responses).sum::<u64>();
    assert_eq!((responses(&converted), responses(&record)), (16 * 10 + 3 * 4, 16 * 10 + 3 * 4));
    assert_eq!(converted.intervals.len(), 16);
    let edges: Vec<u64> = converted.intervals.iter().flat_map(|i| [i.start_ns, i.end_ns]).collect();
    let expected: Vec<u64> = (0..16).flat_map(|k| [k * 100 * MS, (k + 1) * 100 * MS]).collect();
    assert_eq!(edges, expected);
    // The fourth quarter includes the requests that were still in flight.
    assert_eq!(converted.intervals[3].responses(), 14);
    let at: Vec<u64> = converted.samples.iter().map(|sample| sample.at_ns - 77 * MS).collect();
    assert!(at.is_sorted_by(|a, b| a < b), "{at:?}");
    let used = cpu_between(
        converted.samples.first().unwrap(),
        converted.samples.last().unwrap(),
        Party::SUBJECT,
    );
    assert_eq!(used, Some((16 * 10 + 3 * 4) * MS));
}

#[test]
fn load_without_turns_is_unchanged() {
    let record = LoadRecord { slices_ns: None, ..record(0) };
    assert_eq!(to_own_time(&record).as_ref(), &record);
    assert_eq!(TurnsResult::new(&record, Party::SUBJECT), None);
}

#[test]
fn rounds_are_separate_and_exclude_edges() {
    let turns = TurnsResult::new(&record(0), Party::SUBJECT).unwrap();
    assert_eq!((turns.slice_s, turns.idle_cpus, turns.idle_share), (0.4, Some(0.0), Some(0.0)));
    let round = RoundResult { throughput_rps: Some(100.0), cpu_us_per_request: Some(1000.0) };
    assert_eq!(turns.rounds, [round, round]);
}

#[test]
fn idle_use_in_others_turns_is_measured() {
    let turns = TurnsResult::new(&record(5), Party::SUBJECT).unwrap();
    assert_eq!((turns.idle_cpus, turns.idle_share), (Some(0.05), Some(0.5)));
}

/// A process that ended unread may have used CPU time in any turn.
#[test]
fn unknown_cpu_time_of_server_is_unknown_in_turns() {
    let record = record(5);
    let turns = TurnsResult::new(&record, Party::SUBJECT).unwrap();
    let mut server = server_use(&record, Party::SUBJECT, &AllowedCpus::any(2.0));
    assert!(server.cpus.is_some());
    assert_eq!(turns.with_cpu_of(&server), turns);
    (server.cpus, server.cpu_us_per_request) = (None, None);
    let unknown = turns.with_cpu_of(&server);
    assert_eq!((unknown.idle_cpus, unknown.idle_share, unknown.carried_share), (None, None, None));
    let round = RoundResult { throughput_rps: Some(100.0), cpu_us_per_request: None };
    assert_eq!(unknown.rounds, [round, round]);
}

/// Returns the record on a machine with two CPUs. These are the values per quarter:
///
/// - Always: another program uses 20 ms, the hypervisor takes 1 ms, and 3 threads are born.
/// - In own turns: dyno uses 5 ms, and the server's thread waits 2 ms for a CPU.
/// - In other loads' turns: dyno uses 7 ms in another thread, the other server uses 30 ms, and the
///   server's thread waits 9 ms for a CPU.
fn machine_record(idle_ms: u64) -> LoadRecord {
    let mut record = record(idle_ms);
    let turns = record.slices_ns.clone().unwrap();
    let (mut own_quarters, mut others_quarters) = (0, 0);
    for (quarters, sample) in record.samples.iter_mut().enumerate() {
        let at_ns = sample.at_ns - 77 * MS;
        let quarters = quarters as u64;
        let thread =
            |tid, run_ms| ThreadUse { pid: 1, tid, run_ns: run_ms * MS, ..ThreadUse::default() };
        let server = sample.party_use_mut(Party::SUBJECT);
        let waited = Some((2 * own_quarters + 9 * others_quarters) * MS);
        let server_ns = server.cgroup.as_ref().unwrap().cpu_ns.unwrap();
        server.threads = vec![ThreadUse { run_delay_ns: waited, ..thread(7, server_ns / MS) }];
        sample.party_use_mut(Party::GENERATOR).threads =
            vec![thread(1, 5 * own_quarters), thread(2, 7 * others_quarters)];
        sample.co_runners = Some(OtherPartiesUse {
            cpu_ns: Some(30 * others_quarters * MS),
            ..OtherPartiesUse::default()
        });
        let busy_ns = server_ns + (5 * own_quarters + 37 * others_quarters + 20 * quarters) * MS;
        let pressure = PressureUse {
            cpu_ns: Some((own_quarters + 50 * others_quarters) * MS),
            ..PressureUse::default()
        };
        sample.host = Some(HostUse {
            busy_ns,
            idle_ns: 199 * quarters * MS - busy_ns,
            steal_ns: quarters * MS,
            context_switches: 100 * own_quarters + 700 * others_quarters,
            births: Some(3 * quarters),
            interrupts: Some(10 * own_quarters + 90 * others_quarters),
            pressure: Some(pressure),
            ..HostUse::default()
        });
        match turns.iter().any(|(from, to)| (*from..*to).contains(&at_ns)) {
            true => own_quarters += 1,
            false => others_quarters += 1,
        }
    }
    record
}

#[test]
fn other_programs_count_only_in_own_turns() {
    for idle_ms in [0, 5] {
        let used = server_use(
            &to_own_time(&machine_record(idle_ms)),
            Party::SUBJECT,
            &AllowedCpus::any(1.0),
        );
        assert_eq!(used.window_s, 1.6);
        let others_s = used.others_cpu_s.unwrap();
        assert!((others_s - 16.0 * 0.02).abs() < 1e-9, "{others_s} s with {idle_ms} ms");
        assert!((used.stolen_s.unwrap() - 0.016).abs() < 1e-9, "{:?}", used.stolen_s);
        assert!((used.steal_share.unwrap() - 0.005).abs() < 3e-4, "{:?}", used.steal_share);
        assert!((used.run_delay_s.unwrap() - 0.032).abs() < 1e-9, "{:?}", used.run_delay_s);
        for interval in &used.intervals {
            assert!((interval.generator_cpu.unwrap() - 0.05).abs() < 1e-9, "{interval:?}");
        }
    }
}

/// The samples of a long load are so rare that no turn has one at both edges.
#[test]
fn other_programs_count_in_own_turns_with_few_samples() {
    let mut record = machine_record(0);
    let mut index = 0;
    record.samples.retain(|_| {
        index += 1;
        (index - 1) % 3 == 0 || index == 33
    });
    let others_s = server_use(&to_own_time(&record), Party::SUBJECT, &AllowedCpus::any(1.0))
        .others_cpu_s
        .unwrap();
    assert!((others_s - 16.0 * 0.02).abs() < 1e-6, "{others_s} s");
}

#[test]
fn machine_counters_exclude_others_turns() {
    let converted = to_own_time(&machine_record(5)).into_owned();
    let (first, last) = (converted.samples.first().unwrap(), converted.samples.last().unwrap());
    let growth = |pick: fn(&HostUse) -> Option<u64>| {
        Some(pick(last.host.as_ref()?)? - pick(first.host.as_ref()?)?)
    };
    assert_eq!(growth(|host| host.births), Some(16 * 3));
    assert_eq!(growth(|host| host.interrupts), Some(16 * 10));
    assert_eq!(growth(|host| Some(host.context_switches)), Some(16 * 100));
    assert_eq!(growth(|host| host.pressure?.cpu_ns), Some(16 * MS));
    assert_eq!(last.co_runners.as_ref().unwrap().cpu_ns, Some(0));
}

#[test]
fn unread_others_turns_make_other_programs_unknown() {
    let others_s_with = |change: fn(&mut Sample)| {
        let mut record = machine_record(0);
        // This sample is in the middle of other loads' turns.
        change(&mut record.samples[6]);
        server_use(&to_own_time(&record), Party::SUBJECT, &AllowedCpus::any(1.0)).others_cpu_s
    };
    assert!(others_s_with(|_| {}).is_some());
    assert_eq!(others_s_with(|sample| sample.host = None), None);
    assert_eq!(others_s_with(|sample| sample.co_runners = Some(OtherPartiesUse::default())), None);
}

/// Returns the use of load A's server over its own turns. Its quota is a tenth of a CPU.
fn own_use(record: &LoadRecord) -> ServerUse {
    let allowed = AllowedCpus::any(0.1);
    let server = server_use(&to_own_time(record), Party::SUBJECT, &allowed);
    with_own_rates(server, (record, Party::SUBJECT), &allowed)
}

/// The server uses its whole quota in its own turns, and three quarters of it while idle.
#[test]
fn utilisation_excludes_others_turns() {
    let idle_ns = 7_500_000;
    let mut record = machine_record(0);
    let turns = record.slices_ns.clone().unwrap();
    let mut others_quarters = 0;
    for sample in &mut record.samples {
        let at_ns = sample.at_ns - 77 * MS;
        let server = sample.party_use_mut(Party::SUBJECT);
        let cgroup = server.cgroup.as_mut().unwrap();
        cgroup.cpu_ns = cgroup.cpu_ns.map(|ns| ns + idle_ns * others_quarters);
        (cgroup.periods, cgroup.throttled_periods) =
            (Some(1 + at_ns / MS), Some(90 * others_quarters));
        let thread = &mut server.threads[0];
        thread.run_ns = cgroup.cpu_ns.unwrap();
        thread.faults_major = Some(50 * others_quarters);
        thread.switches_voluntary = Some(0);
        others_quarters += u64::from(!turns.iter().any(|(from, to)| (*from..*to).contains(&at_ns)));
    }
    let used = own_use(&record);
    let is_near = |value: Option<f64>, expected: f64| (value.unwrap() - expected).abs() < 1e-9;
    assert!(is_near(used.cpu_utilisation, 1.0) && is_near(used.cpus, 0.1), "{used:?}");
    assert!(is_near(used.busiest_thread_utilisation, 0.1), "{used:?}");
    assert!(is_near(used.busiest_serving_utilisation, 0.1), "{used:?}");
    assert_eq!((used.busy_threads, used.sleepless_threads), (Some(0), Some(0)));
    assert_eq!(used.page_faults_major_per_s(), Some(0.0));
    assert_eq!(used.throttling.unwrap().throttled_periods, 0);
    assert!(used.intervals.iter().all(|i| i.cpu.is_none_or(|cpus| cpus < 0.1 + 1e-9)));
    assert!(used.intervals.iter().any(|i| i.cpu.is_some()));
    // CPU time per response includes all of the server's CPU time.
    let all_s = (16 * 10 + 3 * 4) as f64 / 1e3 + 16.0 * idle_ns as f64 / 1e9;
    assert!(is_near(used.cpu_s(), all_s), "{used:?}");
    assert!(is_near(used.cpu_us_per_request, all_s * 1e6 / f64::from(16 * 10 + 3 * 4)));
}

/// Each pair of samples of a long load may contain turns of several loads.
#[test]
fn utilisation_is_unknown_without_samples_of_own_turns() {
    let mut record = machine_record(5);
    let mut index = 0;
    record.samples.retain(|_| {
        index += 1;
        (index - 1) % 8 == 0
    });
    let used = own_use(&record);
    assert_eq!((used.cpu_utilisation, used.cpus, used.throttling), (None, None, None));
    assert_eq!((used.busiest_thread_utilisation, used.busiest_serving_utilisation), (None, None));
    assert_eq!((used.busy_threads, used.sleepless_threads), (None, None));
    assert!(used.cpu_us_per_request.is_some() && used.cpu_s().is_some());
    let without_turns = LoadRecord { slices_ns: None, ..record };
    assert!(own_use(&without_turns).cpu_utilisation.is_some());
}

/// Garbage is collected in half of the time of own turns, and in all of the time of others' turns.
/// The runtime is read every 100 or 500 ms, in turns of 400 ms.
#[test]
fn runtime_growth_excludes_others_turns() {
    let metrics = |step: usize| {
        let mut record = machine_record(0);
        let turns = record.slices_ns.clone().unwrap();
        let mut gc_s = 0.0;
        let reading = |k: u64| {
            let at_ns = k * 100 * MS;
            let values = [("gc_seconds_total".to_string(), gc_s), ("heap_bytes".to_string(), 7.0)];
            let is_own = turns.iter().any(|(from, to)| (*from..*to).contains(&at_ns));
            gc_s += if is_own { 0.05 } else { 0.1 };
            RuntimeReading {
                at_ns: 77 * MS + at_ns,
                processes: 1,
                values: values.into(),
                ..RuntimeReading::default()
            }
        };
        record.runtime = (0..=32).map(reading).step_by(step).collect();
        own_use(&record).runtime.unwrap()
    };
    let often = metrics(1);
    assert!((often.per_second["gc_seconds_total"] - 0.5).abs() < 1e-9, "{often:?}");
    assert!((often.between_s - 1.6).abs() < 1e-9 && !often.lacks_own_growth, "{often:?}");
    let seldom = metrics(5);
    assert!(seldom.per_second.is_empty() && seldom.lacks_own_growth, "{seldom:?}");
    assert_eq!(seldom.highest["heap_bytes"], 7.0);
}
