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
    out.push_str(&steps_section("Incorrect verdicts", &v.wrong, style));
    out.push_str(&invalid_section(v, style));
    if !v.not_run.is_empty() {
        let _ = writeln!(out, "\n  {}", style.bold("Behaviours that were not run"));
    }
    for skipped in &v.not_run {
        let _ = writeln!(
            out,
            "    {} ({}): {}",
            skipped.behaviour,
            skipped.user.name(),
            escape_line(&skipped.reason)
        );
    }
    out
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

/// Formats a list of steps with their verdicts. Empty without steps.
fn steps_section(title: &str, steps: &[KnownStep], style: Style) -> String {
    let mut out = String::new();
    if !steps.is_empty() {
        let _ = writeln!(out, "\n  {}", style.bold(title));
    }
    for step in steps {
        let correct: Vec<&str> =
            step.correct_verdicts.iter().map(|correct| correct.name()).collect();
        let _ = writeln!(
            out,
            "    {} at {} ({}): {} with {} confidence (correct: {})\n      {}",
            step.behaviour,
            step.load,
            step.user.name(),
            step.verdict.name(),
            confidence_text(step.confidence),
            correct.join(", "),
            escape_line(&step.sentence)
        );
    }
    out
}

const fn confidence_text(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::High => "high",
        Confidence::Medium => "medium",
        Confidence::Low => "low",
    }
}

/// Formats the list of invalid steps. Empty without such steps.
fn invalid_section(v: &Validation, style: Style) -> String {
    let mut out = String::new();
    if !v.invalid_steps.is_empty() {
        let _ = writeln!(out, "\n  {}", style.bold("Invalid steps, not evaluated"));
    }
    for step in &v.invalid_steps {
        let codes: Vec<&str> = step.invalid.iter().map(|code| code.name()).collect();
        let _ = writeln!(
            out,
            "    {} at {} ({}): {}; verdict {}",
            step.behaviour,
            step.load,
            step.user.name(),
            codes.join(", "),
            step.verdict.name()
        );
    }
    out
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
