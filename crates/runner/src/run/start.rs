//! Starts the parts of a launch.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use dyno_archive::plan::{Arm, Conditions, Limits, Placement};
use dyno_archive::probe::Probe;
use dyno_archive::start::{
    Failure, FailureKind, LimitKind, LimitReadBack, NewFiles, PADDING, PartStart, Startup,
    allowed_cpus, cpu_list_text,
};
use dyno_archive::{Party, Protocol, StartRecord};
use dyno_contract::client::ProbeClient;
use dyno_contract::listener::Listener;
use dyno_contract::{ports, ready};
use dyno_engine::rng::Rng;
use dyno_launch::environment::{DynoVariables, Environment};
use dyno_launch::group::{self, Groups};
use dyno_launch::log::LogFollower;
use dyno_launch::network::Network;
use dyno_launch::process::{self, Process, Workspace};
use dyno_launch::supervision::Supervision;
use dyno_launch::tool::ServerCommand;
use dyno_launch::{folder, open_files_hard_limit};
use dyno_observer::kernel_probes::PartyMonitor;
use dyno_observer::probes::Probes;
use dyno_observer::proc;
use dyno_subject::build;
use dyno_subject::certs::Certs;
use dyno_subject::definition::snapshot::Snapshot;
use dyno_subject::definition::{CommandSpec, Definition, FileSpec, Nanoseconds, ReadyBy};
use dyno_subject::limits::TEMPLATE_BYTES;
use dyno_subject::placeholders::{PROFILE_NAMES, Placeholders};

use super::judge::{harness, interrupted_failure, memory_first};
use super::running_parts::{AliveCheck, CheckedListener, RunningPart};
use super::{RunEvent, Runner};
use crate::drops::DropWatch;
use crate::limits::{OUTPUT_GLANCE, READY_COMMAND};
use crate::runtime::{self, SampledRuntime};

/// Resources that all starts of a run share.
pub(super) struct RunSetup {
    pub(super) groups: Groups,
    /// `None`: no subject needs them.
    pub(super) certs: Option<Certs>,
    pub(super) probes: Probes,
}

/// The ports of one part.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    pub(super) plain: u16,
    pub(super) tls: u16,
}

