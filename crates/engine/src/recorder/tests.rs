use super::*;

#[test]
fn results_by_request_sum_to_interval() {
    const MS: u64 = 1_000_000;
    let began = Instant::default();
    let window = Window {
        warmup_ns: 10 * MS,
        duration_ns: Some(20 * MS),
        interval_ns: 20 * MS,
        drain_ns: 0,
    };
    let mut recorder = Recorder::new(began, window, 2);
    // One exchange of each request begins in the warm-up, and one in the window. All end in the
    // window.
    let exchanges: Vec<Exchange> = [(9, 0), (9, 1), (11, 0), (12, 1)]
        .map(|(at, request)| Exchange {
            sent: began.plus(at * MS),
            ..Exchange::new(began.plus(at * MS), request)
        })
        .into();
    for exchange in &exchanges {
        recorder.advance(exchange.intended);
        recorder.record_scheduled(exchange.intended);
        recorder.record_start(exchange.intended, exchange.intended);
    }
    for (exchange, outcome) in
        exchanges.iter().zip([Outcome::Ok, Outcome::Timeout, Outcome::Ok, Outcome::Ok])
    {
        recorder.record_end(exchange, outcome, began.plus(15 * MS), None);
    }
    recorder.finish(began.plus(30 * MS));
    let intervals = recorder.take_sealed();
    let measured = intervals.iter().find(|i| i.phase == Phase::Measured).unwrap();
    let parts: Vec<(u64, u64)> =
        measured.by_request.iter().map(|s| (s.outcomes.get(Outcome::Ok), s.carried_ok)).collect();
    assert_eq!(parts, [(1, 1), (1, 0)]);
    let responses = measured.correct_responses();
    assert_eq!(parts.iter().map(|(ok, carried)| ok + carried).sum::<u64>(), responses);
    // Only exchanges of the window have times.
    assert_eq!(measured.by_request[0].response.count(), 1);
}

/// A worker that learns late of the end of the window has already sealed the interval.
#[test]
fn window_ended_late_ends_with_last_interval() {
    const MS: u64 = 1_000_000;
    for (cut_ms, ends_ms) in [(29, 30), (30, 30), (31, 31), (35, 35), (12, 30), (5, 30)] {
        let began = Instant::default();
        let window = Window {
            warmup_ns: 10 * MS,
            duration_ns: Some(90 * MS),
            interval_ns: 10 * MS,
            drain_ns: 0,
        };
        let mut recorder = Recorder::new(began, window, 1);
        recorder.advance(began.plus(30 * MS));
        recorder.close_window(began.plus(cut_ms * MS));
        recorder.finish(began.plus(40 * MS));
        let measured = || recorder.sealed.iter().filter(|i| i.phase == Phase::Measured);
        let ends = measured().map(|interval| interval.end_ns).max();
        assert_eq!(ends, Some(ends_ms * MS), "ended at {cut_ms} ms");
        assert_eq!(recorder.window_end().ns_since(began), ends_ms * MS, "ended at {cut_ms} ms");
    }
}
