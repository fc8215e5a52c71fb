//! Any text: a suite is read or refused with a message, never a panic.
#![no_main]

use std::path::Path;

use dyno_runner::suite::SuiteFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    if let Err(error) = SuiteFile::parse(Path::new("suite.toml"), source) {
        assert!(!error.to_string().is_empty());
    }
});
