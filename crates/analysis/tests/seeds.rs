//! Tests that property tests use the same random inputs in each run, so that only a change of the
//! code can make them fail.

use std::path::{Path, PathBuf};

use proptest::test_runner::{Config, RngSeed};

/// Random sources that property tests must not use, because they have another seed or none.
const FORBIDDEN: [&str; 9] = [
    "rng_seed",
    "TestRunner::new",
    "TestRunner::default",
    "RngSeed::Random",
    "thread_rng",
    "rand::random",
    "fastrand::",
    "from_os_rng",
    "from_entropy",
];

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn property_tests_use_fixed_seed() {
    let Config { rng_seed, failure_persistence, .. } = Config::default();
    assert!(
        matches!(rng_seed, RngSeed::Fixed(_)),
        "cargo sets PROPTEST_RNG_SEED (.cargo/config.toml)"
    );
    assert!(failure_persistence.is_some(), "what `make nightly` finds is kept");
    // Tests use `with_cases`, which must keep the seed.
    assert_eq!(Config::with_cases(7).rng_seed, rng_seed);
}

#[test]
fn tests_use_no_other_random_source() {
    let mut files = Vec::new();
    rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut files);
    let own = Path::new(file!()).file_name().unwrap();
    let mut with_properties = 0;
    for path in files.iter().filter(|path| path.file_name() != Some(own)) {
        let text = std::fs::read_to_string(path).unwrap();
        with_properties += usize::from(text.contains("proptest! {"));
        for word in FORBIDDEN {
            assert!(
                !text.contains(word),
                "{}: {word} draws other inputs in each run",
                path.display()
            );
        }
        // A configuration in braces might omit the default, which has the seed.
        for line in text.lines().filter(|line| line.contains("proptest_config(")) {
            assert!(line.contains("ProptestConfig::with_cases("), "{}: {line}", path.display());
        }
    }
    assert!(with_properties >= 20, "{with_properties} files with property tests");
}

#[test]
fn direct_dependencies_exclude_random_crates() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let crates = std::fs::read_dir(root.join("crates")).unwrap();
    let manifests =
        crates.map(|entry| entry.unwrap().path().join("Cargo.toml")).filter(|path| path.exists());
    for path in manifests.chain([root.join("Cargo.toml")]) {
        let text = std::fs::read_to_string(&path).unwrap();
        for name in ["rand", "fastrand", "getrandom", "quickcheck"] {
            let is_dependency = |line: &str| line.split([' ', '.', '=']).next() == Some(name);
            assert!(!text.lines().any(is_dependency), "{}: {name}", path.display());
        }
    }
}
