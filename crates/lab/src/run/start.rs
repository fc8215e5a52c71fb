//! Starts the parts of a launch: the back ends, then the subject. Each part gets free ports, a
//! working folder, an environment and limits, and has to become ready before its deadline.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use dyno_config::hint;
use dyno_config::units::Nanoseconds;
use dyno_contract::client::ProbeClient;
use dyno_contract::listener::Listener;
use dyno_contract::ready;
use dyno_engine::rng::Rng;
use dyno_launch::environment::{DynoVariables, Environment};
use dyno_launch::group;
use dyno_launch::log::LogFollower;
use dyno_launch::network::Network;
use dyno_launch::process::{self, Process, Workspace};
use dyno_launch::secret_values::SecretValues;
use dyno_launch::tool::ServerCommand;
use dyno_launch::{StartError, folder, open_files_hard_limit};
use dyno_model::cpus::{AllowedCpus, cpu_list_text};
use dyno_model::plan::{Limits, Placement};
use dyno_model::probe::Probe;
use dyno_model::start::{
    Failure, FailureKind, LimitKind, LimitReadBack, PADDING, PartStart, Startup,
};
use dyno_model::{Party, Protocol, StartRecord};
use dyno_observer::kernel_probes::PartyMonitor;
use dyno_subject::build;
use dyno_subject::certs::Certs;
use dyno_subject::definition::{CommandSpec, Definition, FileSpec, ReadyBy};
use dyno_subject::limits::TEMPLATE_BYTES;
use dyno_subject::placeholders::{PROFILE_NAMES, Placeholders};

use super::RunEvent;
use super::failure_cause::{command_failure, harness, interrupted_failure, memory_first};
use super::ports::Ports;
use super::real_host::RealHost;
use super::running_parts::{AliveCheck, CheckedListener, RunningPart};
use crate::drops::DropWatch;
use crate::limits::{OUTPUT_READ_INTERVAL, READY_COMMAND_TIMEOUT};
use crate::runtime::{self, SampledRuntime};

/// Definition and conditions of one part of a start.
#[derive(Clone, Copy)]
pub(super) struct Recipe<'a> {
    pub(super) definition: &'a Definition,
    /// Folder of the part's artefacts.
    pub(super) out: &'a Path,
    pub(super) limits: &'a Limits,
    /// CPUs that the part may use.
    pub(super) cpus: &'a [u32],
    /// Ports of the running back ends, by name.
    pub(super) backend_ports: &'a [(String, Ports)],
    /// Probes to attach.
    pub(super) observe: &'a BTreeSet<Probe>,
    pub(super) network: &'a Network,
}

/// A part whose process was started, and is not known to be ready yet.
pub(super) struct Spawned {
    pub(super) process: Process,
    pub(super) ports: Ports,
    /// `Err`: why available probes could not be attached.
    monitor: Result<Option<Arc<PartyMonitor>>, String>,
    listeners: Vec<Arc<CheckedListener>>,
    settings: Settings,
}

impl<'a> RealHost<'a> {
    /// Returns the CPUs that a part of a launch may use.
    pub(super) fn cpus(&self, launch: usize, party: Party) -> Vec<u32> {
        match party {
            Party::Backend(index) => self.plan.backends[index].cpus.clone(),
            _ => self.plan.placement(launch, self.plan.launches[launch].arms[0]).subject,
        }
    }

