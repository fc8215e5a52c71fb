//! Tests that the embedded viewer was built from the sources in `web/`, with types from the current
//! schema of a report.

#![allow(clippy::disallowed_methods)] // Tests may read files.

use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};

#[test]
fn embedded_viewer_matches_its_sources() {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let mut names: Vec<String> = fs::read_dir(web.join("src"))
        .unwrap()
        .map(|entry| format!("src/{}", entry.unwrap().file_name().into_string().unwrap()))
        .collect();
    names.sort();
    names.extend(
        ["package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"].map(String::from),
    );
    let mut hash = Sha256::new();
    for name in names {
        hash.update(&name);
        hash.update([0]);
        hash.update(fs::read(web.join(&name)).unwrap());
        hash.update([0]);
    }
    let hash = hex(hash);
    let viewer = include_str!("../../viewer/viewer.js");
    let stamp = viewer.lines().next().unwrap();
    assert_eq!(
        stamp,
        format!("/* sources {hash} */"),
        "the viewer is stale: run `npm ci && npm run build` in web/"
    );
}

#[test]
fn viewer_types_match_report_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let schema = fs::read(root.join("docs/schema/report.schema.json")).unwrap();
    let types = fs::read_to_string(root.join("web/src/schema.ts")).unwrap();
    assert_eq!(
        types.lines().next().unwrap(),
        format!(
            "// Made by types.mjs from docs/schema/report.schema.json {}",
            hex(Sha256::new_with_prefix(schema))
        ),
        "the viewer's types are stale: run `npm ci && npm run build` in web/"
    );
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}
