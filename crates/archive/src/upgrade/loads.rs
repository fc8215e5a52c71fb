//! Trials from before loads had a separate record: its keys were in the trial.

use serde_json::{Map, Value};

/// Keys of the trial, not of its load.
const OF_TRIAL: [&str; 3] = ["trial", "start", "checks"];

/// Moves what is of the load into it.
pub(super) fn upgrade_trial(trial: &mut Value) {
    let Some(record) = trial.as_object_mut().filter(|record| !record.contains_key("load")) else {
        return;
    };
    let failure = record.remove("subject_failure").unwrap_or_default();
    record.insert("server_failure".into(), failure);
    let (own, load): (Map<String, Value>, Map<String, Value>) =
        std::mem::take(record).into_iter().partition(|(key, _)| OF_TRIAL.contains(&key.as_str()));
    *record = own;
    record.insert("load".into(), load.into());
}

/// Gives the use of the generator's CPUs its name of today.
pub(super) fn machine(trial: &mut Value) {
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
    fn what_is_of_the_load_moves_into_it() {
        let mut trial =
            json!({"trial": 3, "start": 1, "checks": [], "books": {}, "subject_failure": "left"});
        upgrade_trial(&mut trial);
        let upgraded = trial.clone();
        upgrade_trial(&mut trial);
        assert_eq!(trial, upgraded, "once is enough");
        assert_eq!(
            trial,
            json!({
                "trial": 3, "start": 1, "checks": [],
                "load": {"books": {}, "server_failure": "left"},
            })
        );
    }

    #[test]
    fn use_of_the_cpus_keeps_its_numbers() {
        let mut trial = json!({"load": {"client": {"ground": {"own_ns": 7}}}});
        machine(&mut trial);
        machine(&mut trial);
        assert_eq!(trial, json!({"load": {"client": {"machine": {"own_ns": 7}}}}));
    }
}
