//! The JSON Schemas in docs/schema are those of the types that are written. `UPDATE_GOLDEN=1`
//! writes them anew.
#![allow(clippy::disallowed_methods)] // A test may look at files.

use std::fs;
use std::path::Path;

use dyno_analysis::budget::Budget;
use dyno_analysis::capacity::CapacityResult;
use dyno_analysis::compare::ComparisonResult;
use dyno_analysis::server::watch::WatchRecord;
use dyno_analysis::{LoadResult, Report};
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// The schema of a type as written. dyno never reads these files, and `None` is written as `null`.
fn written<T: JsonSchema>() -> Schema {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    SchemaGenerator::new(settings).into_root_schema_for::<T>()
}

fn check(name: &str, schema: &Schema) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema").join(name);
    let text = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "{name} is stale: run `UPDATE_GOLDEN=1 cargo test -p dyno-analysis --test schema`"
    );
}

#[test]
fn schema_of_a_load_is_documented() {
    check("load.schema.json", &written::<LoadResult>());
}

#[test]
fn schema_of_a_report_is_documented() {
    check("report.schema.json", &written::<Report>());
}

#[test]
fn schema_of_a_look_at_a_running_server_is_documented() {
    check("watch.schema.json", &written::<WatchRecord>());
}

#[test]
fn schema_of_a_comparison_is_documented() {
    check("compare.schema.json", &written::<ComparisonResult>());
}

#[test]
fn schema_of_a_search_for_capacity_is_documented() {
    check("find.schema.json", &written::<CapacityResult>());
    check("budget.schema.json", &written::<Budget>());
}
