use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::plan::Build;
use crate::run::RunHeader;

fn golden_header() -> RunHeader {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
    serde_json::from_str(&std::fs::read_to_string(folder.join("run.json")).unwrap()).unwrap()
}

/// Writes a value as JSON with the members of each object in reverse order.
fn reversed_text(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let texts =
                members.iter().rev().map(|(k, v)| format!("{}:{}", json!(k), reversed_text(v)));
            format!("{{{}}}", texts.collect::<Vec<_>>().join(","))
        }
        Value::Array(values) => {
            format!("[{}]", values.iter().map(reversed_text).collect::<Vec<_>>().join(","))
        }
        _ => value.to_string(),
    }
}

/// Returns the JSON pointers of all values that are neither objects nor filled lists.
fn leaves(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            let name = name.replace('~', "~0").replace('/', "~1");
            leaves(value, &format!("{pointer}/{name}"), found);
        }),
        Value::Array(values) if !values.is_empty() => values
            .iter()
            .enumerate()
            .for_each(|(i, value)| leaves(value, &format!("{pointer}/{i}"), found)),
        _ => found.push(pointer.into()),
    }
}

/// Returns other values for a leaf. Some of them have a type that the leaf cannot have.
fn others(value: &Value) -> Vec<Value> {
    match value {
        Value::Bool(is) => vec![json!(!is)],
        Value::Number(number) => vec![json!(number.as_f64().unwrap() as u64 + 1)],
        Value::String(text) => {
            let names = ["epoll", "uring", "never", "always", "measured", "random", "fixed"];
            let names = names.into_iter().chain(["at-once", "backoff", "realtime", "h2"]);
            names.map(|name| json!(name)).chain([json!(format!("{text}2"))]).collect()
        }
        _ => vec![json!(1), json!("a"), json!(["a"]), json!([["a", "b"]]), json!({"limit_ns": 1})],
    }
}

/// Returns a copy of a value for each other value of each of its leaves, with the leaf's pointer.
fn changes(value: &Value) -> Vec<(String, Value)> {
    let mut pointers = Vec::new();
    leaves(value, "", &mut pointers);
    let mut changed = Vec::new();
    for pointer in pointers {
        let leaf = value.pointer(&pointer).unwrap();
        for other in others(leaf).into_iter().filter(|other| other != leaf) {
            let mut copy = value.clone();
            *copy.pointer_mut(&pointer).unwrap() = other;
            changed.push((pointer.clone(), copy));
        }
    }
    changed
}

#[test]
fn every_request_and_load_setting_changes_workload_id() {
    let plan = golden_header().plan;
    let id = WorkloadId::new(&plan, 0);
    let mut changed = std::collections::BTreeSet::new();
    for (pointer, workload) in changes(&json!(plan.workloads[0])) {
        if let Ok(workload) = serde_json::from_value(workload) {
            let other = Plan { workloads: vec![workload], ..plan.clone() };
            // A text that is read as the same value, such as a protocol's default, is no change.
            if other != plan {
                assert_ne!(WorkloadId::new(&other, 0), id, "{pointer}");
                changed.insert(pointer);
            }
        }
    }
    for (pointer, load) in changes(&json!(plan.load)) {
        if let Ok(load) = serde_json::from_value(load) {
            let other = Plan { load, ..plan.clone() };
            let is_step = pointer.starts_with("/steps");
            assert_eq!(WorkloadId::new(&other, 0) == id, is_step || other == plan, "{pointer}");
            changed.insert(pointer);
        }
    }
    for pointer in ["/requests/0/path", "/requests/0/expect/status", "/duration_ns", "/driver"] {
        assert!(changed.contains(pointer), "{pointer} was never changed: {changed:?}");
    }
    assert!(changed.len() >= 25, "{changed:?}");
}

#[test]
fn workload_id_ignores_order_of_keys_and_rest_of_plan() {
    let plan = golden_header().plan;
    let id = WorkloadId::new(&plan, 0);
    let read: Plan = serde_json::from_str(&reversed_text(&json!(plan))).unwrap();
    assert_eq!(WorkloadId::new(&read, 0), id);
    let mut other = Plan { seed: plan.seed + 1, repeats: 9, ..plan.clone() };
    other.suite.name = "other".into();
    other.arms.clear();
    assert_eq!(WorkloadId::new(&other, 0), id);
}

