//! Writes the suites and subjects of servers with known bottlenecks, which test the verdicts.

use std::fmt::Write as _;
use std::path::Path;

use dyno_analysis::trial::StepResult;
use dyno_analysis::validation::User;
use dyno_analysis::verdict::Resource;
use dyno_testkit::{Behaviour, ExpectedVerdict, LoadLevel, Program, Runtime};

/// Name of the back end in a suite.
const BACK_END: &str = "backend";

/// Warm-up of each step, if the behaviour sets no other warm-up. This warm-up is shorter than
/// usual, because there are about three hundred steps.
const WARMUP_MS: u32 = 200;

/// Length of each measured window, milliseconds.
const DURATION_MS: u32 = 600;

/// Returns the command of a server. `port` and `back_end`: ports, or placeholders for them.
pub fn command(
    behaviour: &Behaviour,
    programs: &Path,
    port: &str,
    back_end: Option<&str>,
) -> Vec<String> {
    let file = |name: &str| programs.join(name).display().to_string();
    let folder = || programs.display().to_string();
    let command: Vec<String> = match behaviour.program {
        Program::Testkit(..) => {
            let command = [&file("testkit"), "--port", port, "--behaviour", behaviour.name];
            let back_end_option =
                back_end.map_or([None; 2], |port| [Some("--backend"), Some(port)]);
            command
                .into_iter()
                .chain(back_end_option.into_iter().flatten())
                .map(Into::into)
                .collect()
        }
        Program::Server { runtime, options, mode } => {
            let (program, server) = match runtime {
                Runtime::Java => {
                    let nodelay = "-Dsun.net.httpserver.nodelay=true".into();
                    ("java".into(), vec![nodelay, "-cp".into(), folder(), "Server".into()])
                }
                Runtime::Go => (file("goserver"), Vec::new()),
                Runtime::Node => ("node".into(), vec![file("server.js")]),
                Runtime::Python => ("python3".into(), vec![file("server.py")]),
            };
            let options = options.iter().map(ToString::to_string);
            let arguments = [port.into(), mode.into()];
            std::iter::once(program).chain(options).chain(server).chain(arguments).collect()
        }
    };
    command
}

/// Returns the command that tests whether a runtime is installed, and a hint if it is not.
pub const fn requirement(runtime: Runtime) -> (&'static str, &'static str) {
    match runtime {
        Runtime::Java => ("java -version && javac -version", "Install a JDK, version 17 or later."),
        Runtime::Go => ("go version", "Install Go 1.24 or later."),
        Runtime::Node => ("node --version", "Install Node.js 18 or later."),
        Runtime::Python => ("python3 --version", "Install Python 3.8 or later."),
    }
}

/// Writes the `subject.toml` of a server. `back_end`: port of a back end outside of the suite.
pub fn subject(behaviour: &Behaviour, programs: &Path, back_end: Option<u16>) -> String {
    let back_end_port = behaviour.back_end.is_some().then(|| match back_end {
        Some(port) => port.to_string(),
        // A monitored back end is in the suite, which has this placeholder for the port.
        None => format!("{{{BACK_END}.port}}"),
    });
    let command = command(behaviour, programs, "{port}", back_end_port.as_deref());
    let mut text = String::from("language = \"any\"\nprotocols = [\"h1\"]\n");
    if let Program::Server { runtime, .. } = behaviour.program {
        let (test, hint) = requirement(runtime);
        // The server is built already, so only its runtime is required.
        let test = test.split(" && ").next().unwrap_or(test);
        let _ = writeln!(
            text,
            "[[requires]]\nname = {:?}\ntest = {test:?}\nhint = {hint:?}",
            test.split(' ').next().unwrap_or(test)
        );
    }
    let _ =
        writeln!(text, "[start]\ncommand = {command:?}\n[ready]\npath = \"/\"\ndeadline = \"30s\"");
    text
}

/// Writes the suite. `cpus`: all CPUs that dyno may use.
pub fn suite(behaviour: &Behaviour, cpus: &[u32]) -> String {
    let name = behaviour.name;
    let conditions = behaviour.conditions;
    let mut text = format!(
        "subjects = [{name:?}]\n[suite]\nname = {name:?}\nrepeats = 1\norder = \"fixed\"\n\
         contaminated = \"counts\"\n"
    );
    text.push_str(&limits(behaviour, cpus));
    if let Some(back_end) = behaviour.back_end.filter(|back_end| back_end.is_monitored) {
        let subject = back_end.behaviour;
        let _ = writeln!(text, "[[backends]]\nuse = {subject:?}\nname = {BACK_END:?}");
    }
    text.push_str(&workloads(behaviour.loads));
    let warmup = match conditions.is_cold {
        true => "measured".into(),
        false => format!("{}ms", conditions.warmup_ms.unwrap_or(WARMUP_MS)),
    };
    let _ = writeln!(
        text,
        "[load]\norder = \"fixed\"\nwarmup = {warmup:?}\nduration = \"{DURATION_MS}ms\"\n\
         interval = \"100ms\"\ntimeout = \"5s\""
    );
    if let Some(requests) = conditions.requests_per_connection {
        let _ = writeln!(text, "requests_per_connection = {requests}");
    }
    text
}

/// Writes the table `[limits]`, or nothing for a behaviour without limits.
fn limits(behaviour: &Behaviour, cpus: &[u32]) -> String {
    let conditions = behaviour.conditions;
    let quota = conditions.quota_milli.map(|n| format!("cpus = {}", f64::from(n) / 1000.0));
    let cpu_list = || cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let cpuset = conditions.is_on_several_cpus.then(|| format!("cpuset = {:?}", cpu_list()));
    let memory = conditions.memory_mib.map(|mib| format!("memory = \"{mib}MiB\""));
    let lines: Vec<String> = [quota, cpuset, memory].into_iter().flatten().collect();
    if lines.is_empty() { String::new() } else { format!("[limits]\n{}\n", lines.join("\n")) }
}

