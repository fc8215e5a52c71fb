//! Upgrades runs from before there were contract files and back ends. Expectations had no
//! expressions, a check had one text for its request and result, and all subjects came from one
//! folder.

use serde_json::{Map, Value, json};

use crate::protocol::Protocol;

pub(super) fn upgrade_plan(plan: &mut Value) {
    for request in elements(plan, "workloads").flat_map(|workload| elements(workload, "requests")) {
        if let Some(expect) = request.get_mut("expect").and_then(Value::as_object_mut) {
            fill(expect, &[("headers_match", json!([])), ("json_match", json!([]))]);
        }
    }
    for arm in elements(plan, "arms").filter_map(Value::as_object_mut) {
        // Older suites could not assign back ends to arms.
        fill(arm, &[("backends", json!([]))]);
    }
    for backend in elements(plan, "backends").filter_map(Value::as_object_mut) {
        let name = backend.get("name").cloned().unwrap_or_default();
        fill(backend, &[("of", name.clone()), ("title", name)]);
    }
    let Some(plan) = plan.as_object_mut() else { return };
    if let Some(folder) = plan.remove("subjects_folder") {
        plan.insert("subjects_folders".into(), json!([folder]));
    }
}

pub(super) fn upgrade_start(start: &mut Value) {
    for part in elements(start, "parts") {
        if let Some(startup) = part.get_mut("startup").and_then(Value::as_object_mut) {
            let ready = startup.get("first_answer_ns").cloned().unwrap_or_default();
            fill(startup, &[("ready_ns", ready)]);
        }
        for list in ["checks_before", "checks_after"] {
            elements(part, list).for_each(upgrade_check);
        }
    }
}

pub(super) fn upgrade_trial(trial: &mut Value) {
    elements(trial, "checks").for_each(upgrade_check);
}

/// Upgrades a check. Its name ended with any protocol other than plain HTTP/1.1, and one text
/// described the request, the expectation and the response.
fn upgrade_check(check: &mut Value) {
    let Some(check) = check.as_object_mut().filter(|check| !check.contains_key("protocol")) else {
        return;
    };
    let name = check.get("name").and_then(Value::as_str).unwrap_or_default();
    let suffix = |protocol: &&Protocol| name.ends_with(&format!(" over {protocol}"));
    let protocol = Protocol::OF_SERVERS.iter().find(suffix).copied();
    let base_name = protocol.and_then(|protocol| name.strip_suffix(&format!(" over {protocol}")));
    let base_name = json!(base_name.unwrap_or(name));
    let got = check.remove("detail").unwrap_or_default();
    check.insert("name".into(), base_name);
    let protocol = json!(protocol.unwrap_or_default());
    fill(
        check,
        &[
            ("protocol", protocol),
            ("waived", json!(false)),
            ("asked", json!("")),
            ("expected", json!("")),
            ("got", got),
        ],
    );
}

/// Adds missing members.
fn fill(object: &mut Map<String, Value>, defaults: &[(&str, Value)]) {
    for (key, default) in defaults {
        object.entry(*key).or_insert_with(|| default.clone());
    }
}

/// Returns the elements of a list in an object; empty: no such list.
fn elements<'a>(object: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::CheckResult;

    #[test]
    fn protocol_moves_from_name_of_check_to_its_key() {
        for (name, plain, protocol) in [
            ("json", "json", Protocol::H1),
            ("json over h2", "json", Protocol::H2),
            ("json over h2c", "json", Protocol::H2c),
            ("json over h2c-upgrade", "json", Protocol::H2cUpgrade),
            ("json over all", "json over all", Protocol::H1),
        ] {
            let mut value = json!({
                "name": name, "ok": true, "answered": true, "of_life": false,
                "detail": "as expected",
            });
            upgrade_check(&mut value);
            let upgraded = value.clone();
            upgrade_check(&mut value);
            assert_eq!(value, upgraded, "a second upgrade changes nothing");
            let read: CheckResult = serde_json::from_value(value).unwrap();
            assert_eq!(
                (read.name.as_str(), read.protocol, read.got.as_str()),
                (plain, protocol, "as expected")
            );
        }
    }

    #[test]
    fn single_subjects_folder_becomes_list() {
        let mut plan = json!({
            "subjects_folder": "subjects", "arms": [{"name": "a"}], "backends": [{"name": "db"}],
            "workloads": [{"requests": [{"expect": {"status": 200}}]}]
        });
        upgrade_plan(&mut plan);
        assert_eq!(
            plan,
            json!({
                "subjects_folders": ["subjects"], "arms": [{"name": "a", "backends": []}],
                "backends": [{"name": "db", "of": "db", "title": "db"}],
                "workloads": [{"requests": [{
                    "expect": {"status": 200, "headers_match": [], "json_match": []},
                }]}]
            })
        );
        let mut start = json!({
            "parts": [{"startup": {"listening_ns": 1, "first_answer_ns": 2}}, {"startup": null}],
        });
        upgrade_start(&mut start);
        assert_eq!(start["parts"][0]["startup"]["ready_ns"], 2);
    }
}
