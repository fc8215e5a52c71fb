//! Writes the file format of speedscope (<https://www.speedscope.app/file-format-schema.json>).

use std::collections::HashMap;

use dyno_analysis::profile::{Function, Line, sample_count};
use serde_json::{Value, json};

/// Writes a file for speedscope. `period_ns`: time that a sample represents.
pub(super) fn speedscope(title: &str, lines: &[Line], period_ns: u64) -> String {
    let mut indices: HashMap<&Function, usize> = HashMap::new();
    let mut frames: Vec<Value> = Vec::new();
    let mut samples: Vec<Vec<usize>> = Vec::new();
    for line in lines {
        let mut sample = Vec::new();
        for function in &line.functions {
            let next = indices.len();
            sample.push(*indices.entry(function).or_insert_with(|| {
                frames.push(json!({"name": function.name, "file": function.file()}));
                next
            }));
        }
        samples.push(sample);
    }
    let weights: Vec<u64> = lines.iter().map(|line| line.samples * period_ns).collect();
    let file = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "dyno",
        "name": title,
        "shared": {"frames": frames},
        "profiles": [{
            "type": "sampled",
            "name": title,
            "unit": "nanoseconds",
            "startValue": 0,
            "endValue": sample_count(lines) * period_ns,
            "samples": samples,
            "weights": weights,
        }],
    });
    file.to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_analysis::profile::FunctionKind;

    #[test]
    fn samples_refer_to_distinct_frames() {
        let function =
            |name: &str| Function { name: name.into(), module: None, kind: FunctionKind::Kernel };
        let line = |names: &[&str], samples| Line {
            functions: names.iter().map(|n| function(n)).collect(),
            samples,
        };
        let text = speedscope("t", &[line(&["a", "b"], 2), line(&["b", "a"], 3)], 10);
        let file: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            file["shared"]["frames"],
            json!([{"name": "a", "file": "kernel"}, {"name": "b", "file": "kernel"}])
        );
        let profile = &file["profiles"][0];
        assert_eq!(
            (&profile["samples"], &profile["weights"]),
            (&json!([[0, 1], [1, 0]]), &json!([20, 30]))
        );
        assert_eq!(profile["endValue"], 50);
    }
}
