//! Controls a load: merges the workers' intervals, and decides when the server is sampled. It is a
//! state machine without a clock, so that simulated loads use it as well.

use std::time::Duration;

use dyno_archive::{Interval, Phase, Sample};
use dyno_engine::slices::Slices;
use dyno_engine::{Instant, Window};

use super::Edge;
use crate::limits::{BEGIN_CHECK_INTERVAL, MAX_INTERVALS, MAX_SAMPLES, STOP_CHECK_INTERVAL};

/// The merged intervals of all workers and the samples of the server. Their number is limited for
/// loads of any length.
#[derive(Debug)]
pub(super) struct Control {
    window: Window,
    merged: Vec<Interval>,
    /// End of each worker's latest interval, nanoseconds since the load began.
    progress: Vec<u64>,
    /// Number of merged intervals that every worker has reported.
    reported_intervals: usize,
    samples: Vec<Sample>,
    /// Index of the sample that was taken as the window opened.
    opening_sample: Option<usize>,
    /// When the next sample is due, nanoseconds since the load began; `None`: no more samples.
    next_sample_ns: Option<u64>,
    /// The turns of the load; `None`: the load does not take turns.
    slices: Option<Slices>,
    /// End of a load that ended early, nanoseconds since it began.
    ended_ns: Option<u64>,
    /// Whether slow readings of the closing sample are still to be made.
    is_closing_sample_incomplete: bool,
}

impl Control {
    pub(super) fn new(window: Window, workers: u32) -> Control {
        Control {
            window,
            merged: Vec::new(),
            progress: vec![0; workers as usize],
            reported_intervals: 0,
            samples: Vec::new(),
            opening_sample: None,
            next_sample_ns: Some(0),
            slices: None,
            ended_ns: None,
            is_closing_sample_incomplete: false,
        }
    }

    /// Returns the control of a load that takes turns. Its server is sampled at the beginning and
    /// end of each own turn. Around some turns it is also sampled one interval before, when it is
    /// idle, and one after, when requests in flight get their responses.
    pub(super) fn with_slices(self, slices: Option<Slices>) -> Control {
        Control { slices, ..self }
    }

    /// Returns whether a sample is due at an instant. Sampling takes generator CPU time from the
    /// load whose turn it is. A server is therefore sampled in others' turns in only two rounds of
    /// eight. In some rounds a load has both its turns in a row. The gap to the next round is then
    /// sampled.
    fn is_sample_due(&self, at_ns: u64) -> bool {
        const ROUNDS: u64 = 8;
        const OBSERVED_ROUNDS: u64 = 2;
        let (interval_ns, opens_ns) = (self.window.interval_ns, self.window.warmup_ns);
        self.slices.is_none_or(|slices| {
            let begins = |at_ns: u64| slices.current_or_next(at_ns).0 == at_ns;
            let ends = |at_ns: u64| {
                at_ns.checked_sub(1).is_some_and(|before| slices.current_or_next(before).1 == at_ns)
            };
            let is_observed = |turn_ns: u64| {
                let since_opening = turn_ns.checked_sub(opens_ns);
                since_opening
                    .is_some_and(|since_ns| since_ns / slices.round_ns() % ROUNDS < OBSERVED_ROUNDS)
            };
            let (next, last) = (at_ns + interval_ns, at_ns.checked_sub(interval_ns));
            begins(at_ns)
                || ends(at_ns)
                || is_observed(next) && begins(next)
                || last.is_some_and(|last| ends(last) && is_observed(last - 1))
        })
    }

    /// Returns the time to sleep until the next sample, or until the next check. `begin`: begin of
    /// the load, at most [`crate::limits::BEGIN_NOTICE_NS`] from now; `None`: unknown yet.
    pub(super) fn until_next_sample(&self, begin: Option<Instant>, now: Instant) -> Duration {
        match (begin, self.next_sample()) {
            // The opening sample is due as the load begins.
            (None, _) => BEGIN_CHECK_INTERVAL,
            (Some(begin), Some((at, _))) => {
                Duration::from_nanos(begin.plus(at).ns_since(now)).min(STOP_CHECK_INTERVAL)
            }
            (Some(_), None) => STOP_CHECK_INTERVAL,
        }
    }

    /// Returns when the next sample is due, nanoseconds since the load began, and its position in
    /// the load.
    pub(super) fn next_sample(&self) -> Option<(u64, Edge)> {
        let due = self.next_sample_ns?;
        let opens = self.window.warmup_ns;
        let edge = if due < opens {
            Edge::Warmup
        } else if due == opens {
            Edge::Opens
        } else if Some(due) == self.closes_ns() {
            Edge::Closes
        } else {
            Edge::Within
        };
        Some((due, edge))
    }

    /// Handles the drain of the load at this time since it began. The closing sample is due now,
    /// unless it was taken or the window never opened.
    pub(super) fn close_early(&mut self, since_ns: u64) {
        if since_ns > self.window.warmup_ns
            && self.next_sample_ns.is_some()
            && self.ended_ns.is_none()
        {
            self.ended_ns = Some(since_ns);
            self.next_sample_ns = Some(since_ns);
        }
    }

