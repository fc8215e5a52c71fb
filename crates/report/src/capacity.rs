//! Formats the result of a search for capacity (`-r find`) for a terminal.

use dyno_analysis::capacity::{CapacityResult, CapacityTrial, FailureShares, Votes};

use crate::format::{count, length, micros, number, or_dash, plural};
use crate::terminal;

/// Formats one load of a search: `  41,000/s  p50 310 µs  p99 2.10 ms  met`.
#[must_use]
pub fn line(trial: &CapacityTrial) -> String {
    let verdict = match &trial.missed {
        None => "met".into(),
        Some(reason) if trial.too_short => format!("unknown: {reason}"),
        Some(reason) => format!("missed: {reason}"),
    };
    terminal::escape_line(&format!(
        "{:>12}/s  p50 {:<8} p99 {:<8} {verdict}",
        number(trial.rate_rps),
        or_dash(trial.response_p50_us, micros),
        or_dash(trial.response_p99_us, micros)
    ))
}

/// Announces a longer load: `  41,000/s  confirming by a load of 20 s`.
#[must_use]
pub fn confirming(rate_rps: f64, seconds: f64) -> String {
    terminal::escape_line(&format!(
        "{:>12}/s  confirming by a load of {} s",
        number(rate_rps),
        length(seconds)
    ))
}

/// States how long a load met the objective at the rate. `None`: no rate was found.
fn duration_note(result: &CapacityResult) -> Option<String> {
    let kept = number(result.kept_rps.or(result.unconfirmed_rps)?);
    let seconds = length(result.holds_s?);
    if result.confirmed {
        return Some(format!("  A load of {seconds} s at {kept} requests/s confirmed this rate."));
    }
    let longer: Vec<&CapacityTrial> = result.trials.iter().filter(|trial| trial.confirms).collect();
    let Some(longest) = longer.iter().map(|trial| trial.duration_s).reduce(f64::max) else {
        return Some(format!(
            "  ! The rate is confirmed only for {seconds} s, because the search ran no load that \
             was longer."
        ));
    };
    let rates: Vec<String> = longer.iter().map(|trial| number(trial.rate_rps)).collect();
    let problem = match result.kept_rps {
        Some(_) => format!("confirmed only for {seconds} s:"),
        None => "not confirmed, because".into(),
    };
    Some(format!(
        "  ! The rate is {problem} loads of {} s missed the objective at {} requests/s. Make the \
         loads longer (-d).",
        length(longest),
        rates.join(", ")
    ))
}

/// States how many loads at the two rates agree with the verdicts on the rates, and how many loads
/// the search ran.
fn basis_line(result: &CapacityResult) -> String {
    let votes_text = |rate: Option<f64>, votes: Votes, verb: &str| {
        let loads = plural(votes.loads as u64, "load");
        Some(format!("{} of {loads} at {}/s {verb} the objective", votes.agree, number(rate?)))
    };
    let is_at_unconfirmed = |trial: &&CapacityTrial| Some(trial.rate_rps) == result.unconfirmed_rps;
    let unconfirmed_trials = || result.trials.iter().filter(is_at_unconfirmed);
    let unconfirmed_by = Votes {
        agree: unconfirmed_trials().filter(|trial| trial.kept).count(),
        loads: unconfirmed_trials().count(),
    };
    let kept = votes_text(result.kept_rps, result.kept_by, "met")
        .or_else(|| votes_text(result.unconfirmed_rps, unconfirmed_by, "met"));
    let missed = votes_text(result.missed_rps, result.missed_by, "missed");
    let votes = [kept, missed].into_iter().flatten().collect::<Vec<String>>().join(", ");
    let loads = format!("{} in all", plural(result.trials.len() as u64, "load"));
    if votes.is_empty() { format!("  {loads}") } else { format!("  {votes}; {loads}") }
}

