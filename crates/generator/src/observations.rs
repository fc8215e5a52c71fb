//! Collects the observations of a load: merges the workers' intervals, and decides when the server
//! is sampled.

use dyno_engine::Window;
use dyno_engine::slices::Slices;
use dyno_model::interval::MAX_INTERVALS;
use dyno_model::{Interval, Phase, Sample};

use super::watch::Edge;
use crate::limits::MAX_SAMPLES;

/// The merged intervals of all workers and the samples of the server. The number of both is
/// limited, so that memory does not grow with the length of a load.
#[derive(Debug)]
pub(super) struct Observations {
    window: Window,
    merged: Vec<Interval>,
    /// The drain (wait for the last responses) of all workers that have drained so far. The drain
    /// is reported after all other intervals, because other workers may still load the server.
    /// `None`: no worker has drained.
    drain: Option<Interval>,
    progress: Vec<WorkerProgress>,
    /// Number of merged intervals that every worker has reported.
    reported_intervals: usize,
    samples: Vec<Sample>,
    /// Index of the sample that was taken as the window opened.
    opening_sample: Option<usize>,
    /// Time of the next sample, nanoseconds since the load began; `None`: no more samples.
    next_sample_ns: Option<u64>,
    /// The turns of the load; `None`: the load does not take turns.
    slices: Option<Slices>,
    /// Time since the load began at which it ended early, nanoseconds. `None`: no early end.
    ended_ns: Option<u64>,
    /// Whether the closing sample still lacks the readings that take long.
    is_closing_sample_incomplete: bool,
}

/// How much of a worker's load is covered by the intervals that it has reported.
#[derive(Clone, Copy, Debug, Default)]
struct WorkerProgress {
    /// End of the latest interval before the drain, nanoseconds since the load began.
    loaded_until_ns: u64,
    /// Whether the worker has drained, and has no further intervals.
    has_drained: bool,
    /// Open connections at the end of the latest interval.
    connections_open: u64,
}

impl WorkerProgress {
    /// Whether the worker has reported all its parts of intervals that end by `end_ns`.
    const fn has_reported(&self, end_ns: u64) -> bool {
        self.has_drained || self.loaded_until_ns >= end_ns
    }
}

impl Observations {
    pub(super) fn new(window: Window, workers: u32) -> Observations {
        Observations {
            window,
            merged: Vec::new(),
            drain: None,
            progress: vec![WorkerProgress::default(); workers as usize],
            reported_intervals: 0,
            samples: Vec::new(),
            opening_sample: None,
            next_sample_ns: Some(0),
            slices: None,
            ended_ns: None,
            is_closing_sample_incomplete: false,
        }
    }

    /// Returns the observations of a load with turns in these slices. The server is sampled at the
    /// beginning and end of each of its turns. Around some turns, the server is also sampled at two
    /// instants outside of the turn:
    /// - one interval before the turn, when the server is idle
    /// - one interval after the turn, when the requests in flight get their responses
    pub(super) fn with_slices(self, slices: Option<Slices>) -> Observations {
        Observations { slices, ..self }
    }

    /// Returns whether the server is sampled at an instant. A sample outside of the server's turns
    /// takes generator CPU time from the load of another server. Therefore a server is sampled
    /// outside of its turns only in two successive rounds of eight. Idle time lies between the
    /// sample after one turn and the sample before the next turn. If the two turns of a round
    /// follow each other directly, the next turn after this idle time belongs to the next round.
    fn is_sampled_at(&self, at_ns: u64) -> bool {
        const ROUNDS: u64 = 8;
        const OBSERVED_ROUNDS: u64 = 2;
        let Some(slices) = self.slices else { return true };
        let turn_begins_at = |at_ns: u64| slices.current_or_next(at_ns).0 == at_ns;
        let turn_ends_at = |at_ns: u64| {
            at_ns.checked_sub(1).is_some_and(|before| slices.current_or_next(before).1 == at_ns)
        };
        if turn_begins_at(at_ns) || turn_ends_at(at_ns) {
            return true;
        }
        let is_in_observed_round = |at_ns: u64| {
            at_ns.checked_sub(self.window.warmup_ns).is_some_and(|since_opening_ns| {
                since_opening_ns / slices.round_ns() % ROUNDS < OBSERVED_ROUNDS
            })
        };
        let later_ns = at_ns + self.window.interval_ns;
        let is_before_turn = is_in_observed_round(later_ns) && turn_begins_at(later_ns);
        let is_after_turn = at_ns.checked_sub(self.window.interval_ns).is_some_and(|earlier_ns| {
            turn_ends_at(earlier_ns) && is_in_observed_round(earlier_ns - 1)
        });
        is_before_turn || is_after_turn
    }

