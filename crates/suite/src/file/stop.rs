//! Checks `[stop]`, the condition of an early end: a run may end once its comparison is decided.

use dyno_analysis::compare;
use dyno_analysis::stats::REPEATS_FOR_INTERVAL;
use dyno_config::mistake::{Mistake, mistake, positive};
use dyno_config::units;
use dyno_model::plan::StopRule;
use serde::Deserialize;

/// Default number of repeats.
const REPEATS: u32 = 3;

/// Default limit of repeats of a suite that may end early.
const REPEATS_AT_MOST: u32 = 20;

/// `[stop]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStop {
    metrics: Option<Vec<String>>,
    same_within: Option<String>,
}

impl RawStop {
    /// Checks the metrics whose comparison may end the run. `duet`: the subjects are loaded at the
    /// same time, so that metrics that include the wait for another server are excluded.
    pub(super) fn check(self, duet: bool) -> Result<StopRule, Mistake> {
        let locate = |mistake: Mistake| mistake.with_parent("stop");
        let defaults: &[&str] =
            if duet { &["cpu_us_per_request"] } else { &["throughput", "cpu_us_per_request"] };
        let names =
            self.metrics.unwrap_or_else(|| defaults.iter().copied().map(String::from).collect());
        if names.is_empty() {
            return Err(locate(mistake(
                "metrics",
                "`metrics`: the list must have at least one entry\nhint: add one, or remove \
                 `metrics`",
            )));
        }
        let key = |(index, name): (usize, &String)| match compare::metric(name) {
            Ok(metric) if duet && metric.includes_waits => {
                Err(locate(mistake("metrics", NOT_IN_A_DUET).with_child(index)))
            }
            Ok(metric) => Ok(metric.key.to_string()),
            Err(reason) => Err(locate(mistake("metrics", reason).with_child(index))),
        };
        let metrics = names.iter().enumerate().map(key).collect::<Result<_, _>>()?;
        let same_within = self.same_within.as_deref().map(units::share).transpose();
        let same_within = same_within.map_err(|reason| locate(mistake("same_within", reason)))?;
        Ok(StopRule { metrics, same_within })
    }
}

const NOT_IN_A_DUET: &str = "this metric cannot decide when the run ends. With `order = \"duet\"`, \
                             it includes the time that a server waits for a CPU while other \
                             servers use it\nhint: use another metric, such as \
                             `cpu_us_per_request`, or `order = \"interleaved\"`";

/// Checks that there are subjects to compare.
///
/// # Errors
/// There is one subject.
pub(crate) fn check_subjects(stop: Option<&StopRule>, subjects: usize) -> Result<(), Mistake> {
    if stop.is_none() || subjects > 1 {
        return Ok(());
    }
    let message = "[stop]: needs at least two subjects, because the run ends when their comparison \
                   is decided\nhint: remove [stop]";
    Err(mistake("stop", message))
}

/// Returns the number of repeats. If a run may end early, this is the limit.
pub(super) fn repeats(requested: Option<u32>, may_stop: bool) -> Result<u32, Mistake> {
    let repeats = requested.unwrap_or(if may_stop { REPEATS_AT_MOST } else { REPEATS });
    let locate = |mistake: Mistake| mistake.with_parent("suite");
    let repeats = positive("repeats", repeats).map_err(locate)?;
    if may_stop && (repeats as usize) < REPEATS_FOR_INTERVAL {
        let message = format!(
            "`repeats`: must be at least {REPEATS_FOR_INTERVAL} with [stop], because a confidence \
             interval needs {REPEATS_FOR_INTERVAL} repeats\nhint: use more repeats, or remove \
             `repeats` for the default of {REPEATS_AT_MOST}"
        );
        return Err(locate(mistake("repeats", message)));
    }
    Ok(repeats)
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;

    fn suite(extra: &str) -> Result<super::super::SuiteFile, String> {
        parse(&format!("subjects = [\"a\", \"b\"]\n{extra}"))
    }

    #[test]
    fn stop_sets_metrics_and_repeat_limit() {
        let stopped = suite("[stop]\nsame_within = \"2%\"\n").unwrap();
        let stop = stopped.stop.unwrap();
        assert_eq!((stopped.repeats, stop.same_within), (20, Some(0.02)));
        assert_eq!(stop.metrics, ["throughput_rps", "server_cpu_us_per_request"]);
        let named = suite("[suite]\nrepeats = 7\n[stop]\nmetrics = [\"p99\"]\n").unwrap();
        assert_eq!(
            (named.repeats, named.stop.unwrap().metrics),
            (7, vec!["response_p99_us".to_string()])
        );
        let duet = suite("[suite]\norder = \"duet\"\n[stop]\n").unwrap();
        assert_eq!(duet.stop.unwrap().metrics, ["server_cpu_us_per_request"]);
        let without = suite("").unwrap();
        assert_eq!((without.repeats, without.stop), (3, None));
    }

    #[test]
    fn invalid_stop_rule_is_refused_with_position() {
        for (extra, line, expected) in [
            ("[stop]\nmetrics = [\"p98\"]\n", 3, "\"p98\": not a metric that can be compared"),
            ("[stop]\nmetrics = []\n", 3, "at least one entry"),
            ("[stop]\nsame_within = \"2\"\n", 3, "write it like `2%`"),
            ("[suite]\nrepeats = 4\n[stop]\n", 3, "must be at least 5 with [stop]"),
            ("[stop]\nmetric = \"p99\"\n", 3, "did you mean `metrics`?"),
            (
                "[suite]\norder = \"duet\"\n[stop]\nmetrics = [\"throughput\"]\n",
                5,
                "the time that a server waits for a CPU",
            ),
        ] {
            let error = suite(extra).unwrap_err();
            assert!(
                error.contains(expected) && error.contains(&format!("s.toml:{line}:")),
                "{extra}\n→ {error}"
            );
        }
        let stop = suite("[stop]\n").unwrap().stop;
        assert!(super::check_subjects(stop.as_ref(), 1).is_err());
        assert!(
            super::check_subjects(stop.as_ref(), 2).is_ok()
                && super::check_subjects(None, 1).is_ok()
        );
    }
}