/// Formats the result.
#[must_use]
pub fn text(result: &CapacityResult) -> String {
    let mut lines = vec![outcome_line(result), basis_line(result)];
    lines.extend(result.address.iter().map(|address| format!("  All loads went to {address}.")));
    lines.extend(duration_note(result));
    lines.extend(result.failures_at_any_rate.as_ref().map(failures_note));
    let only_rate_failures = only_rate_failures_note(result);
    let is_too_short =
        only_rate_failures.is_none() && result.kept_rps.is_none() && result.missed_rps.is_some();
    lines.extend(only_rate_failures);
    if is_too_short && let Some(min_rps) = result.least_rps {
        lines.push(format!(
            "  ! Loads at less than {} requests/s are too short for the objective, so lower rates \
             were not tried. Make the loads longer (-d).",
            number(min_rps)
        ));
    }
    if result.limited_by_generator {
        lines.push(
            "  ! The generator or the machine, not the server, was the limit at the rate that \
             missed the objective. The server may reach more. Give the generator another CPU \
             (--threads), or use another machine."
                .into(),
        );
    }
    if result.connections_taken {
        lines.push(
            "  ! All connections were busy: the server or the connection count was the limit. Use \
             more connections (-c)."
                .into(),
        );
    }
    if result.percentile_unknown > 0 {
        lines.push(format!(
            "  ! {} of the loads had too few requests for the percentiles in the objective. Make \
             the loads longer (-d), or begin at a higher rate (-r).",
            count(result.percentile_unknown as u64)
        ));
    }
    if let Some(why) = &result.ended {
        lines.push(format!("  ! The search ended early: {why}"));
    }
    if !result.settled {
        lines.push(
            "  ! Not settled: the two rates are not as close as requested, or longer loads \
             contradict the result."
                .into(),
        );
    }
    lines.iter().map(|line| format!("{}\n", terminal::escape_line(line))).collect()
}

/// Formats the first line: the highest rate that met the objective.
fn outcome_line(result: &CapacityResult) -> String {
    if let Some((rps, seconds)) = result.unconfirmed_rps.zip(result.holds_s) {
        return format!(
            "  {} met only for {} s, up to {} requests/s",
            result.objective,
            length(seconds),
            number(rps)
        );
    }
    match (result.kept_rps, result.missed_rps) {
        (Some(kept), Some(missed)) => {
            format!(
                "  {} met up to {}–{} requests/s",
                result.objective,
                number(kept),
                number(missed)
            )
        }
        (Some(kept), None) if result.trials.iter().all(|t| t.rate_rps <= kept || t.kept) => {
            format!("  {} met at every rate, up to {} requests/s", result.objective, number(kept))
        }
        (Some(kept), None) => {
            format!(
                "  {} met up to {} requests/s. Higher rates are undecided.",
                result.objective,
                number(kept)
            )
        }
        (None, Some(missed)) => {
            format!(
                "  {} missed at every rate, down to {} requests/s",
                result.objective,
                number(missed)
            )
        }
        (None, None) if result.failures_at_any_rate.is_some() => {
            format!("  {}: no rate is known that meets this objective", result.objective)
        }
        (None, None) if result.trials.is_empty() => {
            format!("  {}: nothing was measured", result.objective)
        }
        (None, None) => format!("  {}: no load was long enough to decide", result.objective),
    }
}

/// Returns advice if requests failed at the only rate that was tried. `None`: no request failed, or
/// other rates were tried.
fn only_rate_failures_note(result: &CapacityResult) -> Option<String> {
    let missed = result.missed_together.as_ref().filter(|missed| missed.by_failures)?;
    let is_only = result.trials.iter().all(|trial| trial.rate_rps == missed.rate_rps);
    is_only.then(|| {
        format!(
            "  ! The objective was missed at the only rate tried: {} of {} requests got an \
             incorrect response or none. Check one response with curl, then fix the server or the \
             expectation.",
            count((missed.error_share * missed.requests).round() as u64),
            count(missed.requests as u64)
        )
    })
}

