//! Tests the HTML report in a real browser: the tests in `web/tests` open the page of a new run, of
//! a run with many trials, and of a run with a single workload.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dyno_analysis::report::report;
use dyno_archive::RunDir;

use crate::drive::{Sandbox, example, repository};

#[test]
fn report_of_real_run_works_in_chromium() {
    let sandbox = Sandbox::new();
    sandbox.add_unruly("good", &[], "");
    sandbox.add_unruly("crashing", &["--mode", "crash", "--after", "400"], "");
    // Two workloads have the same steps, so that a step has to be selected by workload as well.
    sandbox.run(&["good", "null", "crashing"], "[[workloads]]\npath = \"/json\"\n");
    passes_in_chromium("viewer", &sandbox.run_folder().unwrap().join("report.html"));
}

#[test]
fn report_of_many_subjects_and_trials_works_in_chromium() {
    let sandbox = Sandbox::without_load();
    let page = sandbox.path().join("large.html");
    let status = Command::new(example("multiplied"))
        .args([&golden(), Path::new("5"), Path::new("4"), &page])
        .status()
        .expect("the examples are built");
    assert!(status.success());
    passes_in_chromium("large", &page);
}

#[test]
fn report_of_one_workload_works_in_chromium() {
    let sandbox = Sandbox::without_load();
    let page = sandbox.path().join("small.html");
    let run = RunDir::open(golden()).unwrap().read().unwrap();
    fs::write(&page, dyno_report::html::FORMAT.render(&report(&run))).unwrap();
    passes_in_chromium("small", &page);
}

/// Runs the tests of `web/tests` with this name on a page.
fn passes_in_chromium(tests: &str, page: &Path) {
    let web = repository().join("web");
    assert!(web.join("node_modules").is_dir(), "run `npm ci` in web/ first; `make test` does");
    let status = Command::new("node")
        .args(["--test", &format!("tests/{tests}.test.mjs")])
        .current_dir(web)
        .env("REPORT", page)
        .status()
        .unwrap();
    assert!(status.success(), "the browser tests {tests} failed on {}", page.display());
}

/// Returns the golden run: three subjects, one of them skipped, and one workload at two steps,
/// three times.
fn golden() -> PathBuf {
    repository().join("tests/golden/hello/run")
}