/// Writes separate workloads for closed loops and for rates, because only steps of one kind are
/// compared.
fn workloads(loads: &[ExpectedVerdict]) -> String {
    let connections = |load: &ExpectedVerdict| match load.at {
        LoadLevel::Connections(n) => Some(n),
        LoadLevel::Rate(_) => None,
    };
    let rate = |load: &ExpectedVerdict| match load.at {
        LoadLevel::Connections(_) => None,
        LoadLevel::Rate(n) => Some(n),
    };
    let closed: Vec<u32> = loads.iter().filter_map(connections).collect();
    let open: Vec<u32> = loads.iter().filter_map(rate).collect();
    let mut text = String::new();
    if !closed.is_empty() {
        let _ = writeln!(
            text,
            "[[workloads]]\nname = \"closed\"\npath = \"/\"\nconnections = {closed:?}"
        );
    }
    if !open.is_empty() {
        let _ = writeln!(
            text,
            "[[workloads]]\nname = \"open\"\npath = \"/\"\nconnections = 16\nrate = {open:?}"
        );
    }
    text
}

/// Returns the load of the behaviour that a step measured.
pub fn load_of(behaviour: &Behaviour, step: &StepResult) -> Option<&'static ExpectedVerdict> {
    behaviour.loads.iter().find(|load| match load.at {
        LoadLevel::Connections(n) => step.shape.rate.is_none() && step.shape.connections == n,
        LoadLevel::Rate(n) => step.shape.rate == Some(f64::from(n)),
    })
}

/// Describes a load.
pub fn load_in_words(at: LoadLevel) -> String {
    match at {
        LoadLevel::Connections(1) => "1 connection".into(),
        LoadLevel::Connections(n) => format!("{n} connections"),
        LoadLevel::Rate(n) => format!("{n} requests/s"),
    }
}

/// Returns the verdicts that are correct under a load. An ordinary user cannot see why threads
/// wait, so `elsewhere` is correct as well.
pub fn correct_verdicts(load: &ExpectedVerdict, user: User) -> Vec<Resource> {
    let resource = |name: &&str| Resource::ALL.iter().copied().find(|r| r.name() == *name);
    let mut verdicts: Vec<Resource> = load.correct.iter().filter_map(resource).collect();
    let is_hidden =
        verdicts.iter().any(|r| matches!(r, Resource::Lock | Resource::Workers | Resource::Disk));
    if user == User::Ordinary && is_hidden && !verdicts.contains(&Resource::Elsewhere) {
        verdicts.push(Resource::Elsewhere);
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    use dyno_testkit::{behaviours, find};

    fn parse_toml(text: &str) -> toml::Table {
        text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn correct_verdicts_name_known_resources() {
        for behaviour in behaviours() {
            for load in behaviour.loads {
                assert_eq!(
                    correct_verdicts(load, User::Root).len(),
                    load.correct.len(),
                    "{}: {load:?}",
                    behaviour.name
                );
            }
        }
    }

    #[test]
    fn every_behaviour_has_valid_toml() {
        for behaviour in behaviours() {
            let suite = parse_toml(&suite(behaviour, &[0, 1]));
            assert_eq!(suite["subjects"][0].as_str(), Some(behaviour.name));
            let subject = parse_toml(&subject(behaviour, Path::new("/programs"), None));
            assert!(
                subject["start"]["command"].as_array().is_some_and(|command| command.len() > 2)
            );
        }
    }

    #[test]
    fn quota_is_written_as_limit() {
        let suite = parse_toml(&suite(find("quota").unwrap(), &[0]));
        assert_eq!(suite["limits"]["cpus"].as_float(), Some(0.3));
        assert_eq!(suite["workloads"][0]["connections"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn cpuset_has_all_cpus_if_several_are_needed() {
        let suite = parse_toml(&suite(find("one-thread").unwrap(), &[0, 2, 3]));
        assert_eq!(suite["limits"]["cpuset"].as_str(), Some("0,2,3"));
    }

    #[test]
    fn monitored_back_end_is_called_by_placeholder() {
        let behaviour = find("backend-serial-monitored").unwrap();
        let suite = parse_toml(&suite(behaviour, &[0]));
        assert_eq!(suite["backends"][0]["use"].as_str(), Some("lock-sleep"));
        let text = subject(behaviour, Path::new("/programs"), None);
        assert!(text.contains("{backend.port}"), "{text}");
        let unmonitored = subject(find("backend-serial").unwrap(), Path::new("/p"), Some(9191));
        assert!(unmonitored.contains("\"9191\""), "{unmonitored}");
    }

    #[test]
    fn rates_have_separate_workload() {
        let suite = parse_toml(&suite(find("busy-poll").unwrap(), &[0]));
        let workloads = suite["workloads"].as_array().unwrap();
        assert_eq!(workloads.len(), 2);
        assert!(workloads[0].get("rate").is_none() && workloads[1].get("rate").is_some());
    }

    #[test]
    fn runtime_options_precede_program() {
        let command = command(find("java-gc").unwrap(), Path::new("/p"), "{port}", None);
        let at = |word: &str| command.iter().position(|w| w == word).unwrap();
        assert!(at("-Xmx60m") < at("Server") && command.ends_with(&["{port}".into(), "gc".into()]));
    }
}