#[test]
fn only_stable_facts_change_machine_id() {
    let facts = Facts {
        cpu_model: Some("CPU".into()),
        online_cpus: Some(4),
        memory_bytes: Some(8 << 30),
        virtualisation: Some("kvm".into()),
        kernel: Some("6.1".into()),
        governor: Some("performance".into()),
        ..Facts::default()
    };
    let id = MachineId::new(&facts);
    let mut stable = std::collections::BTreeSet::new();
    for (pointer, changed) in changes(&json!(facts)) {
        // One byte more than a size of memory belongs to the next size.
        if let Ok(changed) = serde_json::from_value(changed)
            && MachineId::new(&changed) != id
        {
            stable.insert(pointer);
        }
    }
    let names = ["/cpu_model", "/memory_bytes", "/online_cpus", "/virtualisation"];
    assert_eq!(stable.iter().map(|name| &**name).collect::<Vec<_>>(), names);
}

#[test]
fn installed_memory_is_next_common_size() {
    const GIB: u64 = 1 << 30;
    for (reported, installed) in [
        (GIB / 100 * 98, GIB),
        (3 * GIB / 100 * 97, 3 * GIB),
        (16 * GIB / 100 * 97, 16 * GIB),
        (48 * GIB / 100 * 98, 48 * GIB),
        (64 * GIB, 64 * GIB),
        (0, 0),
        (1, 1),
        (u64::MAX, u64::MAX),
    ] {
        assert_eq!(installed_memory(reported), installed, "{reported}");
    }
}

#[test]
fn definition_and_build_inputs_change_subject_version() {
    let build = |portable: &str, inputs: &str| {
        let build =
            Build { portable_inputs: portable.into(), inputs: inputs.into(), ..Build::default() };
        Some(build)
    };
    let subject = Subject {
        name: "x".into(),
        definition: Some("d".into()),
        build: build("p", "i"),
        ..Subject::default()
    };
    let version = SubjectVersion::new(&subject);
    assert!(version.is_some());
    let same =
        Subject { build: build("p", "other path"), version: Some("2".into()), ..subject.clone() };
    assert_eq!(SubjectVersion::new(&same), version);
    for other in [
        Subject { definition: Some("e".into()), ..subject.clone() },
        Subject { build: build("q", "i"), ..subject.clone() },
        Subject { build: None, ..subject.clone() },
    ] {
        let other_version = SubjectVersion::new(&other);
        assert!(other_version.is_some() && other_version != version, "{other:?}");
    }
    for unknown in [
        Subject { definition: None, ..subject.clone() },
        Subject { build_failed: Some("no".into()), ..subject.clone() },
        Subject { skipped: Some("no".into()), ..subject },
    ] {
        assert_eq!(SubjectVersion::new(&unknown), None, "{unknown:?}");
    }
}

#[test]
fn ids_of_different_kinds_differ() {
    let value = json!({});
    assert_ne!(hash("machine", &value), hash("workload", &value));
    assert_eq!(hash("machine", &value).len(), 2 * ID_BYTES);
    assert_eq!(RunId::from_bits(1, 2).to_string(), "00000000000000010000000000000002");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Fractions as people write them have fewer than 15 digits.
        (any::<i32>(), 1..9).prop_map(|(n, digits)| json!(f64::from(n) / 10f64.powi(digits))),
        "[a-c\"\\\\,:{}\\[\\]]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c\":,]{0,2}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn hash_does_not_depend_on_text(value in any_json()) {
        let read: Value = serde_json::from_str(&reversed_text(&value)).unwrap();
        prop_assert_eq!(hash("", &read), hash("", &value));
    }

    #[test]
    fn different_values_have_different_hashes(a in any_json(), b in any_json()) {
        prop_assert_eq!(hash("", &a) == hash("", &b), a == b);
    }
}