/// Explains that lower rates do not clearly have fewer failures.
fn failures_note(shares: &FailureShares) -> String {
    let lower =
        format!("{} of {} requests", count(shares.failed_below), count(shares.requests_below));
    format!(
        "  ! The objective was missed because of incorrect or missing responses. These failures \
         were not clearly rarer at lower rates: {lower} there, and {} of {} at higher rates. No \
         rate is known that meets the objective. Check one response with curl, then fix the server \
         or the expectation.",
        count(shares.failed_above),
        count(shares.requests_above)
    )
}

#[cfg(test)]
mod tests {
    use dyno_analysis::capacity::SCHEMA;

    use super::*;

    fn trial(rate_rps: f64, missed: Option<&str>) -> CapacityTrial {
        CapacityTrial {
            rate_rps,
            throughput_rps: rate_rps,
            response_p50_us: Some(310.0),
            response_p99_us: None,
            error_share: 0.0,
            kept: missed.is_none(),
            generator: false,
            by_failures: false,
            too_short: false,
            full: false,
            requests: 2000.0,
            duration_s: 2.0,
            confirms: false,
            missed: missed.map(Into::into),
        }
    }

    /// Returns a search between 1,000 and 1,020 requests/s that a longer load confirmed.
    fn settled() -> CapacityResult {
        let trials = vec![
            trial(1000.0, None),
            trial(1020.0, Some("p99 6.1 ms")),
            trial(1000.0, None),
            trial(1020.0, None),
        ];
        CapacityResult {
            schema: SCHEMA,
            objective: "p99<5ms".into(),
            kept_rps: Some(1000.0),
            missed_rps: Some(1020.0),
            kept_by: Votes { agree: 2, loads: 2 },
            missed_by: Votes { agree: 1, loads: 2 },
            settled: true,
            confirmed: true,
            holds_s: Some(20.0),
            unconfirmed_rps: None,
            kept_together: None,
            missed_together: None,
            limited_by_generator: false,
            connections_taken: false,
            percentile_unknown: 0,
            least_rps: None,
            failures_at_any_rate: None,
            ended: None,
            trials,
            address: None,
            import_changes: Vec::new(),
        }
    }

    #[test]
    fn text_of_search_names_votes_and_warnings() {
        let mut result = settled();
        assert_eq!(
            text(&result),
            "  p99<5ms met up to 1,000–1,020 requests/s\n  2 of 2 loads at 1,000/s met the \
             objective, 1 of 2 loads at 1,020/s missed the objective; 4 loads in all\n  A load of \
             20 s at 1,000 requests/s confirmed this rate.\n"
        );
        let at_address = CapacityResult { address: Some("[::1]:80".into()), ..settled() };
        assert!(text(&at_address).contains("\n  All loads went to [::1]:80.\n  A load of 20 s"));
        (result.confirmed, result.holds_s) = (false, Some(2.0));
        assert!(text(&result).contains(
            "! The rate is confirmed only for 2 s, because the search ran no load that was longer"
        ));
        let longer =
            CapacityTrial { confirms: true, duration_s: 20.0, ..trial(1010.0, Some("p99 99 ms")) };
        result.trials.push(longer);
        let output = text(&result);
        assert!(
            output.contains("for 2 s: loads of 20 s missed the objective at 1,010 requests/s."),
            "{output}"
        );
        result.trials.pop();
        (result.settled, result.limited_by_generator) = (false, true);
        assert!(
            text(&result).contains("was the limit at the rate that missed")
                && text(&result).contains("Not settled")
        );
        (result.ended, result.connections_taken, result.percentile_unknown) =
            (Some("it died".into()), true, 2);
        let output = text(&result);
        assert!(
            output.contains("The search ended early: it died")
                && output.contains("Use more connections (-c)"),
            "{output}"
        );
        assert!(output.contains("2 of the loads"), "{output}");
        let short =
            CapacityTrial { too_short: true, ..trial(900.0, Some("too few requests for p99")) };
        assert!(line(&short).ends_with("unknown: too few requests for p99"));
    }

