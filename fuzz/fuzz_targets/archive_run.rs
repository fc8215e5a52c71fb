//! Any change to a run's archive: it is refused, or the analysis and all report formats succeed.
//!
//! The input is three JSON texts, separated by NUL. They are merged, key by key, into run.json, a
//! start and a trial of the golden run.
#![no_main]

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use dyno_archive::RunDir;
use dyno_report::Format;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const FILES: [&str; 3] = ["run.json", "starts/000.json", "trials/0000.json"];

fuzz_target!(|bytes: &[u8]| {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        ["starts", "trials"].iter().for_each(|f| fs::create_dir(folder.path().join(f)).unwrap());
        folder
    });
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/hello/run");
    let mut patches = bytes.split(|b| *b == 0);
    for file in FILES {
        let mut whole: Value =
            serde_json::from_slice(&fs::read(golden.join(file)).unwrap()).unwrap();
        if let Some(Ok(patch)) = patches.next().map(serde_json::from_slice) {
            put_over(&mut whole, patch);
        }
        fs::write(folder.path().join(file), serde_json::to_vec(&whole).unwrap()).unwrap();
    }
    if let Ok(run) = RunDir::open(folder.path()).and_then(|dir| dir.read()) {
        let report = dyno_analysis::report::report(&run);
        for format in Format::ALL {
            let text = format.render(&report);
            if format.name == "html" {
                assert_eq!(text.matches("</script").count(), 2);
            }
        }
    }
});

/// Merges objects key by key and lists element by element. Other values are replaced.
fn put_over(value: &mut Value, patch: Value) {
    match (value, patch) {
        (Value::Object(value), Value::Object(patch)) => {
            for (key, patch) in patch {
                put_over(value.entry(key).or_insert(Value::Null), patch);
            }
        }
        (Value::Array(value), Value::Array(patch)) => {
            value.truncate(patch.len().max(1));
            for (i, patch) in patch.into_iter().enumerate() {
                match value.get_mut(i) {
                    Some(value) => put_over(value, patch),
                    None => value.push(patch),
                }
            }
        }
        (value, patch) => *value = patch,
    }
}