    /// Returns the recipe of a part of a launch.
    pub(super) fn recipe<'r>(
        &'r self,
        (launch, party): (usize, Party),
        cpus: &'r [u32],
        backend_ports: &'r [(String, Ports)],
        network: &'r Network,
    ) -> Recipe<'r> {
        let arm = self.arm(launch);
        let limits = match party {
            Party::Backend(index) => &self.plan.backends[index].limits,
            _ => &arm.conditions.limits,
        };
        Recipe {
            definition: self.definition(launch, party),
            out: &self.built(launch, party).out,
            limits,
            cpus,
            backend_ports,
            observe: &arm.conditions.observe,
            network,
        }
    }

    /// Starts the last part of the record, waits until it is ready, and loads its data.
    pub(super) fn start_with(
        &self,
        start: &mut StartRecord,
        recipe: &Recipe<'_>,
        on_event: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<RunningPart<'a>, Failure> {
        let Spawned { mut process, ports, monitor, listeners, settings } =
            self.spawn(start, recipe)?;
        let record = last_part(start);
        let definition = recipe.definition;
        let drops = DropWatch::begin();
        let ready = self
            .wait_until_ready(&mut process, recipe, &settings, &listeners, ports, on_event)
            .map_err(|failure| without_secrets(&failure, &process));
        let seeded = ready.and_then(|startup| {
            record.startup = Some(startup);
            self.seed(definition, &settings)
        });
        match seeded {
            Ok(seeded_ns) => record.seeded_ns = seeded_ns,
            Err(failure) => {
                record.log_tail = Some(process.log_tail()).filter(|t| !t.is_empty());
                let is_running = process.exit_status().is_none();
                let failure = if is_running { drops.explain(failure) } else { failure };
                return Err(memory_first(process.oom_kills(), failure));
            }
        }
        let alive = alive_check(definition, ports, &listeners, &settings).map_err(harness)?;
        let reset = definition
            .reset
            .as_ref()
            .map(|spec| settings.command(spec))
            .transpose()
            .map_err(harness)?;
        let list_compiled =
            settings.list_compiled(definition, process.pid()).transpose().map_err(harness)?;
        let (party, name) = (record.party, record.name.clone());
        let runtime = definition.runtime.filter(|_| recipe.observe.contains(&Probe::Runtime));
        let runtime =
            runtime.map(|spec| SampledRuntime::new(spec, &settings.work, &process.sampler));
        let monitor_failure = monitor.as_ref().err().cloned();
        Ok(RunningPart {
            supervision: self.supervision(),
            party,
            name,
            process,
            ports,
            monitor: monitor.unwrap_or_default(),
            monitor_failure,
            listeners,
            alive,
            runtime,
            reset,
            list_compiled,
        })
    }

    /// Starts the process of the last part of the record.
    pub(super) fn spawn(
        &self,
        start: &mut StartRecord,
        recipe: &Recipe<'_>,
    ) -> Result<Spawned, Failure> {
        let number = start.start;
        let record = last_part(start);
        let definition = recipe.definition;
        let ports = recipe
            .network
            .as_server(|| Ports::find(definition))
            .map_err(|error| harness(error.to_string()))?
            .map_err(harness)?;
        let certs = self.certs.as_ref();
        let workspace = Workspace::make(number, &self.groups, self.guard)
            .map_err(|e| harness(e.to_string()))?;
        record.limits = group::limit(
            &workspace.group,
            recipe.limits,
            recipe.cpus,
            self.groups.unavailable_reason(),
        );
        if record.limits.iter().any(|limit| limit.read_back.is_none())
            && let Some(reason) = self.groups.lost_controllers_text()
        {
            return Err(harness(reason));
        }
        let is_profiled = self.probes.probes_use(recipe.observe).attached.contains(&Probe::Profile);
        let settings = Settings::from_recipe(
            recipe,
            record,
            ports,
            certs,
            (&workspace, padding(self.plan.seed, number)),
            is_profiled,
        )
        .map_err(harness)?;
        record.withheld = self.hash_key.hashes(&definition.withheld_variables());
        let secrets = settings.environment.secret_values();
        let listeners = checked_listeners(definition, ports, certs, &secrets).map_err(harness)?;
        let spec = settings.spec(recipe, workspace).map_err(harness)?;
        let started = recipe.network.as_server(|| Process::start(spec));
        let process = started
            .map_err(StartError::from)
            .flatten()
            .map_err(|error| start_failure(&error, &definition.start.command))?;
        record.pid = Some(process.pid());
        // Probes are attached as soon as the process exists, so that its children are monitored as
        // well. If no slot for the probes is free, the start continues without probes, and its
        // trials record the reason.
        let monitor = self.probes.attach(recipe.observe, process.pid());
        record.limits.extend(read_back(recipe, &process));
        Ok(Spawned { process, ports, monitor, listeners, settings })
    }

    /// Loads the data of a part, if it has any. Returns the time that the loading took,
    /// nanoseconds.
    fn seed(&self, definition: &Definition, settings: &Settings) -> Result<Option<u64>, Failure> {
        let Some(spec) = &definition.seed else { return Ok(None) };
        let command = settings.command(spec).map_err(harness)?;
        match command.run(&self.supervision()) {
            Ok(took_ns) => Ok(Some(took_ns)),
            Err(_) if self.interrupts.count() > 0 => Err(interrupted_failure()),
            Err(error) => Err(command_failure("`seed`", &error, FailureKind::DataFailed)),
        }
    }

    /// Waits until a part is ready. Until then, forwards its output as events. Returns its start-up
    /// time.
    fn wait_until_ready(
        &self,
        process: &mut Process,
        recipe: &Recipe<'_>,
        settings: &Settings,
        listeners: &[Arc<CheckedListener>],
        ports: Ports,
        on_event: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<Startup, Failure> {
        let definition = recipe.definition;
        let interrupts = self.interrupts;
        let supervision = self.supervision();
        let log = process.log();
        let output = RefCell::new((LogFollower::new(&log), Instant::now(), on_event));
        // `ready::wait` calls this closure regularly, so the closure also forwards the output.
        let is_interrupted = || {
            let (follower, last_read, on_event) = &mut *output.borrow_mut();
            // This clock only limits the rate of reads of the output, which take CPU time from the
            // part.
            if last_read.elapsed() > OUTPUT_READ_INTERVAL {
                *last_read = Instant::now();
                follower.read_lines(&mut |line| {
                    on_event(RunEvent::Printed { name: &definition.name, line });
                });
            }
            interrupts.count() > 0
        };
        let deadline_ns = definition.ready.deadline_ns;
        let deadline = ready::Deadline { deadline_ns, is_interrupted: &is_interrupted };
        let ports_used = ports.used_by(definition);
        let plain_listener =
            Listener { protocol: Protocol::H1, ..ports.listener(Protocol::H1, None) };
        let plain_client = ProbeClient::new(&plain_listener).map_err(harness)?;
        let command;
        let mut attempt;
        let sign = match &definition.ready.by {
            ReadyBy::Answer { path, status } => ready::ReadySign::Response {
                client: readiness_listener(listeners)
                    .map_or(&plain_client, |listener| &listener.client),
                path,
                status: *status,
            },
            ReadyBy::Listening => ready::ReadySign::Listening,
            ReadyBy::Command(text) => {
                command = ready_command(text, deadline_ns, settings).map_err(harness)?;
                attempt = || command.run(&supervision).map(drop);
                ready::ReadySign::Command { run: &mut attempt, refuses: definition.refuses }
            }
        };
        let ready = ready::wait(process, sign, &ports_used, deadline);
        let (follower, _, on_event) = output.into_inner();
        follower.finish(&mut |line| on_event(RunEvent::Printed { name: &definition.name, line }));
        ready
    }
}

