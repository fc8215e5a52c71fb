//! Tests sentences on servers that closed idle connections, and on resumed runs.

use dyno_analysis::{Caveat, Code, Severity};

use super::answer::{sentences_after, set_ratios};

/// A server that crashes at the first request after a pause has no failed request, so the caveat is
/// the only sign.
#[test]
fn frequent_repetitions_are_described_in_answer() {
    let message = "130 requests (65 %) were sent again on another connection.";
    let with_severity = |severity: Severity| {
        sentences_after(move |r| {
            let caveat = Caveat {
                code: Code::ASKED_AGAIN,
                severity,
                message: message.into(),
                evidence: serde_json::Value::Null,
            };
            r.trials[0].caveats = vec![caveat];
            r.trials[0].valid = severity != Severity::Invalid;
        })
    };
    let has_message = |sentences: &[String]| {
        let in_repeat = format!(", repeat 1: {message}");
        sentences.iter().filter(|sentence| sentence.ends_with(&in_repeat)).count()
    };
    assert_eq!(has_message(&with_severity(Severity::Invalid)), 1);
    assert_eq!(has_message(&with_severity(Severity::Info)), 0);
}

/// The slow server, which is the baseline, was only measured after a resumption.
#[test]
fn sentence_names_resumption_between_servers() {
    let sentences = sentences_after(|r| {
        set_ratios(r, &[]);
        r.trials.iter_mut().filter(|trial| trial.subject_id == "slow").for_each(|t| t.part = 1);
    });
    let expected = "have a valid repeat without a resumption between them.";
    assert!(sentences[0].contains(expected), "{sentences:?}");
}