impl Ports {
    /// Finds free ports, or returns the server's fixed ports if they are unused.
    fn find(definition: &Definition) -> Result<Ports, String> {
        let free = ports::free_ports(2, dyno_observer::monotonic_ns())?;
        let start = &definition.start;
        for port in [start.port, start.tls_port].into_iter().flatten() {
            if let Some((pid, name)) =
                proc::listener_at(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
            {
                return Err(format!(
                    "port {port}: the fixed port of {} is in use by {name}, process {pid}\nhint: \
                     stop that process first",
                    definition.name
                ));
            }
        }
        Ok(Ports { plain: start.port.unwrap_or(free[0]), tls: start.tls_port.unwrap_or(free[1]) })
    }

    /// Returns the ports that the part listens on: those that it is given, and its fixed ones.
    fn used_by(self, definition: &Definition) -> Vec<u16> {
        let start = &definition.start;
        let all = [("port", start.port, self.plain), ("tls_port", start.tls_port, self.tls)];
        let used =
            all.into_iter().filter(|(place, own, _)| own.is_some() || definition.uses(place));
        used.map(|(_, _, port)| port).collect()
    }

    /// Placeholders that stand for these ports in other parts' settings.
    fn port_placeholders(self, name: &str) -> [(Cow<'static, str>, String); 3] {
        [
            (format!("{name}.port").into(), self.plain.to_string()),
            (format!("{name}.tls_port").into(), self.tls.to_string()),
            (format!("{name}.host").into(), Ipv4Addr::LOCALHOST.to_string()),
        ]
    }

    fn listener(self, protocol: Protocol, certs: Option<&Certs>) -> Listener {
        let port = if protocol.is_tls() { self.tls } else { self.plain };
        Listener {
            addr: SocketAddr::from(([127, 0, 0, 1], port)),
            protocol,
            authority: certs.filter(|_| protocol.is_tls()).map(Certs::authority),
        }
    }
}

/// Definition and conditions of one part of a start.
#[derive(Clone, Copy)]
pub(super) struct Recipe<'a> {
    pub(super) definition: &'a Definition,
    /// Folder of its artefacts.
    pub(super) out: &'a Path,
    pub(super) limits: &'a Limits,
    /// CPUs that it may use.
    pub(super) cpus: &'a [u32],
    /// Ports of the parts that are up, by name.
    pub(super) others: &'a [(String, Ports)],
    /// Probes to attach.
    pub(super) observe: &'a BTreeSet<Probe>,
    pub(super) network: &'a Network,
}

/// A part whose process was started, and whose state is still unknown.
pub(super) struct Spawned {
    pub(super) process: Process,
    pub(super) ports: Ports,
    inside: Option<Arc<PartyMonitor>>,
    listeners: Vec<Arc<CheckedListener>>,
    settings: Settings,
}

impl Runner<'_> {
    /// Starts all parts of a launch, back ends first. Parts that came up are in `up` and in the
    /// record even if the start fails. `lived`: arms that have kept the promises about their life.
    pub(super) fn start(
        &mut self,
        record: &mut StartRecord,
        setup: &RunSetup,
        network: &Network,
        lived: &BTreeSet<usize>,
        up: &mut Vec<RunningPart>,
    ) -> Result<(), Failure> {
        let (plan, builds, arms) = (self.plan, self.builds, self.arms);
        let [arm] = plan.launches[record.launch].arms[..] else {
            return Err(harness(
                "the plan has several arms that run at once, which this version of dyno does not \
                 support"
                    .into(),
            ));
        };
        let Arm { name, subject, conditions, backends, .. } = &plan.arms[arm];
        let new_files = check_files(&self.snapshots.subjects[*subject], &arms[arm])?;
        let mut others = Vec::new();
        for &index in backends {
            let (part, ports) =
                self.start_backend(record, index, &others, conditions, setup, network)?;
            others.push((part.name.clone(), ports));
            up.push(part);
        }
        let recipe = Recipe {
            definition: &arms[arm],
            out: &builds.subjects[*subject]
                .as_ref()
                .expect("only subjects that take part are started")
                .out,
            limits: &conditions.limits,
            cpus: &plan.placement_in(record.launch, arm).subject,
            others: &others,
            observe: &conditions.observe,
            network,
        };
        record.parts.push(PartStart::new(Party::SUBJECT, name.clone()));
        last_part(record).new_files = new_files;
        if !lived.contains(&arm) {
            // The relays between the subject and its back ends must be in the network of the back
            // ends.
            let rehearsed =
                network.as_server(|| self.rehearse(record, &plan.arms[arm], &recipe, setup));
            let results = rehearsed.map_err(|error| harness(error.to_string()))??;
            last_part(record).checks_before = results;
        }
        up.push(self.start_part(record, &recipe, setup)?.0);
        Ok(())
    }

    /// Starts a service. Its failure is recorded as the service's, not the subject's.
    fn start_backend(
        &mut self,
        record: &mut StartRecord,
        index: usize,
        others: &[(String, Ports)],
        conditions: &Conditions,
        setup: &RunSetup,
        network: &Network,
    ) -> Result<(RunningPart, Ports), Failure> {
        let (plan, builds) = (self.plan, self.builds);
        let planned = &plan.backends[index];
        let service = builds.backends[index]
            .as_ref()
            .expect("no subject takes part whose back ends are unavailable");
        let recipe = Recipe {
            definition: &service.definition,
            out: &service.built.out,
            limits: &planned.limits,
            cpus: &planned.cpus,
            others,
            observe: &conditions.observe,
            network,
        };
        record.parts.push(PartStart::new(Party::Backend(index), planned.name.clone()));
        let new_files = check_files(&self.snapshots.backends[index], &service.definition)?;
        last_part(record).new_files = new_files;
        self.start_part(record, &recipe, setup).map_err(|failure| {
            let message =
                format!("back end {} {}: {}", planned.name, failure.kind.name(), failure.message);
            match failure.kind {
                FailureKind::Interrupted | FailureKind::Harness => Failure { message, ..failure },
                _ => Failure { kind: FailureKind::BackendFailed, message },
            }
        })
    }

