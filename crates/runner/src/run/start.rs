//! Starts the parts of a launch.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use dyno_archive::plan::{Arm, Limits, Placement};
use dyno_archive::start::{
    Failure, FailureKind, LimitKind, LimitReadBack, PartStart, Startup, allowed_cpus, cpu_list_text,
};
use dyno_archive::{Party, Protocol, StartRecord};
use dyno_contract::contracts::body_of;
use dyno_contract::listener::Listener;
use dyno_contract::{ports, ready};
use dyno_launch::environment::{Environment, Ours};
use dyno_launch::group::{self, Groups};
use dyno_launch::process::{self, Process, Workspace};
use dyno_launch::{folder, open_files_hard};
use dyno_subject::build;
use dyno_subject::certs::Certs;
use dyno_subject::definition::{Definition, FileSpec};
use dyno_subject::paths;
use dyno_subject::placeholders::Placeholders;

use super::Runner;
use super::judge::{harness, memory_first};
use super::up::{CheckedListener, Part};

/// Resources that all starts of a run share.
pub(super) struct RunSetup {
    pub(super) groups: Groups,
    /// `None`: no subject needs them.
    pub(super) certs: Option<Certs>,
}

/// The ports of one start.
#[derive(Clone, Copy)]
struct Ports {
    plain: u16,
    tls: u16,
}

impl Ports {
    fn find() -> Result<Ports, String> {
        let free = ports::free_ports(2, dyno_observer::monotonic_ns())?;
        Ok(Ports { plain: free[0], tls: free[1] })
    }

    /// Ports that are passed to the subject.
    fn used_by(self, definition: &Definition) -> Vec<u16> {
        let all = [("{port}", self.plain), ("{tls_port}", self.tls)];
        all.into_iter().filter(|(place, _)| definition.uses(place)).map(|(_, port)| port).collect()
    }