/// Returns the failure of a part whose process could not be started. The part is the cause only if
/// exec failed for a reason other than a shortage of the machine.
fn start_failure(error: &StartError, command: &[String]) -> Failure {
    let message = format!("`{}`: {error}", command.join(" "));
    match error.is_caused_by_machine() {
        true => harness(hint::with_default(
            message,
            "stop other programs, and resume the run with `--resume`",
        )),
        false => Failure { kind: FailureKind::NotStarted, message },
    }
}

/// Returns the record of the part that is being started.
fn last_part(start: &mut StartRecord) -> &mut PartStart {
    start.parts.last_mut().expect("a part should be recorded before its start")
}

/// Returns the check whether a part that became ready is still alive.
fn alive_check(
    definition: &Definition,
    ports: Ports,
    listeners: &[Arc<CheckedListener>],
    settings: &Settings,
) -> Result<AliveCheck, String> {
    Ok(match &definition.ready.by {
        ReadyBy::Answer { path, .. } => {
            let plain_listener =
                Listener { protocol: Protocol::H1, ..ports.listener(Protocol::H1, None) };
            let plain_client = listeners.is_empty().then(|| ProbeClient::new(&plain_listener));
            AliveCheck::Request { path: path.clone(), plain: plain_client.transpose()? }
        }
        ReadyBy::Listening => AliveCheck::Connect(ports.used_by(definition)),
        ReadyBy::Command(text) => {
            AliveCheck::Command(ready_command(text, definition.ready.deadline_ns, settings)?)
        }
    })
}