    /// Starts the last part of the record, waits until it serves, and loads its data.
    pub(super) fn start_part(
        &mut self,
        start: &mut StartRecord,
        recipe: &Recipe<'_>,
        setup: &RunSetup,
    ) -> Result<(RunningPart, Ports), Failure> {
        let Spawned { mut process, ports, inside, listeners, settings } =
            self.spawn(start, recipe, setup)?;
        let record = last_part(start);
        let definition = recipe.definition;
        let drops = DropWatch::begin();
        let ready = self.wait_until_ready(&mut process, recipe, &settings, &listeners, ports);
        let seeded = ready.and_then(|startup| {
            record.startup = Some(startup);
            self.seed(definition, &settings)
        });
        match seeded {
            Ok(seeded_ns) => record.seeded_ns = seeded_ns,
            Err(failure) => {
                record.log_tail = Some(process.log_tail()).filter(|t| !t.is_empty());
                let is_there = process.exit_status().is_none();
                let failure = if is_there { drops.explain(failure) } else { failure };
                return Err(memory_first(process.oom_kills(), failure));
            }
        }
        let alive = match &definition.ready.by {
            ReadyBy::Answer { path, .. } => {
                let plain =
                    Listener { protocol: Protocol::H1, ..ports.listener(Protocol::H1, None) };
                let plain = listeners.is_empty().then(|| ProbeClient::new(&plain));
                AliveCheck::Answers {
                    path: path.clone(),
                    plain: plain.transpose().map_err(harness)?,
                }
            }
            ReadyBy::Listening => AliveCheck::Listens(ports.used_by(definition)),
            ReadyBy::Command(text) => AliveCheck::Says(
                ready_command(text, definition.ready.deadline_ns, &settings).map_err(harness)?,
            ),
        };
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
        let runtime = runtime.map(|of| SampledRuntime::new(of, &settings.work, &process.sampler));
        let part = RunningPart {
            party,
            name,
            process,
            inside,
            listeners,
            alive,
            runtime,
            reset,
            list_compiled,
        };
        Ok((part, ports))
    }

    /// Starts the process of the last part of the record.
    pub(super) fn spawn(
        &self,
        start: &mut StartRecord,
        recipe: &Recipe<'_>,
        setup: &RunSetup,
    ) -> Result<Spawned, Failure> {
        let number = start.start;
        let record = last_part(start);
        let definition = recipe.definition;
        let there = |error: io::Error| harness(error.to_string());
        let ports = recipe
            .network
            .as_server(|| Ports::find(definition))
            .map_err(there)?
            .map_err(harness)?;
        let certs = setup.certs.as_ref();
        let listeners = checked_listeners(definition, ports, certs).map_err(harness)?;
        let workspace = Workspace::make(number, &setup.groups, self.guard)
            .map_err(|e| harness(e.to_string()))?;
        record.limits = group::limit(
            &workspace.group,
            recipe.limits,
            recipe.cpus,
            setup.groups.unavailable_reason(),
        );
        let is_profiled =
            setup.probes.probes_use(recipe.observe).attached.contains(&Probe::Profile);
        let settings = Settings::from_recipe(
            recipe,
            record,
            ports,
            certs,
            (&workspace, padding(self.plan.seed, number)),
            is_profiled,
        )
        .map_err(harness)?;
        let spec = settings.spec(recipe, workspace).map_err(harness)?;
        let started = recipe.network.as_server(|| Process::start(spec)).flatten();
        let process = started.map_err(|error| Failure {
            kind: FailureKind::NotStarted,
            message: format!("`{}`: {error}", definition.start.command.join(" ")),
        })?;
        record.pid = Some(process.pid());
        // Attached as soon as there is a process: its children are then monitored, too. Without a
        // free slot for its probes the start continues.
        let inside = setup.probes.attach(recipe.observe, process.pid()).unwrap_or_default();
        record.limits.extend(read_back(recipe, &process));
        Ok(Spawned { process, ports, inside, listeners, settings })
    }

