//! Upgrades workloads from before there were mixes. There was one request, whose keys were in the
//! workload.

use serde_json::{Map, Value, json};

/// Converts each such workload to a mix of one request.
pub(super) fn upgrade_plan(plan: &mut Value) {
    let workloads = plan.get_mut("workloads").and_then(Value::as_array_mut);
    for workload in workloads.into_iter().flatten().filter_map(Value::as_object_mut) {
        if !workload.contains_key("requests") && workload.contains_key("path") {
            let request = take_request(workload);
            workload.insert("requests".into(), json!([request]));
        }
    }
}

/// Moves the keys of the request out of its workload.
fn take_request(workload: &mut Map<String, Value>) -> Value {
    let mut take = |key: &str| workload.remove(key).unwrap_or_default();
    let (status, body) = (take("expect_status"), take("expect_body"));
    let expect = json!({
        "status": status, "body": body, "headers": [], "body_sha256": null, "body_contains": null,
        "json": []
    });
    let [method, path, headers, body] = ["method", "path", "headers", "body"].map(take);
    let name = workload.get("name").cloned().unwrap_or_default();
    json!({
        "name": name, "weight": 1, "method": method, "path": path, "headers": headers, "body": body,
        "expect": expect
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Body, Http2, Load, Plan, Spin, Workload};
    use crate::protocol::Protocol;

    fn upgrade(plan: &Value) -> Value {
        super::super::header(json!({"plan": plan}))["plan"].take()
    }

    #[test]
    fn workload_without_mix_is_upgraded() {
        let old = json!({
            "name": "plaintext", "protocol": "h1", "method": "GET", "path": "/plaintext",
            "headers": [["Accept", "*/*"]], "body": null, "expect_status": 200,
            "expect_body": "Hello, World!"
        });
        let upgraded = upgrade(&json!({"workloads": [old]}));
        let workload: Workload = serde_json::from_value(upgraded["workloads"][0].clone()).unwrap();
        let request = &workload.requests[0];
        assert_eq!(
            (request.name.as_str(), request.weight, request.path.as_str()),
            ("plaintext", 1, "/plaintext")
        );
        assert_eq!(request.expect.body, Some(Body(b"Hello, World!".to_vec())));
        assert_eq!((workload.protocol, workload.requests.len()), (Protocol::H1, 1));
        let new = serde_json::to_value(&workload).unwrap();
        assert_eq!(serde_json::from_value::<Workload>(new.clone()).unwrap(), workload);
        let mut unknown = new;
        unknown["protocol"] = "h3".into();
        let error = serde_json::from_value::<Workload>(unknown).unwrap_err();
        assert!(error.to_string().contains("unknown protocol \"h3\" without TLS"), "{error}");
    }

    #[test]
    fn missing_keys_of_load_are_refused_without_upgrade() {
        let old = json!({
            "warmup_ns": 0, "duration_ns": 1, "interval_ns": 1, "timeout_ns": 1,
            "connect_timeout_ns": 1,
            "requests_per_connection": null, "threads": 1, "driver": "epoll",
            "steps": [{
                "connections": 1,
                "streams": 1,
                "pipeline": 1,
                "arrivals": {"model": "poisson", "rate": 5.0},
            }]
        });
        assert!(serde_json::from_value::<Load>(old.clone()).is_err(), "a key is missing");
        let load: Load =
            serde_json::from_value(upgrade(&json!({"load": old}))["load"].clone()).unwrap();
        assert_eq!((load.check_one_in, load.spin), (1, Spin::Never));
        assert_eq!(load.http2, Http2::default());
        assert_eq!(load.steps[0].arrivals.rate(), Some(5.0));
    }

    #[test]
    fn invalid_plan_stays_invalid() {
        for nonsense in [
            json!(null),
            json!(3),
            json!([]),
            json!({"workloads": 3}),
            json!({"workloads": [3, {}]}),
        ] {
            assert!(serde_json::from_value::<Plan>(upgrade(&nonsense)).is_err());
        }
    }
}
