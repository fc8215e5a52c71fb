//! The report in a real browser: the tests in `web/tests` open the page of a run that was just made.

use std::process::Command;

use crate::drive::{Place, repository};

#[test]
fn the_report_of_a_real_run_works_in_chromium() {
    let place = Place::new();
    place.add_unruly("good", &[], "");
    place.add_unruly("crashing", &["--mode", "crash", "--after", "400"], "");
    // Two workloads with the same steps: what is chosen by step must be told apart by workload, too.
    place.run(&["good", "null", "crashing"], "[[workloads]]\npath = \"/json\"\n");
    let page = place.run_folder().unwrap().join("report.html");
    let web = repository().join("web");
    assert!(web.join("node_modules").is_dir(), "run `npm ci` in web/ first; `make test` does");
    let status = Command::new("npm")
        .args(["test", "--silent"])
        .current_dir(web)
        .env("REPORT", &page)
        .status()
        .unwrap();
    assert!(status.success(), "the browser tests failed on {}", page.display());
}
