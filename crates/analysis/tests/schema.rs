//! Checks that the JSON Schemas in docs/schema match the types that dyno writes. `UPDATE_GOLDEN=1`
//! rewrites them.
#![allow(clippy::disallowed_methods)] // A test may read files.

use std::fs;
use std::path::Path;

use dyno_analysis::budget::Budget;
use dyno_analysis::capacity::CapacityResult;
use dyno_analysis::compare::ComparisonResult;
use dyno_analysis::server::watch::WatchRecord;
use dyno_analysis::{LoadResult, Report};
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Returns the schema of a type as dyno writes it, with `null` for `None`. dyno never reads such
/// files.
fn output_schema<T: JsonSchema>() -> Schema {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    SchemaGenerator::new(settings).into_root_schema_for::<T>()
}

/// Compares a schema with its file, or writes the file with `UPDATE_GOLDEN=1`.
fn check_schema(name: &str, schema: &Schema) {
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
fn load_schema_file_matches_type() {
    check_schema("load.schema.json", &output_schema::<LoadResult>());
}

#[test]
fn report_schema_file_matches_type() {
    check_schema("report.schema.json", &output_schema::<Report>());
}

#[test]
fn watch_schema_file_matches_type() {
    check_schema("watch.schema.json", &output_schema::<WatchRecord>());
}

#[test]
fn compare_schema_file_matches_type() {
    check_schema("compare.schema.json", &output_schema::<ComparisonResult>());
}

#[test]
fn find_and_budget_schema_files_match_types() {
    check_schema("find.schema.json", &output_schema::<CapacityResult>());
    check_schema("budget.schema.json", &output_schema::<Budget>());
}