    /// Returns the time of the next sample, nanoseconds since the load began, and its position in
    /// the load.
    pub(super) fn next_sample(&self) -> Option<(u64, Edge)> {
        let next_ns = self.next_sample_ns?;
        let opens = self.window.warmup_ns;
        let edge = if next_ns < opens {
            Edge::Warmup
        } else if next_ns == opens {
            Edge::Opens
        } else if Some(next_ns) == self.closes_ns() {
            Edge::Closes
        } else {
            Edge::Within
        };
        Some((next_ns, edge))
    }

    /// Handles the end of the load's drain, `since_ns` after the load began. The closing sample is
    /// scheduled for now, except if it was taken or the window never opened.
    pub(super) fn close_early(&mut self, since_ns: u64) {
        if since_ns > self.window.warmup_ns
            && self.next_sample_ns.is_some()
            && self.ended_ns.is_none()
        {
            // The reading of another load may have delayed the end of the drain.
            let end_ns = self.closes_ns().map_or(since_ns, |planned_ns| planned_ns.min(since_ns));
            self.ended_ns = Some(end_ns);
            self.next_sample_ns = Some(end_ns);
        }
    }

    /// Returns whether the load ended before the end of its set duration, or without a set
    /// duration.
    pub(super) const fn has_ended_early(&self) -> bool {
        self.ended_ns.is_some()
    }

    fn closes_ns(&self) -> Option<u64> {
        let planned_ns =
            self.window.duration_ns.map(|duration_ns| self.window.warmup_ns + duration_ns);
        self.ended_ns.or(planned_ns)
    }

    /// Returns whether the measured window is over at this time since the load began.
    pub(super) fn is_window_over(&self, since_ns: u64) -> bool {
        self.closes_ns().is_some_and(|closes| since_ns >= closes)
    }

    /// Stores the sample that is due, and schedules the one after it. `None`: there are no counters
    /// to read. `since_ns`: time since the load began. Samples that were due during the reading are
    /// skipped, except the ones at the edges of the window.
    pub(super) fn record_sample(&mut self, sample: Option<Sample>, since_ns: u64) {
        let Some((next_ns, edge)) = self.next_sample() else { return };
        self.is_closing_sample_incomplete = edge == Edge::Closes && sample.is_some();
        self.samples.extend(sample);
        if edge == Edge::Opens {
            self.opening_sample = self.samples.len().checked_sub(1);
        }
        self.thin_samples();
        if edge == Edge::Closes {
            // There are no further samples. After an early end, the search below might never end,
            // because its times might never meet the edge of a slice.
            self.next_sample_ns = None;
            return;
        }
        // The end of each phase is sampled too.
        let phase_end_ns =
            if edge == Edge::Warmup { Some(self.window.warmup_ns) } else { self.closes_ns() };
        let end_ns = phase_end_ns.unwrap_or(u64::MAX);
        self.next_sample_ns = Some(self.time_after(next_ns, since_ns, end_ns).min(end_ns));
    }

