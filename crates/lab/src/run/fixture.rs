//! Parts of a start for tests.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dyno_archive::RunDir;
use dyno_contract::listener::Listener;
use dyno_launch::environment::{DynoVariables, Environment};
use dyno_launch::group::Groups;
use dyno_launch::network::Network;
use dyno_launch::process::{Process, ProcessSpec, Workspace};
use dyno_launch::secret_values::SecretValues;
use dyno_launch::supervision::Supervision;
use dyno_launch::tool::ServerCommand;
use dyno_model::{LoadRecord, Party, Protocol};
use dyno_observer::cgroup::Layout;
use dyno_subject::definition::{Definition, Role};

use super::ports::Ports;
use super::running_parts::{AliveCheck, CheckedListener, RunningPart};

pub(super) fn definition() -> Definition {
    let source = "name = \"x\"\ntitle = \"X\"\nlanguage = \"C\"\nprotocols = [\"h1\"]\n\
                  [start]\ncommand = [\"x\", \"{port}\"]\n";
    Definition::parse(Path::new("/dev/null/x"), Role::Subject, source).unwrap()
}

/// The record of a load with a server that did not fail, without intervals.
pub(super) fn load_without_responses() -> LoadRecord {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
    let run = RunDir::open(&golden).unwrap().read().unwrap();
    let load = run.trials.into_iter().next().unwrap().load;
    LoadRecord { intervals: Vec::new(), server_failure: None, ..load }
}

/// A command of a server with a minute to end, run in the root folder.
pub(super) fn command(command: &str) -> ServerCommand {
    ServerCommand {
        command: command.into(),
        folder: "/".into(),
        environment: Environment::for_tool(&DynoVariables::read(), &[], Path::new("/")),
        deadline: Duration::from_secs(60),
        network: Network::default(),
    }
}

/// A running part, whose process only sleeps. `addr`: address of its listener, if it has one.
///
/// The guard of a test is this test program, which ends immediately with the unknown argument.
pub(super) fn part<'a>(
    supervision: &Supervision<'a>,
    addr: Option<std::net::SocketAddr>,
    alive: AliveCheck,
) -> RunningPart<'a> {
    let groups = Groups::prepare(Layout::default(), supervision.guard);
    let workspace = Workspace::make(0, &groups, supervision.guard).unwrap();
    let spec = ProcessSpec {
        command: ["sleep", "98757"].map(String::from).to_vec(),
        environment: Environment::for_tool(&DynoVariables::read(), &[], &workspace.work),
        folder: workspace.work.clone(),
        workspace,
        cpus: Vec::new(),
        open_files: 256,
        lists_compiled: false,
    };
    let listener = |addr| Listener { addr, protocol: Protocol::H1, authority: None };
    let checked = |addr| {
        CheckedListener::new(&definition(), &listener(addr), SecretValues::default()).unwrap()
    };
    RunningPart {
        supervision: *supervision,
        party: Party::Backend(0),
        name: "x".into(),
        process: Process::start(spec).unwrap(),
        ports: Ports { plain: 0, tls: 0 },
        monitor: None,
        monitor_failure: None,
        listeners: addr.map(checked).map(Arc::new).into_iter().collect(),
        alive,
        runtime: None,
        reset: None,
        list_compiled: None,
    }
}
