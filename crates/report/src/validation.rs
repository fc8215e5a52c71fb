//! Formats the result of `dyno calibrate --verdicts`, which compares verdicts with known causes.

use std::fmt::Write as _;

use dyno_analysis::validation::{KnownStep, Validation};
use dyno_analysis::verdict::{Confidence, Resource};

use crate::format::{count, or_dash, percent, plural};
use crate::present::style::Style;
use crate::terminal::escape_line;

/// Formats the confusion matrix, the totals, incorrect and invalid steps, and skipped behaviours.
#[must_use]
pub fn text(v: &Validation, style: Style) -> String {
    let mut out = format!("  {}  {}\n", style.bold("dyno calibrate --verdicts"), v.machine);
    out.push_str(&matrix(v));
    out.push_str(&totals(v));
    out.push_str(&list("Incorrect verdicts", v.wrong.iter().map(wrong_step), style));
    let invalid = v.invalid_steps.iter().map(invalid_step);
    out.push_str(&list("Invalid steps, not evaluated", invalid, style));
    let not_run = v.not_run.iter().map(|skipped| {
        let (behaviour, user) = (&skipped.behaviour, skipped.user.name());
        format!("    {behaviour} ({user}): {}\n", escape_line(&skipped.reason))
    });
    out.push_str(&list("Behaviours that were not run", not_run, style));
    out
}

/// Formats a list below its title. Empty without lines.
fn list(title: &str, lines: impl Iterator<Item = String>, style: Style) -> String {
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\n  {}\n{lines}", style.bold(title)) }
}

/// Formats the confusion matrix: steps per true cause, verdict and confidence.
fn matrix(v: &Validation) -> String {
    let mut out = format!(
        "\n    {:<16} {:<16} {:>6} {:>8} {:>6}\n",
        "true cause", "verdict", "high", "likely", "guess"
    );
    let mut rows: Vec<(Resource, Resource)> =
        v.matrix.iter().map(|c| (c.cause, c.verdict)).collect();
    rows.dedup();
    let mut last = None;
    for (cause, verdict) in rows {
        let steps = |confidence| {
            let mut cells = v.matrix.iter();
            let found = cells
                .find(|c| (c.cause, c.verdict, c.confidence) == (cause, verdict, confidence))?;
            Some(found.steps)
        };
        let cell = |confidence| steps(confidence).map_or("·".into(), |n| count(n as u64));
        let name = if last == Some(cause) { "" } else { cause.name() };
        let _ = writeln!(
            out,
            "    {name:<16} {:<16} {:>6} {:>8} {:>6}",
            verdict.name(),
            cell(Confidence::High),
            cell(Confidence::Medium),
            cell(Confidence::Low)
        );
        last = Some(cause);
    }
    out
}

/// Formats the totals.
fn totals(v: &Validation) -> String {
    format!(
        "\n  {} evaluated. {} of the verdicts are correct. {} of the correct verdicts have high \
         confidence.\n  Incorrect verdicts with high confidence: {}. Steps not evaluated, because \
         they are not valid: {}.\n",
        plural(v.judged as u64, "step"),
        or_dash(v.correct_share, percent),
        or_dash(v.correct_high_share, percent),
        v.high_wrong,
        v.invalid
    )
}

/// Formats a step with an incorrect verdict.
fn wrong_step(step: &KnownStep) -> String {
    let correct: Vec<&str> = step.correct_verdicts.iter().map(|correct| correct.name()).collect();
    format!(
        "    {} at {} ({}): {} with {} confidence (correct: {})\n      {}\n",
        step.behaviour,
        step.load,
        step.user.name(),
        step.verdict.name(),
        confidence_text(step.confidence),
        correct.join(", "),
        escape_line(&step.sentence)
    )
}

const fn confidence_text(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::High => "high",
        Confidence::Medium => "medium",
        Confidence::Low => "low",
    }
}

/// Formats an invalid step with its reasons.
fn invalid_step(step: &KnownStep) -> String {
    let codes: Vec<&str> = step.invalid.iter().map(|code| code.name()).collect();
    format!(
        "    {} at {} ({}): {}; verdict {}\n",
        step.behaviour,
        step.load,
        step.user.name(),
        codes.join(", "),
        step.verdict.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    use dyno_analysis::caveat::Code;
    use dyno_analysis::validation::{NotRun, User};

    fn step(verdict: Resource, confidence: Confidence, invalid: Vec<Code>) -> KnownStep {
        KnownStep {
            behaviour: "lock-sleep".into(),
            load: "4 connections".into(),
            user: User::Ordinary,
            correct_verdicts: vec![Resource::Lock],
            verdict,
            confidence,
            sentence: "A sentence.".into(),
            evidence: serde_json::Value::Null,
            throughput_rps: 1.0,
            others_cpus: None,
            invalid,
            is_of_machine: false,
        }
    }

    #[test]
    fn text_shows_matrix_totals_and_exceptions() {
        let steps = vec![
            step(Resource::Lock, Confidence::High, Vec::new()),
            step(Resource::Lock, Confidence::Low, Vec::new()),
            step(Resource::Workers, Confidence::High, Vec::new()),
            step(Resource::Unknown, Confidence::Low, vec![Code::GENERATOR_BUSY]),
        ];
        let not_run = NotRun {
            behaviour: "go-sleep".into(),
            user: User::Root,
            reason: "go: not found".into(),
        };
        let text = text(&Validation::new("a machine".into(), steps, vec![not_run]), Style::Plain);
        let expected = "  dyno calibrate --verdicts  a machine

    true cause       verdict            high   likely  guess
    lock             lock                  1        ·      1
                     workers               1        ·      ·

  3 steps evaluated. 66.7 % of the verdicts are correct. 50.0 % of the correct verdicts have \
                        high confidence.
  Incorrect verdicts with high confidence: 1. Steps not evaluated, because they are not valid: 1.

  Incorrect verdicts
    lock-sleep at 4 connections (ordinary user): workers with high confidence (correct: lock)
      A sentence.

  Invalid steps, not evaluated
    lock-sleep at 4 connections (ordinary user): generator_busy; verdict unknown

  Behaviours that were not run
    go-sleep (root): go: not found
";
        assert_eq!(text, expected);
    }
}
