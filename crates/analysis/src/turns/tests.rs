use dyno_archive::outcome::Outcome;
use dyno_archive::sample::{CgroupUse, PartyUse};

use super::*;
use crate::fixture;

const MS: u64 = 1_000_000;

/// Two rounds of two loads in turns of 400 ms, of which the first has the order A B B A, B A A B; A's view. In each quarter of
/// a turn A answers 10 requests, and 4 more right after its turn; each costs 1 ms. Where it is idle it uses `idle_ms` in each
/// quarter.
fn record(idle_ms: u64) -> LoadRecord {
    let slices = vec![(0, 400 * MS), (1200 * MS, 1600 * MS), (2000 * MS, 2400 * MS), (2400 * MS, 2800 * MS)];
    let mut record = LoadRecord {
        began_ns: 77 * MS,
        window_ns: (0, 3200 * MS),
        slices_ns: Some(slices.clone()),
        at_once: None,
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
        let answers = if is_own { 10 } else { 4 * u64::from(is_after) };
        let mut interval = Interval::new(Phase::Measured, start, end);
        (0..answers).for_each(|_| interval.outcomes.count(Outcome::Ok));
        record.intervals.push(interval);
        cpu_ns += answers * MS + u64::from(!is_own) * idle_ms * MS;
    }
    record.samples.push(sample(77 * MS + 3200 * MS, cpu_ns));
    record
}

fn sample(at_ns: u64, cpu_ns: u64) -> Sample {
    let cgroup = Some(CgroupUse { cpu_ns: Some(cpu_ns), ..CgroupUse::default() });
    let party = PartyUse { cgroup, ..PartyUse::nothing(Party::SUBJECT) };
    Sample { at_ns, parties: vec![party], ..Sample::default() }
}

#[test]
fn own_time_has_no_gaps_and_loses_no_answer() {
    let record = record(0);
    let own = in_own_time(&record);
    assert_eq!((own.window_ns, own.slices_ns.clone()), ((0, 1600 * MS), None));
    let answers = |record: &LoadRecord| record.intervals.iter().map(Interval::answers).sum::<u64>();
    assert_eq!((answers(&own), answers(&record)), (16 * 10 + 3 * 4, 16 * 10 + 3 * 4));
    assert_eq!(own.intervals.len(), 16);
    let edges: Vec<u64> = own.intervals.iter().flat_map(|i| [i.start_ns, i.end_ns]).collect();
    let expected: Vec<u64> = (0..16).flat_map(|k| [k * 100 * MS, (k + 1) * 100 * MS]).collect();
    assert_eq!(edges, expected);
    // The fourth quarter has what was still under way.
    assert_eq!(own.intervals[3].answers(), 14);
    let at: Vec<u64> = own.samples.iter().map(|sample| sample.at_ns - 77 * MS).collect();
    assert!(at.is_sorted_by(|a, b| a < b), "{at:?}");
    let used = cpu_between(own.samples.first().unwrap(), own.samples.last().unwrap(), Party::SUBJECT);
    assert_eq!(used, Some((16 * 10 + 3 * 4) * MS));
}

#[test]
fn a_load_that_had_all_the_time_stays_as_it_is() {
    let record = LoadRecord { slices_ns: None, ..record(0) };
    assert_eq!(in_own_time(&record).as_ref(), &record);
    assert_eq!(TurnsResult::new(&record, Party::SUBJECT), None);
}

#[test]
fn rounds_are_told_apart_and_edges_left_out() {
    let turns = TurnsResult::new(&record(0), Party::SUBJECT).unwrap();
    assert_eq!((turns.slice_s, turns.idle_cpus, turns.idle_share), (0.4, Some(0.0), Some(0.0)));
    let round = RoundResult { throughput_rps: Some(100.0), cpu_us_per_request: Some(1000.0) };
    assert_eq!(turns.rounds, [round, round]);
}

#[test]
fn what_a_server_does_in_others_turns_is_seen() {
    let turns = TurnsResult::new(&record(5), Party::SUBJECT).unwrap();
    assert_eq!((turns.idle_cpus, turns.idle_share), (Some(0.05), Some(0.5)));
}
