//! When two runs were made: one after the other, or at the same time.

use std::time::UNIX_EPOCH;

use dyno_archive::run::Run;

const NS_PER_S: u64 = 1_000_000_000;

/// A span of time, with its ends.
type Span = (u64, u64);

/// Note on the times of two runs; `None`: it is unknown which came first.
pub(super) fn note(a: &Run, b: &Run) -> Option<String> {
    let (started_a, started_b) = (&a.header.started, &b.header.started);
    if is_at_once(a, b) {
        return Some(format!(
            "The two runs overlapped in time: they began at {started_a} and {started_b}. On one \
             machine each disturbs the other, and no interval includes that. Put both into one \
             suite, or make one run after the other."
        ));
    }
    (started_a != started_b).then(|| {
        format!(
            "The two runs were made at different times, {started_a} and {started_b}. No interval \
             includes changes of the machine between them. Put both into one suite."
        )
    })
}

/// Whether parts of both ran at the same time, by the date and by the clock that their loads have
/// since the machine was booted. Archives have no end of a run: its loads show how long it took at
/// least.
fn is_at_once(a: &Run, b: &Run) -> bool {
    let (parts_a, parts_b) = (parts(a), parts(b));
    parts_a.iter().any(|a| parts_b.iter().any(|b| a.overlaps(b)))
}

/// A part of a run that was not interrupted.
struct RunPart {
    /// When it began, by the date, seconds.
    started_s: u64,
    /// From its first load to its last one's end, by the machine's clock, nanoseconds.
    loads: Span,
}

impl RunPart {
    fn overlaps(&self, other: &RunPart) -> bool {
        let (first, second) =
            if self.started_s <= other.started_s { (self, other) } else { (other, self) };
        // Dates have whole seconds. Of two parts that began in one, either may be the first.
        let took_s = |part: &RunPart| (part.loads.1 - part.loads.0) / NS_PER_S;
        let has_begun = match second.started_s - first.started_s {
            0 => took_s(first).min(took_s(second)) >= 1,
            later_s => later_s < took_s(first),
        };
        has_begun && self.loads.0 < other.loads.1 && other.loads.0 < self.loads.1
    }
}

/// The parts of a run that have loads and a date.
fn parts(run: &Run) -> Vec<RunPart> {
    let header = &run.header;
    let resumed = header.resumptions.iter().map(|part| (&part.started, part.from_start));
    let begins: Vec<(&String, usize)> =
        std::iter::once((&header.started, 0)).chain(resumed).collect();
    let ends = begins.iter().skip(1).map(|(_, from)| *from).chain([usize::MAX]);
    let part = |((started, from), end): (&(&String, usize), usize)| {
        let own = run.trials.iter().filter(|trial| (*from..end).contains(&trial.start));
        let loads =
            own.map(|trial| (trial.load.began_ns, trial.load.began_ns + trial.load.window_ns.1));
        let loads = loads.reduce(|all, load| (all.0.min(load.0), all.1.max(load.1)))?;
        Some(RunPart { started_s: seconds(started)?, loads })
    };
    begins.iter().zip(ends).filter_map(part).collect()
}

/// Seconds since 1970 of a date in the format of archives, `2026-11-26T22:06:53Z`; `None`: another
/// format.
fn seconds(date: &str) -> Option<u64> {
    Some(humantime::parse_rfc3339(date).ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
mod tests {
    use dyno_archive::plan::Subject;

    use super::*;
    use crate::fixture;

    /// A run with five loads of a second, one after the other, from a date on; the clock is that of
    /// a machine that was booted at midnight.
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

    fn waiting_verdict(a: &Run, b: &Run) -> &'static str {
        match note(a, b) {
            None => "nothing",
            Some(note) if note.contains("overlapped in time") => "at once",
            Some(note) if note.contains("at different times") => "one after the other",
            Some(note) => panic!("{note}"),
        }
    }

    #[test]
    fn runs_at_the_same_time_are_said_to_be() {
        let first = run_at("2026-11-26T22:06:53Z", 100);
        let of = |date: &str, clock_s| {
            let other = run_at(date, clock_s);
            let both = (waiting_verdict(&first, &other), waiting_verdict(&other, &first));
            assert_eq!(both.0, both.1);
            both.0
        };
        assert_eq!(of("2026-11-26T22:06:53Z", 100), "at once");
        assert_eq!(of("2026-11-26T22:06:56Z", 103), "at once");
        assert_eq!(of("2026-11-26T22:06:58Z", 105), "one after the other");
        // Another boot of the machine, or another machine.
        assert_eq!(of("2026-11-27T22:06:53Z", 100), "one after the other");
        assert_eq!(of("2026-11-26T22:06:53Z", 900), "nothing");
        // Without a date, or without loads.
        assert_eq!(of("then", 100), "one after the other");
        let mut without = first.clone();
        without.trials.clear();
        assert_eq!(waiting_verdict(&first, &without), "nothing");
    }

    #[test]
    fn part_of_a_run_at_the_same_time_is_enough() {
        let first = run_at("2026-11-26T22:06:53Z", 100);
        let mut resumed = run_at("2026-11-26T08:00:00Z", 20);
        let second = fixture::resumption(&resumed, 3, Vec::new());
        resumed.header.resumptions =
            vec![dyno_archive::Resumption { started: "2026-11-26T22:06:54Z".into(), ..second }];
        assert_eq!(waiting_verdict(&first, &resumed), "one after the other");
        for trial in resumed.trials.iter_mut().filter(|trial| trial.start >= 3) {
            trial.load.began_ns += 80 * NS_PER_S;
        }
        assert_eq!(waiting_verdict(&first, &resumed), "at once");
    }
}