    /// Loads above the kept rate were interrupted before they decided.
    #[test]
    fn undecided_higher_rate_prevents_met_at_every_rate() {
        let result = CapacityResult { missed_rps: None, settled: false, ..settled() };
        assert!(text(&result).starts_with("  p99<5ms met up to 1,000 requests/s. Higher rates"));
        let trials = vec![trial(1000.0, None)];
        let output = text(&CapacityResult { trials, ..result });
        assert!(output.starts_with("  p99<5ms met at every rate, up to 1,000 requests/s"));
    }

    /// Two loads of 2 s met the objective at 1,020 requests/s, and all loads of 20 s missed it.
    #[test]
    fn text_of_unconfirmed_rate_names_shorter_and_longer_loads() {
        let longer = |rate_rps: f64| CapacityTrial {
            confirms: true,
            duration_s: 20.0,
            ..trial(rate_rps, Some("p99 99 ms"))
        };
        let result = CapacityResult {
            kept_rps: None,
            missed_rps: Some(1000.0),
            kept_by: Votes::default(),
            missed_by: Votes { agree: 1, loads: 2 },
            settled: false,
            confirmed: false,
            holds_s: Some(2.0),
            unconfirmed_rps: Some(1020.0),
            trials: vec![
                trial(1000.0, None),
                trial(1020.0, None),
                trial(1020.0, None),
                longer(1020.0),
                longer(1000.0),
            ],
            ..settled()
        };
        let output = text(&result);
        assert!(
            output.starts_with(
                "  p99<5ms met only for 2 s, up to 1,020 requests/s\n  2 of 3 loads at 1,020/s \
                 met the objective, 1 of 2 loads at 1,000/s missed the objective; 5 loads in \
                 all\n  ! The rate is not confirmed, because loads of 20 s missed the objective at \
                 1,020, 1,000 requests/s. Make the loads longer (-d).\n"
            ),
            "{output}"
        );
        assert!(!output.contains("missed at every rate"), "{output}");
    }

    #[test]
    fn text_without_kept_rate_names_missed_rate_or_failures() {
        let mut result = CapacityResult { kept_rps: None, confirmed: false, ..settled() };
        assert!(
            text(&result).starts_with("  p99<5ms missed at every rate, down to 1,020 requests/s")
        );
        assert!(line(&result.trials[1]).ends_with("missed: p99 6.1 ms"));
        result.least_rps = Some(1000.0);
        assert!(
            text(&result).contains("less than 1,000 requests/s are too short"),
            "{}",
            text(&result)
        );
        (result.missed_rps, result.settled) = (None, false);
        result.failures_at_any_rate = Some(FailureShares {
            failed_below: 2,
            requests_below: 3460,
            failed_above: 30,
            requests_above: 45_000,
        });
        let output = text(&result);
        assert!(
            output.starts_with(
                "  p99<5ms: no rate is known that meets this objective\n  4 loads in all\n"
            ),
            "{output}"
        );
        assert!(
            output.contains("2 of 3,460 requests there, and 30 of 45,000 at higher rates"),
            "{output}"
        );
    }

    /// A longer load would not help, so the text must not suggest one.
    #[test]
    fn text_with_failures_at_only_rate_counts_them() {
        let only = CapacityTrial {
            by_failures: true,
            error_share: 0.025,
            requests: 2000.0,
            ..trial(1000.0, Some("errors 2.5 %"))
        };
        let alone = CapacityResult {
            trials: vec![only.clone()],
            missed_rps: Some(1000.0),
            missed_together: Some(only),
            failures_at_any_rate: None,
            kept_rps: None,
            confirmed: false,
            least_rps: Some(1000.0),
            ..settled()
        };
        let output = text(&alone);
        assert!(
            output.contains("at the only rate tried: 50 of 2,000 requests got an incorrect"),
            "{output}"
        );
        assert!(!output.contains("too short for a percentile"), "{output}");
    }
}