    /// Returns the time of the sample after the one of `planned_ns`, without missed samples: those
    /// that are due by `since_ns`. In turns, the latest missed sample is still taken, because it
    /// may be at the edge of a turn.
    fn time_after(&self, planned_ns: u64, since_ns: u64, end_ns: u64) -> u64 {
        let mut next = self.sampled_after(planned_ns);
        while next <= since_ns && next < end_ns {
            let later = self.sampled_after(next);
            if self.slices.is_some() && later > since_ns {
                break;
            }
            next = later;
        }
        next
    }

    /// Returns the first time after `at_ns` at which the server is sampled.
    fn sampled_after(&self, at_ns: u64) -> u64 {
        let mut next = at_ns + self.window.interval_ns;
        // This loop is short, because the load has slices in every round.
        while !self.is_sampled_at(next) {
            next += self.window.interval_ns;
        }
        next
    }

    /// Takes the closing sample at the first call, so that readings that take long can be added.
    pub(super) fn take_incomplete_closing_sample(&mut self) -> Option<Sample> {
        std::mem::take(&mut self.is_closing_sample_incomplete).then(|| self.samples.pop())?
    }

    /// Puts back the closing sample, which is the last one.
    pub(super) fn restore_closing_sample(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    /// Adds an interval of a worker. Calls `report` with each merged interval that is now complete,
    /// because all workers have reported their parts. The drains of all workers become one
    /// interval, which is reported last.
    pub(super) fn merge(
        &mut self,
        worker: u32,
        interval: &Interval,
        report: impl FnMut(&Interval),
    ) {
        let progress = &mut self.progress[worker as usize];
        progress.connections_open = interval.connections_open;
        if interval.phase == Phase::Drain {
            self.merge_drain(interval);
        } else {
            progress.loaded_until_ns = interval.end_ns;
            self.merge_loaded(interval);
            self.report_complete(report);
        }
    }

    /// Handles the end of a worker, which has no further intervals. Calls `report` like
    /// [`Observations::merge`].
    pub(super) fn end_worker(&mut self, worker: u32, mut report: impl FnMut(&Interval)) {
        self.progress[worker as usize].has_drained = true;
        self.report_complete(&mut report);
        if self.progress.iter().all(|worker| worker.has_drained) {
            self.drain.iter().for_each(report);
        }
    }

    /// Calls `report` with the intervals that are now complete, without the drain.
    fn report_complete(&mut self, mut report: impl FnMut(&Interval)) {
        while let Some(next) = self.merged.get(self.reported_intervals)
            && self.progress.iter().all(|worker| worker.has_reported(next.end_ns))
        {
            self.complete_next_interval();
            report(&self.merged[self.reported_intervals - 1]);
        }
        self.join_if_too_many();
    }

    /// Adds an interval of a worker before its drain.
    fn merge_loaded(&mut self, interval: &Interval) {
        let is_same =
            |i: &&mut Interval| (i.phase, i.start_ns) == (interval.phase, interval.start_ns);
        // The search begins at the end, because other workers' parts of this interval are recent.
        match self.merged.iter_mut().rev().find(is_same) {
            Some(known) => known.merge(interval),
            None => self.merged.push(interval.clone()),
        }
    }

    /// Adds the drain of a worker. With a number of requests, workers begin to drain at different
    /// times.
    fn merge_drain(&mut self, interval: &Interval) {
        match &mut self.drain {
            Some(drain) => drain.merge_drain(interval),
            None => self.drain = Some(interval.clone()),
        }
    }

    /// Completes the next interval. Connections of workers whose load ended before the interval are
    /// added, because these connections stay open until the closing sample.
    fn complete_next_interval(&mut self) {
        let next = &mut self.merged[self.reported_intervals];
        let start_ns = next.start_ns;
        let has_ended =
            |worker: &&WorkerProgress| worker.has_drained && worker.loaded_until_ns <= start_ns;
        let ended = self.progress.iter().filter(has_ended);
        next.connections_open += ended.map(|worker| worker.connections_open).sum::<u64>();
        self.reported_intervals += 1;
    }

    /// Joins complete intervals in pairs when there are too many, so that memory does not grow with
    /// a load's length.
    fn join_if_too_many(&mut self) {
        if self.reported_intervals < MAX_INTERVALS {
            return;
        }
        let complete: Vec<Interval> = self.merged.drain(..self.reported_intervals).collect();
        let joined = join_pairs(complete);
        self.reported_intervals = joined.len();
        self.merged.splice(..0, joined);
    }

    /// Drops every second sample when there are too many, but never the one at which the window
    /// opened. Samples are cumulative counters, so nothing is lost from the sums.
    fn thin_samples(&mut self) {
        if self.samples.len() >= MAX_SAMPLES {
            self.opening_sample = drop_every_second(&mut self.samples, self.opening_sample);
        }
    }

    /// Returns all intervals in order of time, and all samples.
    pub(super) fn finish(mut self) -> (Vec<Interval>, Vec<Sample>) {
        self.merged.extend(self.drain);
        self.merged.sort_by_key(|i| (i.start_ns, i.phase));
        (self.merged, self.samples)
    }
}

/// Drops every second element except the first, the last and the element at `protected`. Returns
/// the new index of that element.
fn drop_every_second<T>(elements: &mut Vec<T>, protected: Option<usize>) -> Option<usize> {
    let last = elements.len().saturating_sub(1);
    let is_retained =
        |index: usize| index.is_multiple_of(2) || index == last || Some(index) == protected;
    let new_index =
        protected.map(|protected| (0..protected).filter(|index| is_retained(*index)).count());
    let mut index = 0;
    elements.retain(|_| {
        index += 1;
        is_retained(index - 1)
    });
    new_index
}

/// Joins neighbours of the same phase in pairs.
fn join_pairs(intervals: Vec<Interval>) -> Vec<Interval> {
    // Each of the two phases may have an interval without a partner.
    let mut joined: Vec<Interval> = Vec::with_capacity(intervals.len() / 2 + 2);
    let mut is_last_single = false;
    for interval in intervals {
        match joined.last_mut().filter(|last| is_last_single && last.phase == interval.phase) {
            Some(last) => {
                last.extend(&interval);
                is_last_single = false;
            }
            None => {
                joined.push(interval);
                is_last_single = true;
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three loads in slices of 400, with intervals of 100. Each server is sampled at the beginning
    /// and end of each slice of its load. In the first two rounds of the window it is also sampled
    /// 100 before and after them.
    #[test]
    fn load_in_turns_is_sampled_at_edges_of_its_turns() {
        let (round, rounds) = (2400, 7);
        let window = Window {
            warmup_ns: round,
            duration_ns: Some(rounds * round),
            interval_ns: 100,
            drain_ns: 0,
        };
        let closes = (1 + rounds) * round;
        for load_index in 0..3 {
            let slices = Slices { length_ns: 400, loads: 3, index: load_index, seed: 5 };
            let mut observations = Observations::new(window, 1).with_slices(Some(slices));
            let mut sampled_ns = Vec::new();
            while let Some((at, _)) = observations.next_sample() {
                sampled_ns.push(at);
                observations.record_sample(Some(Sample { at_ns: at, ..Sample::default() }), at);
            }
            let edges =
                slices.slices_between(0, closes).into_iter().flat_map(|(start, end)| [start, end]);
            let observed = slices.slices_between(round, 3 * round);
            let around = observed.into_iter().flat_map(|(start, end)| [start - 100, end + 100]);
            // Both ends of the window are sampled in any turn.
            let mut expected: Vec<u64> = edges.chain(around).chain([0, round, closes]).collect();
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(sampled_ns, expected, "{load_index}");
        }
    }

    /// Suites refuse loads in turns with more intervals. Their samples are therefore never thinned,
    /// which would lose the use in single turns.
    #[test]
    fn longest_load_in_turns_keeps_all_samples() {
        for loads in 1..=3 {
            let slices = Slices { length_ns: 400, loads, index: 0, seed: 5 };
            let duration_ns = Some(MAX_INTERVALS as u64 * 100);
            let window = Window { warmup_ns: 0, duration_ns, interval_ns: 100, drain_ns: 0 };
            let mut observations = Observations::new(window, 1).with_slices(Some(slices));
            let mut taken = 0;
            while let Some((at_ns, _)) = observations.next_sample() {
                observations.record_sample(Some(Sample { at_ns, ..Sample::default() }), at_ns);
                taken += 1;
            }
            assert_eq!(observations.finish().1.len(), taken, "{loads}");
            assert!(taken > 128 / loads as usize, "{loads}");
        }
    }

    /// Each load has a gap between two of its turns that is sampled, for any order of the turns.
    #[test]
    fn gap_between_turns_is_sampled_in_any_order() {
        let window =
            Window { warmup_ns: 0, duration_ns: Some(20_000), interval_ns: 100, drain_ns: 0 };
        for (seed, loads) in (0..50).flat_map(|seed| [(seed, 2), (seed, 3), (seed, 7)]) {
            let slices = Slices { length_ns: 400, loads, index: seed as u32 % loads, seed };
            let observations = Observations::new(window, 1).with_slices(Some(slices));
            let turns = slices.slices_between(0, 2 * slices.round_ns());
            let is_sampled = |pair: &[(u64, u64)]| {
                let (ends, begins) = (pair[0].1, pair[1].0);
                begins > ends
                    && observations.is_sampled_at(ends + 100)
                    && observations.is_sampled_at(begins - 100)
            };
            assert!(turns.windows(2).any(is_sampled), "{seed} {loads}: {turns:?}");
        }
    }

    const SECOND: u64 = 1_000_000_000;

    /// Returns an interval of a worker with 10 connections.
    fn interval(phase: Phase, from_ns: u64, to_ns: u64) -> Interval {
        Interval { connections_open: 10, started: 1, ..Interval::new(phase, from_ns, to_ns) }
    }

    /// Two workers load with a number of requests. Worker 0 ends in the first second, worker 1 in
    /// the third one.
    #[test]
    fn drain_is_reported_after_load_of_all_workers() {
        let window =
            Window { warmup_ns: 0, duration_ns: None, interval_ns: SECOND, drain_ns: SECOND };
        let mut observations = Observations::new(window, 2);
        let early_ns = SECOND / 2;
        let late_ns = 5 * SECOND / 2;
        let mut reported = Vec::new();
        let mut report = |i: &Interval| {
            reported.push((i.phase, i.start_ns, i.end_ns, i.connections_open, i.started));
        };
        observations.merge(0, &interval(Phase::Measured, 0, early_ns), &mut report);
        observations.merge(0, &interval(Phase::Drain, early_ns, early_ns + 1), &mut report);
        observations.end_worker(0, &mut report);
        for (start_ns, end_ns) in [(0, SECOND), (SECOND, 2 * SECOND), (2 * SECOND, late_ns)] {
            observations.merge(1, &interval(Phase::Measured, start_ns, end_ns), &mut report);
        }
        observations.merge(1, &interval(Phase::Drain, late_ns, late_ns + 1), &mut report);
        observations.end_worker(1, &mut report);
        let expected = [
            (Phase::Measured, 0, SECOND, 20, 2),
            (Phase::Measured, SECOND, 2 * SECOND, 20, 1),
            (Phase::Measured, 2 * SECOND, late_ns, 20, 1),
            (Phase::Drain, early_ns, late_ns + 1, 20, 2),
        ];
        assert_eq!(reported, expected);
        let (mut recorded, _) = observations.finish();
        recorded.sort_by_key(|i| i.phase);
        let recorded: Vec<_> = recorded
            .iter()
            .map(|i| (i.phase, i.start_ns, i.end_ns, i.connections_open, i.started))
            .collect();
        assert_eq!(recorded, expected);
    }

    /// A worker that is stopped at once may have no drain.
    #[test]
    fn worker_without_drain_holds_back_no_interval() {
        let window =
            Window { warmup_ns: 0, duration_ns: None, interval_ns: SECOND, drain_ns: SECOND };
        let mut observations = Observations::new(window, 2);
        let mut count = 0;
        let mut report = |_: &Interval| count += 1;
        observations.merge(0, &interval(Phase::Measured, 0, SECOND / 2), &mut report);
        observations.end_worker(0, &mut report);
        observations.merge(1, &interval(Phase::Measured, 0, SECOND), &mut report);
        assert_eq!(count, 1);
    }

    #[test]
    fn drained_load_gets_closing_sample_at_once() {
        for duration_ns in [None, Some(9000)] {
            let window = Window { warmup_ns: 1000, duration_ns, interval_ns: 500, drain_ns: 0 };
            let mut observations = Observations::new(window, 1);
            let take = |observations: &mut Observations| {
                let (at_ns, edge) = observations.next_sample().unwrap();
                observations.record_sample(Some(Sample { at_ns, ..Sample::default() }), at_ns);
                (at_ns, edge)
            };
            observations.close_early(700);
            assert_eq!(
                observations.next_sample(),
                Some((0, Edge::Warmup)),
                "before the window opens"
            );
            for _ in 0..4 {
                take(&mut observations);
            }
            observations.close_early(1723);
            assert_eq!(take(&mut observations), (1723, Edge::Closes));
            observations.close_early(1800);
            assert_eq!(observations.next_sample(), None);
        }
    }

    /// The end of a load's drain is unrelated to its slices.
    #[test]
    fn drained_load_in_turns_gets_closing_sample() {
        let window =
            Window { warmup_ns: 1000, duration_ns: Some(9000), interval_ns: 500, drain_ns: 0 };
        let slices = Slices { length_ns: 1000, loads: 3, index: 1, seed: 7 };
        let mut observations = Observations::new(window, 1).with_slices(Some(slices));
        while let Some((at_ns, _)) = observations.next_sample().filter(|(at_ns, _)| *at_ns <= 1000)
        {
            observations.record_sample(None, at_ns);
        }
        observations.close_early(1723);
        assert_eq!(observations.next_sample(), Some((1723, Edge::Closes)));
        observations.record_sample(None, 1723);
        assert_eq!(observations.next_sample(), None);
    }

    #[test]
    fn drop_every_second_retains_ends_and_marked_element() {
        let mut all: Vec<u32> = (0..1024).collect();
        let mut protected = Some(301);
        while all.len() > 8 {
            protected = drop_every_second(&mut all, protected);
            assert_eq!(
                (all.first(), all.last(), protected.map(|k| all[k])),
                (Some(&0), Some(&1023), Some(301))
            );
        }
        assert_eq!(drop_every_second(&mut Vec::<u32>::new(), None), None);
    }

    #[test]
    fn join_pairs_preserves_counts_and_phases() {
        let interval = |phase, second: u64| Interval {
            started: second,
            ..Interval::new(phase, second * 1_000_000_000, (second + 1) * 1_000_000_000)
        };
        let all: Vec<Interval> = (0..3)
            .map(|s| interval(Phase::Warmup, s))
            .chain((3..8).map(|s| interval(Phase::Measured, s)))
            .collect();
        let joined = join_pairs(all);
        let edges: Vec<_> =
            joined.iter().map(|i| (i.phase, i.start_ns / 1_000_000_000, i.started)).collect();
        assert_eq!(
            edges,
            [
                (Phase::Warmup, 0, 1),
                (Phase::Warmup, 2, 2),
                (Phase::Measured, 3, 7),
                (Phase::Measured, 5, 11),
                (Phase::Measured, 7, 7)
            ]
        );
    }
}