    /// Loads the data of a part, if it has any. Returns the time, nanoseconds.
    fn seed(&self, definition: &Definition, settings: &Settings) -> Result<Option<u64>, Failure> {
        let Some(spec) = &definition.seed else { return Ok(None) };
        let command = settings.command(spec).map_err(harness)?;
        match command.run(&self.supervision()) {
            Ok(took_ns) => Ok(Some(took_ns)),
            Err(_) if self.interrupts.count() > 0 => Err(interrupted_failure()),
            Err(why) => {
                let message = format!("its command for `seed` {why}");
                Err(Failure { kind: FailureKind::DataFailed, message })
            }
        }
    }

    fn wait_until_ready(
        &mut self,
        process: &mut Process,
        recipe: &Recipe<'_>,
        settings: &Settings,
        listeners: &[Arc<CheckedListener>],
        ports: Ports,
    ) -> Result<Startup, Failure> {
        let definition = recipe.definition;
        let interrupts = self.interrupts;
        let supervision = Supervision { guard: self.guard, interrupts };
        let log = process.log();
        let output = RefCell::new((LogFollower::new(&log), Instant::now(), &mut *self.on));
        let is_asked_to_end = || {
            let (follower, seen, on) = &mut *output.borrow_mut();
            // This clock is no measurement: it only limits the rate of reads of the output, which
            // take CPU time from the part.
            if seen.elapsed() > OUTPUT_GLANCE {
                *seen = Instant::now();
                follower
                    .read_lines(&mut |line| on(RunEvent::Printed { name: &definition.name, line }));
            }
            interrupts.count() > 0
        };
        let deadline_ns = definition.ready.deadline_ns;
        let patience = ready::Deadline { deadline_ns, is_interrupted: &is_asked_to_end };
        let ports_used = ports.used_by(definition);
        let plain = Listener { protocol: Protocol::H1, ..ports.listener(Protocol::H1, None) };
        let any = ProbeClient::new(&plain).map_err(harness)?;
        let command;
        let mut attempt;
        let sign = match &definition.ready.by {
            ReadyBy::Answer { path, status } => ready::ReadySign::Response {
                client: first_to_ask(listeners).map_or(&any, |listener| &listener.client),
                path,
                status: *status,
            },
            ReadyBy::Listening => ready::ReadySign::Listening,
            ReadyBy::Command(text) => {
                command = ready_command(text, deadline_ns, settings).map_err(harness)?;
                attempt = || command.run(&supervision).map(drop);
                ready::ReadySign::Command(&mut attempt)
            }
        };
        let ready = ready::wait(process, sign, &ports_used, patience);
        let (follower, _, on) = output.into_inner();
        follower.finish(&mut |line| on(RunEvent::Printed { name: &definition.name, line }));
        ready
    }
}

/// Returns the record of the part that is being started.
fn last_part(start: &mut StartRecord) -> &mut PartStart {
    start.parts.last_mut().expect("a part is recorded before it is started")
}

/// Returns a readiness command. One run may take no longer than the whole start.
fn ready_command(
    text: &str,
    deadline_ns: u64,
    settings: &Settings,
) -> Result<ServerCommand, String> {
    let deadline = Nanoseconds(deadline_ns.min(READY_COMMAND.as_nanos() as u64));
    settings.command(&CommandSpec { command: text.into(), deadline })
}

