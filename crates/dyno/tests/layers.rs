//! The edges between crates that ARCHITECTURE.md allows, and no others.

use std::collections::BTreeSet;
use std::process::Command;

/// Who may depend on whom, besides crates from outside.
const ALLOWED: &[(&str, &[&str])] = &[
    ("dyno-wire", &[]),
    ("dyno-archive", &[]),
    ("dyno-engine", &["dyno-archive", "dyno-wire"]),
    ("dyno-driver", &["dyno-archive", "dyno-engine"]),
    ("dyno-responder", &["dyno-wire"]),
    ("dyno-observer", &["dyno-archive"]),
    (
        "dyno-runner",
        &["dyno-analysis", "dyno-archive", "dyno-driver", "dyno-engine", "dyno-observer", "dyno-wire"],
    ),
    ("dyno-analysis", &["dyno-archive"]),
    ("dyno-report", &["dyno-analysis", "dyno-archive"]),
    (
        "dyno",
        &[
            "dyno-analysis",
            "dyno-archive",
            "dyno-driver",
            "dyno-engine",
            "dyno-observer",
            "dyno-report",
            "dyno-responder",
            "dyno-runner",
        ],
    ),
];

#[test]
fn crates_depend_only_on_what_the_architecture_allows() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert_eq!(packages.len(), ALLOWED.len(), "a crate is missing from the allow-list, or gone");
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let allowed = ALLOWED.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("{name} is new")).1;
        let edges: BTreeSet<&str> = package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            // Tests may use what they like.
            .filter(|d| d["kind"].is_null())
            .filter_map(|d| d["name"].as_str())
            .filter(|n| n.starts_with("dyno"))
            .collect();
        for edge in &edges {
            assert!(allowed.contains(edge), "{name} must not depend on {edge} (ARCHITECTURE.md)");
        }
    }
}

#[test]
fn the_architecture_names_every_crate() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let text = std::fs::read_to_string(format!("{root}/ARCHITECTURE.md")).unwrap();
    for entry in std::fs::read_dir(format!("{root}/crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(text.contains(&format!("`{name}`")), "ARCHITECTURE.md does not name `{name}`");
    }
}