    /// Returns whether the load ended before its set end, or had no set end.
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

    /// Stores the sample that was due. `None`: no counters to read.
    pub(super) fn record_sample(&mut self, sample: Option<Sample>) {
        let Some((due, edge)) = self.next_sample() else { return };
        self.is_closing_sample_incomplete = edge == Edge::Closes && sample.is_some();
        self.samples.extend(sample);
        if edge == Edge::Opens {
            self.opening_sample = self.samples.len().checked_sub(1);
        }
        self.thin_samples();
        if edge == Edge::Closes {
            // There are no further samples. After an early end, the loop below might not terminate.
            self.next_sample_ns = None;
            return;
        }
        let step = self.window.interval_ns;
        let mut next = due + step;
        // Short, because the load has slices in every round.
        while !self.is_sample_due(next) {
            next += step;
        }
        let ends_phase =
            if edge == Edge::Warmup { Some(self.window.warmup_ns) } else { self.closes_ns() };
        self.next_sample_ns = Some(ends_phase.map_or(next, |end| next.min(end)));
    }

    /// Returns the closing sample, once, so that its slow readings can be added.
    pub(super) fn take_incomplete_closing_sample(&mut self) -> Option<&mut Sample> {
        let is_incomplete = std::mem::take(&mut self.is_closing_sample_incomplete);
        self.samples.last_mut().filter(|_| is_incomplete)
    }

    /// Adds an interval of a worker. Calls `report` with each interval that is now complete,
    /// because all workers have reported it.
    pub(super) fn merge(
        &mut self,
        worker: u32,
        interval: &Interval,
        mut report: impl FnMut(&Interval),
    ) {
        let is_same =
            |i: &&mut Interval| (i.phase, i.start_ns) == (interval.phase, interval.start_ns);
        // From the end: other workers' parts of this interval are the most recent.
        match self.merged.iter_mut().rev().find(is_same) {
            Some(known) => known.merge(interval),
            None => self.merged.push(interval.clone()),
        }
        // A draining worker has no further intervals within the window.
        self.progress[worker as usize] =
            if interval.phase == Phase::Drain { u64::MAX } else { interval.end_ns };
        let reported_ns = self.progress.iter().copied().min().unwrap_or(0);
        while let Some(next) =
            self.merged.get(self.reported_intervals).filter(|i| i.end_ns <= reported_ns)
        {
            report(next);
            self.reported_intervals += 1;
        }
        self.join_if_too_many();
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
        self.merged.sort_by_key(|i| (i.start_ns, i.phase));
        (self.merged, self.samples)
    }
}

/// Drops every second element except the first, the last and the one at `keep`. Returns the new
/// index of that element.
fn drop_every_second<T>(elements: &mut Vec<T>, keep: Option<usize>) -> Option<usize> {
    let last = elements.len().saturating_sub(1);
    let is_retained =
        |index: usize| index.is_multiple_of(2) || index == last || Some(index) == keep;
    let new_index = keep.map(|keep| (0..keep).filter(|index| is_retained(*index)).count());
    let mut index = 0;
    elements.retain(|_| {
        index += 1;
        is_retained(index - 1)
    });
    new_index
}

