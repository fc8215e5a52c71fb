//! How a test says that something cannot be checked here. The tests of each crate take this file in
//! with `#[path]`.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Says on one line why a check cannot run here. Written past the test harness, which keeps the
/// output of passing tests, and to the file that `NOT_RUN` names, whose lines `make test` shows at
/// its end.
pub fn not_run(why: &str) {
    let line = format!("NOT RUN: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("NOT_RUN") {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        // A check that is skipped in silence is what this is there to prevent.
        file.and_then(|mut file| file.write_all(line.as_bytes())).unwrap_or_else(|error| {
            panic!("{why}; and {} cannot be written: {error}", path.display())
        });
    }
}
