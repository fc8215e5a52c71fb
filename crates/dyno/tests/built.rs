//! `make demo` and the benchmarks find their programs in whatever target directory cargo uses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository is here")
}

/// Writes a program whose build takes little time.
fn small_program(folder: &Path) {
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(
        folder.join("Cargo.toml"),
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\n[workspace]\n",
    )
    .unwrap();
    fs::write(
        folder.join("Cargo.lock"),
        "version = 3\n[[package]]\nname = \"small\"\nversion = \"0.1.0\"\n",
    )
    .unwrap();
    fs::write(folder.join("src/main.rs"), "fn main() { print!(\"found\"); }\n").unwrap();
}

/// Builds the program with `scripts/built`. Returns the path that the script prints.
fn built(folder: &Path, target_dir: Option<&Path>) -> PathBuf {
    let mut script = Command::new(repository().join("scripts/built"));
    script.args(["-p", "small"]).current_dir(folder);
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_"))
    {
        // Variables of the cargo that runs this test, except the path of its registry.
        if name != "CARGO_HOME" {
            script.env_remove(name);
        }
    }
    if let Some(target_dir) = target_dir {
        script.env("CARGO_TARGET_DIR", target_dir);
    }
    let output = script.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let program = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    assert_eq!(Command::new(&program).output().unwrap().stdout, b"found");
    program.canonicalize().unwrap()
}

#[test]
fn built_program_is_found_in_any_target_directory() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    let folder = root.join("small");
    small_program(&folder);
    assert!(built(&folder, None).starts_with(folder.join("target")));
    assert!(
        built(&folder, Some(&root.join("by environment"))).starts_with(root.join("by environment"))
    );
    fs::create_dir_all(folder.join(".cargo")).unwrap();
    fs::write(folder.join(".cargo/config.toml"), "[build]\ntarget-dir = \"../configured\"\n")
        .unwrap();
    assert!(built(&folder, None).starts_with(root.join("configured")));
}

/// All scripts ask cargo for the path.
#[test]
fn scripts_do_not_assume_target_directory() {
    let benches =
        fs::read_dir(repository().join("benches")).unwrap().map(|entry| entry.unwrap().path());
    for path in benches.filter(|path| path.is_file()).chain([repository().join("Makefile")]) {
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("target/release"), "{} assumes a target folder", path.display());
    }
}
