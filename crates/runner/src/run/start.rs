//! From a plan to a subject that is up.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use dyno_archive::start::{Failure, FailureKind, LimitKind, LimitReadBack, allowed_cpus, cpu_list_text};
use dyno_archive::{Protocol, StartRecord};
use dyno_contract::contracts::body_of;
use dyno_contract::door::Door;
use dyno_contract::{ports, ready};
use dyno_launch::environment::{Environment, Ours};
use dyno_launch::group::{self, Groups};
use dyno_launch::process::{self, Place, Process};
use dyno_launch::{folder, open_files_hard};
use dyno_subject::build;
use dyno_subject::certs::Certs;
use dyno_subject::definition::{Definition, FileSpec};
use dyno_subject::paths;
use dyno_subject::places::Placeholders;

use super::Runner;
use super::judge::{harness, memory_first};
use super::up::{Entrance, Subject};

/// What all starts of a run share.
pub(super) struct Ground {
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

    /// Those that a subject is told of.
    fn used_by(self, definition: &Definition) -> Vec<u16> {
        let all = [("{port}", self.plain), ("{tls_port}", self.tls)];
        all.into_iter().filter(|(place, _)| definition.uses(place)).map(|(_, port)| port).collect()
    }

    fn door(self, protocol: Protocol, certs: Option<&Certs>) -> Door {
        let port = if protocol.is_tls() { self.tls } else { self.plain };
        Door {
            addr: SocketAddr::from(([127, 0, 0, 1], port)),
            protocol,
            authority: certs.filter(|_| protocol.is_tls()).map(Certs::authority),
        }
    }
}

impl Runner<'_> {
    pub(super) fn start(&self, record: &mut StartRecord, ground: &Ground) -> Result<Subject, Failure> {
        let definition = &self.definitions[self.plan.launches[record.launch].subject];
        let ports = Ports::find().map_err(harness)?;
        let certs = ground.certs.as_ref();
        let doors = definition.protocols.iter().map(|&protocol| ports.door(protocol, certs));
        let entrances: Vec<Entrance> =
            doors.map(|door| Entrance::new(definition, &door)).collect::<Result<_, _>>().map_err(harness)?;
        let place =
            Place::make(record.start, &ground.groups, self.guard).map_err(|e| harness(e.to_string()))?;
        let cpus = &self.plan.placement.subject;
        record.limits = group::limit(&place.group, &self.plan.limits, cpus, ground.groups.unusable());
        let spec = self.spec(record, ports, certs, place).map_err(harness)?;
        let mut process = Process::start(spec).map_err(|error| Failure {
            kind: FailureKind::NotStarted,
            message: format!("`{}`: {error}", definition.start.command.join(" ")),
        })?;
        record.pid = Some(process.pid());
        record.limits.push(self.open_files_read_back(&process));
        if process.sampler.group.is_empty() {
            // Without a group the affinity of the process has to do.
            record.limits.push(LimitReadBack {
                kind: LimitKind::CpusByAffinity,
                asked: cpu_list_text(&self.plan.placement.subject),
                read_back: process.allowed_cpus(),
                reason: None,
            });
        }
        let ready = &definition.ready;
        let right = ready::RightAnswer {
            to: &first_to_ask(&entrances).caller,
            path: &ready.path,
            body: body_of(&definition.checks, &ready.path),
        };
        let is_asked_to_end = || self.interrupts.count() > 0;
        let patience = ready::Patience { deadline_ns: ready.deadline_ns, is_asked_to_end: &is_asked_to_end };
        match ready::wait(&mut process, right, &ports.used_by(definition), patience) {
            Ok(startup) => record.startup = Some(startup),
            Err(failure) => {
                record.log_tail = Some(process.log_tail()).filter(|t| !t.is_empty());
                return Err(memory_first(process.oom_kills(), failure));
            }
        }
        Ok(Subject { process, entrances, ready_path: ready.path.clone() })
    }

    fn spec(
        &self,
        record: &mut StartRecord,
        ports: Ports,
        certs: Option<&Certs>,
        place: Place,
    ) -> Result<process::Spec, String> {
        let index = self.plan.launches[record.launch].subject;
        let definition = &self.definitions[index];
        let out = &self.built[index].as_ref().expect("only subjects that take part are started").out;
        let cpus = allowed_cpus(&record.limits, &self.plan.placement, &self.plan.limits);
        let mut places = places(cpus, definition, out, ports, &place.work);
        places.0.extend(certs.into_iter().flat_map(certificate_places));
        for file in &definition.start.files {
            render(file, &definition.folder, &places, &place.work)?;
        }
        let mut environment = Environment::of_server(&Ours::read(), &definition.start.inherit, &place.work);
        definition.start.env.iter().for_each(|(name, value)| environment.set(name, places.fill(value)));
        record.environment = environment.recorded();
        Ok(process::Spec {
            command: definition.start.command.iter().map(|word| places.fill(word)).collect(),
            environment,
            place,
            cpus: self.plan.placement.subject.clone(),
            open_files: self.open_files(),
        })
    }

    /// What the suite asks for, or as many as this machine allows: the same for every subject.
    fn open_files(&self) -> u64 {
        let most = open_files_hard();
        self.plan.limits.open_files.map_or(most, |n| n.min(most))
    }

    fn open_files_read_back(&self, process: &Process) -> LimitReadBack {
        let most = open_files_hard();
        let asked = self.plan.limits.open_files;
        let short = asked.is_some_and(|n| n > most);
        LimitReadBack {
            kind: LimitKind::OpenFiles,
            asked: asked.map_or_else(|| "as many as this machine allows".into(), |n| n.to_string()),
            read_back: process.open_files().filter(|_| !short),
            reason: short.then(|| format!("this user may have {most} at most")),
        }
    }
}

/// Where a subject is first asked whether it is ready: over what takes the least, so that the time is its own.
fn first_to_ask(entrances: &[Entrance]) -> &Entrance {
    const ORDER: [Protocol; 5] =
        [Protocol::H1, Protocol::H2cUpgrade, Protocol::H2c, Protocol::H1Tls, Protocol::H2];
    let rank = |e: &&Entrance| ORDER.iter().position(|protocol| *protocol == e.door().protocol);
    entrances.iter().min_by_key(rank).expect("a definition has protocols")
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

/// `cpus`: how many the subject may use at a time; it is told whole ones.
fn places(cpus: f64, definition: &Definition, out: &Path, ports: Ports, work: &Path) -> Placeholders {
    let mut places = build::placeholders(definition, out);
    places.0.extend([
        ("port", ports.plain.to_string()),
        ("tls_port", ports.tls.to_string()),
        ("cpus", (cpus.ceil() as u64).max(1).to_string()),
        ("work", work.display().to_string()),
    ]);
    places
}

fn certificate_places(certs: &Certs) -> [(&'static str, String); 2] {
    [("cert", certs.chain().display().to_string()), ("key", certs.key().display().to_string())]
}
