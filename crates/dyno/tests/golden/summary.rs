//! Summarizes a report without its tables of metrics: the answer, and the verdict, the validity and
//! the caveats of each cell. A new metric therefore changes no summary.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use dyno_analysis::summary::Summary;
use dyno_analysis::{Caveat, Report, Severity};
use dyno_report::answer::sentences;
use dyno_report::present::text::wrap;

/// Maximum number of lines. A reviewer reads every changed line of a summary.
const MAX_LINES: usize = 40;
/// Number of characters at which sentences of the answer are broken.
const WIDTH: usize = 98;

/// Returns the summary of a report, one fact per line.
pub fn summarize(report: &Report) -> String {
    let mut text = "answer:\n".to_string();
    for sentence in sentences(report) {
        text += &format!("  {}\n", wrap(&sentence, WIDTH, "    "));
    }
    text += &validity(report);
    text += &caveats(&report.caveats);
    for summary in &report.summaries {
        let trials = report.trials.iter().filter(|trial| trial.cell == summary.cell);
        text += &verdict(summary);
        text += &caveats(trials.flat_map(|trial| &trial.caveats));
    }
    let lines = text.lines().count();
    assert!(lines <= MAX_LINES, "the summary has {lines} lines:\n{text}");
    text
}

fn validity(report: &Report) -> String {
    let run = &report.run;
    format!(
        "run: {} trials planned, {} done, {} not valid\n",
        run.trials_planned, run.trials_done, run.trials_invalid
    )
}

/// Returns a line such as `fast, plaintext, 4 connections: server_cpu (high), 3 of 3 trials valid`.
fn verdict(summary: &Summary) -> String {
    let Summary { subject, workload, trials, invalid, .. } = summary;
    let shape = summary.shape;
    let (connections, rate) = (shape.connections_text(), shape.rate_text(|rate| rate.to_string()));
    let (limiter, confidence) = (summary.limiter.name(), summary.limiter_confidence);
    let valid = trials - invalid;
    format!(
        "{subject}, {workload}, {connections}{rate}: {limiter} ({confidence:?}), {valid} of \
         {trials} trials valid\n"
    )
}

/// Returns a line such as `  Warning errors: 2` for each severity and code, with the number of
/// caveats. The most severe are first.
fn caveats<'a>(caveats: impl IntoIterator<Item = &'a Caveat>) -> String {
    let mut counts: BTreeMap<(Reverse<Severity>, &str), usize> = BTreeMap::new();
    for caveat in caveats {
        *counts.entry((Reverse(caveat.severity), caveat.code.name())).or_default() += 1;
    }
    let line = |((Reverse(severity), code), count)| format!("  {severity:?} {code}: {count}\n");
    counts.into_iter().map(line).collect()
}
