//! Upgrades starts and samples of versions 1 to 3, which had no parties. A start had one process,
//! and a sample had the subject and the generator.

use serde_json::{Map, Value, json};

/// Keys that stay in the start. All others move to its part.
const START_KEYS: [&str; 5] = ["start", "launch", "resumed", "parts", "failure"];

/// Moves the fields of the process into the start's new array `parts`, as its only element.
pub(super) fn upgrade_start(start: &mut Value) {
    let Some(record) = start.as_object_mut().filter(|record| !record.contains_key("parts")) else {
        return;
    };
    let (start_record, mut part): (Map<String, Value>, Map<String, Value>) =
        std::mem::take(record).into_iter().partition(|(key, _)| START_KEYS.contains(&key.as_str()));
    part.insert("party".into(), json!({"subject": 0}));
    // Old records do not have the name. The launch names the subject.
    part.insert("name".into(), json!(""));
    *record = start_record;
    record.insert("parts".into(), json!([part]));
}

/// Converts the subject and the generator of each sample to parties.
pub(super) fn upgrade_trial(trial: &mut Value) {
    let samples = trial.pointer_mut("/load/samples").and_then(Value::as_array_mut);
    for sample in samples.into_iter().flatten().filter_map(Value::as_object_mut) {
        if sample.contains_key("parties") {
            continue;
        }
        let mut take = |key: &str| sample.remove(key).unwrap_or_default();
        let subject = json!({
            "party": {"subject": 0}, "cgroup": take("cgroup"), "threads": take("threads"),
            "processes": take("processes"), "rss_bytes": take("rss_bytes")
        });
        let generator = json!({
            "party": {"generator": 0}, "cgroup": null, "threads": take("generator"), "processes": 1,
            "rss_bytes": null
        });
        sample.insert("parties".into(), json!([subject, generator]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Party, Sample, StartRecord};

    #[test]
    fn process_becomes_only_part_of_its_start() {
        let old = json!({
            "start": 4, "launch": 2, "resumed": false, "pid": 7, "startup": null,
            "checks_before": [],
            "checks_after": [], "limits": [], "stop": null, "failure": null, "log_tail": "oops"
        });
        let start: StartRecord = serde_json::from_value(super::super::start(old)).unwrap();
        assert_eq!((start.start, start.launch, start.parts.len()), (4, 2, 1));
        let part = start.subject().unwrap();
        assert_eq!(
            (part.pid, part.log_tail.as_deref(), part.warmup.as_ref()),
            (Some(7), Some("oops"), None)
        );
    }

    #[test]
    fn subject_and_generator_become_parties() {
        let thread = json!({
            "pid": 1, "tid": 2, "name": "t", "run_ns": 5, "user_ns": 0, "sys_ns": 0,
            "run_delay_ns": null,
            "switches_voluntary": null, "switches_involuntary": null
        });
        let old = json!({
            "at_ns": 1, "took_ns": 1, "cgroup": null, "threads": [thread],
            "generator": [thread, thread],
            "processes": 3, "rss_bytes": 9, "host": null
        });
        let mut trial = json!({"load": {"samples": [old]}});
        upgrade_trial(&mut trial);
        let sample: Sample = serde_json::from_value(trial["load"]["samples"][0].clone()).unwrap();
        let subject = sample.party_use(Party::SUBJECT).unwrap();
        assert_eq!((subject.threads.len(), subject.processes, subject.rss_bytes), (1, 3, Some(9)));
        assert_eq!(sample.party_use(Party::GENERATOR).unwrap().threads.len(), 2);
        assert_eq!(sample.party_use(Party::Backend(0)), None);
    }
}