/// Returns a readiness command. The time limit of one run is [`READY_COMMAND_TIMEOUT`], or the
/// time limit of the whole start if that is shorter.
fn ready_command(
    text: &str,
    deadline_ns: u64,
    settings: &Settings,
) -> Result<ServerCommand, String> {
    let deadline = Nanoseconds(deadline_ns.min(READY_COMMAND_TIMEOUT.as_nanos() as u64));
    settings.command(&CommandSpec { command: text.into(), deadline })
}

fn checked_listeners(
    definition: &Definition,
    ports: Ports,
    certs: Option<&Certs>,
    secrets: &SecretValues,
) -> Result<Vec<Arc<CheckedListener>>, String> {
    let listeners = definition.protocols.iter().map(|&protocol| ports.listener(protocol, certs));
    let checked = |listener| CheckedListener::new(definition, &listener, secrets.clone());
    listeners.map(|listener| checked(listener).map(Arc::new)).collect()
}

/// Returns the length of the variable [`PADDING`] in a start's environment: up to a page, in steps
/// of the stack's alignment (16 bytes). The variable moves the stack. The stack's position can
/// affect the speed of a server.
fn padding(seed: u64, start: usize) -> usize {
    16 * Rng::new(seed.wrapping_add(start as u64)).next_below(256) as usize
}

/// Settings of a part: the values of its placeholders, and its environment.
#[derive(Clone)]
struct Settings {
    placeholders: Placeholders,
    environment: Environment,
    work: PathBuf,
    network: Network,
    /// Whether the environment has the options of `[profile]`.
    is_profiled: bool,
}

impl Settings {
    /// Computes the placeholders and the environment of a part, and records the environment.
    fn from_recipe(
        recipe: &Recipe<'_>,
        record: &mut PartStart,
        ports: Ports,
        certs: Option<&Certs>,
        (workspace, padding): (&Workspace, usize),
        is_profiled: bool,
    ) -> Result<Settings, String> {
        let definition = recipe.definition;
        let placement = Placement { subject: recipe.cpus.to_vec(), generator: Vec::new() };
        let cpus = AllowedCpus::new(&record.limits, &placement, recipe.limits).count;
        let mut placeholders =
            placeholder_values(cpus, definition, recipe.out, ports, &workspace.work);
        placeholders.0.push(("name".into(), record.name.clone()));
        placeholders.0.extend(certs.into_iter().flat_map(certificate_placeholders));
        placeholders.0.extend(
            recipe.backend_ports.iter().flat_map(|(name, ports)| ports.port_placeholders(name)),
        );
        let work = workspace.work.clone();
        let mut environment =
            Environment::for_server(&DynoVariables::read(), &definition.start.inherit, &work);
        let profile_env = definition.profile.env.iter().filter(|_| is_profiled);
        for (name, value) in definition.start.env.iter().chain(profile_env) {
            environment.set(name, placeholders.fill(value));
        }
        for (name, value) in runtime_variables(recipe, &work)? {
            environment.add(name, &value);
        }
        environment.set(PADDING, "x".repeat(padding));
        record.environment = environment.to_record();
        record.inherited = definition.inherited_variables();
        let network = recipe.network.clone();
        Ok(Settings { placeholders, environment, work, network, is_profiled })
    }

