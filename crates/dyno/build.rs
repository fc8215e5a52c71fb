//! Stores the Git commit in the binary. A build outside of a Git repository has none.

use std::process::Command;

fn main() {
    let output =
        Command::new("git").args(["describe", "--always", "--dirty", "--exclude", "*"]).output();
    if let Some(commit) =
        output.ok().filter(|o| o.status.success()).and_then(|o| String::from_utf8(o.stdout).ok())
    {
        println!("cargo:rustc-env=DYNO_COMMIT={}", commit.trim());
    }
    println!("cargo:rerun-if-changed=../../.git/logs/HEAD");
    println!("cargo:rerun-if-changed=src");
}
