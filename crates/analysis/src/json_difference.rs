//! Finds the differences of two JSON values.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Calls `visit` for each difference of two values, with the path (names joined by dots) and both
/// values. The value of a missing name is null.
pub(crate) fn visit_differences(
    path: &str,
    a: &Value,
    b: &Value,
    visit: &mut dyn FnMut(&str, &Value, &Value),
) {
    if a == b {
        return;
    }
    let (Value::Object(map_a), Value::Object(map_b)) = (a, b) else { return visit(path, a, b) };
    let keys: BTreeSet<&String> = map_a.keys().chain(map_b.keys()).collect();
    for key in keys {
        let value_of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or(Value::Null);
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        visit_differences(&path, &value_of(map_a), &value_of(map_b), visit);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_have_dotted_paths() {
        let mut found = Vec::new();
        let (a, b) =
            (json!({"x": {"y": 1, "z": 2}, "same": [1]}), json!({"x": {"y": 3}, "same": [1]}));
        visit_differences("", &a, &b, &mut |path, a, b| found.push(format!("{path}: {a} {b}")));
        assert_eq!(found, ["x.y: 1 3", "x.z: 2 null"]);
        visit_differences("v", &json!(1), &json!([1]), &mut |path, a, b| {
            found.push(format!("{path}: {a} {b}"));
        });
        assert_eq!(found[2], "v: 1 [1]");
    }
}
