//! Tests that the JSON Schemas in docs/schema match the types. `UPDATE_GOLDEN=1` updates them.
#![allow(clippy::disallowed_methods)] // A test may look at files.

use std::fs;
use std::path::Path;

use dyno_analysis::budget::Budget;
use dyno_analysis::capacity::CapacityResult;
use dyno_analysis::compare::ComparisonResult;
use dyno_analysis::server::watch::WatchRecord;
use dyno_analysis::{LoadResult, Report};
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Returns the schema of a type as it is serialized, with `None` as `null`.
fn schema_of<T: JsonSchema>() -> Schema {
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
fn load_schema_is_current() {
    check("load.schema.json", &schema_of::<LoadResult>());
}

#[test]
fn report_schema_is_current() {
    check("report.schema.json", &schema_of::<Report>());
}

#[test]
fn watch_schema_is_current() {
    check("watch.schema.json", &schema_of::<WatchRecord>());
}

#[test]
fn compare_schema_is_current() {
    check("compare.schema.json", &schema_of::<ComparisonResult>());
}

#[test]
fn find_and_budget_schemas_are_current() {
    check("find.schema.json", &schema_of::<CapacityResult>());
    check("budget.schema.json", &schema_of::<Budget>());
}
