//! Tests that other programs that use the machine's CPUs are reported before a run.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::drive::{Sandbox, copy_program, text};

/// Programs that keep all CPUs of the machine busy until they are dropped.
struct Burners(Vec<Child>);

impl Burners {
    fn start(sandbox: &Sandbox) -> Burners {
        let program = sandbox.path().join("burner-of-test");
        copy_program(Path::new("/bin/sh"), &program);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let start = |_| {
            let mut command = Command::new(&program);
            command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            command.spawn().expect("a burner starts")
        };
        Burners((0..cpus.div_ceil(4)).map(start).collect())
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        for burner in &mut self.0 {
            let _ = burner.kill();
            let _ = burner.wait();
        }
    }
}

#[test]
fn wait_on_busy_machine_exits_with_3_and_names() {
    let sandbox = Sandbox::new();
    sandbox.write_suite(&["null"], "");
    let burners = Burners::start(&sandbox);
    let output = sandbox.dyno(&["run", "suite.toml", "--wait-quiet", "3s"]);
    drop(burners);
    let message = text(&output);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(
        message.contains("burner-of-test") && message.contains("hint: stop these"),
        "{message}"
    );
    assert!(sandbox.run_folder().is_none(), "no run begins");
    let output = sandbox.dyno(&["run", "suite.toml", "--wait-quiet", "1s"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
}

#[test]
fn run_reports_busy_programs_at_start() {
    let sandbox = Sandbox::new();
    sandbox.write_suite(&["null"], "");
    let burners = Burners::start(&sandbox);
    let output = sandbox.dyno(&["run", "suite.toml"]);
    drop(burners);
    let message = text(&output);
    assert!(
        message.contains("warning: other programs use") && message.contains("burner-of-test"),
        "{message}"
    );
    // The same names are in the report.
    let report = sandbox.report();
    let others = report["trials"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|trial| trial["machine"]["others"].as_array().cloned().unwrap_or_default());
    let names: Vec<String> =
        others.map(|other| other["name"].as_str().unwrap().to_string()).collect();
    assert!(names.iter().any(|name| name == "burner-of-test"), "{names:?}");
}

#[test]
fn resume_that_does_not_begin_changes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.run(&["null"], "");
    let run = sandbox.run_folder().unwrap();
    std::fs::remove_file(run.join("trials/0001.json")).unwrap();
    let header = || std::fs::read_to_string(run.join("run.json")).unwrap();
    let before = header();
    let resume = ["run", "--resume", run.to_str().unwrap(), "--wait-quiet"];
    let output = sandbox.dyno(&[&resume[..], &["1s"]].concat());
    let message = text(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("must be at least 3s"), "{message}");
    assert_eq!(header(), before);
    let burners = Burners::start(&sandbox);
    let output = sandbox.dyno(&[&resume[..], &["3s"]].concat());
    drop(burners);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("were not idle"), "{}", text(&output));
    assert_eq!(header(), before);
}
