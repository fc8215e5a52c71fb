//! Checks that tests draw the same random inputs in each run, so that only a change of the code can
//! make them fail.

use std::path::{Path, PathBuf};

use proptest::test_runner::{Config, RngSeed};

/// Sources of random numbers that tests must not use. They have another seed, or none.
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

/// Adds all Rust files below a folder to `files`.
fn find_rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            find_rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn property_tests_have_fixed_seed() {
    let Config { rng_seed, failure_persistence, .. } = Config::default();
    assert!(
        matches!(rng_seed, RngSeed::Fixed(_)),
        "cargo sets PROPTEST_RNG_SEED (.cargo/config.toml)"
    );
    assert!(failure_persistence.is_some(), "`make nightly` must store the inputs that fail");
    // Tests use `with_cases`, which changes only the number of cases.
    assert_eq!(Config::with_cases(7).rng_seed, rng_seed);
}

#[test]
fn tests_use_no_other_random_source() {
    let mut files = Vec::new();
    find_rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut files);
    let this_file = Path::new(file!()).file_name().unwrap();
    let mut property_test_files = 0;
    for path in files.iter().filter(|path| path.file_name() != Some(this_file)) {
        let text = std::fs::read_to_string(path).unwrap();
        property_test_files += usize::from(text.contains("proptest! {"));
        for word in FORBIDDEN {
            assert!(
                !text.contains(word),
                "{}: {word} draws other inputs in each run",
                path.display()
            );
        }
        // Only the default configuration has the seed, and `with_cases` starts from it.
        for line in text.lines().filter(|line| line.contains("proptest_config(")) {
            assert!(line.contains("ProptestConfig::with_cases("), "{}: {line}", path.display());
        }
    }
    assert!(property_test_files >= 20, "{property_test_files} files with property tests");
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
