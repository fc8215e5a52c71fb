//! Controls a load: merges the workers' intervals, and decides when the server is sampled. It is a
//! state machine without a clock, so that simulated loads use it as well.

use std::time::Duration;

use dyno_archive::sample::CpuReading;
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
    reported: usize,
    samples: Vec<Sample>,
    cpu_readings: Vec<CpuReading>,
    /// Index of the sample that was taken as the window opened.
    opened_with: Option<usize>,
    /// When the next sample or reading is due, nanoseconds since the load began; `None`: there are
    /// no more.
    next_ns: Option<u64>,
    /// The turns of the load; `None`: it does not take turns.
    slices: Option<Slices>,
    /// End of a load that ended early, nanoseconds since it began.
    ended_ns: Option<u64>,
    /// The closing sample lacks the readings that take long.
    is_uncompleted: bool,
}

/// Everything that was observed of a load.
#[derive(Debug)]
pub(super) struct Observed {
    /// In order of time.
    pub(super) intervals: Vec<Interval>,
    pub(super) samples: Vec<Sample>,
    pub(super) cpu_readings: Vec<CpuReading>,
}

/// What is read of the server at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// All counters.
    Sample(Edge),
    /// The CPU time alone.
    CpuReading,
}

impl Control {
    pub(super) fn new(window: Window, workers: u32) -> Control {
        Control {
            window,
            merged: Vec::new(),
            progress: vec![0; workers as usize],
            reported: 0,
            samples: Vec::new(),
            cpu_readings: Vec::new(),
            opened_with: None,
            next_ns: Some(0),
            slices: None,
            ended_ns: None,
            is_uncompleted: false,
        }
    }

    /// Returns the control of a load that takes turns. The CPU time of its server is read at the
    /// beginning and end of each own turn of the window. Around the turns of some rounds all
    /// counters are sampled: at both edges, one interval before, when the server is idle, and one
    /// after, when requests in flight get their responses.
    pub(super) fn with_slices(self, slices: Option<Slices>) -> Control {
        Control { slices, ..self }
    }

    /// Returns what is due at an instant between the edges of the window; `None`: nothing is.
    fn wanted(&self, at_ns: u64) -> Option<Due> {
        let Some(slices) = self.slices else { return Some(Due::Sample(Edge::Within)) };
        let interval_ns = self.window.interval_ns;
        let begins = |at_ns: u64| slices.next(at_ns).0 == at_ns;
        let ends =
            |at_ns: u64| at_ns.checked_sub(1).is_some_and(|before| slices.next(before).1 == at_ns);
        let (next, last) = (at_ns + interval_ns, at_ns.checked_sub(interval_ns));
        let is_edge_sampled =
            begins(at_ns) && self.is_sampled(at_ns) || ends(at_ns) && self.is_sampled(at_ns - 1);
        let is_sampled = is_edge_sampled
            || begins(next) && (self.is_sampled(next) || self.follows_sampled_round(next))
            || last.is_some_and(|last| ends(last) && self.is_sampled(last - 1));
        let is_in_window = at_ns >= self.window.warmup_ns;
        if is_sampled {
            Some(Due::Sample(Edge::Within))
        } else {
            (is_in_window && (begins(at_ns) || ends(at_ns))).then_some(Due::CpuReading)
        }
    }

    /// Returns the round of the window that an instant is in, from 0. `None`: it is before the
    /// window, or the load takes no turns.
    fn round(&self, at_ns: u64) -> Option<u64> {
        Some(at_ns.checked_sub(self.window.warmup_ns)? / self.slices?.round_ns())
    }

    /// Whether all counters are sampled around the turns of the round that an instant is in. It
    /// takes generator CPU time from the load whose turn it is. With seven servers, samples at
    /// every edge took 5 % of it in turns of 100 ms.
    fn is_sampled(&self, at_ns: u64) -> bool {
        const EVERY: u64 = 8;
        self.round(at_ns).is_some_and(|round| round.is_multiple_of(EVERY))
    }

