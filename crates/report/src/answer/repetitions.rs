//! Describes servers that closed idle connections when requests arrived, so often that their steps
//! are not valid.

use dyno_analysis::report::Report;
use dyno_analysis::subject::SubjectResult;
use dyno_analysis::trial::TrialResult;
use dyno_analysis::{Caveat, Code, Severity};

use crate::overview::label_in_words;

/// Returns a sentence per server with such a step. It has the message of the first of these steps,
/// because a crash of the server looks the same and has no other sign.
pub(super) fn repetitions(report: &Report) -> Vec<String> {
    report.subjects.iter().filter_map(|subject| server_sentence(report, subject)).collect()
}

/// Returns the sentence on a server. `None`: none of its steps is invalid for this reason.
fn server_sentence(report: &Report, subject: &SubjectResult) -> Option<String> {
    let mut trials = report.trials.iter().filter(|trial| trial.subject_id == subject.id);
    let (trial, caveat) = trials.find_map(|trial| Some((trial, frequent_repetitions(trial)?)))?;
    Some(format!(
        "{}, {}, repeat {}: {}",
        subject.title,
        label_in_words(trial.step.shape),
        trial.repeat,
        caveat.message
    ))
}

/// Returns the caveat on requests that were sent again, if it makes a trial invalid.
fn frequent_repetitions(trial: &TrialResult) -> Option<&Caveat> {
    let is_frequent = |c: &&Caveat| (c.code, c.severity) == (Code::ASKED_AGAIN, Severity::Invalid);
    trial.caveats.iter().find(is_frequent)
}
