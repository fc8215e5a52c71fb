//! Tests that the dependencies between crates are those that ARCHITECTURE.md allows.

use std::collections::BTreeSet;
use std::process::Command;

/// Allowed dependencies between the workspace's crates.
const ALLOWED: &[(&str, &[&str])] = &[
    ("dyno-wire", &[]),
    ("dyno-config", &[]),
    ("dyno-model", &[]),
    ("dyno-archive", &["dyno-model"]),
    ("dyno-engine", &["dyno-model", "dyno-wire"]),
    ("dyno-workload", &["dyno-config", "dyno-engine", "dyno-model", "dyno-wire"]),
    ("dyno-driver", &["dyno-engine", "dyno-model"]),
    ("dyno-responder", &["dyno-wire"]),
    ("dyno-observer", &["dyno-model"]),
    ("dyno-launch", &["dyno-config", "dyno-model", "dyno-observer"]),
    (
        "dyno-contract",
        &[
            "dyno-config",
            "dyno-engine",
            "dyno-launch",
            "dyno-model",
            "dyno-observer",
            "dyno-wire",
            "dyno-workload",
        ],
    ),
    (
        "dyno-subject",
        &["dyno-config", "dyno-contract", "dyno-launch", "dyno-model", "dyno-observer"],
    ),
    ("dyno-analysis", &["dyno-config", "dyno-model"]),
    (
        "dyno-suite",
        &[
            "dyno-analysis",
            "dyno-config",
            "dyno-contract",
            "dyno-driver",
            "dyno-engine",
            "dyno-launch",
            "dyno-model",
            "dyno-observer",
            "dyno-subject",
            "dyno-workload",
        ],
    ),
    (
        "dyno-generator",
        &[
            "dyno-contract",
            "dyno-driver",
            "dyno-engine",
            "dyno-launch",
            "dyno-model",
            "dyno-observer",
            "dyno-workload",
        ],
    ),
    (
        "dyno-lab",
        &[
            "dyno-analysis",
            "dyno-archive",
            "dyno-config",
            "dyno-contract",
            "dyno-driver",
            "dyno-engine",
            "dyno-generator",
            "dyno-launch",
            "dyno-model",
            "dyno-observer",
            "dyno-subject",
            "dyno-suite",
            "dyno-workload",
        ],
    ),
    ("dyno-report", &["dyno-analysis", "dyno-config", "dyno-model"]),
    ("dyno-testkit", &["dyno-model"]),
    (
        "dyno",
        &[
            "dyno-analysis",
            "dyno-archive",
            "dyno-config",
            "dyno-contract",
            "dyno-driver",
            "dyno-engine",
            "dyno-lab",
            "dyno-launch",
            "dyno-model",
            "dyno-observer",
            "dyno-report",
            "dyno-responder",
            "dyno-subject",
            "dyno-suite",
            "dyno-testkit",
            "dyno-workload",
        ],
    ),
];

#[test]
fn crate_dependencies_match_architecture() {
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
        let allowed =
            ALLOWED.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("{name} is new")).1;
        let edges: BTreeSet<&str> = package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            // Dependencies of tests are not restricted.
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
fn architecture_names_every_crate() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let text = std::fs::read_to_string(format!("{root}/ARCHITECTURE.md")).unwrap();
    for entry in std::fs::read_dir(format!("{root}/crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(text.contains(&format!("`{name}`")), "ARCHITECTURE.md does not name `{name}`");
    }
}

/// Source text of computations: a quotient, a product with a number, a median, a sum.
const COMPUTES: [&str; 7] = [" / ", " * 1e", " * 100", "median(", ".sum(", ".sum::<", ".fold(0"];

/// Files in which numbers become text. They convert units.
const FORMATS: [&str; 3] = [
    "format.rs",
    // The format prescribes its quantiles.
    "hdr.rs",
    // Its summaries hold the sum of all times, in seconds.
    "openmetrics.rs",
];

#[test]
fn reports_do_not_compute_numbers() {
    let mut found = Vec::new();
    for file in sources(concat!(env!("CARGO_MANIFEST_DIR"), "/../report/src")) {
        if FORMATS.iter().any(|name| file.ends_with(name)) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        let mut is_in_text = false;
        for (number, line) in (1..).zip(code.lines()) {
            let computed = without_texts(line, &mut is_in_text);
            if COMPUTES.iter().any(|name| computed.contains(name)) {
                found.push(format!("{}:{number}: {}", file.display(), line.trim()));
            }
        }
    }
    assert!(
        found.is_empty(),
        "numbers are computed in crates/analysis (ARCHITECTURE.md):\n{}",
        found.join("\n")
    );
}

fn sources(folder: &str) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(sources(path.to_str().unwrap())),
            false => all.push(path),
        }
    }
    assert!(!all.is_empty(), "{folder} is empty");
    all
}

/// Returns a line without its comment and without quoted texts. `is_in_text`: whether a quoted text
/// of the preceding line continues; afterwards, whether one of this line does.
fn without_texts(line: &str, is_in_text: &mut bool) -> String {
    let line = if *is_in_text { line } else { line.split("//").next().unwrap() };
    let mut code = String::new();
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' if *is_in_text => drop(characters.next()),
            '"' => {
                *is_in_text = !*is_in_text;
                code.push('"');
            }
            c if !*is_in_text => code.push(c),
            _ => {}
        }
    }
    code
}

#[test]
fn computation_check_ignores_texts() {
    let mut is_in_text = false;
    let mut stripped = |line: &str| without_texts(line, &mut is_in_text);
    assert_eq!(stripped(r#"let a = "p50 / p99"; // b / c"#), "let a = \"\"; ");
    assert!(stripped("let share = a / b;").contains(COMPUTES[0]));
    assert_eq!(stripped(r#"note("a \"b\" / \"#), "note(\"");
    assert_eq!(stripped(r#"    c / d");"#), "\");");
}
