//! Tests that loads that run together begin at the same time, alternate in slices, and end
//! together.

mod common;

use dyno_model::plan::{Load, Step};

use common::{MS, load_of, respond, start_server};
use dyno_lab::load::{LoadSpec, LoadStopReason, MonitoredLoad, Sharing, Watch, run_together};
use dyno_model::{Interval, LoadRecord, Phase};

/// Returns one of two loads that alternate: one round of warm-up, and six measured rounds.
fn spec(load_index: u32) -> LoadSpec {
    let slice_ns = 40 * MS;
    let base = load_of(start_server(|connection| respond(connection, usize::MAX)));
    LoadSpec {
        step: Step { connections: 2, ..base.step },
        load: Load {
            requests: None,
            warmup_ns: 2 * slice_ns,
            duration_ns: 12 * slice_ns,
            ..base.load
        },
        sharing: Sharing::Turns { slice_ns, loads: 2, index: load_index, seed: 5 },
        ..base
    }
}

/// Ends its load after this many intervals; `None`: never.
struct EndsAfter(Option<u32>);

impl Watch for EndsAfter {
    fn interval(&mut self, _: &Interval) {
        self.0 = self.0.map(|remaining| remaining.saturating_sub(1));
    }

    fn stop(&mut self) -> Option<LoadStopReason> {
        (self.0 == Some(0)).then_some(LoadStopReason::Stopped)
    }
}

fn run(ends_after: [Option<u32>; 2]) -> Vec<(LoadSpec, LoadRecord)> {
    let specs = [spec(0), spec(1)];
    let [mut first, mut second] = ends_after.map(EndsAfter);
    let mut loads = [
        MonitoredLoad { spec: &specs[0], watch: &mut first },
        MonitoredLoad { spec: &specs[1], watch: &mut second },
    ];
    let records = run_together(&mut loads).unwrap();
    specs.into_iter().zip(records).collect()
}

#[test]
fn loads_begin_at_once_and_alternate() {
    let ran = run([None, None]);
    assert_eq!(ran[0].1.began_ns, ran[1].1.began_ns);
    for (spec, record) in ran {
        assert!(record.books.balance(), "{:?}", record.books);
        assert!(!record.cut_short && record.connections.opened == 2, "{:?}", record.connections);
        let load_turns = spec.sharing.slices().unwrap().slices_between(0, 2_000 * MS);
        let is_own = |interval: &&Interval| {
            load_turns.iter().any(|(from, to)| (*from..*to).contains(&interval.start_ns))
        };
        let loading = record.intervals.iter().filter(|interval| interval.phase != Phase::Drain);
        let (inside, outside): (Vec<_>, Vec<_>) = loading.partition(is_own);
        assert!(inside.iter().map(|interval| interval.started).sum::<u64>() > 0);
        assert_eq!(outside.iter().map(|interval| interval.started).sum::<u64>(), 0);
    }
}

#[test]
fn early_end_of_one_load_ends_other() {
    for (_, record) in run([None, Some(8)]) {
        assert!(record.cut_short && record.server_failure.is_none());
        assert!(record.books.balance(), "{:?}", record.books);
    }
}
