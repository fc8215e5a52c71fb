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
        Burners((0..cpus).map(start).collect())
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

/// A run waits in vain, and then begins with a warning. Its resumption waits in vain.
#[test]
fn busy_programs_are_named_and_waited_for() {
    let sandbox = Sandbox::new();
    sandbox.write_suite(&["null"], "");
    let burners = Burners::start(&sandbox);
    let run = |options: &[&str]| {
        let output = sandbox.dyno(&[&["run"], options].concat());
        (output.status.code(), text(&output))
    };
    let (status, message) = run(&["suite.toml", "--wait-quiet", "3s"]);
    assert_eq!(status, Some(3), "{message}");
    assert!(
        message.contains("burner-of-test") && message.contains("hint: stop these"),
        "{message}"
    );
    assert!(sandbox.run_folder().is_none(), "no run begins");

    let (_, message) = run(&["suite.toml", "--observe", "none"]);
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

    let folder = sandbox.run_folder().unwrap();
    std::fs::remove_file(folder.join("trials/0001.json")).unwrap();
    let header = || std::fs::read_to_string(folder.join("run.json")).unwrap();
    let before = header();
    for (limit, expected_status, expected) in
        [("1s", 2, "must be at least 3s"), ("3s", 3, "were not idle")]
    {
        let (status, message) = run(&["--resume", folder.to_str().unwrap(), "--wait-quiet", limit]);
        assert_eq!(status, Some(expected_status), "{message}");
        assert!(message.contains(expected), "{message}");
        assert_eq!(header(), before);
    }
    drop(burners);
}
