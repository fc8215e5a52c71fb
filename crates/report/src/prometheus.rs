//! Renders a report as Prometheus text (exposition format 0.0.4), to record the results of runs in
//! a monitoring system. A metric has a sample per step: the median over the valid repeats.

use std::fmt::Write as _;

use dyno_analysis::metric::MetricId;
use dyno_analysis::summary::Summary;

use crate::output::Format;
use crate::overview::label;

/// The format.
pub const FORMAT: Format =
    Format::new("prometheus", "Prometheus text: medians of each step", |redacted| {
        text(&redacted.report.summaries)
    });

/// Renders a metric per block. A metric without a known value is omitted.
fn text(steps: &[Summary]) -> String {
    let mut out = String::new();
    for id in MetricId::ALL {
        let known = steps.iter().filter_map(|step| Some((step, step.median_of(*id)?)));
        let samples = known.filter(|(_, value)| value.is_finite());
        gauge(&mut out, id.key(), id.metric().title, samples);
    }
    let valid = steps.iter().map(|step| (step, (step.trials - step.invalid) as f64));
    gauge(&mut out, "valid_repeats", "Valid repeats", valid);
    out
}

/// Appends a metric with its samples. A metric without samples is omitted.
fn gauge<'a>(
    out: &mut String,
    key: &str,
    title: &str,
    samples: impl Iterator<Item = (&'a Summary, f64)>,
) {
    let mut head = format!("# HELP dyno_{key} {title}.\n# TYPE dyno_{key} gauge\n");
    for (step, value) in samples {
        let _ = writeln!(
            out,
            "{head}dyno_{key}{{subject=\"{}\",workload=\"{}\",step=\"{}\"}} {value}",
            escape(&step.subject),
            escape(&step.workload),
            escape(&label(step.shape))
        );
        head.clear();
    }
}

/// Escapes the value of a label.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_keeps_labels_on_one_line() {
        assert_eq!(escape("a \"b\" \\c\nd"), "a \\\"b\\\" \\\\c\\nd");
    }
}
