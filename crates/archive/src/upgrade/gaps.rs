//! Adds keys that older archives of the same version lack, with the value that applied without the
//! key. Keys that may be `null` need no entry.

use serde_json::{Value, json};

use crate::plan::Trial;

pub(super) fn upgrade_header(header: &mut Value) {
    fill(header, &[("resumptions", json!([]))]);
    for resumption in elements(header.get_mut("resumptions")) {
        elements(resumption.get_mut("subjects")).for_each(upgrade_subject);
    }
    let Some(plan) = header.get_mut("plan") else { return };
    // Older versions had no hashes of files, and every subject got every workload.
    fill(
        plan,
        &[
            ("not_served", json!([])),
            ("files", json!({})),
            ("backends", json!([])),
            ("probe_price", json!(false)),
            ("duet", json!([])),
            ("swaps_cpus", json!(false)),
        ],
    );
    if let Some(suite) = plan.get_mut("suite") {
        fill(suite, &[("profiles", json!([]))]);
    }
    elements(plan.get_mut("subjects")).for_each(upgrade_subject);
    elements(plan.get_mut("workloads"))
        .for_each(|workload| fill(workload, &[("tls", json!(false))]));
    let order = plan.get("order").cloned().unwrap_or(json!("fixed"));
    if let Some(load) = plan.get_mut("load") {
        fill(load, &[("check_one_in", json!(1)), ("spin", json!("never")), ("http2", http2())]);
        let timeout_ns = load.get("timeout_ns").and_then(Value::as_u64).unwrap_or(DRAIN_NS);
        // One key determined the order of both subjects and steps.
        fill(
            load,
            &[
                ("drain_ns", json!(timeout_ns.min(DRAIN_NS))),
                ("still_warming", json!("refused")),
                ("order", order),
                ("priority", json!("normal")),
                ("reconnect", json!("backoff")),
            ],
        );
        elements(load.get_mut("steps")).for_each(|step| fill(step, &[("pass", json!(1))]));
    }
    let seed = plan.get("seed").and_then(Value::as_u64).unwrap_or_default();
    for (number, trial) in elements(plan.get_mut("trials")).enumerate() {
        fill(trial, &[("seed", json!(Trial::seed_of(seed, number)))]);
    }
}

/// Longest wait for responses after the window (drain) in versions whose plans did not state it.
const DRAIN_NS: u64 = 5_000_000_000;

/// HTTP/2 settings before they were part of the plan.
fn http2() -> Value {
    json!({"window_bits": 30, "connection_window_bits": 30, "header_table_size": 4096})
}

fn upgrade_subject(subject: &mut Value) {
    // Older versions had no controls that refuse every connection.
    fill(subject, &[("refuses", json!(false))]);
    if let Some(build) = subject.get_mut("build") {
        fill(build, &[("environment", json!({}))]);
    }
}

pub(super) fn upgrade_start(start: &mut Value) {
    for part in elements(start.get_mut("parts")) {
        fill(part, &[("environment", json!({}))]);
        if let Some(warmup) = part.get_mut("warmup").filter(|warmup| warmup.is_object()) {
            upgrade_warm_up(warmup);
        }
        for list in ["checks_before", "checks_after"] {
            elements(part.get_mut(list)).for_each(upgrade_check);
        }
    }
}

fn upgrade_warm_up(warmup: &mut Value) {
    let mut correct = 0;
    for slice in elements(warmup.get_mut("slices")) {
        let answers = slice.get("answers").cloned().unwrap_or_default();
        fill(slice, &[("right_answers", answers)]);
        correct += slice.get("right_answers").and_then(Value::as_u64).unwrap_or_default();
    }
    fill(warmup, &[("right_answers", json!(correct))]);
}

pub(super) fn upgrade_trial(trial: &mut Value) {
    elements(trial.get_mut("checks")).for_each(upgrade_check);
    let Some(load) = trial.get_mut("load") else { return };
    fill(load, &[("unexpected", json!({})), ("connection_failures", json!({}))]);
    // Older versions had no probes.
    fill(load, &[("probes", json!({"attached": [], "refused": []})), ("runtime", json!([]))]);
    if let Some(client) = load.get_mut("client") {
        fill(client, &[("priority", json!("normal"))]);
    }
    for (object, key) in [("books", "carried_in"), ("connections", "asked_again")] {
        if let Some(counts) = load.get_mut(object) {
            fill(counts, &[(key, json!(0))]);
        }
    }
    elements(load.get_mut("intervals")).for_each(upgrade_interval);
    elements(load.get_mut("samples"))
        .filter_map(|sample| sample.get_mut("host"))
        .for_each(upgrade_devices);
}

/// Converts the sums over all disks and over all links to lists with one device.
fn upgrade_devices(host: &mut Value) {
    let Some(host) = host.as_object_mut() else { return };
    for (old_key, list_key) in [("disk", "disks"), ("traffic", "links")] {
        if let Some(Value::Object(mut total)) = host.remove(old_key) {
            total.insert("name".into(), json!("all"));
            // The value belonged to one disk only: the disk with the longest busy time since boot.
            total.remove("disk_busy_ns");
            host.insert(list_key.into(), json!([total]));
        }
    }
}

/// Upgrades a check. Older contracts had no promises about a server's lifecycle.
fn upgrade_check(check: &mut Value) {
    fill(check, &[("of_life", json!(false))]);
}

fn upgrade_interval(interval: &mut Value) {
    let counts = [
        "longest_failure_ns",
        "pages_completed",
        "pages_failed",
        "pages_unfinished",
        "checked",
        "connections_open",
    ];
    fill(interval, &counts.map(|key| (key, json!(0))));
    // An empty distribution.
    fill(
        interval,
        &["window_stall", "page", "intended_gap", "send_gap", "kernel_response"]
            .map(|key| (key, json!(""))),
    );
    fill(interval, &[("by_request", json!([])), ("workers", json!({}))]);
    for share in elements(interval.get_mut("by_request")) {
        fill(
            share,
            &["carried_ok", "never_ended", "longest_failure_ns"].map(|key| (key, json!(0))),
        );
    }
}

/// Adds missing members. A value that is not an object is unchanged, because parsing reports it
/// later.
fn fill(object: &mut Value, defaults: &[(&str, Value)]) {
    let Some(object) = object.as_object_mut() else { return };
    for (key, default) in defaults {
        if !object.contains_key(*key) {
            object.insert((*key).into(), default.clone());
        }
    }
}

/// Returns the elements of a list; empty: the value is not a list.
pub(super) fn elements(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_totals_become_lists_of_one_device() {
        let mut host =
            json!({"busy_ns": 1, "disk": {"bytes_read": 7, "disk_busy_ns": 2}, "traffic": null});
        upgrade_devices(&mut host);
        let upgraded = host.clone();
        upgrade_devices(&mut host);
        assert_eq!(host, upgraded, "a second upgrade changes nothing");
        let disks = json!([{"bytes_read": 7, "name": "all"}]);
        assert_eq!(host, json!({"busy_ns": 1, "disks": disks}));
    }

    #[test]
    fn fill_keeps_existing_members() {
        let mut object = json!({"a": null, "b": 2});
        fill(&mut object, &[("a", json!(1)), ("b", json!(1)), ("c", json!(1))]);
        assert_eq!(object, json!({"a": null, "b": 2, "c": 1}));
        let mut list = json!([1]);
        fill(&mut list, &[("a", json!(1))]);
        assert_eq!(list, json!([1]));
    }
}