    /// Whether a turn is the first one after a sampled round. A load may have both turns of a round
    /// in a row, so that only the gap after the second one shows its server at rest.
    fn follows_sampled_round(&self, turn_ns: u64) -> bool {
        let Some((slices, round)) = self.slices.zip(self.round(turn_ns)) else { return false };
        let begins_ns = self.window.warmup_ns + round * slices.round_ns();
        let is_first = slices.next(begins_ns).0 == turn_ns;
        is_first && begins_ns.checked_sub(1).is_some_and(|before| self.is_sampled(before))
    }

    /// Returns the time to sleep until something is due, or until the next check. `begin`: begin of
    /// the load, at most [`crate::limits::BEGIN_NOTICE_NS`] from now; `None`: not known yet.
    pub(super) fn until_next_due(&self, begin: Option<Instant>, now: Instant) -> Duration {
        match (begin, self.next_due()) {
            // The opening sample is due as the load begins.
            (None, _) => BEGIN_CHECK_INTERVAL,
            (Some(begin), Some((at, _))) => {
                Duration::from_nanos(begin.plus(at).ns_since(now)).min(STOP_CHECK_INTERVAL)
            }
            (Some(_), None) => STOP_CHECK_INTERVAL,
        }
    }

    /// Returns when something is due next, nanoseconds since the load began, and what.
    pub(super) fn next_due(&self) -> Option<(u64, Due)> {
        let due_ns = self.next_ns?;
        let opens_ns = self.window.warmup_ns;
        let due = if due_ns < opens_ns {
            Due::Sample(Edge::Warmup)
        } else if due_ns == opens_ns {
            Due::Sample(Edge::Opens)
        } else if Some(due_ns) == self.closes_ns() {
            Due::Sample(Edge::Closes)
        } else {
            // An instant that was due by itself, such as the end of a load that ended early.
            self.wanted(due_ns).unwrap_or(Due::Sample(Edge::Within))
        };
        Some((due_ns, due))
    }