fn checked_listeners(
    definition: &Definition,
    ports: Ports,
    certs: Option<&Certs>,
) -> Result<Vec<Arc<CheckedListener>>, String> {
    let all = definition.protocols.iter().map(|&protocol| ports.listener(protocol, certs));
    all.map(|listener| CheckedListener::new(definition, &listener).map(Arc::new)).collect()
}

/// Returns the length of the padding in a start: up to a page, in steps of the stack's alignment.
fn padding(seed: u64, start: usize) -> usize {
    16 * Rng::new(seed.wrapping_add(start as u64)).next_below(256) as usize
}

/// Inputs of a part: the values of its placeholders, and its environment.
#[derive(Clone)]
struct Settings {
    places: Placeholders,
    environment: Environment,
    work: PathBuf,
    network: Network,
}

impl Settings {
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
        let cpus = allowed_cpus(&record.limits, &placement, recipe.limits);
        let mut places = places(cpus, definition, recipe.out, ports, &workspace.work);
        places.0.push(("name".into(), record.name.clone()));
        places.0.extend(certs.into_iter().flat_map(certificate_places));
        places
            .0
            .extend(recipe.others.iter().flat_map(|(name, ports)| ports.port_placeholders(name)));
        let work = workspace.work.clone();
        let mut environment =
            Environment::for_server(&DynoVariables::read(), &definition.start.inherit, &work);
        let of_profile = definition.profile.env.iter().filter(|_| is_profiled);
        for (name, value) in definition.start.env.iter().chain(of_profile) {
            environment.set(name, places.fill(value));
        }
        for (name, value) in runtime_variables(recipe, &work)? {
            environment.add(name, &value);
        }
        environment.set(PADDING, "x".repeat(padding));
        record.environment = environment.to_record();
        record.inherited = definition.inherited_variables();
        Ok(Settings { places, environment, work, network: recipe.network.clone() })
    }

    /// Renders the part's files, and returns the specification of its process.
    fn spec(
        &self,
        recipe: &Recipe<'_>,
        workspace: Workspace,
    ) -> Result<process::ProcessSpec, String> {
        let start = &recipe.definition.start;
        for file in &start.files {
            render(file, &recipe.definition.folder, &self.places, &self.work)?;
        }
        let folder = PathBuf::from(self.places.fill(&start.cwd));
        if !folder.is_dir() {
            return Err(format!("`cwd`: {} is not a folder", folder.display()));
        }
        Ok(process::ProcessSpec {
            command: start.command.iter().map(|word| self.places.fill(word)).collect(),
            environment: self.environment.clone(),
            workspace,
            folder,
            cpus: recipe.cpus.to_vec(),
            open_files: open_files(recipe.limits),
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
        settings.places.0.push((PROFILE_NAMES[0].into(), pid.to_string()));
        Some(settings.command(spec))
    }

    /// Returns a command of the part, run in its environment.
    fn command(&self, spec: &CommandSpec) -> Result<ServerCommand, String> {
        Ok(ServerCommand {
            command: self.places.fill_command(&spec.command)?,
            folder: self.work.clone(),
            environment: self.environment.clone(),
            deadline: spec.deadline.duration(),
            network: self.network.clone(),
        })
    }
}

/// Refuses a start whose files were edited after the run was planned: the plan has the fingerprint
/// of the files before. Returns the files that are new.
fn check_files(planned: &Snapshot, definition: &Definition) -> Result<Option<NewFiles>, Failure> {
    let new = planned.new_files(definition).map_err(|file| {
        harness(format!(
            "{} of {} changed after the run was planned, so repeats would measure different \
             servers\nhint: restore the file and resume the run, or start a new run. If the server \
             itself writes the file, let it write to {{work}}",
            file.display(),
            definition.name
        ))
    })?;
    let named = |first: &PathBuf| NewFiles { count: new.len(), first: first.display().to_string() };
    Ok(new.first().map(named))
}

/// Returns the variables that enable a part's runtime statistics.
fn runtime_variables(
    recipe: &Recipe<'_>,
    work: &Path,
) -> Result<Vec<(&'static str, String)>, String> {
    let runtime = recipe.definition.runtime.filter(|_| recipe.observe.contains(&Probe::Runtime));
    let prepared = runtime.map_or_else(|| Ok(Vec::new()), |of| runtime::prepare(of, work));
    prepared.map_err(|error| format!("script for runtime statistics: cannot be written: {error}"))
}

/// Reads back the limits that the kernel keeps per process.
fn read_back(recipe: &Recipe<'_>, process: &Process) -> Vec<LimitReadBack> {
    let by_affinity = LimitReadBack {
        kind: LimitKind::CpusByAffinity,
        asked: cpu_list_text(recipe.cpus),
        read_back: process.allowed_cpus(),
        reason: None,
    };
    // Without a control group the affinity of the process is used.
    let by_affinity = process.sampler.group.is_empty().then_some(by_affinity);
    [open_files_read_back(recipe.limits, process)].into_iter().chain(by_affinity).collect()
}

/// Returns the limit of open files of each subject: the suite's, or the highest that this machine
/// allows.
fn open_files(limits: &Limits) -> u64 {
    let most = open_files_hard_limit();
    limits.open_files.map_or(most, |n| n.min(most))
}

fn open_files_read_back(limits: &Limits, process: &Process) -> LimitReadBack {
    let most = open_files_hard_limit();
    let asked = limits.open_files;
    let short = asked.is_some_and(|n| n > most);
    LimitReadBack {
        kind: LimitKind::OpenFiles,
        asked: asked.map_or_else(|| "as many as this machine allows".into(), |n| n.to_string()),
        read_back: process.open_files().filter(|_| !short),
        reason: short.then(|| format!("the limit of this user is {most}")),
    }
}

/// Returns the listener of the readiness check: that of the cheapest protocol, so that start-up
/// time includes no TLS handshake. `None`: the part declares no protocol.
fn first_to_ask(listeners: &[Arc<CheckedListener>]) -> Option<&CheckedListener> {
    const ORDER: [Protocol; 5] =
        [Protocol::H1, Protocol::H2cUpgrade, Protocol::H2c, Protocol::H1Tls, Protocol::H2];
    let rank = |listener: &&CheckedListener| {
        ORDER.iter().position(|protocol| *protocol == listener.listener().protocol)
    };
    listeners.iter().map(Arc::as_ref).min_by_key(rank)
}

/// Writes a file of a start from its template into the working folder.
fn render(file: &FileSpec, home: &Path, places: &Placeholders, work: &Path) -> Result<(), String> {
    let from = |e: io::Error| format!("{}: {e}", file.template);
    let template =
        folder::read_in_folder(file.template.path(), home, TEMPLATE_BYTES).map_err(from)?;
    let template =
        String::from_utf8(template).map_err(|_| format!("{}: not UTF-8 text", file.template))?;
    let name = file.to.fill(places)?;
    let to = work.join(name.path());
    let parents = to.parent().map_or(Ok(()), fs::create_dir_all);
    parents
        .and_then(|()| folder::write_new(&to, &places.fill(&template)))
        .map_err(|e| format!("{name}: {e}"))
}

/// Returns the values of the placeholders. `cpus`: CPU limit of the subject, passed on as a whole
/// number.
fn places(
    cpus: f64,
    definition: &Definition,
    out: &Path,
    ports: Ports,
    work: &Path,
) -> Placeholders {
    let mut places = build::placeholders(definition, out);
    places.0.extend([
        ("port".into(), ports.plain.to_string()),
        ("tls_port".into(), ports.tls.to_string()),
        ("cpus".into(), (cpus.ceil() as u64).max(1).to_string()),
        ("work".into(), work.display().to_string()),
    ]);
    places
}

fn certificate_places(certs: &Certs) -> [(Cow<'static, str>, String); 2] {
    [
        ("cert".into(), certs.chain().display().to_string()),
        ("key".into(), certs.key().display().to_string()),
    ]
}
