//! Finds whether two runs were made one after the other or at the same time.
//!
//! Simultaneous runs on one machine disturb each other, and the machine may change between runs.

use std::time::UNIX_EPOCH;

use dyno_model::TrialRecord;
use dyno_model::run::Run;

const NS_PER_S: u64 = 1_000_000_000;

/// A span of time, nanoseconds since boot.
#[derive(Clone, Copy)]
struct LoadSpan {
    start_ns: u64,
    end_ns: u64,
}

/// Returns a note on the times of two runs; `None`: both have the same date, and no overlap is
/// known.
pub(super) fn note(a: &Run, b: &Run) -> Option<String> {
    let (started_a, started_b) = (&a.header.started, &b.header.started);
    if overlap_in_time(a, b) {
        return Some(format!(
            "The two runs overlapped in time: they began at {started_a} and {started_b}. On one \
             machine, each run disturbs the other. The intervals do not account for this \
             disturbance. Put both servers into one suite, or make one run after the other."
        ));
    }
    (started_a != started_b).then(|| {
        format!(
            "The two runs were made at different times, {started_a} and {started_b}. The \
             intervals do not account for changes of the machine between the runs. To avoid this \
             problem, put both servers into one suite."
        )
    })
}

/// Whether the two runs overlap, both by their dates and by the clock since boot. Archives do not
/// record the end of a run, so the end of its last load is used.
fn overlap_in_time(a: &Run, b: &Run) -> bool {
    let (parts_a, parts_b) = (parts(a), parts(b));
    parts_a.iter().any(|a| parts_b.iter().any(|b| a.overlaps(b)))
}

/// An uninterrupted part of a run. A run that was never resumed has one part.
struct RunPart {
    /// Date at which the part began, seconds since 1970.
    date_s: u64,
    /// Instant at which the first server of the part was started, nanoseconds since boot. In older
    /// archives, which lack this instant: the beginning of the first load.
    first_server_ns: u64,
    /// From the beginning of the first load to the end of the last load.
    loads: LoadSpan,
}

impl RunPart {
    /// Whether two parts overlap by both clocks. The clock since boot alone does not suffice,
    /// because the runs may be of different machines or boots.
    fn overlaps(&self, other: &RunPart) -> bool {
        let (first, second) =
            if self.date_s <= other.date_s { (self, other) } else { (other, self) };
        // Dates have whole seconds. If both parts began in the same second, either may be first.
        let duration_s =
            first.loads.end_ns.saturating_sub(first.first_server_ns).div_ceil(NS_PER_S);
        let overlap_by_date = second.date_s - first.date_s <= duration_s;
        overlap_by_date
            && self.loads.start_ns < other.loads.end_ns
            && other.loads.start_ns < self.loads.end_ns
    }
}

/// Returns the parts of a run that have loads and a date.
fn parts(run: &Run) -> Vec<RunPart> {
    let header = &run.header;
    // For each part, its date and the index of its first server start.
    let resumed = header.resumptions.iter().map(|part| (&part.started, part.from_start));
    let beginnings: Vec<(&String, usize)> =
        std::iter::once((&header.started, 0)).chain(resumed).collect();
    let end_indices = beginnings.iter().skip(1).map(|(_, index)| *index).chain([usize::MAX]);
    let part = |((date, first_index), end_index): (&(&String, usize), usize)| {
        let indices = *first_index..end_index;
        let server_starts = run.starts.iter().filter(|start| indices.contains(&start.start));
        let first_server_ns = server_starts.filter_map(|start| start.began_ns).min();
        let trials = run.trials.iter().filter(|trial| indices.contains(&trial.start));
        let loads = trials.map(load_span).reduce(|all, load| LoadSpan {
            start_ns: all.start_ns.min(load.start_ns),
            end_ns: all.end_ns.max(load.end_ns),
        })?;
        let first_server_ns = first_server_ns.map_or(loads.start_ns, |ns| ns.min(loads.start_ns));
        Some(RunPart { date_s: seconds(date)?, first_server_ns, loads })
    };
    beginnings.iter().zip(end_indices).filter_map(part).collect()
}

