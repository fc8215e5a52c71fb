//! Divides the JSON of a report into a part that the viewer reads when the page opens, and the
//! intervals of trials, which it reads when a trial is shown. Intervals are most of the JSON of a
//! long run.

use std::io;

use dyno_analysis::report::Report;
use serde::Serialize as _;
use serde_json::Serializer;
use serde_json::ser::{CompactFormatter, Formatter};

/// The JSON of a report, divided. Compact JSON has no line feeds, so that they can separate parts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReportData {
    /// The report with a line feed in place of the intervals of each list: `"intervals":[⏎]`.
    pub(super) report: String,
    /// The omitted intervals, without brackets: a line for each list, in the order of the lists.
    pub(super) intervals: String,
}

impl ReportData {
    pub(super) fn new(report: &Report) -> ReportData {
        let mut json = Vec::new();
        let formatter = MarkingFormatter::default();
        report
            .serialize(&mut Serializer::with_formatter(&mut json, formatter))
            .expect("every report can be written as JSON");
        let json = String::from_utf8(json).expect("JSON should be UTF-8");
        // Lists of intervals are between two marks.
        let mut parts = json.split(MARK);
        let mut data =
            ReportData { report: parts.next().unwrap_or_default().into(), ..ReportData::default() };
        while let (Some(intervals), Some(rest)) = (parts.next(), parts.next()) {
            data.intervals.push_str(intervals);
            data.intervals.push('\n');
            data.report.push('\n');
            data.report.push_str(rest);
        }
        data
    }
}

/// Character before and after the intervals of a list. JSON escapes it in texts.
const MARK: char = '\u{1e}';

/// Key of the top-level list of trials, and of their lists of intervals.
const TRIALS: &str = "trials";
const INTERVALS: &str = "intervals";

/// Writes compact JSON, with a [`MARK`] before and after the intervals of each list in a trial.
#[derive(Default)]
struct MarkingFormatter {
    /// The key of the value that is written.
    key: String,
    is_in_key: bool,
    /// Number of open lists and objects.
    depth: usize,
    /// Depth of the list of trials while it is open.
    trials: Option<usize>,
    /// Depth of a list of intervals while it is open.
    intervals: Option<usize>,
}

impl Formatter for MarkingFormatter {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        CompactFormatter.begin_array(writer)?;
        self.depth += 1;
        // The trials are a member of the report, which is the only object around them.
        if self.depth == 2 && self.key == TRIALS {
            self.trials = Some(self.depth);
        } else if self.trials.is_some() && self.intervals.is_none() && self.key == INTERVALS {
            self.intervals = Some(self.depth);
            return write!(writer, "{MARK}");
        }
        Ok(())
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.intervals == Some(self.depth) {
            self.intervals = None;
            write!(writer, "{MARK}")?;
        }
        if self.trials == Some(self.depth) {
            self.trials = None;
        }
        self.depth -= 1;
        CompactFormatter.end_array(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        CompactFormatter.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        CompactFormatter.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.is_in_key = true;
        self.key.clear();
        CompactFormatter.begin_object_key(writer, first)
    }

    fn end_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.is_in_key = false;
        CompactFormatter.end_object_key(writer)
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if self.is_in_key {
            self.key.push_str(fragment);
        }
        CompactFormatter.write_string_fragment(writer, fragment)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use dyno_analysis::report::report;
    use dyno_archive::RunDir;
    use serde_json::{Value, json};

    use super::*;

    fn golden_report() -> Report {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
        report(&RunDir::open(folder).unwrap().read().unwrap())
    }

    /// Puts the intervals back into the report.
    fn whole(data: &ReportData) -> String {
        let mut intervals = data.intervals.lines();
        let mut parts = data.report.split('\n');
        let mut whole = parts.next().unwrap().to_string();
        for part in parts {
            whole.push_str(intervals.next().unwrap());
            whole.push_str(part);
        }
        assert_eq!(intervals.next(), None);
        whole
    }

    #[test]
    fn parts_are_whole_report() {
        let mut report = golden_report();
        // Texts and expectations of users that look like the divided parts.
        report.run.description = "\"intervals\":[\n] \u{1e}".into();
        let expected = ("/a".into(), json!({"trials": [{"intervals": [1, {"trials": [2]}]}]}));
        report.run.workloads[0].requests[0].expect.json.push(expected);
        let data = ReportData::new(&report);
        assert_eq!(whole(&data), serde_json::to_string(&report).unwrap());
    }

    #[test]
    fn part_for_opening_has_no_intervals_of_trials() {
        let report = golden_report();
        let data = ReportData::new(&report);
        let opened: Value = serde_json::from_str(&data.report).unwrap();
        for (trial, opened) in report.trials.iter().zip(opened["trials"].as_array().unwrap()) {
            assert!(!trial.load.intervals.is_empty());
            assert_eq!(opened["load"]["intervals"], json!([]));
            assert_eq!(opened["server"]["intervals"], json!([]));
            assert_eq!(opened["place"], json!(trial.place));
        }
        let lists = |trial: &dyno_analysis::trial::TrialResult| 2 + trial.backends.len();
        let expected: usize = report.trials.iter().map(lists).sum();
        assert_eq!(data.intervals.lines().count(), expected);
    }
}
