//! Any text: a suite is read, or refused with a message, without a profile and with each of its
//! profiles. Nothing panics.
#![no_main]

use std::path::Path;

use dyno_suite::file::{SuiteFile, profile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    let path = Path::new("suite.toml");
    let profiles = profile::names(path, source).unwrap_or_default();
    for chosen in std::iter::once(Vec::new()).chain(profiles.into_iter().map(|name| vec![name])) {
        if let Err(error) = SuiteFile::parse(path, source, &chosen) {
            assert!(!error.to_string().is_empty());
        }
    }
});
