//! Renders a report as Prometheus text (exposition format 0.0.4), to record the results of runs in
//! a monitoring system. A metric has a sample per step: the median over the valid repeats.

use dyno_analysis::metric::MetricId;
use dyno_analysis::summary::Summary;

use crate::output::Format;
use crate::overview::label_with;
use crate::present::exposition::Exposition;

/// The format.
pub const FORMAT: Format =
    Format::new("prometheus", "Prometheus text: medians of each step", |redacted| {
        text(&redacted.report.summaries)
    });

/// Renders a metric per block. A metric without a known value is omitted.
fn text(steps: &[Summary]) -> String {
    let mut out = Exposition::default();
    for id in MetricId::ALL {
        let known = steps.iter().filter_map(|step| Some((step, step.median_of(*id)?)));
        let samples = known.filter(|(_, value)| value.is_finite());
        gauge(&mut out, id.key(), id.metric().title, &samples.collect::<Vec<_>>());
    }
    let valid = steps.iter().map(|step| (step, (step.trials - step.invalid) as f64));
    gauge(&mut out, "valid_repeats", "Valid repeats", &valid.collect::<Vec<_>>());
    out.into_text()
}

/// Appends a metric with its samples. A metric without samples is omitted.
fn gauge(out: &mut Exposition, key: &str, title: &str, samples: &[(&Summary, f64)]) {
    if samples.is_empty() {
        return;
    }
    let name = format!("dyno_{key}");
    out.metric(&name, ("gauge", ""), &format!("{title}."));
    for (step, value) in samples {
        // Two steps with the same labels would be one series.
        let shape = label_with(step.shape, |rate| rate.to_string());
        let labels = [("subject", &*step.subject), ("workload", &step.workload), ("step", &shape)];
        out.sample(&name, &labels, value);
    }
}
