//! Tests that the record of a load that was ended early shows whether something was cut off.

mod common;

use common::{MS, load_of, respond, start_server};
use dyno_lab::load::{LoadSpec, LoadStopReason, MonitoredLoad, Watch, run_together};
use dyno_model::plan::{Load, Step};
use dyno_model::{Interval, LoadRecord, Phase};

/// Returns a closed loop of two connections for 200 ms. The server responds to this many requests
/// of each.
fn spec(responses: usize) -> LoadSpec {
    let base = load_of(start_server(move |connection| respond(connection, responses)));
    let load = Load {
        requests: None,
        warmup_ns: 0,
        duration_ns: 200 * MS,
        interval_ns: 50 * MS,
        ..base.load
    };
    LoadSpec { step: Step { connections: 2, ..base.step }, load, ..base }
}

/// Ends its load once this many intervals of the window have ended.
struct EndsAfter(usize);

impl Watch for EndsAfter {
    fn interval(&mut self, interval: &Interval) {
        if interval.phase == Phase::Measured {
            self.0 = self.0.saturating_sub(1);
        }
    }

    fn stop(&mut self) -> Option<LoadStopReason> {
        (self.0 == 0).then_some(LoadStopReason::Stopped)
    }
}

fn load_until(responses: usize, intervals: usize) -> LoadRecord {
    let (spec, mut watch) = (spec(responses), EndsAfter(intervals));
    let mut loads = [MonitoredLoad { spec: &spec, watch: &mut watch }];
    run_together(&mut loads).unwrap().remove(0)
}

#[test]
fn load_ended_in_window_is_cut_short() {
    let record = load_until(usize::MAX, 2);
    assert!(record.cut_short, "{:?}", record.books);
}

#[test]
fn load_ended_in_drain_is_cut_short_if_requests_remain() {
    let record = load_until(10, 4);
    assert_eq!(record.window_ns, (0, 200 * MS));
    assert_eq!(record.books.in_flight_at_end, 2);
    assert!(record.cut_short, "{:?}", record.books);
}

#[test]
fn load_with_all_responses_is_not_cut_short() {
    let record = load_until(usize::MAX, 4);
    assert_eq!(record.books.in_flight_at_end, 0);
    assert!(!record.cut_short, "{:?}", record.books);
}