    /// Handles the drain of the load at this time since it began. The closing sample is due now,
    /// unless it was taken or the window never opened.
    pub(super) fn close_early(&mut self, since_ns: u64) {
        if since_ns > self.window.warmup_ns && self.next_ns.is_some() && self.ended_ns.is_none() {
            self.ended_ns = Some(since_ns);
            self.next_ns = Some(since_ns);
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

    /// Takes the sample that was due. `None`: there are no counters to read.
    pub(super) fn record_sample(&mut self, sample: Option<Sample>) {
        let Some((due_ns, Due::Sample(edge))) = self.next_due() else { return };
        self.is_uncompleted = edge == Edge::Closes && sample.is_some();
        self.samples.extend(sample);
        if edge == Edge::Opens {
            self.opened_with = self.samples.len().checked_sub(1);
        }
        self.thin_samples();
        if edge == Edge::Closes {
            // The sample was at an arbitrary instant, from which whole steps may never reach an own
            // slice.
            self.next_ns = None;
            return;
        }
        self.advance(due_ns);
    }

    /// Returns the closing sample once after it was taken.
    pub(super) fn take_uncompleted(&mut self) -> Option<&mut Sample> {
        let is_uncompleted = std::mem::take(&mut self.is_uncompleted);
        self.samples.last_mut().filter(|_| is_uncompleted)
    }

    /// Takes the reading that was due. `None`: there is no counter to read.
    pub(super) fn record_cpu_reading(&mut self, reading: Option<CpuReading>) {
        let Some((due_ns, Due::CpuReading)) = self.next_due() else { return };
        self.cpu_readings.extend(reading);
        self.advance(due_ns);
    }

    /// Finds what is due next, after what was due at an instant.
    fn advance(&mut self, due_ns: u64) {
        let ends_phase_ns = if due_ns < self.window.warmup_ns {
            Some(self.window.warmup_ns)
        } else {
            self.closes_ns()
        };
        let step_ns = self.window.interval_ns;
        let mut next_ns = due_ns + step_ns;
        // Every round has own slices, so that this loop is short.
        while self.wanted(next_ns).is_none() && ends_phase_ns.is_none_or(|end_ns| next_ns < end_ns)
        {
            next_ns += step_ns;
        }
        self.next_ns = Some(ends_phase_ns.map_or(next_ns, |end_ns| next_ns.min(end_ns)));
    }

    /// Takes an interval of worker `k`. Calls `report` with each interval that is complete now: all
    /// workers have reported it.
    pub(super) fn merge(&mut self, k: u32, interval: &Interval, mut report: impl FnMut(&Interval)) {
        let is_same =
            |i: &&mut Interval| (i.phase, i.start_ns) == (interval.phase, interval.start_ns);
        // From the end: other workers' parts of this interval are the most recent.
        match self.merged.iter_mut().rev().find(is_same) {
            Some(known) => known.merge(interval),
            None => self.merged.push(interval.clone()),
        }
        // A draining worker has no further intervals within the window.
        self.progress[k as usize] =
            if interval.phase == Phase::Drain { u64::MAX } else { interval.end_ns };
        let reported = self.progress.iter().copied().min().unwrap_or(0);
        while let Some(next) = self.merged.get(self.reported).filter(|i| i.end_ns <= reported) {
            report(next);
            self.reported += 1;
        }
        self.join_if_too_many();
    }

    /// Joins complete intervals in pairs when there are too many, so that memory does not grow with
    /// a load's length.
    fn join_if_too_many(&mut self) {
        if self.reported < MAX_INTERVALS {
            return;
        }
        let complete: Vec<Interval> = self.merged.drain(..self.reported).collect();
        let joined = join_pairs(complete);
        self.reported = joined.len();
        self.merged.splice(..0, joined);
    }

    /// Drops every second sample when there are too many, but never the one at which the window
    /// opened. Samples are cumulative counters, so nothing is lost from the sums.
    fn thin_samples(&mut self) {
        if self.samples.len() >= MAX_SAMPLES {
            self.opened_with = drop_every_second(&mut self.samples, self.opened_with);
        }
    }

    pub(super) fn finish(mut self) -> Observed {
        self.merged.sort_by_key(|i| (i.start_ns, i.phase));
        let Control { merged, samples, cpu_readings, .. } = self;
        Observed { intervals: merged, samples, cpu_readings }
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

    /// Takes everything that is due, and returns the instants of the samples and of the readings.
    fn due_instants(control: &mut Control) -> (Vec<u64>, Vec<u64>) {
        let (mut samples, mut readings) = (Vec::new(), Vec::new());
        while let Some((at_ns, due)) = control.next_due() {
            match due {
                Due::Sample(_) => {
                    samples.push(at_ns);
                    control.record_sample(Some(Sample { at_ns, ..Sample::default() }));
                }
                Due::CpuReading => {
                    readings.push(at_ns);
                    control.record_cpu_reading(Some(CpuReading { at_ns, ..CpuReading::default() }));
                }
            }
        }
        (samples, readings)
    }

    /// Three loads in slices of 400, with intervals of 100, a round of warm-up and twelve of
    /// window. In the first and the ninth round of the window, samples are due at the edges of own
    /// slices, and 100 before and after.
    #[test]
    fn load_in_turns_is_sampled_around_turns_of_some_rounds() {
        let (round, rounds) = (2400, 12);
        let window = Window {
            warmup_ns: round,
            duration_ns: Some(rounds * round),
            interval_ns: 100,
            drain_ns: 0,
        };
        let closes = (1 + rounds) * round;
        for own in 0..3 {
            let slices = Slices { length_ns: 400, loads: 3, index: own, seed: 5 };
            let mut control = Control::new(window, 1).with_slices(Some(slices));
            let (samples, readings) = due_instants(&mut control);
            let turns = |first: u64, end: u64| slices.slices_between(first * round, end * round);
            let sampled = [turns(1, 2), turns(9, 10)].concat();
            let around =
                sampled.iter().flat_map(|(start, end)| [*start - 100, *start, *end, *end + 100]);
            let next = [2, 10].map(|first| turns(first, first + 1)[0].0 - 100);
            // Both ends of the window are sampled in any turn.
            let mut expected: Vec<u64> = around.chain(next).chain([0, round, closes]).collect();
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(samples, expected, "{own}");
            let edges = turns(1, 13).into_iter().flat_map(|(start, end)| [start, end]);
            let mut unsampled: Vec<u64> = edges.filter(|at| !expected.contains(at)).collect();
            unsampled.dedup();
            assert_eq!(readings, unsampled, "{own}");
            let observed = control.finish();
            assert_eq!(
                (observed.samples.len(), observed.cpu_readings.len()),
                (expected.len(), unsampled.len())
            );
        }
    }

    /// Each load has a gap between two of its turns that is sampled, whatever the order.
    #[test]
    fn gap_between_turns_is_sampled_whatever_the_order() {
        let window =
            Window { warmup_ns: 0, duration_ns: Some(20_000), interval_ns: 100, drain_ns: 0 };
        for (seed, of) in (0..50).flat_map(|seed| [(seed, 2), (seed, 3), (seed, 7)]) {
            let slices = Slices { length_ns: 400, loads: of, index: seed as u32 % of, seed };
            let control = Control::new(window, 1).with_slices(Some(slices));
            let turns = slices.slices_between(0, 2 * slices.round_ns());
            let is_sample = |at_ns| control.wanted(at_ns) == Some(Due::Sample(Edge::Within));
            let is_sampled = |pair: &[(u64, u64)]| {
                let (ends, begins) = (pair[0].1, pair[1].0);
                begins > ends && is_sample(ends + 100) && is_sample(begins - 100)
            };
            assert!(turns.windows(2).any(is_sampled), "{seed} {of}: {turns:?}");
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
        let longest = control.until_next_due(None, noticed).as_nanos() as u64;
        for slept_on in [0, 1, longest / 2, longest] {
            let woken = noticed.plus(slept_on);
            let wait = control.until_next_due(Some(begin), woken);
            assert_eq!(woken.plus(wait.as_nanos() as u64), begin, "{slept_on} ns after the notice");
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
                let Some((at_ns, Due::Sample(edge))) = control.next_due() else { panic!() };
                control.record_sample(Some(Sample { at_ns, ..Sample::default() }));
                (at_ns, edge)
            };
            control.close_early(700);
            assert_eq!(
                control.next_due(),
                Some((0, Due::Sample(Edge::Warmup))),
                "before the window"
            );
            for _ in 0..4 {
                take(&mut control);
            }
            control.close_early(1723);
            assert_eq!(take(&mut control), (1723, Edge::Closes));
            control.close_early(1800);
            assert_eq!(control.next_due(), None);
        }
    }

    /// The end of a load's drain is unrelated to its slices.
    #[test]
    fn drained_load_in_turns_gets_closing_sample() {
        let window =
            Window { warmup_ns: 1000, duration_ns: Some(9000), interval_ns: 500, drain_ns: 0 };
        let slices = Slices { length_ns: 1000, loads: 3, index: 1, seed: 7 };
        let mut control = Control::new(window, 1).with_slices(Some(slices));
        while let Some((_, due)) = control.next_due().filter(|(at_ns, _)| *at_ns <= 1000) {
            match due {
                Due::Sample(_) => control.record_sample(None),
                Due::CpuReading => control.record_cpu_reading(None),
            }
        }
        control.close_early(1723);
        assert_eq!(control.next_due(), Some((1723, Due::Sample(Edge::Closes))));
        control.record_sample(None);
        assert_eq!(control.next_due(), None);
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