    /// Renders the part's files, and returns the specification of its process.
    fn spec(
        &self,
        recipe: &Recipe<'_>,
        workspace: Workspace,
    ) -> Result<process::ProcessSpec, String> {
        let start = &recipe.definition.start;
        for file in &start.files {
            render(file, &recipe.definition.folder, &self.placeholders, &self.work)?;
        }
        let folder = PathBuf::from(self.placeholders.fill(&start.cwd));
        if !folder.is_dir() {
            return Err(format!("`cwd`: {} is not a folder", folder.display()));
        }
        Ok(process::ProcessSpec {
            command: start.command.iter().map(|word| self.placeholders.fill(word)).collect(),
            environment: self.environment.clone(),
            workspace,
            folder,
            cpus: recipe.cpus.to_vec(),
            open_files: open_files(recipe.limits),
            lists_compiled: self.is_profiled,
        })
    }

    /// Returns the command that makes a process write a list of its compiled code.
    fn list_compiled(
        &self,
        definition: &Definition,
        pid: u32,
    ) -> Option<Result<ServerCommand, String>> {
        let spec = definition.profile.command.as_ref()?;
        let mut settings = self.clone();
        settings.placeholders.0.push((PROFILE_NAMES[0].into(), pid.to_string()));
        Some(settings.command(spec))
    }

    /// Returns a command of the part, run in its environment.
    fn command(&self, spec: &CommandSpec) -> Result<ServerCommand, String> {
        Ok(ServerCommand {
            command: self.placeholders.fill_command(&spec.command)?,
            folder: self.work.clone(),
            environment: self.environment.clone(),
            deadline: spec.deadline.duration(),
            network: self.network.clone(),
        })
    }
}

/// Returns a failure without the secrets of a process. The message of the failure may quote a
/// response that contains secrets.
fn without_secrets(failure: &Failure, process: &Process) -> Failure {
    Failure { kind: failure.kind, message: process.log().text(failure.message.as_bytes()) }
}

/// Returns the variables that enable a part's runtime statistics.
fn runtime_variables(
    recipe: &Recipe<'_>,
    work: &Path,
) -> Result<Vec<(&'static str, String)>, String> {
    let runtime = recipe.definition.runtime.filter(|_| recipe.observe.contains(&Probe::Runtime));
    let Some(spec) = runtime else { return Ok(Vec::new()) };
    runtime::prepare(spec, work)
        .map_err(|error| format!("script for runtime statistics: cannot be written: {error}"))
}

/// Reads back the limits that the kernel has set for the process.
fn read_back(recipe: &Recipe<'_>, process: &Process) -> Vec<LimitReadBack> {
    let by_affinity = LimitReadBack {
        kind: LimitKind::CpusByAffinity,
        asked: cpu_list_text(recipe.cpus),
        read_back: process.allowed_cpus(),
        reason: None,
    };
    // Without a control group, the affinity of the process limits its CPUs.
    let by_affinity = process.sampler.group.is_empty().then_some(by_affinity);
    [open_files_read_back(recipe.limits, process)].into_iter().chain(by_affinity).collect()
}

/// Returns the limit of open files of a part: the limit of the suite, or the highest limit that
/// this machine allows.
fn open_files(limits: &Limits) -> u64 {
    let hard_limit = open_files_hard_limit();
    limits.open_files.map_or(hard_limit, |n| n.min(hard_limit))
}