    /// Placeholders that stand for these ports in other parts' settings.
    fn places_of(self, name: &str) -> [(Cow<'static, str>, String); 2] {
        [
            (format!("{name}.port").into(), self.plain.to_string()),
            (format!("{name}.tls_port").into(), self.tls.to_string()),
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
struct Recipe<'a> {
    definition: &'a Definition,
    /// Folder of its artefacts.
    out: &'a Path,
    limits: &'a Limits,
    /// CPUs that it may use.
    cpus: &'a [u32],
    /// Ports of the parts that are up, by name.
    others: &'a [(String, Ports)],
}

impl Runner<'_> {
    /// Starts all parts of a launch, back ends first. Parts that came up are in `up` and in the record even if the start
    /// fails.
    pub(super) fn start(
        &self,
        record: &mut StartRecord,
        setup: &RunSetup,
        up: &mut Vec<Part>,
    ) -> Result<(), Failure> {
        if self.backends.len() != self.plan.backends.len() {
            return Err(harness("its plan has back ends, which this dyno was not given".into()));
        }
        let [arm] = self.plan.launches[record.launch].arms[..] else {
            return Err(harness("its plan has several arms up at once, which this dyno cannot do".into()));
        };
        let mut others = Vec::new();
        for index in 0..self.backends.len() {
            let (part, ports) = self.start_backend(record, index, &others, setup)?;
            others.push((part.name.clone(), ports));
            up.push(part);
        }
        let Arm { name, subject, conditions, .. } = &self.plan.arms[arm];
        let recipe = Recipe {
            definition: &self.arms[arm],
            out: &self.built[*subject].as_ref().expect("only subjects that take part are started").out,
            limits: &conditions.limits,
            cpus: &conditions.placement.subject,
            others: &others,
        };
        record.parts.push(PartStart::new(Party::SUBJECT, name.clone()));
        up.push(self.start_part(record, &recipe, setup)?.0);
        Ok(())
    }

    /// Starts a service. Its failure is recorded as the service's, not the subject's.
    fn start_backend(
        &self,
        record: &mut StartRecord,
        index: usize,
        others: &[(String, Ports)],
        setup: &RunSetup,
    ) -> Result<(Part, Ports), Failure> {
        let (planned, service) = (&self.plan.backends[index], &self.backends[index]);
        let recipe = Recipe {
            definition: &service.definition,
            out: &service.built.out,
            limits: &planned.limits,
            cpus: &planned.cpus,
            others,
        };
        record.parts.push(PartStart::new(Party::Backend(index), planned.name.clone()));
        self.start_part(record, &recipe, setup).map_err(|failure| {
            let message = format!("back end {} {}: {}", planned.name, failure.kind.name(), failure.message);
            match failure.kind {
                FailureKind::Interrupted | FailureKind::Harness => Failure { message, ..failure },
                _ => Failure { kind: FailureKind::BackendFailed, message },
            }
        })
    }

    /// Starts the last part of the record, and waits until it serves.
    fn start_part(
        &self,
        start: &mut StartRecord,
        recipe: &Recipe<'_>,
        setup: &RunSetup,
    ) -> Result<(Part, Ports), Failure> {
        let number = start.start;
        let record = start.parts.last_mut().expect("it was told of before it is started");
        let definition = recipe.definition;
        let ports = Ports::find().map_err(harness)?;
        let certs = setup.certs.as_ref();
        let all = definition.protocols.iter().map(|&protocol| ports.listener(protocol, certs));
        let listeners: Vec<CheckedListener> = all
            .map(|listener| CheckedListener::new(definition, &listener))
            .collect::<Result<_, _>>()
            .map_err(harness)?;
        let workspace =
            Workspace::make(number, &setup.groups, self.guard).map_err(|e| harness(e.to_string()))?;
        record.limits = group::limit(&workspace.group, recipe.limits, recipe.cpus, setup.groups.unusable());
        let spec = spec(recipe, record, ports, certs, workspace).map_err(harness)?;
        let mut process = Process::start(spec).map_err(|error| Failure {
            kind: FailureKind::NotStarted,
            message: format!("`{}`: {error}", definition.start.command.join(" ")),
        })?;
        record.pid = Some(process.pid());
        record.limits.extend(read_back(recipe, &process));
        match self.wait_until_ready(&mut process, definition, &listeners, ports) {
            Ok(startup) => record.startup = Some(startup),
            Err(failure) => {
                record.log_tail = Some(process.log_tail()).filter(|t| !t.is_empty());
                return Err(memory_first(process.oom_kills(), failure));
            }
        }
        let ready_path = definition.ready.path.clone();
        let (party, name) = (record.party, record.name.clone());
        Ok((Part { party, name, process, listeners, ready_path }, ports))
    }

    fn wait_until_ready(
        &self,
        process: &mut Process,
        definition: &Definition,
        listeners: &[CheckedListener],
        ports: Ports,
    ) -> Result<Startup, Failure> {
        let ready = &definition.ready;
        let right = ready::RightAnswer {
            to: &first_to_ask(listeners).client,
            path: &ready.path,
            body: body_of(&definition.checks, &ready.path),
        };
        let is_asked_to_end = || self.interrupts.count() > 0;
        let patience = ready::Deadline { deadline_ns: ready.deadline_ns, is_asked_to_end: &is_asked_to_end };
        ready::wait(process, right, &ports.used_by(definition), patience)
    }
}

fn spec(
    recipe: &Recipe<'_>,
    record: &mut PartStart,
    ports: Ports,
    certs: Option<&Certs>,
    workspace: Workspace,
) -> Result<process::Spec, String> {
    let definition = recipe.definition;
    let placement = Placement { subject: recipe.cpus.to_vec(), generator: Vec::new() };
    let cpus = allowed_cpus(&record.limits, &placement, recipe.limits);
    let mut places = places(cpus, definition, recipe.out, ports, &workspace.work);
    places.0.extend(certs.into_iter().flat_map(certificate_places));
    places.0.extend(recipe.others.iter().flat_map(|(name, ports)| ports.places_of(name)));
    for file in &definition.start.files {
        render(file, &definition.folder, &places, &workspace.work)?;
    }
    let mut environment = Environment::of_server(&Ours::read(), &definition.start.inherit, &workspace.work);
    definition.start.env.iter().for_each(|(name, value)| environment.set(name, places.fill(value)));
    record.environment = environment.recorded();
    Ok(process::Spec {
        command: definition.start.command.iter().map(|word| places.fill(word)).collect(),
        environment,
        workspace,
        cpus: recipe.cpus.to_vec(),
        open_files: open_files(recipe.limits),
    })
}

/// Reads back the limits that the kernel keeps per process.
fn read_back(recipe: &Recipe<'_>, process: &Process) -> Vec<LimitReadBack> {
    let by_affinity = LimitReadBack {
        kind: LimitKind::CpusByAffinity,
        asked: cpu_list_text(recipe.cpus),
        read_back: process.allowed_cpus(),
        reason: None,
    };
    // Without a group the affinity of the process has to do.
    let by_affinity = process.sampler.group.is_empty().then_some(by_affinity);
    [open_files_read_back(recipe.limits, process)].into_iter().chain(by_affinity).collect()
}

/// Open files allowed to each subject: as the suite asks, or as many as this machine allows.
fn open_files(limits: &Limits) -> u64 {
    let most = open_files_hard();
    limits.open_files.map_or(most, |n| n.min(most))
}

fn open_files_read_back(limits: &Limits, process: &Process) -> LimitReadBack {
    let most = open_files_hard();
    let asked = limits.open_files;
    let short = asked.is_some_and(|n| n > most);
    LimitReadBack {
        kind: LimitKind::OpenFiles,
        asked: asked.map_or_else(|| "as many as this machine allows".into(), |n| n.to_string()),
        read_back: process.open_files().filter(|_| !short),
        reason: short.then(|| format!("this user may have {most} at most")),
    }
}

/// The listener at which a subject is asked whether it is ready: the cheapest protocol, so that start-up time is not
/// handshake time.
fn first_to_ask(listeners: &[CheckedListener]) -> &CheckedListener {
    const ORDER: [Protocol; 5] =
        [Protocol::H1, Protocol::H2cUpgrade, Protocol::H2c, Protocol::H1Tls, Protocol::H2];
    let rank = |listener: &&CheckedListener| {
        ORDER.iter().position(|protocol| *protocol == listener.listener().protocol)
    };
    listeners.iter().min_by_key(rank).expect("a definition has protocols")
}

/// Writes a file of a start from its template into the working folder.
fn render(file: &FileSpec, folder: &Path, places: &Placeholders, work: &Path) -> Result<(), String> {
    let from = |e: io::Error| format!("{}: {e}", file.template);
    let template = paths::read(&file.template, folder).map_err(from)?;
    let template = String::from_utf8(template).map_err(|_| format!("{}: it is no text", file.template))?;
    let name = file.to.fill(places)?;
    let to = work.join(name.path());
    let parents = to.parent().map_or(Ok(()), fs::create_dir_all);
    parents.and_then(|()| folder::write_new(&to, &places.fill(&template))).map_err(|e| format!("{name}: {e}"))
}

/// `cpus`: CPUs' worth of time that the subject may use; it is told a whole number.
fn places(cpus: f64, definition: &Definition, out: &Path, ports: Ports, work: &Path) -> Placeholders {
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
    [("cert".into(), certs.chain().display().to_string()), ("key".into(), certs.key().display().to_string())]
}
