//! Writes metrics in the exposition formats of Prometheus and OpenMetrics.

use std::fmt::{Display, Write as _};

/// Text of metrics.
#[derive(Default)]
pub(crate) struct Exposition(String);

impl Exposition {
    /// Begins a metric. `unit` may be empty.
    pub(crate) fn metric(&mut self, name: &str, (kind, unit): (&str, &str), help: &str) {
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {help}");
    }

    /// Adds a sample. Values of labels are escaped.
    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escape(text))).collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    /// Adds a gauge with one sample. An unknown value has no sample.
    pub(crate) fn gauge(
        &mut self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
        value: Option<f64>,
    ) {
        self.metric(name, ("gauge", ""), help);
        if let Some(value) = value {
            self.sample(name, labels, value);
        }
    }

    /// Returns the text.
    pub(crate) fn into_text(self) -> String {
        self.0
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