/// Returns the time from the beginning of a load to the end of its measured window.
fn load_span(trial: &TrialRecord) -> LoadSpan {
    let start_ns = trial.load.began_ns;
    let (_, window_end_ns) = trial.load.window_ns;
    LoadSpan { start_ns, end_ns: start_ns + window_end_ns }
}

/// Converts a date such as `2026-11-26T22:06:53Z` to seconds since 1970; `None`: another format.
fn seconds(date: &str) -> Option<u64> {
    Some(humantime::parse_rfc3339(date).ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::Subject;

    use super::*;
    use crate::fixture;

    /// Returns a run with five consecutive loads of one second. `clock_s`: seconds since boot at
    /// its first load.
    fn run_at(date: &str, clock_s: u64) -> Run {
        let mut run = fixture::blocks_of(vec![Subject::default()], 5, |_, _| 100);
        run.header.started = date.into();
        for (load, trial) in run.trials.iter_mut().enumerate() {
            trial.start = load;
            trial.load.began_ns = (clock_s + load as u64) * NS_PER_S;
            trial.load.window_ns = (0, NS_PER_S);
        }
        run
    }

    fn note_kind(a: &Run, b: &Run) -> &'static str {
        match note(a, b) {
            None => "nothing",
            Some(note) if note.contains("overlapped in time") => "at once",
            Some(note) if note.contains("at different times") => "one after the other",
            Some(note) => panic!("{note}"),
        }
    }

    #[test]
    fn overlapping_runs_are_noted() {
        let run = run_at("2026-11-26T22:06:53Z", 100);
        let note_kind_of = |date: &str, clock_s| {
            let other = run_at(date, clock_s);
            let kinds = (note_kind(&run, &other), note_kind(&other, &run));
            assert_eq!(kinds.0, kinds.1);
            kinds.0
        };
        assert_eq!(note_kind_of("2026-11-26T22:06:53Z", 100), "at once");
        assert_eq!(note_kind_of("2026-11-26T22:06:56Z", 103), "at once");
        assert_eq!(note_kind_of("2026-11-26T22:06:58Z", 105), "one after the other");
        // Another boot of the machine, or another machine.
        assert_eq!(note_kind_of("2026-11-27T22:06:53Z", 100), "one after the other");
        assert_eq!(note_kind_of("2026-11-26T22:06:53Z", 900), "nothing");
        // Without a date, or without loads.
        assert_eq!(note_kind_of("then", 100), "one after the other");
        let mut without = run.clone();
        without.trials.clear();
        assert_eq!(note_kind(&run, &without), "nothing");
    }

    /// The second run begins while the first one still waits for its server, and both load
    /// together.
    #[test]
    fn overlap_after_long_start_is_noted() {
        let first = |began_s: u64| {
            let mut run = run_at("2026-11-26T22:06:53Z", 120);
            let start = dyno_model::StartRecord {
                began_ns: Some(began_s * NS_PER_S),
                ..Default::default()
            };
            run.starts = vec![start];
            run
        };
        let second = run_at("2026-11-26T22:07:05Z", 121);
        assert_eq!(note_kind(&first(100), &second), "at once");
        // Its clock began at another time.
        assert_eq!(note_kind(&first(119), &second), "one after the other");
        // Loads of half a second.
        let short = || {
            let mut run = run_at("2026-11-26T22:06:53Z", 100);
            run.trials.truncate(1);
            run.trials[0].load.window_ns.1 = NS_PER_S / 2;
            run
        };
        assert_eq!(note_kind(&short(), &short()), "at once");
    }

    #[test]
    fn overlap_of_one_part_is_noted() {
        let run = run_at("2026-11-26T22:06:53Z", 100);
        let mut resumed = run_at("2026-11-26T08:00:00Z", 20);
        let second = fixture::resumption(&resumed, 3, Vec::new());
        resumed.header.resumptions =
            vec![dyno_model::Resumption { started: "2026-11-26T22:06:54Z".into(), ..second }];
        assert_eq!(note_kind(&run, &resumed), "one after the other");
        for trial in resumed.trials.iter_mut().filter(|trial| trial.start >= 3) {
            trial.load.began_ns += 80 * NS_PER_S;
        }
        assert_eq!(note_kind(&run, &resumed), "at once");
    }
}
