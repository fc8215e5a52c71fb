//! Upgrades trials from before loads had a separate record. The keys of the load were in the trial.

use serde_json::{Map, Value};

/// Keys that belong to the trial, and not to its load.
const TRIAL_KEYS: [&str; 3] = ["trial", "start", "checks"];

/// Moves the keys of the load into a separate record.
pub(super) fn upgrade_trial(trial: &mut Value) {
    let Some(record) = trial.as_object_mut().filter(|record| !record.contains_key("load")) else {
        return;
    };
    let failure = record.remove("subject_failure").unwrap_or_default();
    record.insert("server_failure".into(), failure);
    let (trial_record, load): (Map<String, Value>, Map<String, Value>) =
        std::mem::take(record).into_iter().partition(|(key, _)| TRIAL_KEYS.contains(&key.as_str()));
    *record = trial_record;
    record.insert("load".into(), load.into());
}

/// Renames the key for the use of the generator's CPUs.
pub(super) fn rename_machine(trial: &mut Value) {
    let Some(client) = trial.pointer_mut("/load/client").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(machine) = client.remove("ground") {
        client.insert("machine".into(), machine);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_of_load_move_into_its_record() {
        let mut trial =
            json!({"trial": 3, "start": 1, "checks": [], "books": {}, "subject_failure": "left"});
        upgrade_trial(&mut trial);
        let upgraded = trial.clone();
        upgrade_trial(&mut trial);
        assert_eq!(trial, upgraded, "a second upgrade changes nothing");
        assert_eq!(
            trial,
            json!({
                "trial": 3, "start": 1, "checks": [],
                "load": {"books": {}, "server_failure": "left"},
            })
        );
    }

    #[test]
    fn machine_use_is_renamed_once() {
        let mut trial = json!({"load": {"client": {"ground": {"own_ns": 7}}}});
        rename_machine(&mut trial);
        rename_machine(&mut trial);
        assert_eq!(trial, json!({"load": {"client": {"machine": {"own_ns": 7}}}}));
    }
}
