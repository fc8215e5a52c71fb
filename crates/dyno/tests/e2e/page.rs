//! Tests the HTML report in a real browser: the tests in `web/tests` open the page of a new run, of
//! a run with many trials, and of a run with a single workload.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dyno_analysis::report::report;
use dyno_archive::RunDir;

use crate::drive::{Sandbox, example, repository, stored_run};

#[test]
fn pages_work_in_chromium() {
    let sandbox = Sandbox::without_load();
    passes_in_chromium("small", &page_of_one_workload(&sandbox));
    passes_in_chromium("large", &page_of_many_subjects_and_trials(&sandbox));
    passes_in_chromium("viewer", &page_of_real_run(&sandbox));
}

fn page_of_one_workload(sandbox: &Sandbox) -> PathBuf {
    let page = sandbox.path().join("small.html");
    let run = RunDir::open(stored_run()).unwrap().read().unwrap();
    fs::write(&page, dyno_report::html::FORMAT.render(&report(&run))).unwrap();
    page
}

fn page_of_many_subjects_and_trials(sandbox: &Sandbox) -> PathBuf {
    let page = sandbox.path().join("large.html");
    let status = Command::new(example("multiplied"))
        .args([&stored_run(), Path::new("5"), Path::new("4"), &page])
        .status()
        .expect("the examples are built");
    assert!(status.success());
    page
}

/// A server of this run crashes. Two workloads have the same steps, so that a step has to be
/// selected by workload as well. Other tests may load servers while the browser opens the page.
fn page_of_real_run(sandbox: &Sandbox) -> PathBuf {
    let loaded = Sandbox::new();
    loaded.add_unruly("good", &[], "");
    loaded.add_unruly("crashing", &["--mode", "crash", "--after", "400"], "");
    loaded.run(&["good", "null", "crashing"], "[[workloads]]\npath = \"/json\"\n");
    let page = sandbox.path().join("real.html");
    fs::copy(loaded.run_folder().unwrap().join("report.html"), &page).unwrap();
    page
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
