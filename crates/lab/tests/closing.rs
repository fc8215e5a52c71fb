//! Tests that the closing sample is taken while the connections are open, because a server may end
//! threads with its connections.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use common::{MS, load_of, respond, start_server};
use dyno_lab::load::{Edge, LoadSpec, LoadStopReason, MonitoredLoad, Watch, run_together};
use dyno_model::plan::{Load, Step};
use dyno_model::{Interval, LoadRecord, Sample};

/// Starts a server whose threads end with their connections. `open`: number of threads.
fn server(open: &Arc<AtomicU32>) -> SocketAddr {
    let open = Arc::clone(open);
    start_server(move |connection| {
        open.fetch_add(1, Ordering::SeqCst);
        respond(connection, usize::MAX);
        open.fetch_sub(1, Ordering::SeqCst);
    })
}

/// Returns a load of three connections on two workers. `requests`: number of requests, which
/// replaces the duration.
fn spec(open: &Arc<AtomicU32>, requests: Option<u64>) -> LoadSpec {
    let base = load_of(server(open));
    let load = Load {
        requests,
        warmup_ns: 0,
        duration_ns: 200 * MS,
        interval_ns: 50 * MS,
        threads: 2,
        ..base.load
    };
    LoadSpec { step: Step { connections: 3, ..base.step }, load, ..base }
}

/// Records how many connections each server has some time after the closing sample.
struct Counts {
    opens: Vec<Arc<AtomicU32>>,
    at_closing: Vec<Vec<u32>>,
    /// Ends its load after this many intervals.
    ends_after: Option<u32>,
}

impl Watch for Counts {
    fn sample(&mut self, edge: Edge) -> Option<Sample> {
        if edge == Edge::Closes {
            // Only a generator that does not wait closes connections in this time.
            thread::sleep(Duration::from_millis(50));
            let opens = self.opens.iter().map(|open| open.load(Ordering::SeqCst));
            self.at_closing.push(opens.collect());
        }
        None
    }

    fn interval(&mut self, _: &Interval) {
        self.ends_after = self.ends_after.map(|remaining| remaining.saturating_sub(1));
    }

    fn stop(&mut self) -> Option<LoadStopReason> {
        (self.ends_after == Some(0)).then_some(LoadStopReason::Stopped)
    }
}

/// Runs loads at the same time, each with a separate server. Returns the counts at each closing
/// sample.
fn run(loads: &[(Option<u64>, Option<u32>)]) -> (Vec<LoadRecord>, Vec<Vec<u32>>) {
    let opens: Vec<Arc<AtomicU32>> = loads.iter().map(|_| Arc::default()).collect();
    let specs: Vec<LoadSpec> =
        loads.iter().zip(&opens).map(|((requests, _), open)| spec(open, *requests)).collect();
    let watch = |(_, ends_after): &(Option<u64>, Option<u32>)| Counts {
        opens: opens.clone(),
        at_closing: Vec::new(),
        ends_after: *ends_after,
    };
    let mut watches: Vec<Counts> = loads.iter().map(watch).collect();
    let mut watched: Vec<MonitoredLoad<'_>> =
        specs.iter().zip(&mut watches).map(|(spec, watch)| MonitoredLoad { spec, watch }).collect();
    let records = run_together(&mut watched).unwrap();
    (records, watches.into_iter().flat_map(|watch| watch.at_closing).collect())
}

#[test]
fn closing_sample_includes_all_connections() {
    assert_eq!(run(&[(None, None)]).1, [[3]]);
    assert_eq!(run(&[(None, None), (None, None)]).1, [[3, 3], [3, 3]]);
}

#[test]
fn load_without_duration_is_sampled_before_it_closes() {
    let (records, at_closing) = run(&[(Some(500), None)]);
    assert_eq!((records[0].books.completed, at_closing), (500, vec![vec![3]]));
}

#[test]
fn load_that_is_cut_is_sampled_before_it_closes() {
    let (records, at_closing) = run(&[(None, Some(2))]);
    assert!(records[0].books.balance());
    assert_eq!(at_closing, [[3]]);
}