/// Joins neighbours of the same phase in pairs.
fn join_pairs(intervals: Vec<Interval>) -> Vec<Interval> {
    let mut joined: Vec<Interval> = Vec::with_capacity(intervals.len() / 2 + 2);
    let mut is_single = false;
    for interval in intervals {
        match joined.last_mut().filter(|last| is_single && last.phase == interval.phase) {
            Some(last) => {
                last.extend(&interval);
                is_single = false;
            }
            None => {
                joined.push(interval);
                is_single = true;
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::BEGIN_NOTICE_NS;

    /// Three loads in slices of 400, with intervals of 100: samples are due at the beginning and
    /// end of each own slice, and in the first two rounds of the window also 100 before and after.
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
            let mut control = Control::new(window, 1).with_slices(Some(slices));
            let mut due = Vec::new();
            while let Some((at, _)) = control.next_sample() {
                due.push(at);
                control.record_sample(Some(Sample { at_ns: at, ..Sample::default() }));
            }
            let edges =
                slices.slices_between(0, closes).into_iter().flat_map(|(start, end)| [start, end]);
            let observed = slices.slices_between(round, 3 * round);
            let around = observed.into_iter().flat_map(|(start, end)| [start - 100, end + 100]);
            // Both ends of the window are sampled in any turn.
            let mut wanted: Vec<u64> = edges.chain(around).chain([0, round, closes]).collect();
            wanted.sort_unstable();
            wanted.dedup();
            assert_eq!(due, wanted, "{load_index}");
        }
    }

    /// Each load has a gap between two of its turns that is sampled, for any order of the turns.
    #[test]
    fn gap_between_turns_is_sampled_in_any_order() {
        let window =
            Window { warmup_ns: 0, duration_ns: Some(20_000), interval_ns: 100, drain_ns: 0 };
        for (seed, loads) in (0..50).flat_map(|seed| [(seed, 2), (seed, 3), (seed, 7)]) {
            let slices = Slices { length_ns: 400, loads, index: seed as u32 % loads, seed };
            let control = Control::new(window, 1).with_slices(Some(slices));
            let turns = slices.slices_between(0, 2 * slices.round_ns());
            let is_sampled = |pair: &[(u64, u64)]| {
                let (ends, begins) = (pair[0].1, pair[1].0);
                begins > ends
                    && control.is_sample_due(ends + 100)
                    && control.is_sample_due(begins - 100)
            };
            assert!(turns.windows(2).any(is_sampled), "{seed} {loads}: {turns:?}");
        }
    }

    /// The begin of a load is announced [`BEGIN_NOTICE_NS`] before. The control thread may be at
    /// any point of its sleep at that instant.
    #[test]
    fn opening_sample_is_not_late() {
        let window = Window {
            warmup_ns: 0,
            duration_ns: Some(1_000_000_000),
            interval_ns: 100,
            drain_ns: 0,
        };
        let control = Control::new(window, 1);
        let noticed = Instant(5_000_000_000);
        let begin = noticed.plus(BEGIN_NOTICE_NS);
        let longest = control.until_next_sample(None, noticed).as_nanos() as u64;
        for remaining_sleep in [0, 1, longest / 2, longest] {
            let woken = noticed.plus(remaining_sleep);
            let wait = control.until_next_sample(Some(begin), woken);
            assert_eq!(
                woken.plus(wait.as_nanos() as u64),
                begin,
                "{remaining_sleep} ns after the notice"
            );
        }
    }

    /// Workers end at different times, while the list of intervals is full.
    #[test]
    fn join_pairs_merges_overlapping_drains() {
        const SECOND: u64 = 1_000_000_000;
        let interval = |phase, from_ms: u64, to_ms: u64, started| Interval {
            started,
            connections_open: started,
            ..Interval::new(phase, from_ms * SECOND / 1000, to_ms * SECOND / 1000)
        };
        let joined = join_pairs(vec![
            interval(Phase::Measured, 4000, 5000, 1),
            interval(Phase::Drain, 5000, 9000, 2),
            interval(Phase::Drain, 5100, 8000, 3),
            interval(Phase::Drain, 4900, 9500, 4),
            interval(Phase::Drain, 4800, 4850, 5),
        ]);
        let intervals: Vec<_> =
            joined.iter().map(|i| (i.phase, i.start_ns, i.end_ns, i.started)).collect();
        let ms = |n: u64| n * SECOND / 1000;
        assert_eq!(
            intervals,
            [
                (Phase::Measured, ms(4000), ms(5000), 1),
                (Phase::Drain, ms(5000), ms(9000), 5),
                (Phase::Drain, ms(4800), ms(9500), 9),
            ]
        );
        assert_eq!(joined.iter().map(|i| i.connections_open).collect::<Vec<_>>(), [1, 5, 9]);
    }

    #[test]
    fn drained_load_gets_closing_sample_at_once() {
        for duration_ns in [None, Some(9000)] {
            let window = Window { warmup_ns: 1000, duration_ns, interval_ns: 500, drain_ns: 0 };
            let mut control = Control::new(window, 1);
            let take = |control: &mut Control| {
                let (at_ns, edge) = control.next_sample().unwrap();
                control.record_sample(Some(Sample { at_ns, ..Sample::default() }));
                (at_ns, edge)
            };
            control.close_early(700);
            assert_eq!(control.next_sample(), Some((0, Edge::Warmup)), "before the window opens");
            for _ in 0..4 {
                take(&mut control);
            }
            control.close_early(1723);
            assert_eq!(take(&mut control), (1723, Edge::Closes));
            control.close_early(1800);
            assert_eq!(control.next_sample(), None);
        }
    }

    /// The end of a load's drain is unrelated to its slices.
    #[test]
    fn drained_load_in_turns_gets_closing_sample() {
        let window =
            Window { warmup_ns: 1000, duration_ns: Some(9000), interval_ns: 500, drain_ns: 0 };
        let slices = Slices { length_ns: 1000, loads: 3, index: 1, seed: 7 };
        let mut control = Control::new(window, 1).with_slices(Some(slices));
        while control.next_sample().is_some_and(|(at_ns, _)| at_ns <= 1000) {
            control.record_sample(None);
        }
        control.close_early(1723);
        assert_eq!(control.next_sample(), Some((1723, Edge::Closes)));
        control.record_sample(None);
        assert_eq!(control.next_sample(), None);
    }

    #[test]
    fn drop_every_second_retains_ends_and_marked_element() {
        let mut all: Vec<u32> = (0..1024).collect();
        let mut keep = Some(301);
        while all.len() > 8 {
            keep = drop_every_second(&mut all, keep);
            assert_eq!(
                (all.first(), all.last(), keep.map(|k| all[k])),
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
