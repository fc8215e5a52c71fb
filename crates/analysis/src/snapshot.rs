//! Texts that tests expect, each in a file below `snapshots`. `UPDATE_GOLDEN=1` rewrites the files.
#![allow(clippy::disallowed_methods)] // A test may read files.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots").join(name).with_extension("snap")
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_default()
}

/// Returns the lines of all snapshots of a folder.
pub(crate) fn lines(folder: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots").join(folder);
    let entries = fs::read_dir(folder).expect("a folder of snapshots");
    let texts = entries.map(|entry| fs::read_to_string(entry.expect("a file").path()));
    let lines = texts
        .flat_map(|text| text.expect("a text").lines().map(String::from).collect::<Vec<String>>());
    lines.collect()
}

/// Compares a text with its snapshot, or writes the snapshot with `UPDATE_GOLDEN=1`.
pub(crate) fn check(name: &str, text: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path(name).parent().expect("a folder")).expect("a new folder");
        fs::write(path(name), text).expect("a new file");
    }
    let expected = read(name);
    let mut lines = text.lines().zip(expected.lines().chain(std::iter::repeat("")));
    let difference = lines.find(|(line, expected)| line != expected);
    assert!(
        text == expected,
        "snapshots/{name}.snap differs: run `UPDATE_GOLDEN=1 cargo test -p dyno-analysis --lib` \
         and check the difference. The first line that is new or differs (text, snapshot): \
         {difference:#?}"
    );
}

/// Formats evidence, with numbers of nine digits: the last digits depend on the order of sums.
pub(crate) fn evidence_text(evidence: &Value) -> String {
    rounded(evidence.clone()).to_string()
}

fn rounded(value: Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(rounded).collect(),
        Value::Object(entries) => {
            entries.into_iter().map(|(key, value)| (key, rounded(value))).collect()
        }
        Value::Number(number) if number.is_f64() => {
            let digits = number.as_f64().map(|value| format!("{value:.8e}"));
            digits.and_then(|digits| digits.parse::<f64>().ok()).into()
        }
        other => other,
    }
}
