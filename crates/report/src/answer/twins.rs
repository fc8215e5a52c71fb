//! Compares servers with their twins: the same server under a second name, whose differences are
//! noise.

use dyno_analysis::experiment::Effect;
use dyno_analysis::report::Report;

use crate::overview::label_in_words;

/// Describes the differences between servers and their twins. `None`: the report has no twins.
pub(super) fn twins(report: &Report) -> Option<String> {
    let twin_sentence = |twin: &Effect| {
        let text = twin_differences(twin)?;
        Some(format!("{} and its twin (the same server): {text}.", twin.from))
    };
    let texts: Vec<String> = report.twins.iter().filter_map(twin_sentence).collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}

/// Describes the differences between a server and its twin. `None`: they have no step in common.
fn twin_differences(twin: &Effect) -> Option<String> {
    let shown: Vec<String> = twin
        .answers
        .iter()
        .filter(|answer| twin.is_shown_in(answer))
        .map(|answer| {
            format!("{}, {}: {}", answer.workload, label_in_words(answer.step), answer.sentence)
        })
        .collect();
    if !shown.is_empty() {
        return Some(format!(
            "a difference is shown, which is a false alarm: {}",
            shown.join("; ")
        ));
    }
    if let [only] = &twin.answers[..] {
        return Some(only.sentence.clone());
    }
    let steps = twin.answers.len();
    let compared = twin.answers.iter().filter(|answer| twin.is_compared_in(answer)).count();
    match (steps, compared) {
        (0, _) => None,
        (_, 0) => {
            Some(format!("not compared at any of {steps} steps, because too few repeats are valid"))
        }
        _ if compared == steps => Some(format!("no difference is shown at any of {steps} steps")),
        _ => Some(format!(
            "no difference is shown at {compared} of {steps} steps. The other steps have too few \
             valid repeats"
        )),
    }
}
