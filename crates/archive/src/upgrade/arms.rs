//! Upgrades plans from before there were arms. Each subject ran under the conditions of the plan.

use serde_json::{Map, Value, json};

use super::gaps::elements;

/// Creates an arm for each subject, and assigns launches and trials to arms.
pub(super) fn upgrade_plan(plan: &mut Value) {
    let Some(plan) = plan.as_object_mut().filter(|plan| !plan.contains_key("arms")) else { return };
    let limits = plan.remove("limits").unwrap_or_default();
    let placement = plan.remove("placement").unwrap_or_default();
    let subjects = elements(plan.get_mut("subjects"));
    let arms = subjects.enumerate().filter_map(|(index, subject)| {
        let subject = subject.as_object_mut()?;
        let conditions = json!({
            "limits": limits, "placement": placement,
            "env": subject.remove("env").unwrap_or_else(|| json!({})),
            "inherit": subject.remove("inherit").unwrap_or_else(|| json!([])), "load": {},
            "observe": []
        });
        Some(json!({
            "name": id(subject), "level": null, "subject": index, "conditions": conditions,
        }))
    });
    let arms: Vec<Value> = arms.collect();
    let arm_of_launch = upgrade_launches(plan);
    for trial in elements(plan.get_mut("trials")) {
        let launch = trial["launch"].as_u64().and_then(|launch| usize::try_from(launch).ok());
        let arm = launch.and_then(|launch| arm_of_launch.get(launch)).cloned();
        if let (Some(trial), Some(arm)) = (trial.as_object_mut(), arm) {
            trial.insert("arm".into(), arm);
        }
    }
    plan.insert("arms".into(), arms.into());
}

/// Adds the network of each arm that has none: the machine's network.
pub(super) fn add_isolation(plan: &mut Value) {
    for arm in elements(plan.get_mut("arms")) {
        if let Some(conditions) = arm.get_mut("conditions").and_then(Value::as_object_mut) {
            conditions.entry("isolation").or_insert_with(|| json!("none"));
        }
    }
}

/// Lists the arms of a duet (servers that are loaded at the same time), if a plan only has a flag
/// for it.
pub(super) fn upgrade_duet(plan: &mut Value) {
    let Some(is_duet) = plan.get("duet").and_then(Value::as_bool) else { return };
    let members = if is_duet { duet_arms(plan) } else { Vec::new() };
    plan["duet"] = json!(members);
}

/// Returns the indices of the arms of a duet: all arms except the arms of controls. Arms of
/// controls are included if there are no others.
fn duet_arms(plan: &Value) -> Vec<usize> {
    let is_control = |arm: &Value| {
        let subject = arm["subject"].as_u64().and_then(|index| usize::try_from(index).ok());
        subject.is_some_and(|index| plan["subjects"][index]["control"] == json!(true))
    };
    let arms = plan.get("arms").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let only_controls = arms.iter().all(is_control);
    let members = arms.iter().enumerate().filter(|(_, arm)| only_controls || !is_control(arm));
    members.map(|(index, _)| index).collect()
}

/// Replaces the subject of each launch by a list of arms, with one arm. Returns this arm of each
/// launch.
fn upgrade_launches(plan: &mut Map<String, Value>) -> Vec<Value> {
    let arms = elements(plan.get_mut("launches")).map(|launch| {
        let Some(launch) = launch.as_object_mut() else { return Value::Null };
        let subject = launch.remove("subject").unwrap_or_default();
        launch.insert("arms".into(), json!([subject]));
        subject
    });
    arms.collect()
}

/// Returns the id of a subject, which is also the name of its only arm.
fn id(subject: &Map<String, Value>) -> String {
    let text = |key: &str| subject.get(key).and_then(Value::as_str);
    let name = text("name").unwrap_or_default();
    text("variant").map_or_else(|| name.to_string(), |variant| format!("{name}/{variant}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unspecified_duet_includes_all_but_controls() {
        let plan = |duet: bool, controls: [bool; 3]| {
            json!({
                "duet": duet, "subjects": controls.map(|control| json!({"control": control})),
                "arms": [{"subject": 2}, {"subject": 1}, {"subject": 0}]
            })
        };
        for (is_duet, controls, members) in [
            (true, [true, false, false], json!([0, 1])),
            (true, [true; 3], json!([0, 1, 2])),
            (false, [false; 3], json!([])),
        ] {
            let mut plan = plan(is_duet, controls);
            upgrade_duet(&mut plan);
            assert_eq!(plan["duet"], members);
            upgrade_duet(&mut plan);
            assert_eq!(plan["duet"], members, "a second upgrade changes nothing");
        }
    }

    #[test]
    fn each_subject_becomes_arm() {
        let mut plan = json!({
            "limits": {"cpus": 0.5}, "placement": {"subject": [0], "generator": [1]},
            "subjects": [
                {"name": "a", "variant": null, "env": {"X": "1"}, "inherit": ["Y"]},
                {"name": "b", "variant": "fast", "env": {}, "inherit": []}
            ],
            "launches": [{"subject": 1, "block": 0}, {"subject": 0, "block": 0}],
            "trials": [{"launch": 0}, {"launch": 1}, {"launch": 7}]
        });
        upgrade_plan(&mut plan);
        let mut upgraded = plan.clone();
        upgrade_plan(&mut plan);
        assert_eq!(plan, upgraded, "a second upgrade changes nothing");
        let arm = |name: &str, subject: usize, env: Value, inherit: Value| {
            json!({"name": name, "level": null, "subject": subject, "conditions": {
                "limits": {"cpus": 0.5}, "placement": {"subject": [0], "generator": [1]},
                "env": env,
                "inherit": inherit, "load": {}, "observe": []
            }})
        };
        add_isolation(&mut upgraded);
        assert_eq!(upgraded["arms"][1]["conditions"]["isolation"], "none");
        upgraded["arms"][1]["conditions"]["isolation"] = json!("netns");
        add_isolation(&mut upgraded);
        let isolation = &upgraded["arms"][1]["conditions"]["isolation"];
        assert_eq!(isolation, "netns", "an existing value is kept");
        assert_eq!(
            plan,
            json!({
                "subjects": [{"name": "a", "variant": null}, {"name": "b", "variant": "fast"}],
                "arms": [arm("a", 0, json!({
                    "X": "1",
                }), json!(["Y"])), arm("b/fast", 1, json!({}), json!([]))],
                "launches": [{"arms": [1], "block": 0}, {"arms": [0], "block": 0}],
                // The last one's launch does not exist; the check of the archive reports that.
                "trials": [{"launch": 0, "arm": 1}, {"launch": 1, "arm": 0}, {"launch": 7}]
            })
        );
    }
}