/// Returns the requested and the actual limit of open files.
fn open_files_read_back(limits: &Limits, process: &Process) -> LimitReadBack {
    let hard_limit = open_files_hard_limit();
    let requested = limits.open_files;
    let is_too_high = requested.is_some_and(|n| n > hard_limit);
    LimitReadBack {
        kind: LimitKind::OpenFiles,
        asked: requested.map_or_else(|| "as many as this machine allows".into(), |n| n.to_string()),
        read_back: process.open_files().filter(|_| !is_too_high),
        reason: is_too_high.then(|| format!("the limit of this user is {hard_limit}")),
    }
}

/// Returns the listener of the readiness check. The protocol with the shortest handshake is used,
/// so that the start-up time does not include a TLS handshake. `None`: the part declares no
/// protocol.
fn readiness_listener(listeners: &[Arc<CheckedListener>]) -> Option<&CheckedListener> {
    const ORDER: [Protocol; 5] =
        [Protocol::H1, Protocol::H2cUpgrade, Protocol::H2c, Protocol::H1Tls, Protocol::H2];
    let rank = |listener: &&CheckedListener| {
        ORDER.iter().position(|protocol| *protocol == listener.listener().protocol)
    };
    listeners.iter().map(Arc::as_ref).min_by_key(rank)
}

/// Writes a file of a start from its template into the working folder.
fn render(
    file: &FileSpec,
    home: &Path,
    placeholders: &Placeholders,
    work: &Path,
) -> Result<(), String> {
    let template = folder::read_in_folder(file.template.path(), home, TEMPLATE_BYTES)
        .map_err(|error| format!("{}: {error}", file.template))?;
    let template =
        String::from_utf8(template).map_err(|_| format!("{}: not UTF-8 text", file.template))?;
    let name = file.to.fill(placeholders)?;
    let path = work.join(name.path());
    let parents = path.parent().map_or(Ok(()), fs::create_dir_all);
    parents
        .and_then(|()| folder::write_new(&path, &placeholders.fill(&template)))
        .map_err(|e| format!("{name}: {e}"))
}

/// Returns the values of a part's placeholders. `cpus`: CPU limit of the part, rounded up to a
/// whole number.
fn placeholder_values(
    cpus: f64,
    definition: &Definition,
    out: &Path,
    ports: Ports,
    work: &Path,
) -> Placeholders {
    let mut placeholders = build::placeholders(definition, out);
    placeholders.0.extend([
        ("port".into(), ports.plain.to_string()),
        ("tls_port".into(), ports.tls.to_string()),
        ("cpus".into(), (cpus.ceil() as u64).max(1).to_string()),
        ("work".into(), work.display().to_string()),
    ]);
    placeholders
}

fn certificate_placeholders(certs: &Certs) -> [(Cow<'static, str>, String); 2] {
    [
        ("cert".into(), certs.chain().display().to_string()),
        ("key".into(), certs.key().display().to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_before_exec_is_harness_failure() {
        let kind = |make: fn(std::io::Error) -> StartError| {
            start_failure(&make(std::io::ErrorKind::NotFound.into()), &["x".into()]).kind
        };
        assert_eq!(kind(StartError::Setup), FailureKind::Harness);
        assert_eq!(kind(StartError::Exec), FailureKind::NotStarted);
    }

    #[test]
    fn exec_failure_of_machine_is_harness_failure() {
        let failure = |code| {
            let error = StartError::Exec(std::io::Error::from_raw_os_error(code));
            start_failure(&error, &["x".into()])
        };
        for code in [libc::ENOMEM, libc::EAGAIN, libc::ETXTBSY] {
            let failure = failure(code);
            assert_eq!(failure.kind, FailureKind::Harness, "{failure:?}");
            assert!(failure.message.contains("\nhint: "), "{failure:?}");
        }
        for code in [libc::ENOENT, libc::EACCES, libc::ENOEXEC] {
            assert_eq!(failure(code).kind, FailureKind::NotStarted);
        }
    }
}
