//! Where two JSON values differ.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Calls back for each place at which two values differ, with the path (names joined by dots) and
/// both values. A name that one of them lacks is null in it.
pub(crate) fn differing(
    path: &str,
    a: &Value,
    b: &Value,
    on: &mut dyn FnMut(&str, &Value, &Value),
) {
    if a == b {
        return;
    }
    let (Value::Object(own), Value::Object(other)) = (a, b) else { return on(path, a, b) };
    let keys: BTreeSet<&String> = own.keys().chain(other.keys()).collect();
    for key in keys {
        let of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or(Value::Null);
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        differing(&path, &of(own), &of(other), on);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn places_have_dotted_paths() {
        let mut found = Vec::new();
        let (a, b) =
            (json!({"x": {"y": 1, "z": 2}, "same": [1]}), json!({"x": {"y": 3}, "same": [1]}));
        differing("", &a, &b, &mut |path, a, b| found.push(format!("{path}: {a} {b}")));
        assert_eq!(found, ["x.y: 1 3", "x.z: 2 null"]);
        differing("v", &json!(1), &json!([1]), &mut |path, a, b| {
            found.push(format!("{path}: {a} {b}"));
        });
        assert_eq!(found[2], "v: 1 [1]");
    }
}
