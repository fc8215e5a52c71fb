//! Tests the lines of trials and notes in the text.

use std::path::Path;

use dyno_archive::RunDir;

use super::*;

fn trial_of_golden_run() -> TrialResult {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
    let run = RunDir::open(folder).unwrap().read().unwrap();
    dyno_analysis::report::report(&run).trials.remove(0)
}

#[test]
fn trial_line_omits_final_check() {
    let mut trial = trial_of_golden_run();
    let caveat = |code, severity| Caveat {
        code,
        severity,
        message: String::new(),
        evidence: serde_json::Value::Null,
    };
    trial.caveats = vec![caveat(Code::UNCHECKED, Severity::Invalid)];
    let line = trial_line(&trial, "w", Style::Plain);
    assert!(!line.contains("unchecked"), "{line}");
    trial.caveats.push(caveat(Code::STEAL, Severity::Warning));
    let line = trial_line(&trial, "w", Style::Plain);
    assert!(line.ends_with("steal"), "{line}");
}

#[test]
fn client_line_reports_polling_as_share_of_cpu_time() {
    let mut load = trial_of_golden_run().load;
    let c = &mut load.client;
    // Two threads polled for 1.8 s of their 2 s of CPU time, within a window of 1 s.
    (c.cpu_user_s, c.cpu_sys_s) = (1.5, 0.5);
    (c.cpu_polling_s, c.polling_cpus) = (1.8, Some(1.8));
    let line = client_line(&load);
    let expected = format!(", {} of the CPU time polling for exact timing", percent(0.9));
    assert!(line.contains(&expected), "{line}");
    load.client.cpu_polling_s = 0.0;
    assert!(!client_line(&load).contains("polling"));
}

#[test]
fn slow_rates_keep_three_digits() {
    let mut trial = trial_of_golden_run();
    trial.load.throughput_rps = 0.4;
    let line = trial_line(&trial, "w", Style::Plain);
    assert!(line.contains(" 0.400/s"), "{line}");
    let line = rate_line(&trial.load);
    assert!(line.starts_with("0.400 requests/s "), "{line}");
    trial.load.throughput_rps = 1234.5;
    assert!(rate_line(&trial.load).starts_with("1,235 requests/s "));
}
