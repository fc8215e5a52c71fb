//! Runs from before there were contract files and back ends: expectations had no expressions,
//! checks one text for all, and every subject came from one folder.

use serde_json::{Map, Value, json};

use crate::protocol::Protocol;

pub(super) fn upgrade_plan(plan: &mut Value) {
    for request in lists(plan, "workloads").flat_map(|workload| lists(workload, "requests")) {
        if let Some(expect) = request.get_mut("expect").and_then(Value::as_object_mut) {
            fill(expect, &[("headers_match", json!([])), ("json_match", json!([]))]);
        }
    }
    for arm in lists(plan, "arms").filter_map(Value::as_object_mut) {
        // The few that were up were up with every arm; none was ever in a suite.
        fill(arm, &[("backends", json!([]))]);
    }
    for backend in lists(plan, "backends").filter_map(Value::as_object_mut) {
        let name = backend.get("name").cloned().unwrap_or_default();
        fill(backend, &[("of", name.clone()), ("title", name)]);
    }
    let Some(plan) = plan.as_object_mut() else { return };
    if let Some(folder) = plan.remove("subjects_folder") {
        plan.insert("subjects_folders".into(), json!([folder]));
    }
}

pub(super) fn upgrade_start(start: &mut Value) {
    for part in lists(start, "parts") {
        if let Some(startup) = part.get_mut("startup").and_then(Value::as_object_mut) {
            let ready = startup.get("first_answer_ns").cloned().unwrap_or_default();
            fill(startup, &[("ready_ns", ready)]);
        }
        for moment in ["checks_before", "checks_after"] {
            lists(part, moment).for_each(check);
        }
    }
}

pub(super) fn upgrade_trial(trial: &mut Value) {
    lists(trial, "checks").for_each(check);
}

/// Names ended with the protocol, but over plain HTTP/1.1; one text said what was asked, expected
/// and seen.
fn check(check: &mut Value) {
    let Some(check) = check.as_object_mut().filter(|check| !check.contains_key("protocol")) else {
        return;
    };
    let name = check.get("name").and_then(Value::as_str).unwrap_or_default();
    let suffix = |protocol: &&Protocol| name.ends_with(&format!(" over {protocol}"));
    let protocol = Protocol::OF_SERVERS.iter().find(suffix).copied();
    let plain = protocol.and_then(|protocol| name.strip_suffix(&format!(" over {protocol}")));
    let plain = json!(plain.unwrap_or(name));
    let got = check.remove("detail").unwrap_or_default();
    check.insert("name".into(), plain);
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

fn fill(object: &mut Map<String, Value>, gaps: &[(&str, Value)]) {
    for (key, meaning) in gaps {
        object.entry(*key).or_insert_with(|| meaning.clone());
    }
}

fn lists<'a>(object: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::CheckResult;

    #[test]
    fn check_says_over_what_it_was_asked() {
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
            check(&mut value);
            let once = value.clone();
            check(&mut value);
            assert_eq!(value, once, "once is enough");
            let read: CheckResult = serde_json::from_value(value).unwrap();
            assert_eq!(
                (read.name.as_str(), read.protocol, read.got.as_str()),
                (plain, protocol, "as expected")
            );
        }
    }

    #[test]
    fn plan_of_one_folder_has_a_list_of_it() {
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
